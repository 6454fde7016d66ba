//! Gives the record of another application back: the rows that were imported of it, as they came.

use tw_core::id::OrgId;
use tw_core::shape::{Shape, TableLayout};
use tw_store::foreign::ForeignTables;
use tw_store::foreign::export::ExportItem;
use tw_store::read::ReadError;
use tw_store::store::Store;
use tw_wire::stored::imported::{ImportedRows, decode_rows};

/// Numbers of an export so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportFigures {
    pub rows: u64,
    /// Turns that are not of that application, and so are not among the rows.
    pub turns_left: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ExportReadError {
    #[error("reading what was imported")]
    Read(#[from] ReadError),
    #[error("nothing of this kind was imported")]
    Nothing,
}

/// What the tables of the application were.
///
/// # Errors
/// Nothing of this layout was imported, or the store cannot be read.
pub async fn layout(
    store: &Store,
    organization: OrgId,
    layout: TableLayout,
) -> Result<Vec<String>, ExportReadError> {
    let found = store.imported_layout(organization, layout.as_str()).await?;
    match found.is_empty() {
        true => Err(ExportReadError::Nothing),
        false => Ok(found),
    }
}

/// What takes rows; it says whether it takes more.
pub type TakeRow<'a> = &'a mut dyn FnMut(ExportItem, ExportFigures) -> bool;

/// Hands over all rows of a layout: the turns' in the order in which those were written, each conversation's before them,
/// and then those that are of no turn. Ends early when `take` takes no more, which is how it says that it cannot.
///
/// # Errors
/// The store cannot be read.
pub async fn rows(
    store: &Store,
    organization: OrgId,
    layout: TableLayout,
    take: TakeRow<'_>,
) -> Result<ExportFigures, ExportReadError> {
    let mut figures = ExportFigures::default();
    let goes_on = match layout {
        TableLayout::Record(shape) => turns(store, organization, shape, take, &mut figures).await?,
        TableLayout::Vapi => true,
    };
    if !goes_on {
        return Ok(figures);
    }
    let mut after = 0;
    loop {
        let word = layout.as_str();
        let page = store.imported_rows(organization, word, after).await?;
        for row in page.items {
            figures.rows += 1;
            let (table, json) = (row.table, row.json);
            if !take(ExportItem::Row { table, json }, figures) {
                return Ok(figures);
            }
        }
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    take(ExportItem::End, figures);
    Ok(figures)
}

/// Hands over the rows of turns; whether they are taken.
async fn turns(
    store: &Store,
    organization: OrgId,
    shape: Shape,
    take: TakeRow<'_>,
    figures: &mut ExportFigures,
) -> Result<bool, ExportReadError> {
    let tables = ForeignTables::of(shape);
    let mut after = 0;
    loop {
        let page = store.imported_turns(organization, after).await?;
        for turn in page.items {
            let text = turn.body.and_then(|body| String::from_utf8(body).ok());
            let rows = text.and_then(|text| decode_rows(&text));
            let Some(of) = rows.filter(|rows| rows.shape == shape.as_str()) else {
                figures.turns_left += 1;
                continue;
            };
            for (table, json) in in_order(of, tables) {
                figures.rows += 1;
                if !take(ExportItem::Row { table, json }, *figures) {
                    return Ok(false);
                }
            }
        }
        match page.next {
            Some(next) => after = next,
            None => return Ok(true),
        }
    }
}

/// The rows of a turn, each behind what it refers to.
fn in_order(of: ImportedRows, tables: ForeignTables) -> Vec<(String, String)> {
    let conversation = of.conversation.into_iter();
    let mut rows: Vec<(String, String)> = conversation
        .map(|row| (tables.conversations.to_owned(), row.as_str().to_owned()))
        .collect();
    let (messages, others): (Vec<_>, Vec<_>) =
        (of.rows.into_iter()).partition(|(table, _)| table == tables.messages);
    for (table, of_table) in messages.into_iter().chain(others) {
        let named = of_table
            .iter()
            .map(|row| (table.clone(), row.as_str().to_owned()));
        rows.extend(named);
    }
    rows
}
