use super::scan::{ObjectScan, begins_object};

/// Whether the object that `pieces`, each the inside of a literal, write is complete.
fn complete(pieces: &[&str]) -> bool {
    let mut scan = ObjectScan::default();
    for piece in pieces {
        scan.read(piece);
    }
    scan.is_complete()
}

#[test]
fn an_object_is_complete_at_its_last_brace() {
    assert!(complete(&["{}"]));
    assert!(complete(&["{", r#"\"a\":"#, r"[1,{}]", "}"]));
    assert!(complete(&[r#"{\"a\":1} \n"#]));
    assert!(complete(&[r"\u007b\u007D"]));
    assert!(!complete(&["{"]));
    assert!(!complete(&[""]));
}

#[test]
fn braces_in_strings_do_not_count() {
    assert!(!complete(&[r#"{\"a\":\"}"#]));
    assert!(complete(&[r#"{\"a\":\"}"#, r#"\"}"#]));
    // The escape is cut between its backslash and its quote.
    assert!(!complete(&[r#"{\"a\":\"\\"#, r#"\"}"#]));
    assert!(complete(&[r#"{\"a\":\"\\"#, r#"\"\"}"#]));
}

#[test]
fn what_is_no_single_object_is_never_complete() {
    assert!(!complete(&["{}{}"]));
    assert!(!complete(&["[]"]));
    assert!(!complete(&["3"]));
    assert!(!complete(&[r#"\"x\""#]));
    assert!(!complete(&["x{}"]));
}

#[test]
fn an_object_begins_behind_white_space() {
    assert!(begins_object(r#" \n{\"a\""#));
    assert!(begins_object(r"\u007b"));
    assert!(!begins_object(" "));
    assert!(!begins_object("}{"));
}
