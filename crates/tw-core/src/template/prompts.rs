//! Prompts: what a model is told of a tool, with variables that are there or not.

use std::cell::Cell;

use super::{Piece, TextTemplate};
use crate::variables::{VALUE_BYTES_MAX, Variables, beginning};

/// Most bytes that variables may add to all prompts of a tool. The prompts themselves are the
/// owner's, the values come with a request.
const PUT_IN_BYTES_MAX: usize = 16 * 1024;

/// The prompts of one tool: what is put in is bounded for all of them together.
#[derive(Debug)]
pub struct Prompts<'a> {
    variables: &'a Variables,
    left: Cell<usize>,
}

impl<'a> Prompts<'a> {
    pub fn new(variables: &'a Variables) -> Self {
        Self {
            variables,
            left: Cell::new(PUT_IN_BYTES_MAX),
        }
    }

    /// The text for the model: a variable without a value is empty there, and of a long value
    /// there is the beginning.
    pub fn render(&self, template: &TextTemplate) -> String {
        let mut text = String::new();
        for piece in &template.pieces {
            match piece {
                Piece::Text(literal) => text.push_str(literal),
                Piece::Variable(name) => {
                    let value = self.variables.get(name).unwrap_or_default();
                    let value = beginning(value, self.left.get().min(VALUE_BYTES_MAX));
                    self.left.set(self.left.get() - value.len());
                    text.push_str(value);
                }
            }
        }
        text
    }
}
