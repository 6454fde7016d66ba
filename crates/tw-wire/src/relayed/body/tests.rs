use super::read;

const FORM: &str = "multipart/form-data; boundary=XX";

/// A form of parts, each written as it stands between two delimiters.
fn form(parts: &[&str]) -> String {
    let parts: String = parts
        .iter()
        .map(|part| format!("--XX\r\n{part}\r\n"))
        .collect();
    format!("{parts}--XX--\r\n")
}

fn field(name: &str, content: &str) -> String {
    format!("Content-Disposition: form-data; name=\"{name}\"\r\n\r\n{content}")
}

fn file(content: &str) -> String {
    format!(
        "Content-Disposition: form-data; name=\"file\"; filename=\"a; name=model.wav\"\r\n\
         Content-Type: audio/wav\r\n\r\n{content}"
    )
}

#[test]
fn a_model_is_found_and_replaced_where_it_stands() {
    let cases: [(&str, String, Option<&str>, String); 13] = [
        (
            "application/json",
            r#"{ "input": ["model", 1e999], "model" : "m", "x": {"model": "y"} }"#.into(),
            Some("m"),
            r#"{ "input": ["model", 1e999], "model" : "new\"", "x": {"model": "y"} }"#.into(),
        ),
        (
            "application/json; charset=utf-8",
            r#"{"mod\u0065l":"\u00e4"}"#.into(),
            Some("ä"),
            r#"{"mod\u0065l":"new\""}"#.into(),
        ),
        (
            "Application/JSON",
            "\n { \"input\":\"x\"}".into(),
            None,
            "\n {\"model\":\"new\\\"\", \"input\":\"x\"}".into(),
        ),
        (
            "application/json",
            "{}".into(),
            None,
            r#"{"model":"new\""}"#.into(),
        ),
        (
            "application/json",
            r#"{"model":null}"#.into(),
            None,
            r#"{"model":"new\""}"#.into(),
        ),
        ("audio/wav", "RIFF".into(), None, "RIFF".into()),
        (
            FORM,
            form(&[&field("model", "m"), &file("\r\n--X\r\n")]),
            Some("m"),
            form(&[&field("model", "new\""), &file("\r\n--X\r\n")]),
        ),
        (
            "multipart/form-data; charset=utf-8; boundary=\"XX\"",
            form(&[&file(""), &field("model", " m\n")]),
            Some("m"),
            form(&[&file(""), &field("model", "new\"")]),
        ),
        (
            "Multipart/Form-Data; BOUNDARY=XX",
            form(&["content-disposition: form-data; name=model\r\n\r\nm"]),
            Some("m"),
            form(&["content-disposition: form-data; name=model\r\n\r\nnew\""]),
        ),
        (
            FORM,
            format!("preamble\r\n{}epilogue", form(&[&file("a")])),
            None,
            format!(
                "preamble\r\n--XX\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nnew\"\r\n{}epilogue",
                form(&[&file("a")])
            ),
        ),
        (
            FORM,
            form(&["Content-Disposition: form-data; name=\"mo\\del\"; x=1\r\n\r\nm"]),
            Some("m"),
            form(&["Content-Disposition: form-data; name=\"mo\\del\"; x=1\r\n\r\nnew\""]),
        ),
        (
            FORM,
            form(&["Content-Disposition: form-data; name=\"model\"; filename=\"model\"\r\n\r\nm"]),
            None,
            form(&[
                "content-disposition: form-data; name=\"model\"\r\n\r\nnew\"",
                "Content-Disposition: form-data; name=\"model\"; filename=\"model\"\r\n\r\nm",
            ]),
        ),
        (
            FORM,
            form(&[]),
            None,
            form(&["content-disposition: form-data; name=\"model\"\r\n\r\nnew\""]),
        ),
    ];
    for (content_type, body, model, changed) in cases {
        let found = read(Some(content_type), body.as_bytes()).unwrap();
        assert_eq!(found.model.as_deref(), model, "{body}");
        let new = found.with_model(body.as_bytes(), "new\"");
        assert_eq!(String::from_utf8(new).unwrap(), changed);
    }
}

#[test]
fn what_a_stream_and_a_person_are_asked_for_is_read() {
    let form = |name, content| form(&[&field(name, content)]);
    for (content_type, body, streamed, user) in [
        (
            "application/json",
            r#"{"stream":true,"user":"u"}"#.into(),
            true,
            Some("u"),
        ),
        (
            "application/json",
            r#"{"stream":"true","user":" "}"#.into(),
            false,
            None,
        ),
        (
            "application/json",
            r#"{"stream_format":"sse","user":7}"#.into(),
            true,
            None,
        ),
        (
            "application/json",
            r#"{"stream_format":"audio"}"#.into(),
            false,
            None,
        ),
        (
            "application/json",
            r#"{"user":"u","safety_identifier":"s"}"#.into(),
            false,
            Some("s"),
        ),
        (FORM, form("stream", "true"), true, None),
        (FORM, form("stream", "False"), false, None),
        (FORM, form("user", "u"), false, Some("u")),
    ] {
        let body: String = body;
        let found = read(Some(content_type), body.as_bytes()).unwrap();
        assert_eq!(
            (found.streamed, found.user.as_deref()),
            (streamed, user),
            "{body}"
        );
    }
}

#[test]
fn what_names_no_one_model_is_refused() {
    let two = form(&[&field("model", "a"), &field("model", "b")]);
    let many = form(&vec![&*field("x", ""); 129]);
    let long = format!(r#"{{"model":"{}"}}"#, "x".repeat(513));
    for (content_type, body, says) in [
        (
            "application/json",
            r#"{"model":"a","model":"b"}"#,
            "'model' is given twice",
        ),
        (
            "application/json",
            r#"{"model":""}"#,
            "Invalid type for 'model'",
        ),
        (
            "application/json",
            r#"{"model":7}"#,
            "Invalid type for 'model'",
        ),
        ("application/json", "[]", "is not a JSON object"),
        (
            "application/json",
            r#"{"model":"a""#,
            "is not a JSON object",
        ),
        ("application/json", &long, "longer than 512 bytes"),
        (FORM, &two, "'model' is given twice"),
        (
            FORM,
            &form(&[&field("model", "")]),
            "Invalid type for 'model'",
        ),
        (FORM, &many, "more than 128 parts"),
        (FORM, "", "does not begin"),
        (FORM, "--XX\r\n", "headers cannot be read"),
        (FORM, "--XX\r\na: b\r\n\r\nc", "does not end"),
        (FORM, "--XXY\r\na: b\r\n\r\nc\r\n--XX--", "does not end"),
        ("multipart/form-data", "--XX--", "names no boundary"),
        (
            "multipart/form-data; boundary=\"XX",
            "--XX--",
            "names no boundary",
        ),
    ] {
        let error = read(Some(content_type), body.as_bytes()).unwrap_err();
        assert!(error.message.contains(says), "{body}: {error}");
    }
}
