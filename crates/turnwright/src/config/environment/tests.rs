use super::Environment;

#[test]
fn what_cannot_be_sent_is_told_by_name_and_place_and_not_shown() {
    for (value, told) in [
        ("sk-canary…", "holds '…', which stands for"),
        ("…", "holds '…', which stands for"),
        ("sk canary", "holds a space at its character 3"),
        (" sk-canary", "holds a space at its character 1"),
        ("canary\n", "holds the end of a line at its character 7"),
        ("canary\r", "holds the end of a line at its character 7"),
        ("canary\t", "holds white space at its character 7"),
        ("canary\u{a0}", "holds white space at its character 7"),
        (
            "can\u{200b}ary",
            "holds a character that is not ASCII at its character 4",
        ),
        (
            "“canary”",
            "holds a character that is not ASCII at its character 1",
        ),
        (
            "can\u{7}ary",
            "holds a control character at its character 4",
        ),
    ] {
        let environment = Environment::of([("A_KEY".into(), value.into())]);
        let error = format!("{:#}", environment.get_sendable("A_KEY").unwrap_err());
        assert!(
            error.starts_with(&format!("the variable A_KEY {told}")),
            "{value:?}: {error}"
        );
        assert!(!error.contains("canary"), "{error}");
        // Whoever only needs a text gets it.
        assert_eq!(environment.get("A_KEY").unwrap().as_deref(), Some(value));
    }
    let key = "sk-proj_A~1.2+/=";
    let environment = Environment::of([("A_KEY".into(), key.into()), ("EMPTY".into(), "".into())]);
    assert_eq!(
        environment.get_sendable("A_KEY").unwrap().as_deref(),
        Some(key)
    );
    assert_eq!(environment.get_sendable("EMPTY").unwrap(), None);
    assert_eq!(environment.get_sendable("OTHER").unwrap(), None);
}
