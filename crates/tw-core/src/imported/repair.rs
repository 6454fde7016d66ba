//! What had to be repaired in the rows of another system.

/// What a row did not say, or said wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    CallWithoutResult,
    ResultWithoutCall,
    SecondResult,
    CallIdTaken,
    CallWithoutId,
    CallsUnreadable,
    UnknownStatus,
    UnknownRole,
    NoTime,
    WrongEncoding,
    UnreadableRow,
    NoConversation,
    TurnSplit,
    /// The turn was imported before, of other rows, or the row with other values.
    ChangedSince,
    /// The row was kept with other values, and is of a turn now.
    KeptRowReplaced,
    RowIdTaken,
    ResultByOrder,
    JsonUnreadable,
    UnknownBlock,
    NoTurn,
}

impl Repair {
    /// The word of a report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CallWithoutResult => "call_without_result",
            Self::ResultWithoutCall => "result_without_call",
            Self::SecondResult => "second_result",
            Self::CallIdTaken => "call_id_taken",
            Self::CallWithoutId => "call_without_id",
            Self::CallsUnreadable => "calls_unreadable",
            Self::UnknownStatus => "unknown_status",
            Self::UnknownRole => "unknown_role",
            Self::NoTime => "no_time",
            Self::WrongEncoding => "wrong_encoding",
            Self::UnreadableRow => "unreadable_row",
            Self::NoConversation => "no_conversation",
            Self::TurnSplit => "turn_split",
            Self::ChangedSince => "changed_since",
            Self::KeptRowReplaced => "kept_row_replaced",
            Self::RowIdTaken => "row_id_taken",
            Self::ResultByOrder => "result_by_order",
            Self::JsonUnreadable => "json_unreadable",
            Self::UnknownBlock => "unknown_block",
            Self::NoTurn => "no_turn",
        }
    }

    /// What became of the row.
    pub fn done(self) -> &'static str {
        match self {
            Self::CallWithoutResult => "the call is recorded as pending",
            Self::ResultWithoutCall => "the result is recorded as a message of its own",
            Self::SecondResult => {
                "the first result of the call stands, this one is a message of its own"
            }
            Self::CallIdTaken => {
                "two calls of the turn have this id; the first open one gets the next result"
            }
            Self::CallWithoutId => "the call is recorded under an empty id",
            Self::CallsUnreadable => "the message is recorded without calls",
            Self::UnknownStatus => "the result is recorded as a success",
            Self::UnknownRole => "the message is recorded as a user's",
            Self::NoTime => "the time of the message before it is taken",
            Self::WrongEncoding => "bytes that are no UTF-8 are U+FFFD now",
            Self::UnreadableRow => "the row is kept beside the conversations",
            Self::NoConversation => "the conversation is made by its id alone",
            Self::TurnSplit => "the turn was too long and goes on as another one",
            Self::ChangedSince => "what was imported before stays as it is",
            Self::KeptRowReplaced => {
                "a row of a turn has its name now; these values are kept no more"
            }
            Self::RowIdTaken => "another row has this id; both are recorded",
            Self::ResultByOrder => "it is taken for the result of the first call that has none",
            Self::JsonUnreadable => "it is recorded as the text that it is",
            Self::UnknownBlock => "the block is kept with its row, and in no message",
            Self::NoTurn => "its turn is not there; the row is kept beside the conversations",
        }
    }
}

/// A repair, and the row that it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairedRow {
    pub conversation: String,
    /// The row's id.
    pub row: String,
    pub repair: Repair,
}
