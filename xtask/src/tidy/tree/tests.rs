use std::fs;
use std::path::Path;
use std::process::Command;

use super::SourceTree;

fn write(root: &Path, path: &str, text: &str) {
    let full = root.join(path);
    fs::create_dir_all(full.parent().unwrap()).unwrap();
    fs::write(full, text).unwrap();
}

#[test]
fn lists_untracked_files_leaves_ignored_ones_and_finds_pending_snapshots() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let made = Command::new("git")
        .args(["init", "--quiet"])
        .current_dir(root)
        .status()
        .unwrap();
    assert!(made.success());
    write(root, ".gitignore", "/out\n*.snap.new\n");
    write(
        root,
        "crates/tw-core/src/lib.rs",
        "// a comment\nfn f() {}\n",
    );
    write(root, "out/built.rs", "");
    write(root, "testdata/case/client.snap.new", "");
    write(root, "target/old.snap.new", "");
    fs::write(root.join("binary.bin"), [0xff, 0xfe]).unwrap();

    let tree = SourceTree::read(root).unwrap();

    let paths: Vec<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
    assert!(paths.contains(&"crates/tw-core/src/lib.rs"), "{paths:?}");
    assert!(!paths.contains(&"out/built.rs"), "{paths:?}");
    assert_eq!(tree.pending_snapshots, ["testdata/case/client.snap.new"]);
    assert_eq!(tree.get("binary.bin").unwrap().text, "");
    let lib = tree.get("crates/tw-core/src/lib.rs").unwrap();
    assert_eq!(lib.crate_name(), Some("tw-core"));
    assert!(!lib.code.contains("comment") && lib.code.contains("fn f() {}"));
}

#[test]
fn a_folder_that_cannot_be_listed_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(SourceTree::read(&folder.path().join("missing")).is_err());
}
