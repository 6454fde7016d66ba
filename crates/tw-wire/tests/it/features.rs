//! What becomes of each feature of a format on its way to each other: the table `testdata/features.toml`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use tw_core::accepts::Accepts;
use tw_core::history::{self, HistoryRepairs};
use tw_core::json::shared::SharedText;
use tw_core::limits::RequestLimits;
use tw_core::native::AnswerOrigin;
use tw_core::request::{ChoiceSent, ModelRequest, OfferedTools};
use tw_wire::format::WireFormat;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    feature: Vec<Feature>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Feature {
    name: String,
    #[serde(rename = "section")]
    _section: String,
    /// The name of the model, where it decides.
    model: Option<String>,
    /// The fragment of a request that has the feature, by format.
    chat: Option<String>,
    messages: Option<String>,
    responses: Option<String>,
    from: Cells,
}

/// By the client's format what becomes of it to each upstream: chat, messages, responses.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cells {
    chat: [String; 3],
    messages: [String; 3],
    responses: [String; 3],
}

/// The order of the cells.
const FORMATS: [WireFormat; 3] = [
    WireFormat::OpenAiChat,
    WireFormat::AnthropicMessages,
    WireFormat::OpenAiResponses,
];

impl Feature {
    fn fragment(&self, format: WireFormat) -> Option<Value> {
        let text = match format {
            WireFormat::OpenAiChat => &self.chat,
            WireFormat::AnthropicMessages => &self.messages,
            WireFormat::OpenAiResponses => &self.responses,
        };
        text.as_ref().map(|text| parse(text))
    }

    fn cells(&self, from: WireFormat) -> &[String; 3] {
        match from {
            WireFormat::OpenAiChat => &self.from.chat,
            WireFormat::AnthropicMessages => &self.from.messages,
            WireFormat::OpenAiResponses => &self.from.responses,
        }
    }
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A request that any feature may be put into.
fn base(format: WireFormat, model: &str) -> Value {
    let schema = json!({ "type": "object" });
    let said = json!([{ "role": "user", "content": "hi" }]);
    match format {
        WireFormat::OpenAiChat => json!({ "model": model, "messages": said,
            "tools": [{ "type": "function", "function": { "name": "f", "parameters": schema } }] }),
        WireFormat::AnthropicMessages => {
            json!({ "model": model, "messages": said, "max_tokens": 4000,
            "tools": [{ "name": "f", "input_schema": schema }] })
        }
        WireFormat::OpenAiResponses => json!({ "model": model, "input": said,
            "tools": [{ "type": "function", "name": "f", "parameters": schema, "strict": false }] }),
    }
}

/// What an upstream is sent, and the names of what the client is told of it.
struct Outcome {
    body: Value,
    told: BTreeSet<String>,
}

fn carry(asked: &Value, from: WireFormat, to: WireFormat) -> Result<Outcome, String> {
    let source = SharedText::new(asked.to_string());
    let read = from.decode_request(&source, &RequestLimits::defaults());
    let input = read
        .map_err(|error| error.code.unwrap_or("invalid_request").to_owned())?
        .input;
    let (repaired, mut repairs) = history::repaired(&input.messages);
    repairs.half_characters = input.half_characters;
    repairs.empty_lists += input.empty_lists;
    let messages = repaired.as_ref().unwrap_or(&input.messages);
    let origin = AnswerOrigin {
        format: to.format_name(),
        upstream: "up".into(),
        model: input.model.as_str().into(),
    };
    let request = ModelRequest {
        input: &input,
        messages: messages.iter().collect(),
        to: &origin,
        tools: OfferedTools::AsSent,
        tool_choice: ChoiceSent::AsSent,
        rounds: Vec::new(),
        completion_tokens_left: None,
        ask_usage: false,
    };
    let accepts = Accepts::everything();
    let body = to.encode_request(&request, &accepts);
    repairs = HistoryRepairs {
        differences: to.differences(&request, &accepts),
        ..repairs
    };
    let told = format!("{repairs}, {}", to.changes(&request, &accepts));
    let names = told.split(", ").filter_map(|pair| pair.split_once('='));
    Ok(Outcome {
        body: serde_json::from_slice(&body).map_err(|error| error.to_string())?,
        told: names.map(|(name, _)| name.to_owned()).collect(),
    })
}

/// Whether `whole` has all that `part` says: null is a field that is not there, and lists are equally long.
fn has(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part.iter().all(|(name, value)| {
            let have = whole.get(name);
            if value.is_null() {
                have.is_none_or(Value::is_null)
            } else {
                have.is_some_and(|have| has(have, value))
            }
        }),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(have, want)| has(have, want))
        }
        _ => whole == part,
    }
}

/// Checks a cell, and says what is wrong with it.
fn check(feature: &Feature, from: WireFormat, to: WireFormat, cell: &str) -> Result<(), String> {
    let (head, fragment) = match cell.split_once(": ") {
        Some((head, fragment)) => (head, Some(parse(fragment))),
        None => (cell, None),
    };
    let mut words = head.split(' ');
    let word = words.next().unwrap_or_default();
    let names: BTreeSet<String> = words.map(str::to_owned).collect();
    let Some(asked) = feature.fragment(from) else {
        return require(cell == "none", "the client's format is not given");
    };
    let model = feature.model.as_deref().unwrap_or("m");
    let mut whole = base(from, model);
    for (name, value) in asked.as_object().ok_or("no object")? {
        whole[name] = value.clone();
    }
    let outcome = match (word, carry(&whole, from, to)) {
        ("refused", Ok(_)) => return Err("it is taken".to_owned()),
        ("refused", Err(code)) => {
            return require(names.contains(&code), format!("refused as {code}"));
        }
        (_, Err(code)) => return Err(format!("refused as {code}")),
        (_, Ok(outcome)) => outcome,
    };
    let Outcome { body, told } = outcome;
    require(told == names, format!("told of {told:?}"))?;
    let own = feature.fragment(to);
    match (word, fragment.or(own)) {
        ("carried", _) if !names.is_empty() => Err("what is carried is not told of".to_owned()),
        ("changed" | "reported", _) if names.is_empty() => Err("nobody is told".to_owned()),
        ("carried" | "changed", Some(expected)) => {
            require(has(&body, &expected), format!("sent as {body}"))
        }
        ("carried" | "changed", None) => Err("no fragment says how".to_owned()),
        ("reported", Some(lost)) => require(!has(&body, &lost), format!("sent as {body}")),
        ("reported", None) => Ok(()),
        // This server acts on it, and no upstream hears of it.
        ("here", _) => match cell.split_once(": ") {
            Some((_, said)) => require(has(&body, &parse(said)), format!("sent as {body}")),
            None => {
                let fields = asked
                    .as_object()
                    .into_iter()
                    .flat_map(|fields| fields.keys());
                let sent: Vec<&String> = fields.filter(|name| body.get(*name).is_some()).collect();
                require(sent.is_empty(), format!("sent: {sent:?}"))
            }
        },
        _ => Err(format!("no such word: {word}")),
    }
}

fn require(holds: bool, what: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.into()) }
}

#[test]
fn every_feature_goes_the_way_that_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/features.toml");
    let text = fs::read_to_string(path).expect("the table is there");
    let table: Table = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"));
    let mut wrong = Vec::new();
    for feature in &table.feature {
        for from in FORMATS {
            for (to, cell) in FORMATS.into_iter().zip(feature.cells(from)) {
                if let Err(why) = check(feature, from, to, cell) {
                    let (from, to) = (from.reader_word(), to.reader_word());
                    wrong.push(format!(
                        "{} | {from} to {to} | {cell} | {why}",
                        feature.name
                    ));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} cells:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        table.feature.len() >= 70,
        "{} features",
        table.feature.len()
    );
}
