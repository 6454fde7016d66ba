use std::time::Duration;

use super::{CallPolicy, EffectClass, ToolOutput};

fn text(text: &str, cut: bool) -> ToolOutput {
    ToolOutput::Text {
        text: text.to_owned(),
        cut,
        selected: None,
    }
}

#[test]
fn a_result_is_cut_at_a_character_and_says_so() {
    let shown = text("aé😀b", false).shown(4);
    assert!(shown.starts_with("aé ") && shown.contains("cut"), "{shown}");
    assert_eq!(text("aé", false).shown(3), "aé");
    assert!(text("short", true).shown(100).contains("cut"));
}

#[test]
fn nul_becomes_a_replacement_and_bytes_become_a_note() {
    assert_eq!(text("a\0b", false).kept(), "a\u{fffd}b");
    let opaque = ToolOutput::Opaque {
        content_type: "image/png".into(),
        bytes: 9,
        sha256: "ab".into(),
    };
    assert_eq!(
        opaque.shown(1000),
        r#"{"content_type":"image/png","bytes":9,"sha256":"ab"}"#
    );
}

#[test]
fn backoff_doubles_and_ends() {
    let policy = CallPolicy::new(EffectClass::Read);
    assert_eq!(policy.backoff_before(3), policy.backoff_before(2) * 2);
    assert_eq!(policy.backoff_before(u32::MAX), policy.backoff_before(1000));
    assert!(policy.backoff_before(1000) <= Duration::from_secs(30));
}
