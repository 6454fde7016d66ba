//! The repository's files as the checks see them: what git tracks, or would track.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use super::source;

/// Longest file that is read, in bytes. Longer ones are known by name only; ours are far below it,
/// recordings are not prose.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Folders that hold nothing of ours.
const FOLDERS_SKIPPED: [&str; 5] = [".git", "target", "node_modules", ".venv", "__pycache__"];

pub struct SourceTree {
    /// Files, sorted by path.
    pub files: Vec<SourceFile>,
    /// Snapshots that wait for review; git ignores them, so they are found by walking.
    pub pending_snapshots: Vec<String>,
}

pub struct SourceFile {
    /// Path relative to the workspace root, with `/`.
    pub path: String,
    /// Text; empty when the file is not UTF-8 or longer than [`FILE_BYTES_MAX`].
    pub text: String,
    /// Code of a Rust file: the text with comments and literals blanked, line by line in the same place. Else empty.
    pub code: String,
}

impl SourceTree {
    /// Reads every file that git tracks or would track under `root`.
    ///
    /// # Errors
    /// git is missing, `root` is not a checkout, or a file cannot be read.
    pub fn read(root: &Path) -> anyhow::Result<SourceTree> {
        let mut files = Vec::new();
        for path in listed(root)? {
            let full = root.join(&path);
            // A file deleted but not yet committed is still listed.
            if full.is_file() {
                let text = read_text(&full)?;
                files.push(SourceFile::new(path, text));
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);

        let mut pending_snapshots = Vec::new();
        walk_pending(root, "", &mut pending_snapshots)?;
        pending_snapshots.sort();
        Ok(SourceTree {
            files,
            pending_snapshots,
        })
    }

    pub fn get(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    pub fn rust_files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.is_rust())
    }

    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> SourceTree {
        let files = files
            .iter()
            .map(|(path, text)| SourceFile::new((*path).to_owned(), (*text).to_owned()))
            .collect();
        SourceTree {
            files,
            pending_snapshots: Vec::new(),
        }
    }
}

impl SourceFile {
    fn new(path: String, text: String) -> SourceFile {
        let code = if path.ends_with(".rs") {
            source::code_only(&text)
        } else {
            String::new()
        };
        SourceFile { path, text, code }
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Tests live in `tests.rs` beside the code or under a `tests` folder, nowhere else.
    pub fn is_test(&self) -> bool {
        self.path
            .split('/')
            .any(|part| part == "tests" || part == "tests.rs")
    }

    /// The crate's folder name, for a file under `crates/`.
    pub fn crate_name(&self) -> Option<&str> {
        let (name, _) = self.path.strip_prefix("crates/")?.split_once('/')?;
        Some(name)
    }
}

fn listed(root: &Path) -> anyhow::Result<Vec<String>> {
    let output = Command::new("git")
        .arg("-c")
        // A checkout owned by another user is refused otherwise; we only list names.
        .arg(format!("safe.directory={}", root.display()))
        .args(["ls-files", "-z", "-co", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("starting git ls-files")?;
    if !output.status.success() {
        bail!(
            "git ls-files in {}: {}",
            root.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    Ok(names
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect())
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    let reading = || format!("reading {}", path.display());
    if fs::metadata(path).with_context(reading)?.len() > FILE_BYTES_MAX {
        return Ok(String::new());
    }
    let bytes = fs::read(path).with_context(reading)?;
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

fn walk_pending(root: &Path, folder: &str, found: &mut Vec<String>) -> anyhow::Result<()> {
    let full = root.join(folder);
    let entries = fs::read_dir(&full).with_context(|| format!("listing {}", full.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("listing {}", full.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() {
            name.clone()
        } else {
            format!("{folder}/{name}")
        };
        // Links are not followed: a link to a parent folder would never end.
        let kind = entry
            .file_type()
            .with_context(|| format!("reading {path}"))?;
        if kind.is_dir() && !FOLDERS_SKIPPED.contains(&name.as_str()) {
            walk_pending(root, &path, found)?;
        } else if name.ends_with(".snap.new") || name.ends_with(".pending-snap") {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
