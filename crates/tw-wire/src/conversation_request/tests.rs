use tw_core::json::shared::SharedText;
use tw_core::limits::RequestLimits;

use super::{in_items, read_change, read_items, read_new};
use crate::client_request::RequestError;
use crate::format::WireFormat;

fn text(body: &str) -> SharedText {
    SharedText::new(body.to_owned())
}

fn list(count: usize) -> String {
    let items = vec![r#"{"role":"user","content":"x"}"#; count];
    format!(r#"{{"items":[{}]}}"#, items.join(","))
}

fn pairs(count: usize) -> String {
    let pairs: Vec<String> = (0..count).map(|n| format!(r#""k{n}":"v""#)).collect();
    format!(r#"{{"metadata":{{{}}}}}"#, pairs.join(","))
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    type Read = fn(&SharedText, &RequestLimits) -> Option<RequestError>;
    let new: Read = |body, limits| read_new(body, limits).err();
    let change: Read = |body, limits| read_change(body, limits).err();
    let items: Read = |body, limits| read_items(body, limits).err();
    let long_key = format!(r#"{{"metadata":{{"{}":"v"}}}}"#, "k".repeat(65));
    let long_value = format!(r#"{{"metadata":{{"k":"{}"}}}}"#, "v".repeat(513));
    let rows: [(Read, &str, Option<&str>, Option<&str>); 16] = [
        (new, "[]", None, None),
        (new, "{", None, None),
        (
            new,
            r#"{"name":"x"}"#,
            Some("name"),
            Some("unknown_parameter"),
        ),
        (new, r#"{"items":"x"}"#, Some("items"), Some("invalid_type")),
        (
            new,
            &list(21),
            Some("items"),
            Some("array_above_max_length"),
        ),
        (
            new,
            &pairs(17),
            Some("metadata"),
            Some("object_above_max_properties"),
        ),
        (
            new,
            r#"{"metadata":[]}"#,
            Some("metadata"),
            Some("invalid_type"),
        ),
        (
            new,
            r#"{"metadata":{"k":1}}"#,
            Some("metadata.k"),
            Some("invalid_type"),
        ),
        (
            new,
            &long_value,
            Some("metadata.k"),
            Some("string_above_max_length"),
        ),
        (
            change,
            "{}",
            Some("metadata"),
            Some("missing_required_parameter"),
        ),
        (
            change,
            r#"{"metadata":{},"items":[]}"#,
            Some("items"),
            Some("unknown_parameter"),
        ),
        (
            items,
            "{}",
            Some("items"),
            Some("missing_required_parameter"),
        ),
        (
            items,
            r#"{"items":null}"#,
            Some("items"),
            Some("missing_required_parameter"),
        ),
        (items, r#"{"items":[]}"#, Some("items"), Some("empty_array")),
        (
            items,
            &list(21),
            Some("items"),
            Some("array_above_max_length"),
        ),
        (
            items,
            r#"{"items":[],"metadata":{}}"#,
            Some("metadata"),
            Some("unknown_parameter"),
        ),
    ];
    let limits = RequestLimits::defaults();
    for (read, body, param, code) in rows {
        let error = read(&text(body), &limits).unwrap_or_else(|| panic!("{body}"));
        assert_eq!(
            (error.param.as_deref(), error.code),
            (param, code),
            "{body}"
        );
    }
    assert!(read_new(&text(&long_key), &limits).is_err());
}

#[test]
fn what_the_limits_allow_is_taken() {
    let limits = RequestLimits::defaults();
    for body in [
        "",
        "{}",
        r#"{"items":null,"metadata":null}"#,
        r#"{"items":[]}"#,
    ] {
        let new = read_new(&text(body), &limits).unwrap();
        assert_eq!(new.metadata, "{}", "{body}");
        assert!(new.items.is_none(), "{body}");
    }
    let new = read_new(&text(&pairs(16)), &limits).unwrap();
    assert!(new.metadata.contains(r#""k15":"v""#));
    let added = read_items(&text(&list(20)), &limits).unwrap();
    let read = WireFormat::OF_ITEMS
        .decode_request(&added, &limits)
        .unwrap();
    assert_eq!(read.input.messages.len(), 20);
}

#[test]
fn an_item_that_is_none_is_told_by_its_own_place() {
    let limits = RequestLimits::defaults();
    let body = read_items(&text(r#"{"items":[{"role":"user"}]}"#), &limits).unwrap();
    let error = WireFormat::OF_ITEMS
        .decode_request(&body, &limits)
        .unwrap_err();
    let error = in_items(error);
    assert_eq!(error.param.as_deref(), Some("items[0].content"));
    assert!(error.message.contains("'items[0].content'"), "{error}");
}
