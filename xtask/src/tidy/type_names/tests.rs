use super::check;
use crate::tidy::tree::SourceTree;

fn found(one: &str, other: &str) -> Vec<String> {
    let tree = SourceTree::of(&[("crates/a/src/one.rs", one), ("crates/b/src/two.rs", other)]);
    let found = check(&tree);
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn a_second_type_of_a_name_is_found_whatever_its_kind_and_however_public() {
    for planted in [
        "pub struct Place;",
        "pub struct Place<T>(T);",
        "pub struct Place(u8);",
        "pub struct Place {",
        "pub(crate) enum Place {}",
        "    pub(super) trait Place: Sized {",
        "pub(in crate::a) type Place = u8;",
        "pub union Place {",
    ] {
        let found = found("pub enum Place { A }\n", &format!("\n{planted}\n"));
        let said =
            "crates/b/src/two.rs:2: the type `Place` has its name from crates/a/src/one.rs:1";
        assert_eq!(found, [said], "{planted}");
    }
}

#[test]
fn private_types_longer_names_comments_and_uses_are_left_alone() {
    for kept in [
        "struct Place;",
        "pub struct PlaceOf;",
        "pub struct Places;",
        "// pub struct Place;",
        "pub use crate::Place;",
        "    type Place = u8;",
        "pub struct $name;\npub struct $name;",
        "pub fn place() -> Place {",
        "const TEXT: &str = \"\npub struct Place;\n\";",
    ] {
        assert!(found("pub enum Place {}", kept).is_empty(), "{kept}");
    }
}

#[test]
fn two_in_one_file_are_two() {
    let found = found(
        "pub mod a {\n    pub struct A;\n}\npub mod b {\n    pub struct A;\n}",
        "",
    );
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("crates/a/src/one.rs:5:"), "{found:?}");
}
