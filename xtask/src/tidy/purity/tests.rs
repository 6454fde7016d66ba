use super::check;
use crate::tidy::tree::SourceTree;

fn lines(path: &str, text: &str) -> Vec<usize> {
    let tree = SourceTree::of(&[(path, text)]);
    check(&tree)
        .iter()
        .map(|violation| violation.line)
        .collect()
}

const SOURCE: &str = "crates/tw-core/src/turn.rs";

#[test]
fn each_kind_of_impurity_is_found() {
    for planted in [
        "use tokio::time;",
        "pub async fn f() {}",
        "use std::time::SystemTime;",
        "let now = Instant::now();",
        "use std::fs::File;",
        "use std::{\n    collections::BTreeMap,\n    net::IpAddr,\n};",
        "use rand::Rng;",
        "getrandom::fill(&mut bytes)",
        "#[derive(Debug, serde::Serialize)]",
        "#[derive(Deserialize)]",
    ] {
        let text = format!("\n{planted}\n");
        let found = lines(SOURCE, &text);
        assert!(found.contains(&2), "{planted}: {found:?}");
    }
}

#[test]
fn comments_tests_other_crates_and_look_alikes_are_left_alone() {
    let pure = "//! No tokio here.\nuse serde_json::Value;\nuse std::{fmt, time::Duration};\nlet operand = \"std::fs\";\n";
    assert!(lines(SOURCE, pure).is_empty());
    assert!(lines("crates/tw-core/src/turn/tests.rs", "use std::fs;").is_empty());
    assert!(lines("crates/tw-egress/src/env.rs", "use std::time::SystemTime;").is_empty());
}

#[test]
fn a_dependency_that_would_bring_it_in_is_found() {
    let manifest = "[package]\nname = \"tw-core\"\n[dependencies]\nserde_json = \"1\"\ntokio = \"1\"\n[dev-dependencies]\nserde = \"1\"\n";
    assert_eq!(lines("crates/tw-core/Cargo.toml", manifest), [5]);
}
