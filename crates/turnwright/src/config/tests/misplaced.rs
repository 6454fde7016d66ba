//! Secrets that stand where they do not belong are shown by no error.

use super::load;
use super::reference::keys_of;

/// Tables that need fields of their own, as those fields; all others stand empty.
const TABLES: [(&str, &[&str]); 22] = [
    ("", &[]),
    ("[server]", &[]),
    ("[limits]", &[]),
    ("[rate]", &[]),
    ("[rate.key]", &[]),
    ("[rate.organization]", &[]),
    ("[rate.organizations.acme]", &[]),
    ("[record]", &[]),
    ("[spend]", &[]),
    ("[tools]", &[]),
    ("[cache]", &[]),
    ("[downloads]", &[]),
    ("[[downloads.allow]]", &["place = \"a:1\""]),
    ("[[price]]", &["tool = \"a\"", "call_usd = 1"]),
    ("[[quota]]", &["of = \"key\"", "calls_per_hour = 1"]),
    (
        "[[price]]",
        &["models = [\"a\"]", "input_usd = 1", "output_usd = 1"],
    ),
    ("[egress]", &[]),
    ("[[egress.allow]]", &["place = \"a:1\""]),
    (
        "[[egress.certificate]]",
        &[
            "place = \"a:1\"",
            "client_cert_file = \"no.pem\"",
            "client_key_file = \"no.pem\"",
        ],
    ),
    ("[secrets.NAME]", &[]),
    ("[secrets.NAME]", &["value = \"v\""]),
    ("[[upstream]]", &["name = \"u\"", "kind = \"openai\""]),
];
/// As providers write keys, and a number.
const MISPLACED: [&str; 7] = [
    "\"sk-canary-4711\"",
    "\"canary4711\"",
    "\"CANARY-4711\"",
    "\"canary, expected \\\"4711\\\"\"",
    "[\"sk-canary-4711\"]",
    "{ k = \"sk-canary-4711\" }",
    "-4711",
];

/// The error of whatever refuses the text, if something does.
fn refusal(text: &str) -> Option<String> {
    let refused = match load(text) {
        Err(error) => error,
        Ok(settings) => settings.runtime().err().or(settings.vetting().err())?,
    };
    Some(format!("{refused:#}"))
}

#[test]
fn a_secret_at_any_key_is_in_no_error() {
    let mut refused = 0;
    let mut kinds = TABLES
        .map(|(header, fields)| (header, fields.to_vec()))
        .to_vec();
    for kind in ["kind = \"azure\"", "kind = \"scripted\""] {
        kinds.push(("[[upstream]]", vec!["name = \"u\"", kind]));
    }
    kinds.push((
        "[[probe]]",
        vec![
            "name = \"p\"",
            "effect = \"read\"",
            "url = \"http://127.0.0.1:1/\"",
        ],
    ));
    for (header, fields) in kinds {
        let table = format!("{header}\n{}\n", fields.join("\n"));
        for key in keys_of(&table) {
            let others = fields
                .iter()
                .filter(|field| !field.starts_with(&format!("{key} =")));
            let others: String = others.map(|field| format!("{field}\n")).collect();
            for value in MISPLACED {
                let text = format!("{header}\n{others}{key} = {value}\n");
                let Some(error) = refusal(&text) else {
                    continue;
                };
                refused += 1;
                assert!(!error.contains("4711"), "{text}{error}");
                assert!(!error.to_lowercase().contains("canary"), "{text}{error}");
            }
        }
    }
    assert!(refused > 300, "{refused}");
}

#[test]
fn an_error_names_the_place_and_what_belongs_there() {
    for (text, error) in [
        (
            "[limits]\nrounds_max = \"sk-canary\"",
            "limits.rounds_max: string is not u32",
        ),
        (
            "[tools]\nenabled = \"sk-canary\"",
            "tools.enabled: string is not a boolean",
        ),
        (
            "[server]\nlisten = \"sk-canary\"",
            "server.listen: invalid socket address syntax",
        ),
        (
            "[rate.key]\nstreams_max = -1",
            "rate.key.streams_max: this integer is not u32",
        ),
        (
            "[[upstream]]\nname = \"u\"\nkind = \"openai\"\nmodels = [\"m\", true]",
            "upstream[0].models[1]: boolean is not a string",
        ),
        (
            "[[upstream]]\nkind = \"openai\"",
            "upstream[0]: missing field `name`",
        ),
    ] {
        let refused = refusal(text).unwrap();
        assert!(refused.ends_with(error), "{refused}");
    }
}

#[test]
fn a_key_in_place_of_a_variables_name_is_not_shown_and_a_name_is() {
    for (name, shown) in [
        ("sk-canary-4711", "must be the name of a variable"),
        (
            "canary4711",
            "'api_key_env' names a variable that is not set",
        ),
        (
            "TURNWRIGHT_NO_SUCH_VARIABLE",
            "'api_key_env': the variable TURNWRIGHT_NO_SUCH_VARIABLE is not set",
        ),
    ] {
        let text =
            format!("[[upstream]]\nname = \"u\"\nkind = \"openai\"\napi_key_env = {name:?}\n");
        let error = refusal(&text).unwrap();
        assert!(error.ends_with(shown), "{error}");
    }
}
