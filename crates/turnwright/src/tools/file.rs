//! A file of tools.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tw_core::definition::ToolDefinition;
use tw_wire::stored::tool::file::{self, FILE_BYTES_MAX, FileFormat};

/// The file or standard input that tools are read from.
pub struct ToolFileSource {
    /// Path of the file; `None` is standard input.
    path: Option<PathBuf>,
    format: FileFormat,
}

impl ToolFileSource {
    /// Reads the argument: `-` is JSON from standard input; else the name's end says the format.
    pub fn of(path: &Path) -> anyhow::Result<Self> {
        if path == "-" {
            return Ok(Self {
                path: None,
                format: FileFormat::Json,
            });
        }
        let format = match path.extension().and_then(|end| end.to_str()) {
            Some("json") => FileFormat::Json,
            Some("toml") => FileFormat::Toml,
            Some(_) | None => bail!(
                "{}: a file of tools is FILE.json or FILE.toml, or - for JSON from standard input",
                path.display()
            ),
        };
        Ok(Self {
            path: Some(path.to_owned()),
            format,
        })
    }

    /// The tools as JSON texts, and what they say.
    pub fn read(&self) -> anyhow::Result<Vec<(String, ToolDefinition)>> {
        let text = self.text().with_context(|| format!("reading {self}"))?;
        file::decode(&text, self.format).with_context(|| self.to_string())
    }

    fn text(&self) -> anyhow::Result<String> {
        let reader: Box<dyn Read> = match &self.path {
            Some(path) => {
                // Opening a pipe would wait for somebody to write to it.
                if !std::fs::metadata(path)?.is_file() {
                    bail!("it is no regular file");
                }
                Box::new(std::fs::File::open(path)?)
            }
            None => Box::new(std::io::stdin().lock()),
        };
        let mut bytes = Vec::new();
        // One more, to find out whether there is more.
        let bytes_max = u64::try_from(FILE_BYTES_MAX)?;
        reader.take(bytes_max + 1).read_to_end(&mut bytes)?;
        if bytes.len() > FILE_BYTES_MAX {
            bail!("it is longer than {FILE_BYTES_MAX} bytes");
        }
        Ok(String::from_utf8(bytes).map_err(|error| error.utf8_error())?)
    }
}

impl fmt::Display for ToolFileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => path.display().fmt(f),
            None => f.write_str("standard input"),
        }
    }
}
