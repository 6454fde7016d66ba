//! Shapes: the layouts in which applications keep conversations, written from the record and read into it.
//!
//! Each follows the tables of one kind of application: messages of OpenAI's chat completions with columns for their
//! calls, LangChain's rows, blocks of one message in which calls and results stand in order, and PocketBase's records.
//! Columns have the same names as in the views of the same shape.

mod blocks;
mod langchain;
mod openai;
mod pocketbase;
pub mod rows;
mod said;
mod write;

pub use said::{
    AnswerStatus, CallAnswer, KnownAnswer, OpenCall, SaidCall, SaidEntry, SaidMessage, SaidTurn,
    TurnRecord,
};

use tw_core::json::Json;

/// The shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    OpenAi,
    LangChain,
    Blocks,
    PocketBase,
}

/// A row of a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeRow {
    pub id: String,
    pub json: Json,
}

impl Shape {
    pub const ALL: [Self; 4] = [
        Self::OpenAi,
        Self::LangChain,
        Self::Blocks,
        Self::PocketBase,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::LangChain => "langchain",
            Self::Blocks => "blocks",
            Self::PocketBase => "pocketbase",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shape| shape.as_str() == word)
    }

    /// Whether its rows hold results whole, and not as the model was given them.
    pub fn shows_whole_results(self) -> bool {
        match self {
            Self::OpenAi | Self::LangChain => false,
            Self::Blocks | Self::PocketBase => true,
        }
    }

    /// The rows of a turn, oldest first. Their ids begin with the turn's.
    pub fn rows(self, turn: &SaidTurn) -> Vec<ShapeRow> {
        match self {
            Self::OpenAi => openai::rows(turn),
            Self::LangChain => langchain::rows(turn),
            Self::Blocks => blocks::rows(turn),
            Self::PocketBase => vec![pocketbase::row(turn)],
        }
    }
}

#[cfg(test)]
mod tests;
