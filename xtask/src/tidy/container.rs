//! The container file builds with the Rust that the workspace asks for.

use toml::Table;

use super::TidyViolation;
use super::tree::SourceTree;

const FILE: &str = "Containerfile";
const IMAGE: &str = "/rust:";

pub fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let Some(file) = tree.get(FILE) else {
        return vec![at(1, "there is no container file".to_owned())];
    };
    let asked = tree.get("Cargo.toml").and_then(|it| rust_version(&it.text));
    let built = file.text.lines().enumerate().find_map(|(index, line)| {
        let tag = line.strip_prefix("FROM ")?.split_once(IMAGE)?.1;
        let version = tag.split(['-', ' ']).next()?;
        Some((index + 1, version.to_owned()))
    });
    match (asked, built) {
        (Some(asked), Some((_, built))) if asked == built => Vec::new(),
        (Some(asked), Some((line, built))) => {
            vec![at(
                line,
                format!("builds with Rust {built}, the workspace asks for {asked}"),
            )]
        }
        (asked, built) => {
            let missing = if asked.is_none() { "Cargo.toml" } else { FILE };
            let line = built.map_or(1, |(line, _)| line);
            vec![at(line, format!("{missing} names no version of Rust"))]
        }
    }
}

fn rust_version(manifest: &str) -> Option<String> {
    let manifest: Table = manifest.parse().ok()?;
    let package = manifest.get("workspace")?.get("package")?;
    Some(package.get("rust-version")?.as_str()?.to_owned())
}

fn at(line: usize, message: String) -> TidyViolation {
    TidyViolation {
        path: FILE.to_owned(),
        line,
        message,
    }
}

#[cfg(test)]
mod tests;
