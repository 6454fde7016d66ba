use std::path::Path;

use super::DatabasePlace;
use crate::cli::StoreArgs;
use crate::config::Settings;

fn place(store: &str) -> anyhow::Result<DatabasePlace> {
    let args = StoreArgs {
        store: Some(store.to_owned()),
    };
    DatabasePlace::of(&args, &Settings::of_file(None)?, Path::new("folder"))
}

#[test]
fn a_url_is_shown_without_its_password() {
    for (url, shown) in [
        ("postgres://me:pa@ss@db:5432/tw", "postgres://db:5432/tw"),
        ("postgresql://db/tw?password=secret", "postgresql://db/tw"),
    ] {
        let place = place(url).unwrap();
        assert_eq!(place.to_string(), shown);
        let debugged = format!("{place:?}");
        assert!(
            !debugged.contains("ss@") && !debugged.contains("secret"),
            "{debugged}"
        );
    }
}

#[test]
fn another_kind_of_database_is_refused_without_being_repeated() {
    let error = place("mysql://me:secret@db/tw").unwrap_err().to_string();
    assert!(error.contains("postgres://"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}
