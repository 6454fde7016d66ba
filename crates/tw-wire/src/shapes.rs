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
    AnswerStatus, CallAnswer, KnownAnswer, SaidCall, SaidEntry, SaidMessage, SaidTurn, TurnRecord,
    WaitingCall,
};

use tw_core::json::Json;
use tw_core::shape::Shape;

/// A row of a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeRow {
    pub id: String,
    pub json: Json,
}

/// The rows of a turn, oldest first. Their ids begin with the turn's.
pub fn rows_of(shape: Shape, turn: &SaidTurn) -> Vec<ShapeRow> {
    match shape {
        Shape::OpenAi => openai::rows(turn),
        Shape::LangChain => langchain::rows(turn),
        Shape::Blocks => blocks::rows(turn),
        Shape::PocketBase => vec![pocketbase::row(turn)],
    }
}

#[cfg(test)]
mod tests;
