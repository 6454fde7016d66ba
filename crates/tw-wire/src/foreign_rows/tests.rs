use super::*;

/// A row as it is read: role and parts, and the repairs.
fn read(row: &str) -> String {
    let mut repairs = Vec::new();
    let Some(message) = read_message("r", Timestamp(1), row, &mut repairs) else {
        return "unreadable".to_owned();
    };
    let mut shown = format!("{:?}", message.role);
    for part in &message.parts {
        shown.push_str(&match part {
            ForeignPart::Text(text) => format!(" text {:?}", text.to_text()),
            ForeignPart::Call(call) => {
                format!(" call {} {} {}", call.id, call.name, call.arguments)
            }
            ForeignPart::Result(result) => format!(
                " result {} {:?} {:?}",
                result.call_id, result.content, result.status
            ),
        });
    }
    for repair in repairs {
        shown.push_str(" !");
        shown.push_str(repair.as_str());
    }
    shown
}

#[test]
fn rows_are_read_before_and_after_the_migration() {
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
        assert_eq!(read(row), expected, "{row}");
    }
}
