use super::{ListedModel, decode, encode};

fn ids(body: &str) -> Option<Vec<String>> {
    let listed = decode(body.as_bytes())?;
    Some(listed.into_iter().map(|model| model.id).collect())
}

#[test]
fn entries_are_passed_on_as_they_were_written() {
    let body = r#"{"object":"list","data":[{"id":"a", "z":1.50},{"x":{"b" :1},"id":"\u0062"}]}"#;
    let listed = decode(body.as_bytes()).unwrap();
    assert_eq!(listed[1].id, "b");
    assert_eq!(String::from_utf8(encode(&listed)).unwrap(), body);
}

#[test]
fn what_vendors_answer_is_read_and_nonsense_is_no_list() {
    let some = |ids: &[&str]| Some(ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
    for (body, expected) in [
        (r#"[{"id":"a"},{"id":"b"}]"#, some(&["a", "b"])),
        (r#"{"data":[]}"#, some(&[])),
        (
            r#"{"data":[7,{"id":7},{"id":""},{},{"id":"a","id":"b"},{"id":"c"}]}"#,
            some(&["c"]),
        ),
        (r#"{"data":null}"#, None),
        (r#"{"data":{"id":"a"}}"#, None),
        ("{}", None),
        ("", None),
        ("<html>", None),
        (r#"{"data":[]"#, None),
    ] {
        assert_eq!(ids(body), expected, "{body}");
    }
    assert_eq!(decode(b"\"\xff\""), None);
}

#[test]
fn of_a_list_without_end_the_first_entries_count() {
    let entries: Vec<String> = (0..10_001).map(|n| format!(r#"{{"id":"m{n}"}}"#)).collect();
    let read = ids(&format!("[{}]", entries.join(","))).unwrap();
    assert_eq!(read.len(), 10_000);
    assert_eq!(read.last().unwrap(), "m9999");
    let long = "m".repeat(513);
    assert_eq!(ids(&format!(r#"[{{"id":"{long}"}}]"#)), Some(Vec::new()));
}

#[test]
fn a_model_under_another_name_keeps_all_else() {
    let listed = decode(br#"[{"a":1,"id":"x","created": 7}]"#).unwrap();
    let renamed = listed[0].named("fast \"1\"");
    assert_eq!(renamed.id, "fast \"1\"");
    assert_eq!(
        renamed.entry.as_str(),
        r#"{"a":1,"id":"fast \"1\"","created":7}"#
    );
    let made = ListedModel::new("m", "up");
    assert_eq!(
        made.entry.as_str(),
        r#"{"id":"m","object":"model","created":0,"owned_by":"up"}"#
    );
}
