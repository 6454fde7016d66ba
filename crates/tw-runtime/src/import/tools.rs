//! Brings the tools of another application in.
//!
//! A tool is made of each row that says what its requests are; every row is kept, so that it can go back. A tool that is
//! there, or was there and is deleted, is left as it is, so that a run that ended early is completed by the next.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};
use tw_core::change::{Change, Outcome, SaveTool};
use tw_core::id::ToolId;
use tw_core::imported::{ImportTurns, KeptRow, ToolRowNote, ToolRowProblem};
use tw_core::shape::TableLayout;
use tw_egress::env::Env;
use tw_egress::secrets::Tenancy;
use tw_store::foreign::{
    ForeignRowBeside, ForeignRowRead, LAYOUT, NamedForeignRow, TOOLS_TABLE, hash_of_row,
};
use tw_store::read::ReadError;
use tw_store::store::Store;
use tw_store::system;
use tw_wire::foreign_rows;
use tw_wire::foreign_rows::vapi::{self, VapiTool};

use super::source_rows::{derived_id, user_of};
use super::{ImportError, ImportOwner};
use crate::tools::DefinitionVetting;

/// Rows, and bytes of them, that are written together.
const ROWS_TOGETHER: usize = 1000;
const BYTES_TOGETHER: usize = 4 * 1024 * 1024;

/// Numbers of an import of tools so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolImportFigures {
    pub rows: u64,
    pub tools_made: u64,
    /// Tools that an earlier run had made.
    pub tools_there: u64,
    /// What there is to tell of rows.
    pub notes: u64,
}

/// Takes what there is to tell of a row.
pub type TakeNote<'a> = &'a mut dyn FnMut(&ToolRowNote) -> std::io::Result<()>;

/// Whose tools they become, and by which rules.
pub struct ToolImportSettings<'a> {
    pub owner: ImportOwner,
    /// The organization's slug.
    pub organization: String,
    pub vetting: &'a DefinitionVetting,
    /// The organization of the application whose rows become tools; `None` for all.
    pub only: Option<String>,
}

/// An import of tools, which come row by row.
pub struct ToolImport<'a> {
    store: &'a Store,
    env: &'a Env,
    settings: ToolImportSettings<'a>,
    tenancy: Tenancy,
    /// Tools that are there, deleted ones and those of this run among them.
    there: HashSet<ToolId>,
    made: HashSet<ToolId>,
    /// An organization may have no more tools.
    is_full: bool,
    kept: Vec<KeptRow>,
    kept_bytes: usize,
    saves: Vec<WaitingTool>,
    /// What the names of secrets stand for, as the SHA-256 of it.
    secrets: HashMap<String, [u8; 32]>,
    /// How often rows that nothing names were kept, by hash.
    unnamed: HashMap<String, u32>,
    pub figures: ToolImportFigures,
}

/// A tool that waits to be written.
struct WaitingTool {
    row: String,
    save: SaveTool,
    left_out: Vec<String>,
}

impl<'a> ToolImport<'a> {
    /// # Errors
    /// The store cannot be read.
    pub async fn begin(
        store: &'a Store,
        env: &'a Env,
        settings: ToolImportSettings<'a>,
    ) -> Result<Self, ReadError> {
        let there = store.tool_ids(settings.owner.organization).await?;
        let tenancy = match system::organization_count(store).await? {
            0 | 1 => Tenancy::Single,
            _ => Tenancy::Several,
        };
        Ok(Self {
            store,
            env,
            settings,
            tenancy,
            there: there.into_iter().collect(),
            made: HashSet::new(),
            is_full: false,
            kept: Vec::new(),
            kept_bytes: 0,
            saves: Vec::new(),
            secrets: HashMap::new(),
            unnamed: HashMap::new(),
            figures: ToolImportFigures::default(),
        })
    }

    /// Takes the next row.
    ///
    /// # Errors
    /// The store or the report failed; what was written before stands.
    pub async fn take(
        &mut self,
        row: ForeignRowRead,
        told: TakeNote<'_>,
    ) -> Result<(), ImportError> {
        let row = match row {
            ForeignRowRead::Beside(row) => row,
            // Tables of tools have none.
            ForeignRowRead::Message(_) => return Ok(()),
        };
        let is_layout = row.table == LAYOUT;
        let id =
            foreign_rows::text_field(&row.row.row.text, &["id"]).or_else(|| row.row.name.clone());
        let id = id.unwrap_or_default();
        if !is_layout {
            self.figures.rows += 1;
            for (is_so, problem) in [
                (!row.row.row.is_whole, ToolRowProblem::WrongEncoding),
                (row.dangles, ToolRowProblem::Dangling),
            ] {
                if is_so {
                    self.tell(&row.table, &id, problem, String::new(), told)?;
                }
            }
        }
        if row.table == TOOLS_TABLE {
            self.take_tool(&id, &row.row.row.text, told)?;
        }
        self.keep(row);
        if self.kept.len() >= ROWS_TOGETHER || self.kept_bytes >= BYTES_TOGETHER {
            self.write(told).await?;
        }
        Ok(())
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// As [`ToolImport::take`].
    pub async fn finish(&mut self, told: TakeNote<'_>) -> Result<(), ImportError> {
        self.write(told).await
    }

    fn take_tool(&mut self, id: &str, row: &str, told: TakeNote<'_>) -> Result<(), ImportError> {
        let of = || foreign_rows::text_field(row, &["organization_id"]);
        if self.settings.only.is_some() && self.settings.only != of() {
            return Ok(());
        }
        let word = TableLayout::Vapi.as_str();
        let tool = ToolId::parse(id);
        let tool = tool.unwrap_or_else(|| ToolId(derived_id(&[word, TOOLS_TABLE, id]).0));
        if self.made.contains(&tool) {
            return self.tell(
                TOOLS_TABLE,
                id,
                ToolRowProblem::RowIdTaken,
                String::new(),
                told,
            );
        }
        let made = vapi::read_tool(row).map_err(|refused| (refused.problem, refused.detail));
        // Those of a tool that is not made yet are told to whoever grants them, too.
        let named = made.as_ref().map_or(Ok(()), |made| self.note_secrets(made));
        if self.there.contains(&tool) {
            self.figures.tools_there += 1;
            return Ok(());
        }
        let made = made.and_then(|made| named.map(|()| made));
        let made = made.and_then(|made| self.vet(made));
        let made = match made {
            Ok(made) => made,
            Err((problem, detail)) => return self.tell(TOOLS_TABLE, id, problem, detail, told),
        };
        let now = self.env.now();
        let at = made.made.filter(|at| (0..=now.0).contains(&at.0));
        self.there.insert(tool);
        self.made.insert(tool);
        self.saves.push(WaitingTool {
            row: id.to_owned(),
            save: SaveTool {
                organization: self.settings.owner.organization,
                tool,
                name: made.definition.name,
                definition: made.text,
                follows: 0,
                room: self.settings.vetting.room,
                at: at.unwrap_or(now),
            },
            left_out: made.left_out,
        });
        Ok(())
    }

    /// Whether no secret of the tool has the name of another tool's with another value, which would be sent for it.
    fn note_secrets(&mut self, made: &VapiTool) -> Result<(), (ToolRowProblem, String)> {
        let mut taken = None;
        for (name, text) in made.secrets.iter() {
            let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
            let known = *self.secrets.entry(name.to_owned()).or_insert(hash);
            if known != hash {
                taken = taken.or(Some(name));
            }
        }
        match taken {
            None => Ok(()),
            Some(name) => {
                let detail = format!("secret {name}: is another tool's with another value");
                Err((ToolRowProblem::Unfit, detail))
            }
        }
    }

    /// Whether the organization may keep the tool.
    fn vet(&self, made: VapiTool) -> Result<VapiTool, (ToolRowProblem, String)> {
        if self.is_full {
            return Err((ToolRowProblem::NoRoom, String::new()));
        }
        let ToolImportSettings {
            organization,
            vetting,
            ..
        } = &self.settings;
        let unfit = |error: tw_core::definition::DefinitionError| {
            (ToolRowProblem::Unfit, error.to_string())
        };
        made.definition.check(&vetting.limits).map_err(unfit)?;
        let mut missing = made.definition.secrets();
        missing.retain(|used| {
            let (name, host) = (&used.name, &used.host);
            let granted = vetting
                .secrets
                .resolve(name, organization, host, self.tenancy);
            granted.is_none()
        });
        if !missing.is_empty() {
            let missing = missing.iter();
            let missing =
                missing.map(|used| format!("{}: {} for {}", used.field, used.name, used.host));
            let missing: Vec<String> = missing.collect();
            return Err((ToolRowProblem::SecretNotGranted, missing.join("; ")));
        }
        let vetted = vetting.vet(&made.definition, organization, self.tenancy);
        vetted.map_err(unfit)?;
        Ok(made)
    }

    fn keep(&mut self, row: ForeignRowBeside) {
        let NamedForeignRow { name, row: text } = row.row;
        let json = text.stored().to_owned();
        let id = name.unwrap_or_else(|| {
            let hash = hash_of_row(&json);
            let times = self.unnamed.entry(hash.clone()).or_default();
            *times += 1;
            format!("{hash}#{times}")
        });
        self.kept_bytes += json.len();
        self.kept.push(KeptRow {
            table: row.table,
            id,
            conversation: None,
            end_user: user_of(&text.text),
            json,
        });
    }

    async fn write(&mut self, told: TakeNote<'_>) -> Result<(), ImportError> {
        let kept = std::mem::take(&mut self.kept);
        let saves = std::mem::take(&mut self.saves);
        self.kept_bytes = 0;
        if kept.is_empty() {
            return Ok(());
        }
        let import = ImportTurns {
            organization: self.settings.owner.organization,
            api_key: self.settings.owner.api_key,
            shape: TableLayout::Vapi.as_str(),
            turns: Vec::new(),
            kept,
            at: self.env.now(),
        };
        let mut changes = vec![Change::ImportTurns(Box::new(import))];
        let save = |waiting: &WaitingTool| Change::SaveTool(Box::new(waiting.save.clone()));
        changes.extend(saves.iter().map(save));
        let outcomes = self.store.apply(changes).await?;
        let outcomes = outcomes.into_iter().skip(1);
        if outcomes.len() != saves.len() {
            return Err(ImportError::NoOutcome);
        }
        for (waiting, outcome) in saves.into_iter().zip(outcomes) {
            self.settle(waiting, &outcome, told)?;
        }
        Ok(())
    }

    fn settle(
        &mut self,
        waiting: WaitingTool,
        outcome: &Outcome,
        told: TakeNote<'_>,
    ) -> Result<(), ImportError> {
        let row = &*waiting.row;
        let room = waiting.save.room;
        let (problem, detail) = match outcome {
            Outcome::ToolSaved(_) => {
                self.figures.tools_made += 1;
                if waiting.left_out.is_empty() {
                    return Ok(());
                }
                let detail = waiting.left_out.join("; ");
                return self.tell(TOOLS_TABLE, row, ToolRowProblem::Partly, detail, told);
            }
            Outcome::NameTaken => (ToolRowProblem::NameTaken, waiting.save.name),
            Outcome::TooManyTools => {
                self.is_full = true;
                let detail = format!("an organization may keep {} tools", room.tools_max);
                (ToolRowProblem::NoRoom, detail)
            }
            Outcome::ToolsTooLarge => {
                let detail = format!("its tools may have {} bytes together", room.bytes_max);
                (ToolRowProblem::NoRoom, detail)
            }
            Outcome::Already
            | Outcome::Done
            | Outcome::Organization(_)
            | Outcome::ApiKey(_)
            | Outcome::Claimed { .. }
            | Outcome::KeyTaken { .. }
            | Outcome::CallEnded { .. }
            | Outcome::ParentDeleted
            | Outcome::ApprovalClosed { .. }
            | Outcome::ConversationBusy
            | Outcome::Deleted { .. }
            | Outcome::TooMany
            | Outcome::CallbackTaken(_)
            | Outcome::Deliveries(_)
            | Outcome::Jobs(_)
            | Outcome::Imported { .. }
            | Outcome::QuotaReached { .. }
            | Outcome::Count(_)
            | Outcome::Partly(_) => return Err(ImportError::NoOutcome),
        };
        self.there.remove(&waiting.save.tool);
        self.made.remove(&waiting.save.tool);
        self.tell(TOOLS_TABLE, row, problem, detail, told)
    }

    fn tell(
        &mut self,
        table: &str,
        row: &str,
        problem: ToolRowProblem,
        detail: String,
        told: TakeNote<'_>,
    ) -> Result<(), ImportError> {
        self.figures.notes += 1;
        let note = ToolRowNote {
            table: table.to_owned(),
            row: row.to_owned(),
            problem,
            detail,
        };
        told(&note).map_err(ImportError::Report)
    }
}
