//! Calls of one message are told apart by their ids, and so are their results. Ids come twice
//! where a client wrote them so, and where it put together what an upstream said in two turns.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::model::CallForm;
use crate::request::{Block, Message, Role};

/// Whether the calls of each message have different ids.
pub(super) fn are_told_apart(messages: &[Message]) -> bool {
    !messages.iter().any(repeats)
}

/// Gives the later ones of calls that have one id in one message another id, and their results
/// with them, and returns how many calls that were. The same history always gets the same ids.
///
/// Every call must be answered directly behind its message. Results of equal ids belong to the
/// calls in their order.
pub(crate) fn tell_apart(messages: &mut [Message]) -> u32 {
    let mut renamed = 0;
    for at in 0..messages.len() {
        let (before, behind) = messages.split_at_mut(at + 1);
        if let Some(message) = before.last_mut().filter(|message| repeats(message)) {
            let mut names = Names::of(message);
            renamed += names.give(message);
            let answers = behind.iter_mut().take_while(|next| next.role == Role::Tool);
            answers.for_each(|answer| names.follow(answer));
        }
    }
    renamed
}

/// Whether the message makes two calls under one id.
pub(crate) fn repeats(message: &Message) -> bool {
    let mut seen = BTreeSet::new();
    !message.calls().all(|call| seen.insert(call.id.as_str()))
}

/// The ids of one message.
struct Names {
    taken: BTreeSet<String>,
    /// New ids of the calls that have one id, in the calls' order; their results take them from the
    /// front.
    now: HashMap<String, VecDeque<String>>,
    /// Rises over the whole message, so that many equal ids take no longer than many others.
    number: usize,
}

impl Names {
    fn of(message: &Message) -> Self {
        Self {
            taken: message.calls().map(|call| call.id.clone()).collect(),
            now: HashMap::new(),
            number: 1,
        }
    }

    /// Renames the calls and returns how many that were.
    fn give(&mut self, message: &mut Message) -> u32 {
        // A call of the old form goes by its name, which stays.
        let of_old_form = message.calls().filter(|call| call.form == CallForm::ByName);
        let mut seen: BTreeSet<String> = of_old_form.map(|call| call.id.clone()).collect();
        let mut renamed = 0;
        for block in &mut message.blocks {
            let Block::Call(call) = block else {
                continue;
            };
            let before = call.id.clone();
            if call.form != CallForm::ByName && !seen.insert(before.clone()) {
                call.id = self.another(&before);
                renamed += 1;
            }
            self.now
                .entry(before)
                .or_default()
                .push_back(call.id.clone());
        }
        message.is_changed |= renamed > 0;
        renamed
    }

    /// A new id for a call, as long as before and of the same letters where that can be: some
    /// upstreams take only ids of their own form, such as nine letters and digits.
    fn another(&mut self, id: &str) -> String {
        loop {
            self.number += 1;
            let number = self.number.to_string();
            let mut kept = id.len().saturating_sub(number.len());
            while !id.is_char_boundary(kept) {
                kept -= 1;
            }
            let name = format!("{}{number}", &id[..kept]);
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }

    fn follow(&mut self, answer: &mut Message) {
        for block in &mut answer.blocks {
            let Block::Result(result) = block else {
                continue;
            };
            let now = self.now.get_mut(&result.call_id);
            let Some(name) = now.and_then(VecDeque::pop_front) else {
                continue;
            };
            if name != result.call_id {
                answer.is_changed = true;
                result.call_id = name;
            }
        }
    }
}
