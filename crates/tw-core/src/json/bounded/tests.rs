use super::{BoundedText, TextFull};
use crate::json::Json;
use crate::json::tree::{JsonTree, MemberOrder};

#[test]
fn what_does_not_fit_is_cut_between_characters() {
    for (bytes_max, whole, expected) in [
        (5, Ok(()), "aébc"),
        (4, Err(TextFull), "aéb"),
        (2, Err(TextFull), "a"),
        (0, Err(TextFull), ""),
    ] {
        let mut out = BoundedText::new(bytes_max);
        assert_eq!(out.push("aébc"), whole, "{bytes_max}");
        assert_eq!(out.into_text(), expected);
    }
}

#[test]
fn a_tree_is_written_as_far_as_there_is_room() {
    let json = r#"{"a":[1.50,"x\n\u0001é"],"b":null}"#;
    let tree = JsonTree::read(&Json::parse(json).unwrap()).unwrap();
    for bytes_max in 0..=json.len() {
        let mut out = BoundedText::new(bytes_max);
        let written = tree.write_into(MemberOrder::AsItIs, &mut out);
        assert_eq!(written.is_ok(), bytes_max == json.len(), "{bytes_max}");
        let text = out.into_text();
        assert!(
            json.starts_with(&text) && text.len() + 2 > bytes_max,
            "{text}"
        );
    }
}
