//! What became of the rows of another application's tools and agents.

/// Why no tool was made of a row, or what of the row is not part of its tool. Each row is kept, whatever became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolRowProblem {
    /// Nothing says where the tool's requests go.
    NoRequest,
    /// It runs when a call starts, and never for a model.
    OnlyAtCallStart,
    /// Its requests are no plain ones.
    OtherKind,
    /// What signs its requests is not in the row.
    CredentialElsewhere,
    /// A secret is to be granted first.
    SecretNotGranted,
    /// No definition says what the row says.
    Unfit,
    NameTaken,
    NoRoom,
    RowIdTaken,
    /// The tool was made without some of it.
    Partly,
    /// It refers to a row that is not there.
    Dangling,
    WrongEncoding,
}

impl ToolRowProblem {
    pub const ALL: [Self; 12] = [
        Self::NoRequest,
        Self::OnlyAtCallStart,
        Self::OtherKind,
        Self::CredentialElsewhere,
        Self::SecretNotGranted,
        Self::Unfit,
        Self::NameTaken,
        Self::NoRoom,
        Self::RowIdTaken,
        Self::Partly,
        Self::Dangling,
        Self::WrongEncoding,
    ];

    /// The word of a report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoRequest => "tool_without_request",
            Self::OnlyAtCallStart => "tool_only_at_call_start",
            Self::OtherKind => "tool_of_another_kind",
            Self::CredentialElsewhere => "tool_credential_elsewhere",
            Self::SecretNotGranted => "tool_secret_not_granted",
            Self::Unfit => "tool_unfit",
            Self::NameTaken => "tool_name_taken",
            Self::NoRoom => "tool_without_room",
            Self::RowIdTaken => "row_id_taken",
            Self::Partly => "tool_partly",
            Self::Dangling => "dangling",
            Self::WrongEncoding => "wrong_encoding",
        }
    }

    /// What became of the row.
    pub fn done(self) -> &'static str {
        match self {
            Self::NoRequest
            | Self::OnlyAtCallStart
            | Self::OtherKind
            | Self::CredentialElsewhere
            | Self::Unfit
            | Self::NameTaken
            | Self::NoRoom => "no tool is made; the row is kept",
            Self::SecretNotGranted => {
                "no tool is made; the row is kept, and another import makes the tool once the secret is granted"
            }
            Self::RowIdTaken => "another row has this id and is the tool; both are kept",
            Self::Partly => "the tool is made without it; the row is kept",
            Self::Dangling => "what it refers to is not there; the row is kept",
            Self::WrongEncoding => "bytes that are no UTF-8 are U+FFFD now",
        }
    }
}

/// What became of a row, for a report. Says nothing of the row's secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRowNote {
    pub table: String,
    /// The row's id.
    pub row: String,
    pub problem: ToolRowProblem,
    /// What it is about, where the problem does not say.
    pub detail: String,
}
