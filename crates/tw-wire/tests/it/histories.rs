//! Any history of a client, in any of the formats, becomes a request that the provider of any of them takes.
//!
//! Histories come from a seed ([`steps`]); what a provider takes is said by rules that were written from the facts of
//! the formats and not from what we write. `TURNWRIGHT_HISTORIES` is their number, and `TURNWRIGHT_SEED` the first:
//!
//! ```sh
//! TURNWRIGHT_HISTORIES=10000000 cargo test --release -p tw-wire --test it histories
//! ```

mod chat_rules;
mod clients;
mod messages_rules;
mod responses_rules;
mod rng;
mod rules;
mod steps;

mod broken;

use std::env;

use serde_json::Value;
use tw_core::accepts::Accepts;
use tw_core::call_ids::CallIdRule;
use tw_core::history;
use tw_core::json::Literal;
use tw_core::json::shared::SharedText;
use tw_core::limits::RequestLimits;
use tw_core::model::CallForm;
use tw_core::native::{AnswerOrigin, NativeLabel};
use tw_core::request::{
    Block, CallBlock, ChoiceSent, Message, MixedTool, ModelInput, ModelRequest, OfferedTools,
    ReasoningBlock, RoundSent,
};
use tw_wire::format::WireFormat;

use rng::Rng;
use rules::Refusal;
use steps::NAMES;

/// Histories of a run that is told no number.
const HISTORIES: u64 = 20_000;

/// Whether the provider of a format takes a request.
fn check(format: WireFormat, body: &Value) -> Result<(), Refusal> {
    match format {
        WireFormat::OpenAiChat => chat_rules::check(body),
        WireFormat::AnthropicMessages => messages_rules::check(body),
        WireFormat::OpenAiResponses => responses_rules::check(body),
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    let written = env::var(name);
    written.map_or(otherwise, |text| text.parse().expect("a number"))
}

/// What an upstream of a format takes as it is configured without a word.
fn accepts(format: WireFormat) -> Accepts {
    Accepts {
        call_ids: if format == WireFormat::AnthropicMessages {
            CallIdRule::Plain
        } else {
            CallIdRule::AsSent
        },
        ..Accepts::everything()
    }
}

/// What the turn makes of the request.
struct TurnForm {
    /// The tools were deleted since they were called.
    has_no_tools: bool,
    choice: ChoiceSent,
    /// The answer of a first round, which came from elsewhere: a thought, a text and a call.
    round: Vec<Block>,
}

impl TurnForm {
    fn of(rng: &mut Rng) -> Self {
        let text = |text: &str| Literal::from_text(text);
        let call = CallBlock {
            id: "call_of_round".to_owned(),
            name: NAMES[0].to_owned(),
            form: CallForm::Function,
            arguments: text("{}"),
            native: None,
        };
        let thought = ReasoningBlock::of(NativeLabel::new("reasoning_content"), text("t"));
        let mut round = vec![Block::Reasoning(thought), Block::Text(text("a"))];
        round.push(Block::Call(call));
        Self {
            has_no_tools: rng.one_in(8),
            choice: match rng.below(8) {
                0 => ChoiceSent::None,
                1 => ChoiceSent::Auto,
                _ => ChoiceSent::AsSent,
            },
            round: if rng.one_in(4) { round } else { Vec::new() },
        }
    }

    /// Only a turn that offers tools itself chooses for the client.
    fn tools<'a>(&self, input: &'a ModelInput) -> OfferedTools<'a> {
        if self.has_no_tools {
            return OfferedTools::Ours(Vec::new());
        }
        if self.choice == ChoiceSent::AsSent {
            return OfferedTools::AsSent;
        }
        let entries = input.tools.entries().iter();
        OfferedTools::Mixed(entries.map(MixedTool::Client).collect())
    }
}

/// The request as an upstream of a format gets it, and whether its client, if it speaks the same, is told of a change.
fn sent(
    input: &ModelInput,
    messages: &[Message],
    format: WireFormat,
    form: &TurnForm,
) -> (Vec<u8>, bool) {
    let origin = |format: WireFormat, upstream: &str| AnswerOrigin {
        format: format.format_name(),
        upstream: upstream.into(),
        model: input.model.as_str().into(),
    };
    let (to, elsewhere) = (
        origin(format, "up"),
        origin(WireFormat::OpenAiChat, "other"),
    );
    let round = RoundSent {
        assistant: &form.round,
        origin: Some(&elsewhere),
        results: vec![("call_of_round", "r")],
    };
    let request = ModelRequest {
        input,
        messages: messages.iter().collect(),
        to: &to,
        tools: form.tools(input),
        tool_choice: form.choice,
        rounds: if form.round.is_empty() {
            Vec::new()
        } else {
            vec![round]
        },
        completion_tokens_left: None,
        ask_usage: false,
    };
    let accepts = accepts(format);
    // What it is told in other formats is in the table of features.
    let is_native = input.format == format.format_name();
    let is_changed = is_native && !format.changes(&request, &accepts).is_empty();
    (format.encode_request(&request, &accepts), is_changed)
}

/// The place of the history in a request.
fn history_in(format: WireFormat, body: &Value) -> &Value {
    match format {
        WireFormat::OpenAiChat | WireFormat::AnthropicMessages => &body["messages"],
        WireFormat::OpenAiResponses => &body["input"],
    }
}

/// Runs one seed, and says for how many formats nothing had to change.
fn run(seed: u64) -> Result<u32, String> {
    let mut rng = Rng::new(seed);
    let steps = steps::history(&mut rng);
    let form = TurnForm::of(&mut rng);
    let mut unchanged = 0;
    for from in WireFormat::ALL {
        let text = clients::request(from, &steps, &mut rng);
        let source = SharedText::new(text.clone());
        let read = from.decode_request(&source, &RequestLimits::defaults());
        let read = read.map_err(|error| format!("seed {seed}, {from:?}: {error:?}\n{text}"))?;
        let input = read.input;
        let (repaired, _) = history::repaired(&input.messages);
        let messages = repaired.as_ref().unwrap_or(&input.messages);
        if messages.is_empty() {
            // Nothing but results of no calls: such a request is refused.
            continue;
        }
        for to in WireFormat::ALL {
            let (out, is_changed) = sent(&input, messages, to, &form);
            let out = String::from_utf8_lossy(&out);
            let failed =
                |why: String| format!("seed {seed}, {from:?} to {to:?}: {why}\n{text}\n{out}");
            let body: Value =
                serde_json::from_str(&out).map_err(|error| failed(error.to_string()))?;
            check(to, &body).map_err(failed)?;
            let has_round = !form.round.is_empty();
            let has_to_change = from != to || has_round || is_changed || repaired.is_some();
            if has_to_change {
                continue;
            }
            // Half a character is read by nobody.
            let Ok(written) = serde_json::from_str::<Value>(&text) else {
                continue;
            };
            // What its provider takes goes to it as it was written.
            if check(from, &written).is_ok() {
                if history_in(from, &body) != history_in(from, &written) {
                    return Err(failed("something changed".to_owned()));
                }
                unchanged += 1;
            }
        }
    }
    Ok(unchanged)
}

/// Failures that are shown.
const SHOWN_MAX: usize = 5;

#[test]
fn any_history_becomes_a_request_that_each_provider_takes() {
    let count = number("TURNWRIGHT_HISTORIES", HISTORIES);
    let first = number("TURNWRIGHT_SEED", 0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let ran: Vec<(u64, Vec<String>)> = std::thread::scope(|scope| {
        let all = (0..threads).map(|at| {
            scope.spawn(move || {
                let (mut unchanged, mut failures) = (0, Vec::new());
                let at = u64::try_from(at).unwrap_or_default();
                for seed in (first + at..first + count).step_by(threads) {
                    match run(seed) {
                        Ok(count) => unchanged += u64::from(count),
                        Err(failure) => failures.push(failure),
                    }
                    if failures.len() >= SHOWN_MAX {
                        break;
                    }
                }
                (unchanged, failures)
            })
        });
        let all: Vec<_> = all.collect();
        all.into_iter()
            .map(|one| one.join().expect("a thread"))
            .collect()
    });
    let failures: Vec<&String> = ran.iter().flat_map(|(_, failures)| failures).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    let unchanged: u64 = ran.iter().map(|(unchanged, _)| unchanged).sum();
    // Else the generator would try nothing but what has to be mended.
    assert!(
        unchanged * 5 > count,
        "{unchanged} of {count} needed no change"
    );
}
