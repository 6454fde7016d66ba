use super::check;
use crate::tidy::tree::SourceTree;

fn messages(path: &str, text: &str) -> Vec<String> {
    let tree = SourceTree::of(&[(path, text)]);
    check(&tree).iter().map(ToString::to_string).collect()
}

#[test]
fn a_dependency_that_points_up_is_found() {
    let manifest = "[package]\nname = \"tw-wire\"\n[dependencies]\ntw-core.workspace = true\ntw-store.workspace = true\n";
    assert_eq!(
        messages("crates/tw-wire/Cargo.toml", manifest),
        ["crates/tw-wire/Cargo.toml:5: `tw-wire` may not depend on `tw-store` (dependencies)"]
    );
}

#[test]
fn a_renamed_or_target_dependency_is_found() {
    let renamed = "[package]\nname = \"tw-core\"\n[target.'cfg(unix)'.dependencies]\nformats = { path = \"../tw-wire\", package = \"tw-wire\" }\n";
    assert_eq!(
        messages("crates/tw-core/Cargo.toml", renamed),
        ["crates/tw-core/Cargo.toml:4: `tw-core` may not depend on `tw-wire` (dependencies)"]
    );
}

#[test]
fn the_test_kit_is_for_tests_above_the_formats() {
    let runtime = "[package]\nname = \"tw-runtime\"\n[dependencies]\ntw-store = \"1\"\n[dev-dependencies]\ntw-testkit = \"1\"\n";
    assert!(messages("crates/tw-runtime/Cargo.toml", runtime).is_empty());
    let shipped = "[package]\nname = \"tw-runtime\"\n[dependencies]\ntw-testkit = \"1\"\n";
    assert_eq!(messages("crates/tw-runtime/Cargo.toml", shipped).len(), 1);
    let wire = "[package]\nname = \"tw-wire\"\n[dev-dependencies]\ntw-testkit = \"1\"\n";
    assert_eq!(messages("crates/tw-wire/Cargo.toml", wire).len(), 1);
}

#[test]
fn http_reaches_egress_in_tests_only() {
    let tests = "[package]\nname = \"tw-http\"\n[dev-dependencies]\ntw-egress = \"1\"\n";
    assert!(messages("crates/tw-http/Cargo.toml", tests).is_empty());
    let shipped = "[package]\nname = \"tw-http\"\n[dependencies]\ntw-egress = \"1\"\n";
    assert_eq!(messages("crates/tw-http/Cargo.toml", shipped).len(), 1);
}

#[test]
fn the_store_depends_on_itself_in_tests_only() {
    let tests = "[package]\nname = \"tw-store\"\n[dev-dependencies]\ntw-store = { path = \".\" }\n";
    assert!(messages("crates/tw-store/Cargo.toml", tests).is_empty());
    let shipped = "[package]\nname = \"tw-store\"\n[dependencies]\ntw-store = \"1\"\n";
    assert_eq!(messages("crates/tw-store/Cargo.toml", shipped).len(), 1);
}

#[test]
fn a_crate_outside_the_table_and_a_broken_manifest_are_found() {
    let unknown = "[package]\nname = \"tw-more\"\n";
    assert_eq!(messages("crates/tw-more/Cargo.toml", unknown).len(), 1);
    assert_eq!(messages("xtask/Cargo.toml", "[package").len(), 1);
}

#[test]
fn the_store_names_only_the_own_codec() {
    let path = "crates/tw-store/src/rows.rs";
    assert!(messages(path, "use tw_wire::stored;\nuse tw_wire::stored::encode;\n").is_empty());
    assert_eq!(
        messages(path, "use tw_wire::stored;\nuse tw_wire::anthropic;\n"),
        ["crates/tw-store/src/rows.rs:2: tw-store uses only `tw_wire::stored`, named in full"]
    );
    assert_eq!(messages(path, "use tw_wire as wire;").len(), 1);
    assert!(messages("crates/tw-http/src/a.rs", "use tw_wire::anthropic;").is_empty());
}
