//! The table's rows, and the requests that they describe.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    row: Vec<BadInputRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BadInputRow {
    pub name: String,
    #[serde(default)]
    set: Map<String, Value>,
    #[serde(default)]
    without: Vec<String>,
    json: Option<String>,
    raw: Option<String>,
    hex: Option<String>,
    make: Option<Make>,
    #[serde(default)]
    pub stream: bool,
    #[serde(default = "post")]
    pub method: String,
    #[serde(default = "chat")]
    pub path: String,
    #[serde(default)]
    pub key: KeyKind,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    before: Option<Map<String, Value>>,
    pub client: Option<Manner>,
    #[serde(default)]
    pub upstream: UpstreamAnswer,
    pub status: u16,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub code: Option<String>,
    pub param: Option<String>,
    pub says: Option<String>,
    #[serde(default)]
    pub in_stream: bool,
    pub retry_after: Option<String>,
    pub repaired: Option<String>,
    pub turn: Option<String>,
    pub asked: Option<usize>,
    pub raises: Option<Raises>,
}

/// A part of the request that is made by its size.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum Make {
    Deep(usize),
    Megabytes(usize),
    Messages(usize),
    Tools(usize),
    SchemaBytes(usize),
    SchemaDepth(usize),
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub enum KeyKind {
    #[default]
    Plain,
    Tools,
    Missing,
    Wrong,
    Expired,
    Unscoped,
}

/// What the client does beside asking.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    Leaves,
    ReadsNothing,
}

/// What the upstream does.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct UpstreamAnswer {
    pub head: Option<Head>,
    pub status: Option<u16>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    pub content_type: Option<String>,
    pub body: Option<String>,
    pub text: Option<String>,
    #[serde(default)]
    pub events: Vec<String>,
    pub tail: Option<String>,
    #[serde(default)]
    pub then: Then,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Head {
    Refused,
    HangUp,
    Silence,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    #[default]
    End,
    Cut,
    Silence,
}

/// The classes that the official clients raise.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raises {
    pub python: String,
    pub node: String,
}

fn post() -> String {
    "POST".to_owned()
}

fn chat() -> String {
    "/v1/chat/completions".to_owned()
}

/// All rows of `testdata/bad_input.toml`.
pub fn read() -> Vec<BadInputRow> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/bad_input.toml");
    let text = std::fs::read_to_string(file).unwrap();
    let table: Table = toml::from_str(&text).unwrap();
    table.row
}

impl BadInputRow {
    /// The body of the request.
    pub fn body(&self) -> Vec<u8> {
        if self.method == "GET" {
            return Vec::new();
        }
        if let Some(text) = self.json.as_ref().or(self.raw.as_ref()) {
            return text.clone().into_bytes();
        }
        if let Some(hex) = &self.hex {
            let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            return (0..hex.len()).step_by(2).map(digits).collect();
        }
        let mut fields = self.asking();
        match &self.make {
            // Written by hand: no value of this depth is built, printed or dropped.
            Some(Make::Deep(levels)) => return deep(&fields, *levels),
            Some(make) => {
                let (name, value) = make.field();
                fields.insert(name.to_owned(), value);
            }
            None => {}
        }
        fields.extend(self.set.clone());
        for name in &self.without {
            fields.remove(name);
        }
        Value::Object(fields).to_string().into_bytes()
    }

    /// The body of the request that is sent before it.
    pub fn body_before(&self) -> Option<Vec<u8>> {
        let mut fields = self.asking();
        fields.extend(self.before.clone()?);
        Some(Value::Object(fields).to_string().into_bytes())
    }

    /// Requests that the upstream must have got.
    pub fn asked(&self) -> usize {
        self.asked.unwrap_or(usize::from(self.turn.is_some()))
    }

    fn asking(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("model".to_owned(), json!("m"));
        fields.insert("messages".to_owned(), json!([message("Hi")]));
        if self.stream {
            fields.insert("stream".to_owned(), json!(true));
        }
        fields
    }
}

impl Make {
    fn field(&self) -> (&'static str, Value) {
        match self {
            Self::Deep(_) => ("deep", Value::Null),
            Self::Megabytes(megabytes) => {
                ("messages", json!([message(&"x".repeat(megabytes << 20))]))
            }
            Self::Messages(count) => ("messages", json!(vec![message("Hi"); *count])),
            Self::Tools(count) => {
                let tools = (0..*count).map(|at| tool(&format!("f{at}"), json!({})));
                ("tools", tools.collect())
            }
            Self::SchemaBytes(bytes) => {
                let around = json!({ "description": "" }).to_string().len();
                let schema = json!({ "description": "x".repeat(bytes - around) });
                ("tools", json!([tool("f", schema)]))
            }
            Self::SchemaDepth(levels) => {
                let inner = (1..*levels).fold(json!({}), |inner, _| json!({ "items": inner }));
                ("tools", json!([tool("f", inner)]))
            }
        }
    }
}

fn deep(fields: &Map<String, Value>, levels: usize) -> Vec<u8> {
    let mut body = Value::Object(fields.clone()).to_string();
    body.pop();
    body.push_str(r#","deep":"#);
    body.push_str(&"[".repeat(levels));
    body.push_str(&"]".repeat(levels));
    body.push('}');
    body.into_bytes()
}

fn message(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn tool(name: &str, parameters: Value) -> Value {
    json!({ "type": "function", "function": { "name": name, "parameters": parameters } })
}
