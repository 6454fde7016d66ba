//! Tool files.

use crate::stored::tool::decode;
use crate::stored::tool::file::{self, FileFormat};

use super::{EVERYTHING, with};

/// The example of the documentation once more.
const EVERYTHING_TOML: &str = r#"
# A comment.
[[tool]]
name = "create_ticket"
label = "Create a ticket"
description = "Opens a ticket for {{caller_phone_number}}."
type = "api_request"
method = "POST"
url = "https://api.example.com/v1/customers/{customer}/tickets"
query = { source = "agent", n = 1.50, all = [true, "x"] }
body_format = "json"

[tool.headers]
authorization = { secret = "TICKETS_KEY", prefix = "Bearer " }
x-org = "{{organization}}"

[tool.body]
origin.channel = "chat"

[tool.parameters.customer]
mode = "ai"
schema = { type = "string" }
prompt = "The customer's id"
required = true

[tool.parameters.priority]
mode = "fixed"
value = "high"

[tool.parameters.cc]
mode = "array_extendable"
fixedValues = ["+1234567890"]
aiExtension = { enabled = true, prompt = "More numbers", required = false, items = { type = "string" } }

[tool.parameters.contact]
mode = "object"
description = "Who"

[tool.parameters.contact.properties.email]
mode = "ai"
schema = { type = "string", format = "email" }

[tool.parameters.contact.properties.kind]
mode = "fixed"
value = "customer"

[tool.parameters.steps]
mode = "array"
items = [
    { mode = "fixed", value = "hello" },
    { mode = "ai", schema = { type = "string" } },
]

[tool.variables.caller_phone_number]
description = "Who calls"
default = "unknown"

[tool.response]
select = "$.data.id"
content_types = ["application/json", "Text/*"]
statuses = ["2xx", 404]
kept_bytes_max = 1_048_575
shown_bytes_max = 0x3fff

[tool.policy]
effect = "queryable"
timeout_ms = 10_001
attempts_max = +2
backoff_ms = 201
concurrency_max = 0b111111
requires_approval = true

[tool.look_up]
url = "https://api.example.com/v1/tickets?reference={{reference}}"
headers = { authorization = { secret = "TICKETS_KEY" } }
query = { a = "b" }
absent = [404]
"#;

#[test]
fn toml_says_the_same_as_json() {
    // TOML has no null, and no number beyond 64 bits.
    let json = EVERYTHING.replace(r#", "none": null, "big": 12345678901234567890123"#, "");
    let [from_toml] = &file::decode(EVERYTHING_TOML, FileFormat::Toml).unwrap()[..] else {
        panic!("not one");
    };
    assert_eq!(from_toml.1, decode(&json).unwrap());
    assert_eq!(from_toml.1, decode(&from_toml.0).unwrap());
}

#[test]
fn a_json_file_is_an_array_or_has_one() {
    for text in [
        format!("[{EVERYTHING},\n{}]", with("")),
        format!(r#"{{"tool": [{EVERYTHING}, {}]}}"#, with("")),
    ] {
        let tools = file::decode(&text, FileFormat::Json).unwrap();
        let names: Vec<&str> = tools.iter().map(|(_, tool)| tool.name.as_str()).collect();
        assert_eq!(names, ["create_ticket", "t"]);
        // White space is dropped where it says nothing, and digits stay.
        assert!(tools[0].0.contains(r#","label":"Create a ticket","#));
        assert!(tools[0].0.contains(r#""n":1.50,"#));
        assert!(!tools[0].0.contains('\n'));
        assert_eq!(tools[1].0, with(""));
    }
    assert_eq!(file::decode("[]", FileFormat::Json), Ok(Vec::new()));
    assert_eq!(file::decode("tool = []", FileFormat::Toml), Ok(Vec::new()));
}

#[test]
fn spaces_and_quotes_inside_strings_stay() {
    let text = r#"[ { "name" : "t" , "description" : " a \" b \\" , "type":"api_request", "url":"https://api.example.com/" } ]"#;
    let tools = file::decode(text, FileFormat::Json).unwrap();
    assert_eq!(tools[0].1.description.written(), r#" a " b \"#);
    assert!(
        tools[0]
            .0
            .starts_with(r#"{"name":"t","description":" a \" b \\","type""#)
    );
}

#[test]
fn toml_keeps_order_and_digits() {
    let text = r#"
        [[tool]]
        name = "t"
        description = "d"
        type = "api_request"
        url = "https://api.example.com/"
        parameters.z = { mode = "ai", schema = { zz = 1.50, aa = 1_000.5e+07, mm = -0.0, b = 1979 } }
        parameters.a = { mode = "ai" }
        parameters.m.mode = "ai"
        [tool.variables]
        z = {}
        "a b" = {}
    "#;
    let (text, _) = &file::decode(text, FileFormat::Toml).unwrap()[0];
    let expected = concat!(
        r#"{"name":"t","description":"d","type":"api_request","url":"https://api.example.com/","#,
        r#""parameters":{"z":{"mode":"ai","schema":{"zz":1.50,"aa":1000.5e+07,"mm":-0.0,"b":1979}},"#,
        r#""a":{"mode":"ai"},"m":{"mode":"ai"}},"variables":{"z":{},"a b":{}}}"#
    );
    assert_eq!(text, expected);
}

const TOOL: &str =
    r#"{"name":"t","description":"d","type":"api_request","url":"https://api.example.com/"}"#;
const TABLE: &str = "[[tool]]\nname = 't'\ndescription = 'd'\ntype = 'api_request'\nurl = 'https://api.example.com/'\n";

#[test]
fn a_bad_json_file_is_refused_with_the_tool_and_the_field() {
    let nested = format!(
        r#"[{}]"#,
        TOOL.replace("\"d\"", &format!("{}1{}", "[".repeat(64), "]".repeat(64)))
    );
    for (text, field, says) in [
        ("", "file", "not valid JSON: EOF"),
        ("7", "file", "must be an array of tools"),
        ("{}", "file.tool", "is missing"),
        (
            r#"{"tool": {}}"#,
            "file.tool",
            "must be an array, is an object",
        ),
        (r#"{"tools": []}"#, "file.tools", "known are tool"),
        (r#"{"tool": [], "tool": []}"#, "file.tool", "twice"),
        ("[7]", "[0]", "must be an object, is a number"),
        (r#"[{"name":7}]"#, "[0].name", "must be a string"),
        (r#"[{"name":"a b"}]"#, "[0].type", "is missing"),
        (r#"[{"name":"a_b"}]"#, "a_b.type", "is missing"),
        (r#"[{"name":"a","name":"b"}]"#, "[0].name", "twice"),
        (r#"[{"name":"a","a b":1}]"#, r#"a["a b"]"#, "not known"),
        (
            &format!("[{TOOL},{TOOL}]"),
            "[1].name",
            "also the name of [0]",
        ),
        (
            &format!("[{TOOL},{}]", TOOL.replace("\"d\"", "1")),
            "t.description",
            "is a number",
        ),
        (&nested, "t", "nested deeper than 64 levels"),
        (
            &"[".repeat(1_000_000),
            "file",
            "nested deeper than 64 levels",
        ),
        (
            &format!("[{}7]", "7,".repeat(1000)),
            "file",
            "holds 1001 tools, more than 1000",
        ),
        (
            &" ".repeat(4 * 1024 * 1024 + 1),
            "file",
            "longer than 4194304 bytes",
        ),
    ] {
        let error = file::decode(text, FileFormat::Json).expect_err(text);
        assert_eq!(error.field, field, "{error}");
        assert!(error.problem.contains(says), "{error}");
    }
}

#[test]
fn a_bad_toml_file_is_refused_with_the_tool_and_the_field() {
    let with = |line: &str| format!("{TABLE}{line}\n");
    let deep = format!("body.{}c = 1", "b.".repeat(70));
    for (text, field, says) in [
        ("".to_owned(), "file", "holds no [[tool]]"),
        ("[[tool]]\nname = ".to_owned(), "file", "not valid TOML"),
        ("[[tool]]\nname = ".to_owned(), "file", "at line 2 column 8"),
        (
            "[tool]\nname = 't'".to_owned(),
            "file.tool",
            "must be an array of tables, [[tool]], is table",
        ),
        ("[[tools]]".to_owned(), "file.tools", "known are tool"),
        (with("url = 'https://b.example/'"), "file", "duplicate key"),
        (with("query = { a = 1979-05-27 }"), "t.query.a", "is a date"),
        (
            with("query = { a = [1, 07:32:00] }"),
            "t.query.a[1]",
            "write it as \"07:32:00\"",
        ),
        (
            with("body.at = 1979-05-27T07:32:00Z"),
            "t.body.at",
            "is a date",
        ),
        (
            with("body.a = nan"),
            "t.body.a",
            "nan is no number that JSON has",
        ),
        (with("body.a = -inf"), "t.body.a", "no number"),
        (with("body.a = 1e999"), "t.body.a", "no number"),
        (
            with("body.a = 9223372036854775808"),
            "t.body.a",
            "beyond 64 bits",
        ),
        (with("desc = 'd'"), "t.desc", "not known"),
        (
            with("label = 7"),
            "t.label",
            "must be a string, is a number",
        ),
        (with(&deep), "t", "nested deeper than 64 levels"),
        (
            "[[tool]]\nname = 'a b'\nquery.a = 07:32:00".to_owned(),
            "[0].query.a",
            "is a date",
        ),
        (
            format!("{TABLE}{TABLE}"),
            "[1].name",
            "also the name of [0]",
        ),
        (format!("a{}=1", ".a".repeat(100_000)), "file", "recurs"),
        (format!("a={}", "[".repeat(100_000)), "file", "recurs"),
        ("[[tool]]\n".repeat(1001), "file", "holds 1001 tools"),
    ] {
        let error = file::decode(&text, FileFormat::Toml).expect_err(&text);
        assert_eq!(error.field, field, "{error}");
        assert!(error.problem.contains(says), "{error}");
    }
}
