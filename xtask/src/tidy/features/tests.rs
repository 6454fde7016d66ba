use super::check;
use crate::tidy::tree::SourceTree;

fn messages(row: &str) -> Vec<String> {
    let tree = SourceTree::of(&[("testdata/features.toml", row)]);
    check(&tree)
        .into_iter()
        .map(|found| found.message)
        .collect()
}

const WHOLE: &str = r#"
[[feature]]
name = "seed"
section = "2.1"
chat = '{"seed":1}'
from.chat = ["carried", "reported seed", 'changed seed: {"a": 1}']
from.messages = ["none", "none", "none"]
from.responses = ["none", "none", "none"]
"#;

#[test]
fn a_whole_row_is_right() {
    assert!(messages(WHOLE).is_empty(), "{:?}", messages(WHOLE));
    assert!(check(&SourceTree::of(&[])).is_empty());
}

#[test]
fn what_is_missing_is_found() {
    let rows = [
        (
            r#""carried", "reported seed""#,
            r#""carried""#,
            "from.chat has 2 cells of 3",
        ),
        (
            "from.messages = [\"none\", \"none\", \"none\"]\n",
            "",
            "from.messages has 0 cells of 3",
        ),
        (r#""carried", "#, r#""", "#, "chat to chat is no cell: ''"),
        (
            r#""reported seed""#,
            r#""reported""#,
            "chat to messages is no cell: 'reported'",
        ),
        (
            r#""reported seed""#,
            r#""lost seed""#,
            "chat to messages is no cell: 'lost seed'",
        ),
        (
            r#""reported seed""#,
            r#""none""#,
            "chat to messages is 'none', and a fragment is there",
        ),
        (
            "chat = '{\"seed\":1}'\n",
            "",
            "chat to chat is 'carried', and a fragment is missing",
        ),
        (
            "name = \"seed\"",
            "name = \"\"",
            "a row needs a name of its own",
        ),
    ];
    for (part, instead, expected) in rows {
        let found = messages(&WHOLE.replacen(part, instead, 1)).join("; ");
        assert!(found.contains(expected), "{expected}: {found}");
    }
    assert_eq!(messages("a = 1"), ["no rows"]);
    assert!(messages(&format!("{WHOLE}{WHOLE}"))[0].contains("a name of its own"));
    assert!(!messages("[[feature]").is_empty());
}
