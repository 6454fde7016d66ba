use super::{FILE_LINES_MAX, check};
use crate::tidy::tree::SourceTree;

#[test]
fn one_line_too_many_is_found() {
    let full = "\n".repeat(FILE_LINES_MAX);
    let over = "\n".repeat(FILE_LINES_MAX + 1);
    let tree = SourceTree::of(&[
        ("crates/tw-core/src/full.rs", &full),
        ("crates/tw-core/src/over.rs", &over),
        ("testdata/over.rs", &over),
        ("crates/tw-core/over.txt", &over),
    ]);
    let found: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        ["crates/tw-core/src/over.rs:801: 801 lines; split at 800"]
    );
}
