use clap::{Command, CommandFactory};

use super::Cli;
use crate::config::DEFAULTS;

/// Each option that takes a value and may be left out, with the words before its name.
fn options(path: &str, command: &Command, into: &mut Vec<(String, String)>) {
    for option in command.get_arguments() {
        let takes_value = option.get_action().takes_values() && !option.is_positional();
        if takes_value && !option.is_required_set() {
            let id = format!("{path} --{}", option.get_long().unwrap());
            let help = option.get_help().unwrap().to_string();
            let default = option.get_default_values();
            let default = default
                .first()
                .map(|text| format!("[default: {}]", text.display()));
            into.push((id, default.unwrap_or(help)));
        }
    }
    for below in command.get_subcommands() {
        options(&format!("{path} {}", below.get_name()), below, into);
    }
}

#[test]
fn the_help_says_the_default_of_every_option() {
    let mut all = Vec::new();
    options("turnwright", &Cli::command(), &mut all);
    assert!(all.len() > 25, "{all:?}");
    for (option, said) in &all {
        assert!(said.contains("[default: "), "{option}: {said}");
    }
    let defaults: toml::Table = DEFAULTS.parse().unwrap();
    for (option, key) in [("listen", "listen"), ("data", "data")] {
        let value = defaults["server"][key].as_str().unwrap();
        let (_, said) = all
            .iter()
            .find(|(id, _)| *id == format!("turnwright serve --{option}"))
            .unwrap();
        assert!(said.ends_with(&format!("or {value}]")), "{option}: {said}");
    }
}
