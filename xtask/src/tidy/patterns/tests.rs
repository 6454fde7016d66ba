use super::{EVERYWHERE, FOLDERS, SLEEPS, SOURCES, check};
use crate::tidy::tree::SourceTree;

fn lines(path: &str, text: &str) -> Vec<usize> {
    let tree = SourceTree::of(&[(path, text)]);
    let mut lines: Vec<usize> = check(&tree)
        .iter()
        .map(|violation| violation.line)
        .collect();
    lines.dedup();
    lines
}

#[test]
fn each_pattern_is_found_in_code_and_documentation() {
    for (pattern, _) in EVERYWHERE {
        let text = format!("first\n    {pattern}");
        assert_eq!(lines("crates/tw-http/src/a.rs", &text), [2], "{pattern}");
        assert_eq!(lines("docs/a.md", &text), [2], "{pattern}");
        let comment = format!("// never {pattern}\nlet text = \"{pattern}\";");
        assert!(lines("crates/tw-http/src/a.rs", &comment).is_empty());
    }
}

#[test]
fn an_allow_behind_a_condition_is_found() {
    let text = "#[cfg_attr(test, allow(dead_code))]";
    assert_eq!(lines("crates/tw-http/src/a.rs", text), [1]);
    assert!(lines("crates/tw-http/src/a.rs", "limiter.allow(now)").is_empty());
}

#[test]
fn sleeps_are_found_in_tests_only() {
    for sleep in SLEEPS {
        let text = format!("{sleep}(pause).await;");
        assert_eq!(lines("crates/tw-http/tests/it/a.rs", &text), [1]);
        assert_eq!(lines("crates/tw-http/src/a/tests.rs", &text), [1]);
        assert!(lines("crates/tw-http/src/a.rs", &text).is_empty());
    }
}

#[test]
fn anyhow_is_for_programs_and_tests() {
    let text = "use anyhow::Context;";
    assert_eq!(lines("crates/tw-store/src/a.rs", text), [1]);
    assert!(lines("crates/tw-store/src/a/tests.rs", text).is_empty());
    assert!(lines("crates/turnwright/src/main.rs", text).is_empty());
    assert!(lines("crates/tw-bench/src/main.rs", text).is_empty());
    assert!(lines("xtask/src/main.rs", text).is_empty());
}

#[test]
fn machine_words_are_found_in_every_kind_of_file() {
    for word in SOURCES {
        assert_eq!(lines("interop/package-lock.json", word), [1], "{word}");
    }
    for folder in FOLDERS {
        assert_eq!(
            lines(".ci/run", &format!("cd {folder}main")),
            [1],
            "{folder}"
        );
        assert_eq!(lines("a.rs", &format!("// see {folder}x")), [1], "{folder}");
        assert_eq!(lines("a.toml", &format!("\"file://{folder}x\"")), [1]);
    }
}

#[test]
fn a_folder_inside_a_longer_path_is_left_alone() {
    for folder in FOLDERS {
        for prefix in ["..", "https://a.example", "target", "{dir}"] {
            let text = format!("{prefix}{folder}x");
            assert!(lines("docs/a.md", &text).is_empty(), "{text}");
        }
    }
}
