//! A format's own module is named in `tw-wire` alone, so that another format changes nothing elsewhere.

use super::TidyViolation;
use super::source;
use super::tree::SourceTree;

/// Modules of formats. In two parts, so that this file does not break its own rule.
/// The third one, of Responses, has the name of a kind of upstream in the configuration.
const MODULES: [&str; 2] = [
    concat!("openai", "_chat"),
    concat!("anthropic", "_messages"),
];

pub fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut found = Vec::new();
    for file in tree.rust_files() {
        if file.crate_name() == Some("tw-wire") {
            continue;
        }
        // Comments count: what they say of a format goes out of date with its module.
        for module in MODULES {
            found.extend(
                source::lines_with_word(&file.text, module).map(|line| TidyViolation {
                    path: file.path.clone(),
                    line,
                    message: format!(
                        "`{module}` is named in tw-wire alone: `WireFormat` says what it can"
                    ),
                }),
            );
        }
    }
    found
}

#[cfg(test)]
mod tests;
