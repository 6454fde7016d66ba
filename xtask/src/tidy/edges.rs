//! Dependencies between our crates point one way: the table of the design's chapter on crates, exactly.

use toml::{Table, Value};

use super::TidyViolation;
use super::source;
use super::tree::{SourceFile, SourceTree};

struct Row {
    package: &'static str,
    dependencies: &'static [&'static str],
    /// Crates of ours that its tests may use beyond that.
    for_tests: &'static [&'static str],
}

const PROGRAM: [&str; 7] = [
    "tw-core",
    "tw-wire",
    "tw-store",
    "tw-egress",
    "tw-runtime",
    "tw-http",
    "tw-testkit",
];

const TABLE: [Row; 10] = [
    Row {
        package: "tw-core",
        dependencies: &[],
        for_tests: &[],
    },
    Row {
        package: "tw-wire",
        dependencies: &["tw-core"],
        for_tests: &[],
    },
    Row {
        package: "tw-store",
        dependencies: &["tw-core", "tw-wire"],
        // Itself, with the features that only tests have.
        for_tests: &["tw-testkit", "tw-store"],
    },
    Row {
        package: "tw-egress",
        dependencies: &["tw-core", "tw-wire"],
        for_tests: &["tw-testkit"],
    },
    Row {
        package: "tw-runtime",
        dependencies: &["tw-core", "tw-wire", "tw-store", "tw-egress"],
        for_tests: &["tw-testkit"],
    },
    Row {
        package: "tw-http",
        dependencies: &["tw-core", "tw-wire", "tw-runtime", "tw-store"],
        for_tests: &["tw-testkit", "tw-egress"],
    },
    Row {
        package: "turnwright",
        // The demo's image service is the one of the tests.
        dependencies: &PROGRAM,
        for_tests: &[],
    },
    Row {
        package: "tw-testkit",
        dependencies: &["tw-core", "tw-wire"],
        for_tests: &[],
    },
    Row {
        package: "tw-bench",
        dependencies: &[
            "tw-core",
            "tw-wire",
            "tw-store",
            "tw-egress",
            "tw-runtime",
            "tw-http",
            "turnwright",
            "tw-testkit",
        ],
        for_tests: &[],
    },
    Row {
        package: "xtask",
        dependencies: &[],
        for_tests: &[],
    },
];

pub fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut found = Vec::new();
    for file in &tree.files {
        if is_package_manifest(&file.path) {
            check_manifest(file, &mut found);
        }
        if file.is_rust() && file.crate_name() == Some("tw-store") {
            check_store_source(file, &mut found);
        }
    }
    found
}

fn is_package_manifest(path: &str) -> bool {
    let in_crates = path.strip_prefix("crates/").is_some_and(|rest| {
        rest.strip_suffix("/Cargo.toml")
            .is_some_and(|name| !name.contains('/'))
    });
    in_crates || path == "xtask/Cargo.toml"
}

fn check_manifest(file: &SourceFile, found: &mut Vec<TidyViolation>) {
    let manifest: Table = match file.text.parse() {
        Ok(manifest) => manifest,
        Err(error) => {
            found.push(at(file, 1, format!("not TOML: {}", error.message())));
            return;
        }
    };
    let name = manifest
        .get("package")
        .and_then(|package| package.get("name"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    let Some(row) = TABLE.iter().find(|row| row.package == name) else {
        let message = format!("package `{name}` is not in the table of crates");
        found.push(at(file, 1, message));
        return;
    };
    let mut kinds = vec![&manifest];
    if let Some(Value::Table(targets)) = manifest.get("target") {
        kinds.extend(targets.values().filter_map(Value::as_table));
    }
    for tables in kinds {
        for key in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let Some(Value::Table(entries)) = tables.get(key) else {
                continue;
            };
            for (alias, entry) in entries {
                check_entry(file, row, key, alias, entry, found);
            }
        }
    }
}

fn check_entry(
    file: &SourceFile,
    row: &Row,
    key: &str,
    alias: &str,
    entry: &Value,
    found: &mut Vec<TidyViolation>,
) {
    // A dependency may be renamed.
    let package = entry
        .get("package")
        .and_then(Value::as_str)
        .unwrap_or(alias);
    if !TABLE.iter().any(|other| other.package == package) {
        return;
    }
    let for_tests = key == "dev-dependencies" && row.for_tests.contains(&package);
    if row.dependencies.contains(&package) || for_tests {
        return;
    }
    let line = source::lines_with_word(&file.text, alias)
        .last()
        .unwrap_or(1);
    let message = format!("`{}` may not depend on `{package}` ({key})", row.package);
    found.push(at(file, line, message));
}

/// The store knows of the formats only the codec of what it stores.
fn check_store_source(file: &SourceFile, found: &mut Vec<TidyViolation>) {
    for (start, word) in file.code.match_indices("tw_wire") {
        let rest = &file.code[start + word.len()..];
        if !rest.starts_with("::stored") || rest.starts_with("::stored_") {
            let message = "tw-store uses only `tw_wire::stored`, named in full".to_owned();
            found.push(at(file, source::line_of(&file.code, start), message));
        }
    }
}

fn at(file: &SourceFile, line: usize, message: String) -> TidyViolation {
    TidyViolation {
        path: file.path.clone(),
        line,
        message,
    }
}

#[cfg(test)]
mod tests;
