use std::io::Write;

use tw_core::limits::{RequestLimits, TurnLimits};

use super::Settings;
use crate::cli::ServeArgs;

fn load(text: &str) -> anyhow::Result<Settings> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    Settings::load(&ServeArgs {
        listen: None,
        data: None,
        config: Some(file.path().to_owned()),
    })
}

#[test]
fn the_written_defaults_are_the_defaults_of_the_code() {
    let settings = load("").unwrap();
    assert_eq!(settings.limits.turn(), TurnLimits::defaults());
    assert_eq!(settings.limits.request(), RequestLimits::defaults());
}

#[test]
fn a_file_changes_what_it_names_and_nothing_else() {
    let settings = load("[limits]\nrounds_max = 3\n").unwrap();
    assert_eq!(
        settings.limits.turn(),
        TurnLimits {
            rounds_max: 3,
            ..TurnLimits::defaults()
        }
    );
}

#[test]
fn what_is_not_known_is_an_error_that_names_it() {
    for (text, named) in [
        ("[limits]\nround_max = 3\n", "round_max"),
        ("[sever]\nlisten = \"x\"\n", "sever"),
        ("[server]\nlisten = \"nowhere\"\n", "listen"),
    ] {
        let error = format!("{:#}", load(text).unwrap_err());
        assert!(error.contains(named), "{text}: {error}");
    }
}

#[test]
fn an_upstream_that_cannot_be_used_is_refused_by_name() {
    for (text, named) in [
        ("kind = \"opanai\"", "opanai"),
        ("kind = \"scripted\"", "script"),
        (
            "kind = \"openai\"\nbase_url = \"localhost:1/v1\"",
            "localhost:1/v1",
        ),
        (
            "kind = \"openai\"\napi_key_env = \"TURNWRIGHT_NO_SUCH_VARIABLE\"",
            "TURNWRIGHT_NO_SUCH_VARIABLE",
        ),
    ] {
        let settings = load(&format!("[[upstream]]\nname = \"u\"\n{text}\n")).unwrap();
        let error = format!("{:#}", settings.runtime().unwrap_err());
        assert!(error.contains(named), "{text}: {error}");
    }
}
