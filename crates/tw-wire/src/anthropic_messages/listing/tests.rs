use super::{entry, page};
use crate::model_list::decode;

#[test]
fn entries_of_all_vendors_become_models_of_this_format() {
    for (written, shown) in [
        (
            r#"{"type":"model","id":"c-1","display_name":"C 1","created_at":"2025-01-02T00:00:00Z", "x":1.50}"#,
            r#"{"type":"model","id":"c-1","display_name":"C 1","created_at":"2025-01-02T00:00:00Z", "x":1.50}"#,
        ),
        (
            r#"{"id":"g","object":"model","created":1715367049,"owned_by":"system"}"#,
            r#"{"type":"model","id":"g","display_name":"g","created_at":"2024-05-10T18:50:49Z"}"#,
        ),
        (
            r#"{"id":"org/\u0061","name":"An \"A\"","created":-3}"#,
            r#"{"type":"model","id":"org/a","display_name":"An \"A\"","created_at":"1970-01-01T00:00:00Z"}"#,
        ),
        (
            r#"{"id":"far","created":18446744073709551615}"#,
            r#"{"type":"model","id":"far","display_name":"far","created_at":"1970-01-01T00:00:00Z"}"#,
        ),
    ] {
        let listed = decode(format!("[{written}]").as_bytes()).unwrap();
        assert_eq!(String::from_utf8(entry(&listed[0])).unwrap(), shown);
    }
}

#[test]
fn a_page_names_its_ends() {
    let listed = decode(br#"[{"id":"a"},{"id":"b"}]"#).unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&page(&listed, true)).unwrap();
    assert_eq!(
        (&shown["first_id"], &shown["last_id"], &shown["has_more"]),
        (&"a".into(), &"b".into(), &true.into())
    );
    let none = String::from_utf8(page(&[], false)).unwrap();
    assert_eq!(
        none,
        r#"{"data":[],"has_more":false,"first_id":null,"last_id":null}"#
    );
}
