//! Changes of tools, for people to read.

use std::fmt::Write as _;

use anyhow::Context;
use similar::TextDiff;
use tw_runtime::tools::ToolChange;
use tw_wire::stored::tool;

/// Lines around what differs.
const CONTEXT_LINES: usize = 3;
const INDENT: &str = "    ";

/// The changes as text: a line for each tool, and below one that changes, what differs in it.
pub fn text(changes: &[ToolChange]) -> anyhow::Result<String> {
    let mut out = String::new();
    for change in changes {
        match change {
            ToolChange::Created { name, .. } => writeln!(out, "+ {name}")?,
            ToolChange::Unchanged { name } => writeln!(out, "= {name}")?,
            ToolChange::Removed { name, .. } => writeln!(out, "- {name}")?,
            ToolChange::Changed {
                name,
                follows,
                before,
                definition,
                ..
            } => {
                writeln!(out, "~ {name} (version {})", follows.saturating_add(1))?;
                write_members(&mut out, before, definition)?;
            }
        }
    }
    Ok(out)
}

fn write_members(out: &mut String, before: &str, after: &str) -> anyhow::Result<()> {
    let (before, after) = (pretty(before)?, pretty(after)?);
    if before == after {
        writeln!(
            out,
            "{INDENT}(what differs is masked, or only how it is written)"
        )?;
    }
    let diff = TextDiff::from_lines(&before, &after);
    let unified = diff
        .unified_diff()
        .context_radius(CONTEXT_LINES)
        .to_string();
    for line in unified.lines() {
        writeln!(out, "{INDENT}{line}")?;
    }
    Ok(())
}

/// The definition as clients see it: sensitive values are masked.
fn pretty(definition: &str) -> anyhow::Result<String> {
    let shown = tool::shown(definition).context("reading a stored tool")?;
    Ok(format!("{shown:#}\n"))
}

#[cfg(test)]
mod tests;
