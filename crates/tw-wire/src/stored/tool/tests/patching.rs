//! Merge patches: RFC 7396, and masks that come back.

use serde_json::Value;

use super::{EVERYTHING, with};
use crate::stored::tool::{decode, masked, merge_patch};

/// Members of the stored tool, the patch, and the members afterwards; each ends in a comma.
const PATCHES: [(&str, &str, &str); 12] = [
    ("", "{}", ""),
    (r#""label":"a","#, r#"{"label":"b"}"#, r#""label":"b","#),
    (r#""label":"a","#, r#"{"label":null}"#, ""),
    // What is not there cannot be taken away.
    ("", r#"{"label":null}"#, ""),
    // Objects are merged, at every depth, and what is not named stays as it was written.
    (
        r#""query":{"a":1.50,"b":"x"},"#,
        r#"{"query":{"b":"y"}}"#,
        r#""query":{"a":1.50,"b":"y"},"#,
    ),
    (
        r#""method":"POST","body":{"a":{"b":{"c":1,"d":2}}},"#,
        r#"{"body":{"a":{"b":{"c":null,"e":3}}}}"#,
        r#""method":"POST","body":{"a":{"b":{"d":2,"e":3}}},"#,
    ),
    // Arrays are replaced, with the nulls in them.
    (
        r#""method":"POST","body":{"a":[1,{"b":2}]},"#,
        r#"{"body":{"a":[{"c":null}]}}"#,
        r#""method":"POST","body":{"a":[{"c":null}]},"#,
    ),
    // An object replaces what is none, without its nulls.
    (
        r#""method":"POST","body":{"a":[1]},"#,
        r#"{"body":{"a":{"b":1,"c":null}}}"#,
        r#""method":"POST","body":{"a":{"b":1}},"#,
    ),
    // And the other way round.
    (
        r#""method":"POST","body":{"a":{"b":1}},"#,
        r#"{"body":{"a":"text"}}"#,
        r#""method":"POST","body":{"a":"text"},"#,
    ),
    // A stored null is no deletion.
    (
        r#""method":"POST","body":{"a":null,"b":1},"#,
        r#"{"body":{"b":2}}"#,
        r#""method":"POST","body":{"a":null,"b":2},"#,
    ),
    (
        r#""headers":{"authorization":{"secret":"A","prefix":"Bearer "}},"#,
        r#"{"headers":{"authorization":{"secret":"B"}}}"#,
        r#""headers":{"authorization":{"secret":"B","prefix":"Bearer "}},"#,
    ),
    (
        r#""headers":{"a b":"1","\u00e9":"2"},"#,
        r#"{"headers":{"a b":"3","é":"4"}}"#,
        r#""headers":{"a b":"3","é":"4"},"#,
    ),
];

#[test]
fn a_patch_is_merged() {
    for (stored, patch, expected) in PATCHES {
        let merged =
            merge_patch(&with(stored), patch).unwrap_or_else(|bad| panic!("{bad}: {patch}"));
        assert_eq!(merged, with(expected), "{patch}");
    }
}

#[test]
fn new_members_are_put_behind_those_there_are() {
    let merged = merge_patch(&with(""), r#"{"label":"x","query":{"a":null,"b":1}}"#).unwrap();
    let there = with("");
    let expected = format!(
        r#"{},"label":"x","query":{{"b":1}}}}"#,
        there.strip_suffix('}').unwrap()
    );
    assert_eq!(merged, expected);
}

#[test]
fn what_is_shown_patched_over_what_is_stored_changes_nothing() {
    let stored = with(
        r#""parameters":{"a":{"mode":"fixed","value":{"x":[1.50]},"sensitive":true},
            "b":{"mode":"array_extendable","fixedValues":["b",{"c":"d"}],"sensitive":true},
            "e":{"mode":"array","items":[{"mode":"object","sensitive":true,"properties":{
                "f.g":{"mode":"fixed","value":"h"}}}]},
            "i":{"mode":"fixed","value":"***"}},"#,
    );
    for stored in [stored.as_str(), EVERYTHING] {
        let seen = masked(stored).unwrap();
        // A null in a patch takes away, so what has one is left out.
        let seen = seen.as_str().replace(r#""none": null, "#, "");
        let merged = merge_patch(stored, &seen).unwrap();
        assert_eq!(decode(&merged), decode(stored));
    }
}

/// Parameters as stored, the patch of `parameters`, and how they are afterwards.
const MASKS: [(&str, &str, &str); 8] = [
    (
        r#"{"a":{"mode":"fixed","value":"old","sensitive":true}}"#,
        r#"{"a":{"value":"***"}}"#,
        r#"{"a":{"mode":"fixed","value":"old","sensitive":true}}"#,
    ),
    (
        r#"{"a":{"mode":"fixed","value":"old","sensitive":true}}"#,
        r#"{"a":{"value":"new"}}"#,
        r#"{"a":{"mode":"fixed","value":"new","sensitive":true}}"#,
    ),
    // Shown with another value.
    (
        r#"{"a":{"mode":"fixed","value":"old","sensitive":true}}"#,
        r#"{"a":{"value":"new","sensitive":false}}"#,
        r#"{"a":{"mode":"fixed","value":"new","sensitive":false}}"#,
    ),
    (
        r#"{"a":{"mode":"array_extendable","fixedValues":["x","y"],"sensitive":true}}"#,
        r#"{"a":{"fixedValues":["***","z"]}}"#,
        r#"{"a":{"mode":"array_extendable","fixedValues":["x","z"],"sensitive":true}}"#,
    ),
    // What is masked is one value: an object over it is not merged with what is hidden.
    (
        r#"{"a":{"mode":"fixed","value":{"x":"old"},"sensitive":true}}"#,
        r#"{"a":{"value":{"y":1},"sensitive":false}}"#,
        r#"{"a":{"mode":"fixed","value":{"y":1},"sensitive":false}}"#,
    ),
    (
        r#"{"a":{"mode":"fixed","value":{"x":"old"},"sensitive":true}}"#,
        r#"{"a":{"value":{"secret":"NAME","prefix":null}}}"#,
        r#"{"a":{"mode":"fixed","value":{"secret":"NAME"},"sensitive":true}}"#,
    ),
    (
        r#"{"a":{"mode":"fixed","value":{"x":"old"}}}"#,
        r#"{"a":{"value":{"y":1}}}"#,
        r#"{"a":{"mode":"fixed","value":{"x":"old","y":1}}}"#,
    ),
    // What was never masked may be called so.
    (
        r#"{"a":{"mode":"fixed","value":"old"}}"#,
        r#"{"a":{"value":"***"}}"#,
        r#"{"a":{"mode":"fixed","value":"***"}}"#,
    ),
];

#[test]
fn a_mask_that_comes_back_keeps_what_is_stored() {
    for (stored, patch, expected) in MASKS {
        let stored = with(&format!(r#""parameters":{stored},"#));
        let merged = merge_patch(&stored, &format!(r#"{{"parameters":{patch}}}"#))
            .unwrap_or_else(|bad| panic!("{bad}: {patch}"));
        assert_eq!(merged, with(&format!(r#""parameters":{expected},"#)));
    }
}

/// Parameters as stored, the patch, and the field and words of the refusal.
const REFUSED: [(&str, &str, &str, &str); 14] = [
    ("{}", "", "tool", "not valid JSON"),
    ("{}", "null", "tool", "must be an object, is null"),
    ("{}", r#"["x"]"#, "tool", "must be an object, is an array"),
    ("{}", r#"{"a":1,"a":2}"#, "a", "twice"),
    ("{}", r#"{"url":null}"#, "url", "is missing"),
    ("{}", r#"{"label":7}"#, "label", "must be a string"),
    ("{}", r#"{"other":7}"#, "other", "not known"),
    (
        r#"{"a":{"mode":"fixed","value":"old","sensitive":true}}"#,
        r#"{"parameters":{"a":{"sensitive":false}}}"#,
        "parameters.a.value",
        "is sensitive",
    ),
    (
        r#"{"a":{"mode":"fixed","value":"old","sensitive":true}}"#,
        r#"{"parameters":{"a":{"sensitive":null,"value":"***"}}}"#,
        "parameters.a.value",
        "is sensitive",
    ),
    (
        r#"{"a":{"mode":"object","sensitive":true,"properties":{"b":{"mode":"fixed","value":"old"}}}}"#,
        r#"{"parameters":{"a":{"sensitive":false}}}"#,
        "parameters.a.properties.b.value",
        "is sensitive",
    ),
    // The element has moved to where nothing is stored.
    (
        r#"{"a":{"mode":"array_extendable","fixedValues":["x"],"sensitive":true}}"#,
        r#"{"parameters":{"a":{"fixedValues":["new","***"]}}}"#,
        "parameters.a.fixedValues[1]",
        "mask",
    ),
    // The stored value has another name.
    (
        r#"{"a":{"mode":"fixed","value":"old","sensitive":true}}"#,
        r#"{"parameters":{"a":null,"b":{"mode":"fixed","value":"***","sensitive":true}}}"#,
        "parameters.b.value",
        "mask",
    ),
    // It is shown now, so it cannot be what is to be kept when it is hidden.
    (
        r#"{"a":{"mode":"fixed","value":"old"}}"#,
        r#"{"parameters":{"a":{"sensitive":true,"value":"***"}}}"#,
        "parameters.a.value",
        "mask",
    ),
    // Two names that look alike when they are written as a path.
    (
        r#"{"a":{"mode":"object","properties":{"b":{"mode":"fixed","value":"old","sensitive":true}}}}"#,
        r#"{"parameters":{"a.properties.b":{"mode":"fixed","value":"***","sensitive":true}}}"#,
        r#"parameters["a.properties.b"].value"#,
        "mask",
    ),
];

#[test]
fn a_patch_is_refused_with_the_field() {
    for (stored, patch, field, says) in REFUSED {
        let stored = with(&format!(r#""parameters":{stored},"#));
        let error = merge_patch(&stored, patch).expect_err(patch);
        assert_eq!(error.field, field, "{error}");
        assert!(error.problem.contains(says), "{error}");
        assert!(!error.problem.contains("old"), "{error}");
    }
}

#[test]
fn a_patch_that_nests_too_deep_is_refused_before_it_is_read() {
    let patch = format!("{}1{}", r#"{"a":"#.repeat(40_000), "}".repeat(40_000));
    let error = merge_patch(&with(""), &patch).unwrap_err();
    assert!(error.problem.contains("64 levels"), "{error}");
}

#[test]
fn the_examples_of_the_format_hold_inside_a_body() {
    // The semantics of RFC 7396, in rows of our own: stored, patch, result.
    for (stored, patch, expected) in [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
        (r#"{}"#, r#"{"a":{"b":{"c":null}}}"#, r#"{"a":{"b":{}}}"#),
    ] {
        let stored = with(&format!(r#""method":"POST","body":{stored},"#));
        let merged = merge_patch(&stored, &format!(r#"{{"body":{patch}}}"#)).unwrap();
        let merged: Value = serde_json::from_str(&merged).unwrap();
        assert_eq!(merged["body"].to_string(), expected, "{patch}");
    }
}
