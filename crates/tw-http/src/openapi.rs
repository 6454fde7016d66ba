//! `GET /openapi.json`: every route of the server, described.
//!
//! The router and the document are made from one list: a route is added by
//! [`DocumentedRouter::route`], which takes its handlers together with an [`Operation`] for each of
//! their methods, so none can exist without being described.
//!
//! To add a route: write its operations beside its handlers in `crate::routes`, and the
//! schemas that they name in `openapi/schemas.json`. The tests say what does not fit: an operation
//! without a handler or the other way round, a schema that is not there or that nobody names, and
//! answers that are not as they are described.
//!
//! Schemas are written by hand, as the answers are: they are made of text that is kept as it came,
//! and types with a derived schema would be a second truth beside it. Other APIs' requests and
//! answers are described as far as this server reads or writes them; the rest is theirs.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::MethodRouter;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::answer_body::json;
use crate::server::AppState;

/// The description of one method of a route: what it takes and gives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub method: &'static str,
    /// The name that generated clients give it.
    pub id: &'static str,
    pub summary: &'static str,
    /// Scope that its key needs; `None` for a route that asks for no key, empty for one that takes any.
    pub scope: Option<&'static str>,
    pub query: &'static [QueryParameter],
    /// Content types and schemas of the body.
    pub takes: &'static [(&'static str, &'static str)],
    pub status: u16,
    /// Content types and schemas of the answer.
    pub gives: &'static [(&'static str, &'static str)],
}

/// A parameter of the query; none is required.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryParameter {
    pub name: &'static str,
    pub kind: &'static str,
    pub about: &'static str,
}

/// Stand-in for a schema where an answer is text and no JSON.
pub(crate) const TEXT: &str = "";
/// Stand-in for a schema where an answer is bytes.
pub(crate) const BINARY: &str = "binary";

pub(crate) const JSON: &str = "application/json";
pub(crate) const EVENTS: &str = "text/event-stream";

/// A GET whose answer has one schema.
pub(crate) const fn get(id: &'static str, summary: &'static str) -> Operation {
    Operation {
        method: "get",
        id,
        summary,
        scope: Some(""),
        query: &[],
        takes: &[],
        status: 200,
        gives: &[],
    }
}

pub(crate) const fn post(id: &'static str, summary: &'static str) -> Operation {
    Operation {
        method: "post",
        ..get(id, summary)
    }
}

pub(crate) const fn patch(id: &'static str, summary: &'static str) -> Operation {
    Operation {
        method: "patch",
        ..get(id, summary)
    }
}

pub(crate) const fn delete(id: &'static str, summary: &'static str) -> Operation {
    Operation {
        method: "delete",
        ..get(id, summary)
    }
}

impl Operation {
    pub const fn scope(mut self, scope: &'static str) -> Self {
        self.scope = Some(scope);
        self
    }

    pub const fn without_key(mut self) -> Self {
        self.scope = None;
        self
    }

    pub const fn query(mut self, query: &'static [QueryParameter]) -> Self {
        self.query = query;
        self
    }

    pub const fn takes(mut self, takes: &'static [(&'static str, &'static str)]) -> Self {
        self.takes = takes;
        self
    }

    pub const fn gives(mut self, gives: &'static [(&'static str, &'static str)]) -> Self {
        self.gives = gives;
        self
    }

    pub const fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }
}

/// A router whose routes are all described.
pub(crate) struct DocumentedRouter {
    router: Router<AppState>,
    paths: Map<String, Value>,
}

impl DocumentedRouter {
    pub fn new() -> Self {
        Self {
            router: Router::new(),
            paths: Map::new(),
        }
    }

    /// Adds a route with an operation for each method of its handlers.
    pub fn route(
        mut self,
        path: &str,
        handlers: MethodRouter<AppState>,
        operations: &[Operation],
    ) -> Self {
        self.router = self.router.route(path, handlers);
        let described = operations
            .iter()
            .map(|operation| (operation.method.to_owned(), described(path, operation)));
        self.paths
            .insert(shown(path), Value::Object(described.collect()));
        self
    }

    /// The router, with a route for the document itself, and the paths that there are.
    pub fn finish(self) -> (Router<AppState>, Vec<String>) {
        const OWN: &str = "/openapi.json";
        let own = get("getOpenapi", "This document")
            .without_key()
            .gives(&[(JSON, TEXT)]);
        let mut paths = self.paths;
        paths.insert(OWN.to_owned(), json!({ "get": described(OWN, &own) }));
        let names = paths.keys().cloned().collect();
        let document = Bytes::from(document(paths).to_string());
        let give = move |State(_): State<AppState>| async move { answer(document) };
        (self.router.route(OWN, axum::routing::get(give)), names)
    }
}

fn answer(document: Bytes) -> Response {
    json(document)
}

/// A path as the document writes it.
fn shown(path: &str) -> String {
    path.replace("{*", "{")
}

fn document(paths: Map<String, Value>) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Turnwright",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A gateway for OpenAI's API that runs tools.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "key": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "responses": {
                "Error": {
                    "description": "The request was refused or failed; see docs/point-an-sdk-at-it.md.",
                    "content": content(&[(JSON, "Error")]),
                },
            },
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
        },
    })
}

/// Schemas of requests and answers; they are part of the program, and a test reads them.
fn schemas() -> Value {
    serde_json::from_str(include_str!("openapi/schemas.json")).unwrap_or_default()
}

fn described(path: &str, operation: &Operation) -> Value {
    let named = path
        .split('{')
        .skip(1)
        .filter_map(|rest| rest.split('}').next());
    let in_path = named.map(|name| {
        json!({
            "name": name.trim_start_matches('*'), "in": "path", "required": true, "schema": { "type": "string" },
        })
    });
    let in_query = operation.query.iter().map(|parameter| {
        json!({
            "name": parameter.name, "in": "query", "description": parameter.about,
            "schema": { "type": parameter.kind },
        })
    });
    let parameters: Vec<Value> = in_path.chain(in_query).collect();
    let mut shown = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": parameters,
        "responses": {
            operation.status.to_string(): { "description": "Success.", "content": content(operation.gives) },
            "default": { "$ref": "#/components/responses/Error" },
        },
    });
    if !operation.takes.is_empty() {
        shown["requestBody"] = json!({ "required": true, "content": content(operation.takes) });
    }
    match operation.scope {
        None => shown["security"] = json!([]),
        Some("") => shown["description"] = json!("Needs a key."),
        Some(scope) => {
            shown["description"] = json!(format!("Needs a key with the scope {scope}."));
        }
    }
    shown
}

fn content(kinds: &[(&str, &str)]) -> Value {
    let described = kinds.iter().map(|(content_type, schema)| {
        let schema = match *schema {
            TEXT if *content_type == JSON => json!({ "type": "object" }),
            TEXT => json!({ "type": "string" }),
            BINARY => json!({ "type": "string", "format": "binary" }),
            name => json!({ "$ref": format!("#/components/schemas/{name}") }),
        };
        ((*content_type).to_owned(), json!({ "schema": schema }))
    });
    Value::Object(described.collect())
}
