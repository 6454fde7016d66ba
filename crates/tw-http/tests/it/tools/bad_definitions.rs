//! Every row of `testdata/tools_bad.toml` through the API: refused with its field named.

use serde_json::{Value, json};
use tw_testkit::client::ReadAnswer;
use tw_testkit::listener::ListenerReply;

use super::lab::{ToolLab, create};

#[path = "../../../../tw-wire/src/stored/tool/tests/rows.rs"]
mod rows;

use rows::{DefinitionRow, Stage, definition, good, rows};

/// Fewest rows, so that a table that is not read does not pass.
const ROWS_MIN: usize = 90;

/// The body of a preview, and the status with which it is refused; as text, since the definition
/// may be no JSON.
fn preview_of(text: &str) -> String {
    format!(r#"{{"tool": {text}}}"#)
}

/// What is wrong with an answer, in words.
fn wrong(row: &DefinitionRow, got: &ReadAnswer) -> Option<String> {
    let error = got.json()["error"].clone();
    let message = error["message"].as_str().unwrap_or_default().to_owned();
    // The body itself is too long before anybody reads it.
    let is_too_long = row.name == "too_long";
    let is_as_said = if is_too_long {
        got.status == 413
    } else {
        got.status == 400
            && error["param"] == row.field.as_str()
            && error["code"] == "invalid_tool"
            && message.contains(&row.says)
    };
    (!is_as_said).then(|| {
        format!(
            "{} {:?}: {} {}",
            row.name,
            row.stage,
            got.status,
            got.text()
        )
    })
}

#[tokio::test]
async fn every_row_is_refused_when_it_is_made() {
    let lab = ToolLab::answering(ListenerReply::json("{}")).await;
    let rows = rows();
    assert!(rows.len() >= ROWS_MIN);
    let mut found = Vec::new();
    for row in &rows {
        let got = create(&lab.editor, "default", definition(row)).await;
        found.extend(wrong(row, &got));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    let listed = lab.editor.send("GET", "/api/default/tools", &[], "").await;
    assert_eq!(listed.unwrap().json()["data"], json!([]));
}

#[tokio::test]
async fn every_row_is_refused_when_it_is_previewed() {
    let lab = ToolLab::answering(ListenerReply::json("{}")).await;
    let path = "/api/default/tools/preview";
    let mut found = Vec::new();
    for row in rows() {
        let text = definition(&row);
        let is_json = serde_json::from_str::<Value>(&text).is_ok();
        let sent = lab.editor.send("POST", path, &[], preview_of(&text));
        let got = sent.await.unwrap();
        // The preview's own body cannot be read, or nests too deep with the tool in it.
        let is_body = row.stage == Stage::Decode && (!is_json || row.name == "too_deep");
        if is_body {
            let code = &got.json()["error"]["code"];
            if got.status != 400 || (code != "invalid_json" && code != "invalid_tool") {
                found.push(format!("{}: {} {}", row.name, got.status, got.text()));
            }
        } else {
            found.extend(wrong(&row, &got));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[tokio::test]
async fn the_definition_that_the_rows_change_is_made_and_previewed() {
    let lab = ToolLab::answering(ListenerReply::json("{}")).await;
    let path = "/api/default/tools/preview";
    let sent = lab
        .editor
        .send("POST", path, &[], preview_of(&good().to_string()));
    let got = sent.await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    assert_eq!(got.json()["request"]["url"], "https://api.example.com/v1");
    let got = create(&lab.editor, "default", good().to_string()).await;
    assert_eq!(got.status, 201, "{}", got.text());
}
