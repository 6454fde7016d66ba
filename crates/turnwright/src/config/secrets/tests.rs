use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::*;

/// Stands wherever a value may stand by mistake; no error may show it.
const CANARY: &str = "canary-4711";

fn environment(variables: &[(&str, &str)]) -> Environment {
    let owned = |(name, value): &(&str, &str)| (OsString::from(name), OsString::from(value));
    Environment::of(variables.iter().map(owned))
}

fn of(text: &str, variables: &[(&str, &str)]) -> anyhow::Result<Vec<SecretGrant>> {
    let mut table: Table = text.parse().unwrap();
    read(table.remove("secrets"), &environment(variables))
}

/// Name, value, organizations and hosts.
type Parts<'a> = (&'a str, &'a str, Vec<&'a str>, Vec<&'a str>);

fn parts(grants: &[SecretGrant]) -> Vec<Parts<'_>> {
    fn strs(texts: &[String]) -> Vec<&str> {
        texts.iter().map(String::as_str).collect()
    }
    grants
        .iter()
        .map(|grant| {
            let (organizations, hosts) = (strs(&grant.organizations), strs(&grant.hosts));
            (&*grant.name, grant.value.reveal(), organizations, hosts)
        })
        .collect()
}

#[test]
fn a_secret_is_written_or_comes_from_a_variable() {
    let text = r#"
        [secrets.WRITTEN]
        value = "one"
        hosts = ["api.example.com", "127.0.0.1:8080"]
        [secrets.OF_A_VARIABLE]
        env = "their_key"
        organizations = ["default", "acme-2"]
    "#;
    let grants = of(text, &[("their_key", "two"), ("OTHER", "three")]).unwrap();
    let hosts = vec!["api.example.com", "127.0.0.1:8080"];
    assert_eq!(
        parts(&grants),
        [
            ("WRITTEN", "one", vec!["default"], hosts),
            ("OF_A_VARIABLE", "two", vec!["default", "acme-2"], vec![]),
        ]
    );
}

#[test]
fn the_environment_grants_to_the_default_organization_only() {
    let variables = [
        ("TURNWRIGHT_SECRET_KEY", "one"),
        ("TURNWRIGHT_SECRET_EMPTY", ""),
        ("OPENAI_API_KEY", "two"),
        ("MY_TURNWRIGHT_SECRET_KEY", "three"),
    ];
    let grants = of("", &variables).unwrap();
    assert_eq!(parts(&grants), [("KEY", "one", vec!["default"], vec![])]);
}

#[test]
fn an_entry_of_the_config_takes_the_place_of_a_variable_whomever_it_is_for() {
    let text =
        "[secrets.KEY]\nvalue = \"one\"\norganizations = [\"acme\"]\nhosts = [\"a.example\"]";
    let grants = of(text, &[("TURNWRIGHT_SECRET_KEY", "two")]).unwrap();
    assert_eq!(
        parts(&grants),
        [("KEY", "one", vec!["acme"], vec!["a.example"])]
    );
}

#[test]
fn what_is_wrong_is_named_and_no_value_is_shown() {
    let long = format!("[secrets.{}]\nvalue = \"canary-4711\"", "A".repeat(65));
    for (text, variables, named) in [
        ("secrets = 'canary-4711'", vec![], "secrets"),
        ("[[secrets]]\nK = 'canary-4711'", vec![], "secrets"),
        ("[secrets]\nK = 'canary-4711'", vec![], "secrets.K"),
        ("[secrets.K]\nvalue = ['canary-4711']", vec![], "'value'"),
        (
            "[secrets.K]\nvaule = 'canary-4711'",
            vec![],
            "secrets.K: \"vaule\"",
        ),
        (
            "[secrets.K]\nvalue = 'canary-4711'\nenv = 'E'",
            vec![("E", CANARY)],
            "secrets.K: needs either 'value' or 'env'",
        ),
        ("[secrets.K]\nhosts = []", vec![], "'value' or 'env'"),
        ("[secrets.K]\nvalue = ''", vec![], "'value' is empty"),
        (
            "[secrets.K]\nenv = 'E'",
            vec![],
            "secrets.K: 'env': the variable E is not set",
        ),
        (
            "[secrets.K]\nenv = 'E'",
            vec![("E", "")],
            "secrets.K: 'env': the variable E is not set",
        ),
        (
            "[secrets.K]\nenv = 'canary-4711'",
            vec![],
            "secrets.K: 'env'",
        ),
        ("[secrets.K]\nenv = 4711", vec![], "'env'"),
        (
            "[secrets.K]\nvalue = 'canary-4711'\norganizations = []",
            vec![],
            "'organizations'",
        ),
        (
            "[secrets.K]\nvalue = 'canary-4711'\norganizations = 'default'",
            vec![],
            "'organizations'",
        ),
        (
            "[secrets.K]\nvalue = 'canary-4711'\norganizations = ['Acme']",
            vec![],
            "'organizations'",
        ),
        (
            "[secrets.K]\nvalue = 'canary-4711'\nhosts = [443]",
            vec![],
            "'hosts'",
        ),
        ("[secrets.k]\nvalue = 'canary-4711'", vec![], "secrets.k"),
        (
            "[secrets.1K]\nvalue = 'canary-4711'",
            vec![],
            "capital letters",
        ),
        (
            "[secrets._K]\nvalue = 'canary-4711'",
            vec![],
            "capital letters",
        ),
        (
            "[secrets.\"K-K\"]\nvalue = 'canary-4711'",
            vec![],
            "secrets.K-K",
        ),
        (
            "[secrets.\"\"]\nvalue = 'canary-4711'",
            vec![],
            "capital letters",
        ),
        (&long, vec![], "at most 64"),
        (
            "",
            vec![("TURNWRIGHT_SECRET_key", CANARY)],
            "TURNWRIGHT_SECRET_key",
        ),
        ("", vec![("TURNWRIGHT_SECRET_", CANARY)], "capital letters"),
    ] {
        let error = format!("{:#}", of(text, &variables).unwrap_err());
        assert!(error.contains(named), "{text}: {error}");
        assert!(!error.contains("4711"), "{text}: {error}");
    }
}

#[test]
fn a_variable_that_is_no_text_is_named_and_not_shown() {
    let bytes = [CANARY.as_bytes(), &[0xff]].concat();
    let variable = (OsString::from("E"), OsString::from_vec(bytes));
    let mut table: Table = "[secrets.K]\nenv = 'E'".parse().unwrap();
    let error = read(table.remove("secrets"), &Environment::of([variable])).unwrap_err();
    let error = format!("{error:#}");
    assert_eq!(error, "secrets.K: the variable E is no UTF-8");
}

#[test]
fn values_are_not_in_what_debugging_prints() {
    let variables = [("TURNWRIGHT_SECRET_A", CANARY)];
    let read = of("[secrets.B]\nvalue = 'canary-4711'", &variables).unwrap();
    assert_eq!(read.len(), 2);
    let printed = format!("{read:?} {:?}", environment(&variables));
    assert!(printed.contains("***"), "{printed}");
    assert!(printed.contains("TURNWRIGHT_SECRET_A"), "{printed}");
    assert!(!printed.contains(CANARY), "{printed}");
}
