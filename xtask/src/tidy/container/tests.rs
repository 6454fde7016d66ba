use super::check;
use crate::tidy::tree::SourceTree;

fn found(files: &[(&str, &str)]) -> Vec<String> {
    let found = check(&SourceTree::of(files));
    found.iter().map(ToString::to_string).collect()
}

const MANIFEST: (&str, &str) = (
    "Cargo.toml",
    "[workspace.package]\nrust-version = \"1.95\"\n",
);

#[test]
fn only_another_version_of_rust_is_found() {
    let cases = [
        (
            "# The build.\nFROM docker.io/library/rust:1.95-slim AS build\n",
            None,
        ),
        ("FROM rust\nFROM a/rust:1.95\n", None),
        (
            "FROM a/rust:1.94-slim AS build\n",
            Some("Containerfile:1: builds with Rust 1.94, the workspace asks for 1.95"),
        ),
        (
            "FROM debian\n",
            Some("Containerfile:1: Containerfile names no version of Rust"),
        ),
    ];
    for (text, expected) in cases {
        let expected: Vec<&str> = expected.into_iter().collect();
        assert_eq!(
            found(&[MANIFEST, ("Containerfile", text)]),
            expected,
            "{text}"
        );
    }
    assert_eq!(
        found(&[MANIFEST]),
        ["Containerfile:1: there is no container file"]
    );
}
