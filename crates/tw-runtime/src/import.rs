//! Brings the record of another application in.
//!
//! Messages come in the order of their conversations; a turn is written once it is whole, with others in one
//! transaction. A turn that is there is left as it is, so that a run that ended early is completed by the next. Rows
//! that are of no turn are kept beside.

mod source_rows;
pub mod tools;

use std::collections::HashMap;

use tokio::task::JoinSet;
use tw_core::change::{Change, Outcome};
use tw_core::id::{ApiKeyId, OrgId};
use tw_core::imported::{
    ForeignConversation, ForeignRow, ImportOutcome, ImportTurns, ImportedTurn, KeptRow, Repair,
    RepairedRow, TurnAssembler,
};
use tw_core::shape::Shape;
use tw_core::time::Timestamp;
use tw_egress::env::Env;
use tw_store::apply::StoreApplyError;
use tw_store::foreign::{
    ForeignMessageRow, ForeignRowBeside, ForeignRowRead, ForeignTables, ForeignText, LAYOUT,
    NamedForeignRow, hash_of_row,
};
use tw_store::store::Store;
use tw_wire::foreign_rows::{self, MessageRowText};

use source_rows::{bytes_of, derived_id, foreign_row, id_of, ids_of, list_of, user_of};

/// Turns, and bytes of their rows, that are written together; up to twice as many, so that a conversation is whole.
const TURNS_TOGETHER: usize = 1000;
const BYTES_TOGETHER: usize = 4 * 1024 * 1024;
/// Of these, how many are being written at once: as many as there are connections to PostgreSQL that write.
const WRITES_MAX: usize = 2;

/// Whose the turns become.
#[derive(Clone, Copy, Debug)]
pub struct ImportOwner {
    pub organization: OrgId,
    pub api_key: ApiKeyId,
}

/// Numbers of an import so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportFigures {
    pub rows: u64,
    pub turns_written: u64,
    /// Turns that an earlier run had written.
    pub turns_there: u64,
    /// Rows that are kept beside the turns, those that an earlier run has kept among them.
    pub rows_beside: u64,
    pub repairs: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("writing turns")]
    Write(#[from] StoreApplyError),
    #[error("the store did not say what became of the turns")]
    NoOutcome,
    #[error("writing the report")]
    Report(#[source] std::io::Error),
}

type WrittenOutcomes = Result<Vec<Outcome>, StoreApplyError>;

/// Takes what had to be repaired, and the row where it is of no turn.
pub type TakeRepair<'a> = &'a mut dyn FnMut(&RepairedRow, Option<&str>) -> std::io::Result<()>;

/// An import of messages, which come row by row.
pub struct MessageImport<'a> {
    store: &'a Store,
    env: &'a Env,
    owner: ImportOwner,
    shape: Shape,
    tables: ForeignTables,
    assembler: Option<TurnAssembler>,
    /// Conversations of which a row was taken.
    begun: u64,
    last_at: Timestamp,
    waiting: Vec<ImportedTurn>,
    beside: Vec<KeptRow>,
    waiting_bytes: usize,
    /// The row of a conversation of which no message was taken yet.
    untaken: Option<(String, NamedForeignRow)>,
    /// The turns that are being written, as their conversations and first rows.
    writing: JoinSet<(WrittenOutcomes, Vec<(String, String)>)>,
    /// How often rows that nothing names were kept, by hash. There are few of them.
    unnamed: HashMap<String, u32>,
    pub figures: ImportFigures,
}

impl<'a> MessageImport<'a> {
    pub fn new(store: &'a Store, env: &'a Env, owner: ImportOwner, shape: Shape) -> Self {
        Self {
            store,
            env,
            owner,
            shape,
            tables: ForeignTables::of(shape),
            assembler: None,
            begun: 0,
            last_at: Timestamp(0),
            waiting: Vec::new(),
            beside: Vec::new(),
            waiting_bytes: 0,
            untaken: None,
            writing: JoinSet::new(),
            unnamed: HashMap::new(),
            figures: ImportFigures::default(),
        }
    }

    /// Takes the next row.
    ///
    /// # Errors
    /// The store or the report failed; what was written before stands.
    pub async fn take(
        &mut self,
        row: ForeignRowRead,
        repaired: TakeRepair<'_>,
    ) -> Result<(), ImportError> {
        let begun = self.begun;
        let is_beside = match row {
            ForeignRowRead::Message(row) => {
                self.figures.rows += 1;
                self.take_message(row, repaired)?;
                false
            }
            ForeignRowRead::Beside(row) => {
                self.figures.rows += u64::from(row.table != LAYOUT);
                self.take_beside(row, repaired)?;
                true
            }
        };
        let waiting = self.waiting.len() + self.beside.len();
        let is_full = |times: usize| {
            waiting >= times * TURNS_TOGETHER || self.waiting_bytes >= times * BYTES_TOGETHER
        };
        let is_between = is_beside || self.begun > begun;
        if is_full(2) || is_between && is_full(1) {
            self.write(repaired).await?;
        }
        Ok(())
    }

    fn take_message(
        &mut self,
        mut row: ForeignMessageRow,
        repaired: TakeRepair<'_>,
    ) -> Result<(), ImportError> {
        if let (Some(id), Some(of)) = (&row.conversation, row.conversation_row.take()) {
            self.keep_untaken();
            self.untaken = Some((id.text.clone(), of));
        }
        let Some((conversation, id)) = ids_of(&row) else {
            return self.leave_out(row, repaired);
        };
        let mut repairs = Vec::new();
        let at = row.at_us.map(Timestamp).unwrap_or_else(|| {
            repairs.push(Repair::NoTime);
            self.last_at
        });
        let is_whole = |text: &Option<ForeignText>| text.as_ref().is_none_or(|text| text.is_whole);
        let rows_are_whole = {
            let of = self.untaken.as_ref().map(|(_, of)| of);
            let mut rows = row.calls.iter().chain(of).chain([&row.row]);
            rows.all(|row| row.row.is_whole)
        };
        if !rows_are_whole || !is_whole(&row.id) || !is_whole(&row.conversation) {
            repairs.push(Repair::WrongEncoding);
        }
        let id = match row.repeated {
            0 => id.to_owned(),
            // The first has the id for itself.
            more => {
                repairs.push(Repair::RowIdTaken);
                format!("{id}#{more}")
            }
        };
        let calls = (!row.calls.is_empty()).then(|| list_of(&row.calls));
        let read = MessageRowText {
            id: &id,
            at,
            row: &row.row.row.text,
            calls: calls.as_deref(),
        };
        let Some(mut messages) = foreign_rows::read_messages(self.shape, read, &mut repairs) else {
            return self.leave_out(row, repaired);
        };
        let conversation = conversation.to_owned();
        let is_next = self
            .assembler
            .as_ref()
            .is_none_or(|assembler| assembler.conversation() != conversation);
        if is_next {
            self.end_conversation(repaired)?;
            self.begin_conversation(&conversation, &id, row.has_conversation, repaired)?;
        }
        self.last_at = at;
        for repair in repairs {
            self.tell(&conversation, &id, repair, None, repaired)?;
        }
        if let Some(first) = messages.first_mut() {
            first.rows = self.rows_of(row);
        }
        let Some(assembler) = &mut self.assembler else {
            return Ok(());
        };
        let shape = self.shape.as_str();
        let turn_id = |row: &str| derived_id(&[shape, &conversation, row]);
        let env = self.env;
        let mut new_id = || env.ordered_id();
        for message in messages {
            if let Some(turn) = assembler.push(message, &turn_id, &mut new_id) {
                self.waiting_bytes += bytes_of(&turn);
                self.waiting.push(turn);
            }
        }
        self.tell_assembled(repaired)
    }

    /// The rows that a message was read from.
    fn rows_of(&self, row: ForeignMessageRow) -> Vec<ForeignRow> {
        let calls = self.tables.calls.unwrap_or_default();
        let mut rows = vec![foreign_row(self.tables.messages, row.row)];
        rows.extend(row.calls.into_iter().map(|call| foreign_row(calls, call)));
        rows
    }

    fn take_beside(
        &mut self,
        row: ForeignRowBeside,
        repaired: TakeRepair<'_>,
    ) -> Result<(), ImportError> {
        let id = id_of(&row.row);
        let mut repairs = Vec::new();
        if !row.row.row.is_whole {
            repairs.push(Repair::WrongEncoding);
        }
        if row.dangles {
            repairs.push(Repair::NoTurn);
        }
        for repair in repairs {
            self.tell("", &id, repair, None, repaired)?;
        }
        let end_user = match row.table.as_str() {
            "users" => foreign_rows::text_field(&row.row.row.text, &["id"]),
            _ => user_of(&row.row.row.text),
        };
        self.keep(row.table, row.row, (end_user, row.conversation));
        Ok(())
    }

    /// Keeps the row of a conversation that none of its messages was taken of.
    fn keep_untaken(&mut self) {
        if let Some((id, row)) = self.untaken.take() {
            let of = (user_of(&row.row.text), Some(id));
            self.keep(self.tables.conversations.to_owned(), row, of);
        }
    }

    /// Keeps a row of a person, or of a conversation, or of neither.
    fn keep(
        &mut self,
        table: String,
        row: NamedForeignRow,
        (end_user, conversation): (Option<String>, Option<String>),
    ) {
        let json = row.row.into_stored();
        let id = row.name.unwrap_or_else(|| {
            let hash = hash_of_row(&json);
            let times = self.unnamed.entry(format!("{table} {hash}")).or_default();
            *times += 1;
            format!("{hash}#{times}")
        });
        self.figures.rows_beside += u64::from(table != LAYOUT);
        self.waiting_bytes += json.len();
        self.beside.push(KeptRow {
            table,
            id,
            conversation,
            end_user,
            json,
        });
    }

    /// Writes what is whole, and with `Whole` the turn that was open, too: no more rows of it are to come.
    ///
    /// # Errors
    /// As [`MessageImport::take`].
    pub async fn finish(
        &mut self,
        ended: SourceEnd,
        repaired: TakeRepair<'_>,
    ) -> Result<(), ImportError> {
        match ended {
            SourceEnd::Whole => {
                self.end_conversation(repaired)?;
                self.keep_untaken();
            }
            SourceEnd::Early => {}
        }
        self.write(repaired).await?;
        self.settle(0, repaired).await
    }

    fn begin_conversation(
        &mut self,
        conversation: &str,
        id: &str,
        has_row: bool,
        repaired: TakeRepair<'_>,
    ) -> Result<(), ImportError> {
        if !has_row {
            self.tell(conversation, id, Repair::NoConversation, None, repaired)?;
        }
        let is_its = |untaken: &mut (String, NamedForeignRow)| untaken.0 == conversation;
        let of = self.untaken.take_if(is_its).map(|(_, of)| of);
        self.last_at = Timestamp(0);
        self.begun += 1;
        self.assembler = Some(TurnAssembler::of(ForeignConversation {
            id: conversation.to_owned(),
            end_user: of.as_ref().and_then(|of| user_of(&of.row.text)),
            row: of.map(|of| foreign_row(self.tables.conversations, of)),
        }));
        Ok(())
    }

    fn end_conversation(&mut self, repaired: TakeRepair<'_>) -> Result<(), ImportError> {
        let Some(assembler) = &mut self.assembler else {
            return Ok(());
        };
        if let Some(turn) = assembler.end() {
            self.waiting_bytes += bytes_of(&turn);
            self.waiting.push(turn);
        }
        self.tell_assembled(repaired)?;
        self.assembler = None;
        Ok(())
    }

    /// Begins to write what waits.
    async fn write(&mut self, repaired: TakeRepair<'_>) -> Result<(), ImportError> {
        let turns = std::mem::take(&mut self.waiting);
        let kept = std::mem::take(&mut self.beside);
        self.waiting_bytes = 0;
        if turns.is_empty() && kept.is_empty() {
            return Ok(());
        }
        // A turn stands behind its parent, which may still be being written, and kept rows stand in the order in which
        // they came.
        let goes_on = turns.first().is_some_and(|turn| turn.parent.is_some());
        let is_behind = goes_on || !kept.is_empty();
        let beside_max = if is_behind { 0 } else { WRITES_MAX - 1 };
        let known: Vec<(String, String)> = turns
            .iter()
            .map(|turn| (turn.conversation.clone(), turn.first_row.clone()))
            .collect();
        let import = ImportTurns {
            organization: self.owner.organization,
            api_key: self.owner.api_key,
            shape: self.shape.as_str(),
            turns,
            kept,
            at: self.env.now(),
        };
        let prepared = self
            .store
            .prepare(vec![Change::ImportTurns(Box::new(import))]);
        self.settle(beside_max, repaired).await?;
        // Meanwhile the next rows are read.
        let store = self.store.clone();
        self.writing
            .spawn(async move { (store.apply_prepared(prepared).await, known) });
        Ok(())
    }

    /// Waits until no more than `left` writes are to end.
    async fn settle(&mut self, left: usize, repaired: TakeRepair<'_>) -> Result<(), ImportError> {
        while self.writing.len() > left
            && let Some(written) = self.writing.join_next().await
        {
            let (outcomes, known) = written.map_err(|_| ImportError::NoOutcome)?;
            self.tell_written(outcomes?, known, repaired)?;
        }
        Ok(())
    }

    fn tell_written(
        &mut self,
        mut outcomes: Vec<Outcome>,
        known: Vec<(String, String)>,
        repaired: TakeRepair<'_>,
    ) -> Result<(), ImportError> {
        let Some(Outcome::Imported {
            turns,
            changed,
            replaced,
        }) = outcomes.pop()
        else {
            return Err(ImportError::NoOutcome);
        };
        let changed = changed.into_iter().map(|row| (row, Repair::ChangedSince));
        let replaced = replaced
            .into_iter()
            .map(|row| (row, Repair::KeptRowReplaced));
        for (row, repair) in changed.chain(replaced) {
            let id = foreign_rows::text_field(&row.json, &["id"]).unwrap_or(row.id);
            self.tell("", &id, repair, Some(&row.json), repaired)?;
        }
        for (outcome, (conversation, row)) in turns.into_iter().zip(known) {
            match outcome {
                ImportOutcome::Written => self.figures.turns_written += 1,
                ImportOutcome::There => self.figures.turns_there += 1,
                ImportOutcome::Differs => {
                    self.figures.turns_there += 1;
                    self.tell(&conversation, &row, Repair::ChangedSince, None, repaired)?;
                }
            }
        }
        Ok(())
    }

    fn leave_out(
        &mut self,
        row: ForeignMessageRow,
        repaired: TakeRepair<'_>,
    ) -> Result<(), ImportError> {
        let text = |text: Option<ForeignText>| text.map_or(String::new(), |text| text.text);
        let (conversation, id) = (text(row.conversation), text(row.id));
        let whole = Some(&*row.row.row.text);
        self.tell(&conversation, &id, Repair::UnreadableRow, whole, repaired)?;
        let user = user_of(&row.row.row.text);
        self.keep(self.tables.messages.to_owned(), row.row, (user, None));
        for call in row.calls {
            let table = self.tables.calls.unwrap_or_default();
            self.keep(table.to_owned(), call, (None, None));
        }
        Ok(())
    }

    fn tell(
        &mut self,
        conversation: &str,
        row: &str,
        repair: Repair,
        whole: Option<&str>,
        repaired: TakeRepair<'_>,
    ) -> Result<(), ImportError> {
        self.figures.repairs += 1;
        let row = RepairedRow {
            conversation: conversation.to_owned(),
            row: row.to_owned(),
            repair,
        };
        repaired(&row, whole).map_err(ImportError::Report)
    }

    fn tell_assembled(&mut self, repaired: TakeRepair<'_>) -> Result<(), ImportError> {
        let Some(assembler) = &mut self.assembler else {
            return Ok(());
        };
        for row in std::mem::take(&mut assembler.repairs) {
            self.figures.repairs += 1;
            repaired(&row, None).map_err(ImportError::Report)?;
        }
        Ok(())
    }
}

/// Whether all rows of the source came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceEnd {
    Whole,
    /// It went away; the open turn may lack rows.
    Early,
}
