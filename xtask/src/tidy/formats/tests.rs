use super::{MODULES, check};
use crate::tidy::tree::SourceTree;

fn lines(path: &str, text: &str) -> Vec<usize> {
    let tree = SourceTree::of(&[(path, text)]);
    check(&tree)
        .iter()
        .map(|violation| violation.line)
        .collect()
}

#[test]
fn a_format_is_named_where_it_is_alone() {
    for module in MODULES {
        let text =
            format!("use tw_wire::{module}::body;\n\n// As {module} has it.\nlet {module}s = 1;");
        assert_eq!(lines("crates/tw-http/src/a.rs", &text), [1, 3]);
        assert_eq!(lines("crates/tw-runtime/tests/it/a.rs", &text), [1, 3]);
        assert!(lines("crates/tw-wire/src/format.rs", &text).is_empty());
        assert!(lines("docs/a.md", &text).is_empty());
    }
}
