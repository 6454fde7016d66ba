//! Rounds and calls that a client never saw of its earlier turns, put back into the history that it sends.
//!
//! A client sees one message of a turn, however many rounds it took: the texts of all of them,
//! and the calls that it was handed. Before such a message stand the hidden rounds, and into it
//! belong the calls that we ran beside its own. Our half comes from the record, its half from the
//! client.

mod rename;
mod written;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use crate::call::CallRunner;
use crate::history::ids;
use crate::id::CallId;
use crate::json::{Literal, LiteralBuf};
use crate::model::CallNative;
use crate::native::AnswerOrigin;
use crate::request::{Block, CallBlock, Message, ROUND_GAP, ResultBlock, Role};

pub use written::{WrittenId, mentions, written_ids};

/// The turns and ids that are known of a history.
#[derive(Clone, Debug, Default)]
pub struct Recalled {
    /// The turns that messages of the history came from, at most one for each message.
    pub turns: Vec<RecalledTurn>,
    pub sent: SentCalls,
}

/// Calls that clients were handed under ids of ours.
pub type SentCalls = BTreeMap<CallId, SentCall>;

/// A call that a client was handed, as the upstream knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct SentCall {
    /// The upstream's id.
    pub id: String,
    pub native: Option<Box<CallNative>>,
    /// What only the format understands of the call, as blocks behind it.
    pub behind: Vec<Block>,
    /// The message that made the call; `None` where the record does not hold it any more.
    pub message: Option<Arc<SentMessage>>,
}

/// A model's message in which clients were handed calls.
#[derive(Clone, Debug, PartialEq)]
pub struct SentMessage {
    pub origin: Arc<AnswerOrigin>,
    /// Its reasoning, and what only its format understands of the whole message.
    pub blocks: Vec<Block>,
}

/// The blocks behind a call that only its format understands.
pub fn natives_behind(blocks: &[Block], sent_id: &str) -> Vec<Block> {
    let is_call = |block: &Block| matches!(block, Block::Call(call) if call.id == sent_id);
    let Some(at) = blocks.iter().position(is_call) else {
        return Vec::new();
    };
    let behind = blocks[at + 1..].iter();
    let natives = behind.take_while(|block| matches!(block, Block::Native(_)));
    natives.cloned().collect()
}

impl SentMessage {
    /// Where it came from, and nothing of what it says.
    pub fn origin_alone(&self) -> Self {
        Self {
            origin: Arc::clone(&self.origin),
            blocks: Vec::new(),
        }
    }

    /// The message with these blocks.
    pub fn of(origin: Arc<AnswerOrigin>, blocks: &[Block]) -> Self {
        Self {
            origin,
            blocks: of_whole_message(blocks),
        }
    }
}

/// The turn that a message of the history came from.
#[derive(Clone, Debug)]
pub struct RecalledTurn {
    /// The message's place in the history.
    pub at: usize,
    /// The turn's rounds; the last is the one that handed calls over, or that answered. The ones before are hidden.
    pub rounds: Vec<RecalledRound>,
}

/// An assistant message as the upstream gave it.
#[derive(Clone, Debug)]
pub struct RecalledRound {
    /// The message's blocks, whose calls have the ids that the upstream knows.
    pub blocks: Vec<Block>,
    pub origin: Option<Arc<AnswerOrigin>>,
    /// The round's calls, in the model's order.
    pub calls: Vec<RecalledCall>,
}

#[derive(Clone, Debug)]
pub struct RecalledCall {
    pub runs: CallRunner,
    pub id: CallId,
    /// The upstream's id, as in the blocks.
    pub sent_id: String,
    pub tool_name: String,
    /// The result that the model was given; of no use for a call that the client ran.
    pub shown: String,
}

/// A history with what a client never saw of it.
#[derive(Clone, Debug, PartialEq)]
pub struct SplicedHistory {
    /// The stretches of the history, in their order.
    stretches: Vec<Stretch>,
    /// Calls that the upstream knew by one id, which stand in one message now; renamed.
    pub repeated_ids: u32,
}

/// Messages of a history that follow one another. Most of a long one is as it was, and is not copied.
#[derive(Clone, Debug, PartialEq)]
enum Stretch {
    /// Messages at these places of the history that was spliced.
    AsBefore(Range<usize>),
    Anew(Vec<Message>),
}

impl SplicedHistory {
    /// The history; `before` is the one that it was made of.
    pub fn messages<'a>(&'a self, before: &'a [Message]) -> Vec<&'a Message> {
        let stretches = self.stretches.iter().map(|stretch| match stretch {
            Stretch::AsBefore(places) => before.get(places.clone()).unwrap_or_default(),
            Stretch::Anew(messages) => messages,
        });
        stretches.flatten().collect()
    }
}

/// The history that the upstream is sent.
///
/// Every call of `messages` must be answered directly behind its message, as
/// [`crate::history::repair`] leaves them. Of what we ran, only calls of tools that `is_offered`
/// go back. A message of which nothing is known is as it was.
pub fn splice(
    messages: &[Message],
    recalled: &Recalled,
    is_offered: &dyn Fn(&str) -> bool,
) -> SplicedHistory {
    let turns: BTreeMap<usize, &RecalledTurn> =
        recalled.turns.iter().map(|turn| (turn.at, turn)).collect();
    let brought = if turns.is_empty() {
        HashSet::new()
    } else {
        let calls = messages.iter().flat_map(Message::calls);
        calls
            .filter_map(|call| CallId::parse_handed(&call.id))
            .collect()
    };
    let mut spliced = Splicing::default();
    let mut at = 0;
    while let Some(message) = messages.get(at) {
        let behind = &messages[at + 1..];
        let answers = behind
            .iter()
            .take_while(|message| message.role == Role::Tool)
            .count();
        let answered = Answered {
            at,
            message,
            answers: &behind[..answers],
            sent: &recalled.sent,
            brought: &brought,
        };
        match turns.get(&at) {
            Some(turn) => answered.join(turn, is_offered, &mut spliced),
            None => answered.pass(&mut spliced),
        }
        at += 1 + answers;
    }
    spliced.end()
}

/// A history that is being spliced.
#[derive(Default)]
struct Splicing(Vec<Stretch>);

impl Splicing {
    /// Adds messages that stay as they are.
    fn keep(&mut self, places: Range<usize>) {
        match self.0.last_mut() {
            Some(Stretch::AsBefore(kept)) if kept.end == places.start => kept.end = places.end,
            Some(Stretch::AsBefore(_) | Stretch::Anew(_)) | None => {
                self.0.push(Stretch::AsBefore(places));
            }
        }
    }

    /// Adds messages that the client did not send so, and with each of them the answers to its calls.
    fn put(&mut self, messages: Vec<Message>) {
        self.0.push(Stretch::Anew(messages));
    }

    /// Ends the splicing. Calls of new messages are told apart here; those in what stays as it is were before.
    fn end(mut self) -> SplicedHistory {
        let repeated_ids = self.0.iter_mut().map(|stretch| match stretch {
            Stretch::AsBefore(_) => 0,
            Stretch::Anew(messages) => ids::tell_apart(messages),
        });
        SplicedHistory {
            repeated_ids: repeated_ids.sum(),
            stretches: self.0,
        }
    }
}

/// A message and the answers to its calls.
struct Answered<'a> {
    /// The message's place.
    at: usize,
    message: &'a Message,
    answers: &'a [Message],
    sent: &'a SentCalls,
    /// Calls that the history holds under ids of ours, as it does those that we ran where its format shows them.
    brought: &'a HashSet<CallId>,
}

impl Answered<'_> {
    /// Passes on the message and its answers as the client sent them, but for ids of ours.
    fn pass(&self, out: &mut Splicing) {
        let mut all = std::iter::once(self.message).chain(self.answers);
        if !all.any(|message| rename::has_sent_id(message, self.sent)) {
            return out.keep(self.at..self.at + 1 + self.answers.len());
        }
        let message = rename::to_sent(self.message, self.sent);
        let mut answers: Vec<&Message> = self.answers.iter().collect();
        if ids::repeats(&message) {
            // Results of equal ids belong to the calls in their order.
            let calls = self.message.calls().zip(0usize..);
            let places: HashMap<&str, usize> = calls
                .map(|(call, place)| (call.id.as_str(), place))
                .collect();
            answers.sort_by_key(|answer| {
                let result = answer.result();
                result.and_then(|result| places.get(result.call_id.as_str()))
            });
        }
        let answers = answers.into_iter();
        let answers = answers.map(|answer| rename::to_sent(answer, self.sent));
        out.put(std::iter::once(message).chain(answers).collect());
    }

    fn join(&self, turn: &RecalledTurn, is_offered: &dyn Fn(&str) -> bool, out: &mut Splicing) {
        let Some((own, hidden)) = turn.rounds.split_last() else {
            return self.pass(out);
        };
        let is_ours =
            |call: &RecalledCall| call.runs == CallRunner::Server && is_offered(&call.tool_name);
        let goes_back = |call: &RecalledCall| is_ours(call) && !self.brought.contains(&call.id);
        let kept: Vec<&RecalledRound> = hidden
            .iter()
            .filter(|round| round.calls.iter().any(goes_back))
            .collect();
        let stands_here =
            |call: &RecalledCall| self.message.calls().any(|made| is_call(made, call));
        let is_own = |call: &RecalledCall| goes_back(call) || is_ours(call) && stands_here(call);
        let is_mixed = own.calls.iter().any(is_own);
        if kept.is_empty() && !is_mixed {
            return self.pass(out);
        }
        // Text that stands in the message as well would be said twice.
        let texts = if kept.len() == hidden.len() && self.says(&turn.rounds) {
            Texts::OfRounds
        } else {
            Texts::OfClient
        };
        let mut made = Vec::new();
        for round in kept {
            hidden_round(round, texts, &goes_back, &mut made);
        }
        match texts {
            Texts::OfClient if !is_mixed => {
                out.put(made);
                self.pass(out);
            }
            Texts::OfRounds | Texts::OfClient => {
                self.own_round(own, texts, &is_own, &mut made);
                out.put(made);
            }
        }
    }

    /// Whether the message's text is what the rounds say, as a client was shown it.
    fn says(&self, rounds: &[RecalledRound]) -> bool {
        let texts: Vec<String> = rounds
            .iter()
            .map(|round| text_of(&round.blocks))
            .filter(|text| !text.is_empty())
            .collect();
        let said = text_of(&self.message.blocks);
        // A format of blocks has one for each, and nothing between them.
        is_same_text(&said, &texts.join(ROUND_GAP)) || is_same_text(&said, &texts.concat())
    }

    /// The message with our calls in it, and the answers to all calls in their order.
    fn own_round(
        &self,
        own: &RecalledRound,
        texts: Texts,
        goes_back: &dyn Fn(&RecalledCall) -> bool,
        out: &mut Vec<Message>,
    ) {
        let mut blocks: Vec<Block> = match texts {
            Texts::OfRounds => Vec::new(),
            Texts::OfClient => reasoning(&own.blocks)
                .chain(said(&self.message.blocks).filter(|block| !is_reasoning(block)))
                .cloned()
                .collect(),
        };
        let mut answers = Vec::new();
        let mut left: Vec<&CallBlock> = self.message.calls().collect();
        for block in &own.blocks {
            let Block::Call(made) = block else {
                if texts == Texts::OfRounds {
                    blocks.push(block.clone());
                }
                continue;
            };
            let mut rows = own.calls.iter();
            let Some(call) = rows.find(|call| call.sent_id == made.id) else {
                continue;
            };
            let brought = left.iter().position(|made| is_call(made, call));
            let brought = brought.map(|place| left.remove(place));
            if goes_back(call) {
                blocks.push(block.clone());
                answers.push(result(&call.sent_id, &call.shown));
            } else if let Some(brought) = brought {
                self.take(brought, &mut blocks, &mut answers);
            }
        }
        for call in left {
            self.take(call, &mut blocks, &mut answers);
        }
        out.push(Message {
            origin: own.origin.clone(),
            ..Message::made(Role::Assistant, blocks)
        });
        out.append(&mut answers);
    }

    /// A call of the client's own, and its answer.
    fn take(&self, call: &CallBlock, blocks: &mut Vec<Block>, answers: &mut Vec<Message>) {
        let sent = rename::sent_call(&call.id, self.sent);
        blocks.push(Block::Call(CallBlock {
            id: sent.map_or(&call.id, |sent| &sent.id).clone(),
            native: call
                .native
                .clone()
                .or_else(|| sent.and_then(|sent| sent.native.clone())),
            ..call.clone()
        }));
        let answer = self.answers.iter().find(|answer| {
            answer
                .result()
                .is_some_and(|result| result.call_id == call.id)
        });
        answers.extend(answer.map(|answer| rename::to_sent(answer, self.sent)));
    }
}

/// The source of the texts that go back to the upstream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Texts {
    /// The texts of each round, since the client's is all of them together.
    OfRounds,
    /// The client's text alone: it was changed, or not all rounds go back.
    OfClient,
}

/// Whether a client's call is this one, under our id.
fn is_call(made: &CallBlock, call: &RecalledCall) -> bool {
    CallId::parse_handed(&made.id) == Some(call.id)
}

fn hidden_round(
    round: &RecalledRound,
    texts: Texts,
    goes_back: &dyn Fn(&RecalledCall) -> bool,
    out: &mut Vec<Message>,
) {
    let calls = || round.calls.iter().filter(|call| goes_back(call));
    let kept = round.blocks.iter().filter(|block| match block {
        Block::Call(made) => calls().any(|call| call.sent_id == made.id),
        Block::Reasoning(_) | Block::Native(_) => true,
        Block::Text(_) | Block::Refusal(_) | Block::Result(_) | Block::Part(_) => {
            texts == Texts::OfRounds
        }
    });
    out.push(Message {
        origin: round.origin.clone(),
        ..Message::made(Role::Assistant, kept.cloned().collect())
    });
    out.extend(calls().map(|call| result(&call.sent_id, &call.shown)));
}

fn result(sent_id: &str, shown: &str) -> Message {
    let result = ResultBlock::of_text(sent_id, Literal::from_text(shown));
    Message::made(Role::Tool, vec![Block::Result(result)])
}

/// Thoughts, and natives that say nothing of a text or call before them.
fn of_whole_message(blocks: &[Block]) -> Vec<Block> {
    let mut is_behind = false;
    let kept = blocks.iter().filter(|block| match block {
        Block::Native(_) => !is_behind,
        Block::Reasoning(_) => {
            is_behind = false;
            true
        }
        Block::Text(_) | Block::Refusal(_) | Block::Call(_) | Block::Result(_) | Block::Part(_) => {
            is_behind = true;
            false
        }
    });
    kept.cloned().collect()
}

/// The blocks that are no calls.
fn said(blocks: &[Block]) -> impl Iterator<Item = &Block> {
    blocks
        .iter()
        .filter(|block| !matches!(block, Block::Call(_)))
}

fn reasoning(blocks: &[Block]) -> impl Iterator<Item = &Block> {
    blocks.iter().filter(|block| is_reasoning(block))
}

fn is_reasoning(block: &Block) -> bool {
    matches!(block, Block::Reasoning(_) | Block::Native(_))
}

fn text_of(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text),
        Block::Refusal(_)
        | Block::Reasoning(_)
        | Block::Call(_)
        | Block::Result(_)
        | Block::Part(_)
        | Block::Native(_) => None,
    });
    joined(texts).to_text()
}

fn joined<'a>(texts: impl Iterator<Item = &'a Literal>) -> LiteralBuf {
    texts.fold(LiteralBuf::default(), |mut all, text| {
        all.push(text);
        all
    })
}

/// Whether two texts are the same but for line ends and white space at the end, which clients change.
fn is_same_text(one: &str, other: &str) -> bool {
    let plain = |text: &str| text.replace("\r\n", "\n").trim_end().to_owned();
    plain(one) == plain(other)
}

#[cfg(test)]
mod tests;
