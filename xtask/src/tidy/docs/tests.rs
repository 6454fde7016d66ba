use super::check;
use crate::tidy::tree::SourceTree;

#[test]
fn only_the_page_without_a_link_is_found() {
    let tree = SourceTree::of(&[
        (
            "README.md",
            "See [docs](docs/) and [tools](docs/tools.md#kinds \"Tools\").\n[run]: ./docs/run.md\n",
        ),
        (
            "docs/README.md",
            "[Webhooks](webhooks.md), [home](../README.md)\n",
        ),
        ("docs/tools.md", ""),
        ("docs/run.md", ""),
        ("docs/webhooks.md", "[lost](lost.md)"),
        ("docs/lost.md", ""),
        ("docs/decisions/README.md", "[Keys](keys.md)"),
        ("docs/decisions/keys.md", ""),
        ("docs/decisions/lost.md", ""),
        ("docs/picture.svg", ""),
    ]);
    let found: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "docs/lost.md:1: linked from none of README.md, docs/README.md, docs/decisions/README.md",
            "docs/decisions/lost.md:1: linked from none of README.md, docs/README.md, docs/decisions/README.md",
        ]
    );
}

#[test]
fn without_an_index_every_page_is_found() {
    let tree = SourceTree::of(&[("docs/a.md", ""), ("docs/b.md", "[a](a.md)")]);
    assert_eq!(check(&tree).len(), 2);
}
