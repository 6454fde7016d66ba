//! Tools, previews and tests as JSON.

use serde_json::{Map, Value, json};
use tw_core::api_request::BuiltRequest;
use tw_core::id::ToolId;
use tw_core::tool::ToolOutcome;
use tw_runtime::tools::{StoredTool, ToolPreview, ToolTestOutcome};
use tw_wire::stored::tool::{self as codec, SavedTool};

/// Renders a tool as it was written; `None` for a definition that cannot be read any more.
pub(super) fn tool(tool: &StoredTool) -> Option<String> {
    let row = &tool.row;
    let saved = SavedTool {
        id: row.id,
        version: row.version.number,
        created: row.created,
        updated: row.updated,
    };
    codec::told(&saved, &tool.definition, &row.definition).ok()
}

pub(super) fn list(tools: &[StoredTool], has_more: bool) -> Option<String> {
    let data = tools.iter().map(tool).collect::<Option<Vec<_>>>()?;
    Some(format!(
        r#"{{"object":"list","data":[{}],"has_more":{has_more}}}"#,
        data.join(",")
    ))
}

pub(super) fn deleted(tool: ToolId) -> String {
    json!({ "id": tool.to_string(), "object": "tool.deleted", "deleted": true }).to_string()
}

pub(super) fn preview(preview: &ToolPreview) -> String {
    Value::Object(preview_members(preview, "tool.preview")).to_string()
}

pub(super) fn tested(preview: &ToolPreview, tested: &ToolTestOutcome) -> String {
    let mut members = preview_members(preview, "tool.test");
    let (text, shown) = match &tested.outcome {
        ToolOutcome::Answered(output) => (
            output.kept(),
            output.shown(preview.tool.policy.shown_bytes_max),
        ),
        ToolOutcome::Accepted { external_id } => {
            let text = json!({ "external_id": external_id }).to_string();
            (text.clone(), text)
        }
        ToolOutcome::Refused { message }
        | ToolOutcome::NotStarted { message }
        | ToolOutcome::Unavailable { message, .. }
        | ToolOutcome::Unclear { message }
        | ToolOutcome::Gateway { message, .. }
        | ToolOutcome::Unsendable { message }
        | ToolOutcome::NotSent { message }
        | ToolOutcome::NotAllowed { message }
        | ToolOutcome::Reset { message } => (message.clone(), message.clone()),
        ToolOutcome::TimedOut | ToolOutcome::Panicked | ToolOutcome::Aborted => {
            let message = "The tool did not answer.".to_owned();
            (message.clone(), message)
        }
    };
    let outcome = json!({
        "status": tested.outcome.as_str(),
        "is_error": !matches!(
            tested.outcome,
            ToolOutcome::Answered(_) | ToolOutcome::Accepted { .. }
        ),
        "result": text,
        "shown": shown,
        "duration_ms": u64::try_from(tested.duration.as_millis()).unwrap_or(u64::MAX),
    });
    members.insert("outcome".to_owned(), outcome);
    Value::Object(members).to_string()
}

fn function_schema(tool: &tw_core::tool::Tool) -> Value {
    json!({
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters.to_value(),
    })
}

fn preview_members(preview: &ToolPreview, object: &str) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("object".to_owned(), json!(object));
    members.insert("function_schema".to_owned(), function_schema(&preview.tool));
    members.insert("arguments".to_owned(), preview.arguments.to_value());
    let (request, problem) = match &preview.request {
        Ok(built) => (request(built), Value::Null),
        Err(error) => (Value::Null, json!(error.to_string())),
    };
    members.insert("request".to_owned(), request);
    members.insert("problem".to_owned(), problem);
    members
}

/// Headers as pairs, since a name may come twice.
fn request(built: &BuiltRequest) -> Value {
    let headers: Vec<Value> = built
        .headers
        .iter()
        .map(|(name, value)| json!([name, value]))
        .collect();
    json!({
        "method": built.method.as_str(),
        "url": built.url,
        "headers": headers,
        "body": built.body,
    })
}
