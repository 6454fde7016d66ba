//! Brings the record of another application in.
//!
//! Messages come in the order of their conversations; a turn is written once it is whole, with others in one
//! transaction. A turn that is there is left as it is, so that a run that ended early is completed by the next.

use sha2::{Digest, Sha256};
use tw_core::change::{Change, Outcome};
use tw_core::id::{ApiKeyId, OrgId, TurnId};
use tw_core::imported::{
    ForeignConversation, ImportOutcome, ImportTurns, ImportedTurn, Repair, RepairedRow,
    TurnAssembler,
};
use tw_core::json::Json;
use tw_core::time::Timestamp;
use tw_egress::env::Env;
use tw_store::apply::StoreApplyError;
use tw_store::foreign::{ForeignMessageRow, ForeignText};
use tw_store::store::Store;
use tw_wire::langchain_rows;
use uuid::{Builder, Uuid};

/// Turns, and bytes of their rows, that are written together.
const TURNS_TOGETHER: usize = 200;
const BYTES_TOGETHER: usize = 4 * 1024 * 1024;
/// Bytes that an id of a conversation may have.
const ID_BYTES_MAX: usize = 200;

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

/// Takes what had to be repaired, and the row where it is imported nowhere.
pub type TakeRepair<'a> = &'a mut dyn FnMut(&RepairedRow, Option<&str>) -> std::io::Result<()>;

/// An import of messages, which come row by row.
pub struct MessageImport<'a> {
    store: &'a Store,
    env: &'a Env,
    owner: ImportOwner,
    assembler: Option<TurnAssembler>,
    last_at: Timestamp,
    waiting: Vec<ImportedTurn>,
    waiting_bytes: usize,
    pub figures: ImportFigures,
}

impl<'a> MessageImport<'a> {
    pub fn new(store: &'a Store, env: &'a Env, owner: ImportOwner) -> Self {
        Self {
            store,
            env,
            owner,
            assembler: None,
            last_at: Timestamp(0),
            waiting: Vec::new(),
            waiting_bytes: 0,
            figures: ImportFigures::default(),
        }
    }

    /// Takes the next row.
    ///
    /// # Errors
    /// The store or the report failed; what was written before stands.
    pub async fn take(
        &mut self,
        row: ForeignMessageRow,
        repaired: TakeRepair<'_>,
    ) -> Result<(), ImportError> {
        self.figures.rows += 1;
        let Some((conversation, id)) = ids_of(&row) else {
            return self.leave_out(&row, repaired);
        };
        let is_next = self
            .assembler
            .as_ref()
            .is_none_or(|assembler| assembler.conversation() != conversation);
        if is_next {
            self.end_conversation(repaired)?;
            self.begin_conversation(conversation, &row, repaired)?;
        }
        let mut repairs = Vec::new();
        let is_whole = |text: &Option<ForeignText>| text.as_ref().is_none_or(|text| text.is_whole);
        if !row.row.is_whole || !is_whole(&row.id) || !is_whole(&row.conversation_row) {
            repairs.push(Repair::WrongEncoding);
        }
        let at = row.at_us.map(Timestamp).unwrap_or_else(|| {
            repairs.push(Repair::NoTime);
            self.last_at
        });
        self.last_at = at;
        let message = langchain_rows::read_message(id, at, &row.row.text, &mut repairs);
        for repair in repairs {
            self.tell(conversation, id, repair, None, repaired)?;
        }
        let Some(message) = message else {
            return self.leave_out(&row, repaired);
        };
        let Some(assembler) = &mut self.assembler else {
            return Ok(());
        };
        let turn_id = |row: &str| derived_id(&[langchain_rows::SHAPE, conversation, row]);
        let env = self.env;
        let mut new_id = || env.ordered_id();
        if let Some(turn) = assembler.push(message, &turn_id, &mut new_id) {
            self.wait(turn);
        }
        self.tell_assembled(repaired)?;
        if self.waiting.len() >= TURNS_TOGETHER || self.waiting_bytes >= BYTES_TOGETHER {
            self.write(repaired).await?;
        }
        Ok(())
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
            SourceEnd::Whole => self.end_conversation(repaired)?,
            SourceEnd::Early => {}
        }
        self.write(repaired).await
    }

    fn begin_conversation(
        &mut self,
        conversation: &str,
        row: &ForeignMessageRow,
        repaired: TakeRepair<'_>,
    ) -> Result<(), ImportError> {
        if !row.has_conversation {
            let id = row.id.as_ref().map_or("", |id| &id.text);
            self.tell(conversation, id, Repair::NoConversation, None, repaired)?;
        }
        let text = row.conversation_row.as_ref().map(|row| &*row.text);
        self.last_at = Timestamp(0);
        self.assembler = Some(TurnAssembler::of(ForeignConversation {
            id: conversation.to_owned(),
            end_user: text.and_then(|row| langchain_rows::text_field(row, "user_id")),
            row: text.and_then(|row| Json::parse(row).ok()),
        }));
        Ok(())
    }

    fn end_conversation(&mut self, repaired: TakeRepair<'_>) -> Result<(), ImportError> {
        let Some(assembler) = &mut self.assembler else {
            return Ok(());
        };
        if let Some(turn) = assembler.end() {
            self.wait(turn);
        }
        self.tell_assembled(repaired)?;
        self.assembler = None;
        Ok(())
    }

    fn wait(&mut self, turn: ImportedTurn) {
        let bytes = turn.rows.iter().map(|row| row.as_str().len());
        self.waiting_bytes += bytes.sum::<usize>();
        self.waiting.push(turn);
    }

    async fn write(&mut self, repaired: TakeRepair<'_>) -> Result<(), ImportError> {
        let turns = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        if turns.is_empty() {
            return Ok(());
        }
        let known: Vec<(String, String)> = turns
            .iter()
            .map(|turn| (turn.conversation.clone(), turn.first_row.clone()))
            .collect();
        let import = ImportTurns {
            organization: self.owner.organization,
            api_key: self.owner.api_key,
            shape: langchain_rows::SHAPE,
            turns,
        };
        let change = Change::ImportTurns(Box::new(import));
        let mut outcomes = self.store.apply(vec![change]).await?;
        let Some(Outcome::Imported(outcomes)) = outcomes.pop() else {
            return Err(ImportError::NoOutcome);
        };
        for (outcome, (conversation, row)) in outcomes.into_iter().zip(known) {
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
        row: &ForeignMessageRow,
        repaired: TakeRepair<'_>,
    ) -> Result<(), ImportError> {
        let text = |text: &Option<ForeignText>| {
            text.as_ref()
                .map_or(String::new(), |text| text.text.clone())
        };
        let (conversation, id) = (text(&row.conversation), text(&row.id));
        let whole = Some(&*row.row.text);
        self.tell(&conversation, &id, Repair::UnreadableRow, whole, repaired)
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

/// The conversation and the id of a row that can be recorded.
fn ids_of(row: &ForeignMessageRow) -> Option<(&str, &str)> {
    let conversation = row.conversation.as_ref()?;
    let id = row.id.as_ref()?;
    let fits = |text: &str| !text.is_empty() && text.len() <= ID_BYTES_MAX;
    (fits(&conversation.text) && fits(&id.text)).then_some((&*conversation.text, &*id.text))
}

/// An id that is the same each time for the same words.
fn derived_id(words: &[&str]) -> TurnId {
    let mut hasher = Sha256::new();
    for word in words {
        hasher.update(u64::try_from(word.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(word.as_bytes());
    }
    let digest: [u8; 32] = hasher.finalize().into();
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    let id: Uuid = Builder::from_custom_bytes(half).into_uuid();
    TurnId(id)
}
