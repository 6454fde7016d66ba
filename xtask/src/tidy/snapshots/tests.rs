use super::check;
use crate::tidy::tree::SourceTree;

const TESTS: (&str, &str) = (
    "crates/tw-wire/src/sse/tests.rs",
    "#[test]\nfn test_two_frames() { insta::assert_snapshot!(frames); }\nfn check(case: &str) { insta::assert_snapshot!(\"client\", bytes); }",
);

const HEAD: &str = "---\nsource: crates/tw-wire/src/sse/tests.rs\nexpression: frames\n---\nbody\n";

fn messages(snapshot: (&str, &str)) -> Vec<String> {
    let case = ("testdata/turns/one_call/request.json", "{}");
    let tree = SourceTree::of(&[TESTS, case, snapshot]);
    check(&tree).iter().map(ToString::to_string).collect()
}

#[test]
fn snapshots_of_tests_names_and_cases_are_fine() {
    for path in [
        "crates/tw-wire/src/sse/snapshots/tw_wire__sse__tests__two_frames.snap",
        "crates/tw-wire/src/sse/snapshots/tw_wire__sse__tests__two_frames-2.snap",
        "crates/tw-wire/src/sse/snapshots/tw_wire__sse__tests__two_frames@slow.snap",
        "testdata/turns/one_call/client.snap",
        "crates/tw-wire/src/sse/snapshots/tw_wire__sse__tests__one_call.snap",
    ] {
        assert!(messages((path, HEAD)).is_empty(), "{path}");
    }
}

#[test]
fn a_snapshot_whose_test_is_gone_is_found() {
    let path = "crates/tw-wire/src/sse/snapshots/tw_wire__sse__tests__renamed.snap";
    assert_eq!(
        messages((path, HEAD)),
        [format!(
            "{path}:1: crates/tw-wire/src/sse/tests.rs has no test or snapshot named `renamed`"
        )]
    );
    let gone = "---\nsource: crates/tw-wire/src/old/tests.rs\n---\n";
    assert_eq!(messages(("a/client.snap", gone)).len(), 1);
    assert_eq!(messages(("a/client.snap", "body only\n")).len(), 1);
}

#[test]
fn a_snapshot_that_waits_for_review_is_found() {
    let mut tree = SourceTree::of(&[TESTS]);
    tree.pending_snapshots.push("a/b.snap.new".to_owned());
    assert_eq!(check(&tree)[0].path, "a/b.snap.new");
}
