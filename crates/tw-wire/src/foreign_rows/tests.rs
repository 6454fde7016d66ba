use super::*;

/// A row as it is read: roles and parts, and the repairs.
fn read(shape: Shape, row: &str, calls: Option<&str>) -> String {
    let mut repairs = Vec::new();
    let row = MessageRowText {
        id: "r",
        at: Timestamp(1),
        row,
        calls,
    };
    let Some(messages) = read_messages(shape, row, &mut repairs) else {
        return "unreadable".to_owned();
    };
    let mut shown = Vec::new();
    for message in &messages {
        shown.push(format!("{:?}", message.role));
        for part in &message.parts {
            shown.push(match part {
                ForeignPart::Text(text) => format!("text {:?}", text.to_text()),
                ForeignPart::Call(call) => {
                    format!("call {} {} {}", call.id, call.name, call.arguments)
                }
                ForeignPart::Result(result) => {
                    let of = match &result.answers {
                        ForeignCallRef::Id(id) => id.clone(),
                        ForeignCallRef::OfTool(name) => format!("@{name}"),
                        ForeignCallRef::Next => "?".to_owned(),
                    };
                    format!("result {of} {:?} {:?}", result.content, result.status)
                }
            });
        }
    }
    shown.extend(repairs.iter().map(|repair| format!("!{}", repair.as_str())));
    shown.join(" ")
}

#[test]
fn langchain_rows_are_read_before_and_after_their_migration() {
    for (row, expected) in [
        (
            r#"{"role":"user","content":"h\u00e9 \ud83d\ude00"}"#,
            "User text \"hé 😀\"",
        ),
        (
            r#"{"role":"assistant","content":"","tool_calls":[{"id":"a","name":"n","args":{"x":9007199254740993, "y":1.50}}]}"#,
            "Assistant text \"\" call a n {\"x\":9007199254740993, \"y\":1.50}",
        ),
        (
            r#"{"role":"assistant","content":"c","tool_calls":null,"metadata":{"tool_calls":[{"id":"a","name":"n","args":{}}]}}"#,
            "Assistant text \"c\" call a n {}",
        ),
        (
            r#"{"role":"tool","content":"{\"a\":1}","tool_call_id":"a","tool_name":"n","status":"error"}"#,
            "Tool result a \"{\\\"a\\\":1}\" Error",
        ),
        (
            r#"{"role":"assistant","content":"r","metadata":{"tool_call_id":"a","status":"success"}}"#,
            "Tool result a \"r\" Success",
        ),
        (
            r#"{"role":"ai","content":"c","tool_calls":"[{\"id\":\"a\",\"function\":{\"name\":\"n\",\"arguments\":\"{bad\"}}]"}"#,
            "Assistant text \"c\" call a n {bad",
        ),
        (
            r#"{"role":"assistant","content":"c","tool_calls":"[{\"id\":"}"#,
            "Assistant text \"c\" !calls_unreadable",
        ),
        (
            r#"{"role":"assistant","content":"c","tool_calls":[{"name":"n"}]}"#,
            "Assistant text \"c\" call  n {} !call_without_id",
        ),
        (
            r#"{"role":"tool","content":"r","tool_call_id":null,"status":"done"}"#,
            "Tool result  \"r\" Success !call_without_id !unknown_status",
        ),
        (
            r#"{"role":"robot","content":"c"}"#,
            "User text \"c\" !unknown_role",
        ),
        (
            r#"{"role":"user","content":{"a":1}}"#,
            "User text \"{\\\"a\\\":1}\"",
        ),
        (
            r#"{"role":"user","content":"c","metadata":"no object"}"#,
            "User text \"c\"",
        ),
        ("[]", "unreadable"),
        ("", "unreadable"),
    ] {
        assert_eq!(read(Shape::LangChain, row, None), expected, "{row}");
    }
}

#[test]
fn rows_of_chat_completions_are_read() {
    for (row, expected) in [
        (
            r#"{"id":1,"role":"user","status":"final","content":"hi","content_json":null,"tool_calls":null}"#,
            "User text \"hi\"",
        ),
        (
            r#"{"role":"assistant","content":"","tool_calls":"[{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"n\",\"arguments\":\"{\\\"x\\\":1.0}\"}}]"}"#,
            "Assistant text \"\" call a n {\"x\":1.0}",
        ),
        (
            r#"{"role":"assistant","content":"c","tool_calls":"[{","function_call":""}"#,
            "Assistant text \"c\" !calls_unreadable",
        ),
        (
            r#"{"role":"assistant","content":"","tool_calls":"[]","function_call":"{\"name\":\"n\",\"arguments\":\"{}\"}"}"#,
            "Assistant text \"\" call call_of_r n {}",
        ),
        (
            r#"{"role":"function","name":"n","content":"r"}"#,
            "Tool result @n \"r\" Success",
        ),
        (
            r#"{"role":"tool","status":"final","tool_call_id":"a","content":"","content_json":"{\"t\":22}"}"#,
            "Tool result a \"{\\\"t\\\":22}\" Success",
        ),
        (
            r#"{"role":"tool","content":"r","status":"odd"}"#,
            "Tool result ? \"r\" Success !result_by_order !unknown_status",
        ),
        (
            r#"{"role":"tool","tool_call_id":"a","content":"r","content_json":"{\"t\":"}"#,
            "Tool result a \"r\" Success !json_unreadable",
        ),
        (
            r#"{"role":"user","content":"","content_json":"[{\"type\":\"text\",\"text\":\"see\"},{\"type\":\"image_url\",\"image_url\":{\"url\":\"u\"}}]"}"#,
            "User text \"see\"",
        ),
        ("null", "unreadable"),
    ] {
        assert_eq!(read(Shape::OpenAi, row, None), expected, "{row}");
    }
}

#[test]
fn blocks_of_one_row_are_messages_of_their_own() {
    for (row, expected) in [
        (
            r#"{"role":"user","content":[{"type":"text","text":"hi"}]}"#,
            "User text \"hi\"",
        ),
        (
            r#"{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"a","name":"n","input":{"q":9007199254740993}},{"type":"tool_use","id":"b","name":"n","input":{}},{"type":"tool_result","tool_use_id":"a","content":{"tracks":[]}},{"type":"tool_result","tool_use_id":"b","content":"no","is_error":true},{"type":"text","text":"None."}]}"#,
            "Assistant text \"I look.\" call a n {\"q\":9007199254740993} call b n {} Tool result a \"{\\\"tracks\\\":[]}\" Success result b \"no\" Error Assistant text \"None.\"",
        ),
        (r#"{"role":"user","content":"hi"}"#, "User text \"hi\""),
        (
            r#"{"role":"user","content":{"a":1}}"#,
            "User text \"{\\\"a\\\":1}\" !json_unreadable",
        ),
        (
            r#"{"role":"assistant","content":[{"type":"image"},7,{"type":"text"},{"type":"tool_result","content":"r"}]}"#,
            "Tool result  \"r\" Success !unknown_block !unknown_block !unknown_block !call_without_id",
        ),
        (r#"{"role":"assistant","content":[]}"#, "Assistant"),
        (r#"{"role":"assistant","content":null}"#, "Assistant"),
    ] {
        assert_eq!(read(Shape::Blocks, row, None), expected, "{row}");
    }
}

#[test]
fn turns_of_pocketbase_are_read_with_their_calls() {
    let done = r#"[{"tool_name":"image","tool_call_id":"a","arguments":"{\"p\":\"x\"}","result":"{\"urls\":[]}","status":"completed","error":""}]"#;
    let odd = r#"[{"tool_name":"image","tool_call_id":"","arguments":"{bad","result":"null","status":"failed","error":"no credit"},
        {"tool_name":"image","tool_call_id":"b","arguments":"{}","result":null,"status":"processing","error":""},
        {"tool_name":"image","tool_call_id":"c","arguments":"{}","result":"\"text\"","status":"lost"}]"#;
    for (row, calls, expected) in [
        (
            r#"{"id":"t","prompt":"draw","answer":"Here.","tool_count":1}"#,
            Some(done),
            "User text \"draw\" Assistant call a image {\"p\":\"x\"} Tool result a \"{\\\"urls\\\":[]}\" Success Assistant text \"Here.\"",
        ),
        (
            r#"{"id":"t","role":"assistant","content":"Here."}"#,
            Some(done),
            "Assistant call a image {\"p\":\"x\"} Tool result a \"{\\\"urls\\\":[]}\" Success Assistant text \"Here.\"",
        ),
        (
            r#"{"id":"t","role":"user","content":"draw"}"#,
            Some("[]"),
            "User text \"draw\"",
        ),
        (
            r#"{"id":"t","role":"assistant","content":""}"#,
            Some(odd),
            "Assistant call  image {bad call b image {} call c image {} Tool result  \"no credit\" Error result b \"\" Pending result c \"text\" Success !json_unreadable !call_without_id !unknown_status",
        ),
        (r#"{"id":"t"}"#, None, "User"),
    ] {
        assert_eq!(read(Shape::PocketBase, row, calls), expected, "{row}");
    }
}

#[test]
fn a_person_may_be_known_by_a_number() {
    for (row, expected) in [
        (r#"{"user_id":"ann"}"#, Some("ann")),
        (r#"{"user_id":7}"#, Some("7")),
        (
            r#"{"user_id":-9007199254740993}"#,
            Some("-9007199254740993"),
        ),
        (r#"{"user_id":null}"#, None),
        (r#"{"user_id":true}"#, None),
        (r#"{"user_id":{"id":7}}"#, None),
        (r#"{"other":7}"#, None),
        (r#"{"user":"bob","user_id":""}"#, Some("bob")),
        (r#"{"user":"bob","user_id":7}"#, Some("7")),
        ("[7]", None),
    ] {
        let found = text_field(row, &["user_id", "user"]);
        assert_eq!(found.as_deref(), expected, "{row}");
    }
}
