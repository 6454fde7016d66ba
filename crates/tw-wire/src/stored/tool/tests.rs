mod bad;
mod files;
mod members;
mod patching;
mod properties;
mod rows;
mod showing;

use tw_core::definition::ToolDefinition;

use super::decode;

/// The smallest tool, with these members more; `members` is empty or ends in a comma.
fn with(members: &str) -> String {
    format!(
        r#"{{{members}"name":"t","description":"d","type":"api_request","url":"https://api.example.com/v1"}}"#
    )
}

fn read(text: &str) -> ToolDefinition {
    decode(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The tool of the documentation's example: every member that there is.
const EVERYTHING: &str = r#"{
  "name": "create_ticket",
  "label": "Create a ticket",
  "description": "Opens a ticket for {{caller_phone_number}}.",
  "type": "api_request",
  "method": "POST",
  "url": "https://api.example.com/v1/customers/{customer}/tickets",
  "headers": {"authorization": {"secret": "TICKETS_KEY", "prefix": "Bearer "}, "x-org": "{{organization}}"},
  "query": {"source": "agent", "n": 1.50, "all": [true, "x"]},
  "body": {"origin": {"channel": "chat", "none": null, "big": 12345678901234567890123}},
  "body_format": "json",
  "parameters": {
    "customer": {"mode": "ai", "schema": {"type":"string"}, "prompt": "The customer's id", "required": true},
    "priority": {"mode": "fixed", "value": "high"},
    "cc": {"mode": "array_extendable", "fixedValues": ["+1234567890"],
           "aiExtension": {"enabled": true, "prompt": "More numbers", "required": false, "items": {"type":"string"}}},
    "contact": {"mode": "object", "description": "Who", "properties": {
      "email": {"mode":"ai","schema":{"type":"string","format":"email"}},
      "kind": {"mode":"fixed","value":"customer"}}},
    "steps": {"mode": "array", "items": [{"mode":"fixed","value":"hello"}, {"mode":"ai","schema":{"type":"string"}}]}
  },
  "variables": {"caller_phone_number": {"description": "Who calls", "default": "unknown"}},
  "response": {
    "select": "$.data.id",
    "content_types": ["application/json", "Text/*"],
    "statuses": ["2xx", 404],
    "kept_bytes_max": 1048575, "shown_bytes_max": 16383
  },
  "policy": {"effect": "queryable", "timeout_ms": 10001, "attempts_max": 2, "backoff_ms": 201, "concurrency_max": 63,
             "requires_approval": true},
  "look_up": {"url": "https://api.example.com/v1/tickets?reference={{reference}}",
              "headers": {"authorization": {"secret": "TICKETS_KEY"}}, "query": {"a": "b"}, "absent": [404]}
}"#;
