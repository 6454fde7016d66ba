//! The written defaults are the reference: nothing is missing from them.

use super::load;
use crate::config::DEFAULTS;

/// Where an unknown key may stand, as text that it is put behind.
const TABLES: [&str; 20] = [
    "",
    "[server]\n",
    "[limits]\n",
    "[rate]\n",
    "[rate.key]\n",
    "[rate.organization]\n",
    "[record]\n",
    "[spend]\n",
    "[tools]\n",
    "[cache]\n",
    "[tls]\n",
    "[downloads]\n",
    "[files]\n",
    "[[downloads.allow]]\nplace = \"a:1\"\n",
    "[[price]]\n",
    "[[quota]]\n",
    "[egress]\n",
    "[[egress.allow]]\nplace = \"a:1\"\n",
    "[[egress.certificate]]\nplace = \"a:1\"\nclient_cert_file = \"a\"\nclient_key_file = \"b\"\n",
    "[secrets.NAME]\n",
];
/// How the name of a number ends: in its unit, or in `_max` for a plain count.
const UNITS: [&str; 8] = [
    "_s",
    "_ms",
    "_h",
    "_per_hour",
    "_per_minute",
    "_max",
    "_bytes_min",
    "_usd",
];

/// The keys that may stand in a table, out of the error about one that may not.
pub fn keys_of(table: &str) -> Vec<String> {
    let error = format!("{:#}", load(&format!("{table}zz = 1\n")).unwrap_err());
    let (_, known) = error
        .split_once("expected one of ")
        .or_else(|| error.split_once("expected "))
        .or_else(|| error.split_once("known are "))
        .unwrap_or_else(|| panic!("{error}"));
    let known = known.lines().next().unwrap();
    let keys = known.split([',', ' ']).map(|key| key.trim_matches('`'));
    keys.filter(|key| !key.is_empty() && *key != "or")
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_key_stands_in_the_reference() {
    let upstream = "[[upstream]]\nname = \"u\"\nkind = \"openai\"\n";
    for table in TABLES.into_iter().chain([upstream]) {
        for key in keys_of(table) {
            // Debug builds only, and for tests.
            if key == "probe" {
                continue;
            }
            let said = DEFAULTS.lines().any(|line| {
                let (name, _) = line.split_once('=').unwrap_or((line, ""));
                let is_setting = line.contains('=') || line.contains('[');
                let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                is_setting
                    && name
                        .split(|letter| !is_letter(letter))
                        .any(|word| word == key)
            });
            assert!(said, "{table:?} {key}");
        }
    }
}

#[test]
fn every_key_has_a_comment_and_every_number_a_unit() {
    let mut commented = false;
    for line in DEFAULTS.lines() {
        if line.starts_with('#') {
            commented = true;
        } else if line.is_empty() {
            commented = false;
        } else if !line.starts_with('[') {
            let (key, value) = line.split_once(" = ").unwrap();
            assert!(commented, "{line}");
            if value.parse::<i64>().is_ok() {
                assert!(UNITS.iter().any(|unit| key.ends_with(unit)), "{line}");
            }
        }
    }
}

#[test]
fn the_reference_is_itself_a_configuration() {
    load(DEFAULTS).unwrap();
}
