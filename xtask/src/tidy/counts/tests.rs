use super::{BAD_INPUT_ROWS_MIN, check, quirks_required};
use crate::tidy::tree::SourceTree;

fn rows(count: usize) -> String {
    "[[row]]\nname = \"x\"\n".repeat(count)
}

fn quirks(numbers: impl Iterator<Item = u32>) -> String {
    numbers
        .map(|n| format!("#[test]\nfn quirk_{n:02}_what_it_is() {{}}\n"))
        .collect()
}

fn messages(rows: &str, tests: &str) -> Vec<String> {
    let tree = SourceTree::of(&[
        ("testdata/bad_input.toml", rows),
        ("crates/tw-wire/tests/it/quirks.rs", tests),
    ]);
    check(&tree).iter().map(ToString::to_string).collect()
}

#[test]
fn enough_of_both_is_fine() {
    let all = quirks(quirks_required().into_iter());
    assert!(messages(&rows(BAD_INPUT_ROWS_MIN), &all).is_empty());
    assert_eq!(quirks_required().len(), 35);
}

#[test]
fn too_few_rows_broken_rows_and_a_missing_file_are_found() {
    let all = quirks(quirks_required().into_iter());
    assert_eq!(
        messages(&rows(31), &all),
        ["testdata/bad_input.toml:1: 31 rows, at least 32 wanted"]
    );
    assert_eq!(messages("[[row", &all).len(), 1);
    let tree = SourceTree::of(&[("crates/tw-wire/tests/it/quirks.rs", &all)]);
    assert_eq!(check(&tree).len(), 1);
}

#[test]
fn missing_quirks_are_listed() {
    let most = quirks(
        quirks_required()
            .into_iter()
            .filter(|n| ![3, 30].contains(n)),
    );
    assert_eq!(
        messages(&rows(32), &most),
        ["crates:1: no test `quirk_NN_…` for 3, 30"]
    );
}

#[test]
fn a_function_that_is_no_test_and_a_comment_do_not_count() {
    let most = quirks(
        quirks_required()
            .into_iter()
            .filter(|n| ![4, 5, 6].contains(n)),
    );
    let more = "fn quirk_04_plain() {}\n// #[test] fn quirk_05_comment() {}\n#[tokio::test]\nasync fn quirk_06_served() {}\n";
    assert_eq!(
        messages(&rows(32), &format!("{most}{more}")),
        ["crates:1: no test `quirk_NN_…` for 4, 5"]
    );
}
