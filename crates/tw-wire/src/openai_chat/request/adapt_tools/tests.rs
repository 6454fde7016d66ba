use tw_core::accepts::{Accepts, SchemaDialect, StrictTools};
use tw_core::arguments::ArgumentsSchema;
use tw_core::history::FeltDifferences;
use tw_core::json::Json;
use tw_core::limits::RequestLimits;
use tw_core::request::{ChoiceSent, ModelInput, ModelRequest, OfferedTools};
use tw_core::tool::{CallPolicy, EffectClass, Tool, ToolKind};

use crate::openai_chat::request::tests::home;
use crate::openai_chat::request::{decode, differences, encode_for};

const CLOSED: &str = r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}"#;
const OPEN: &str = r#"{"type":"object", "properties":{"a":{"type":"string"}}}"#;
const RECURSIVE: &str = r##"{"type":"object","properties":{"a":{"$ref":"#"}}}"##;

fn read(fields: &str) -> ModelInput {
    let body = with(fields);
    decode(body.as_bytes(), &RequestLimits::defaults())
        .unwrap_or_else(|error| panic!("{body}: {error:?}"))
}

fn with(fields: &str) -> String {
    format!(r#"{{"messages":[{{"role":"user","content":"u"}}],"model":"m"{fields}}}"#)
}

fn request(input: &ModelInput) -> ModelRequest<'_> {
    ModelRequest {
        input,
        messages: input.messages.iter().collect(),
        to: home(&input.model),
        tools: OfferedTools::AsSent,
        tool_choice: ChoiceSent::AsSent,
        rounds: Vec::new(),
        completion_tokens_left: None,
        ask_usage: false,
    }
}

fn strict(strict: StrictTools) -> Accepts {
    Accepts {
        strict,
        ..Accepts::everything()
    }
}

fn open_api() -> Accepts {
    Accepts {
        schemas: SchemaDialect::OpenApi,
        ..Accepts::everything()
    }
}

fn tool(name: &str, parameters: &str) -> Tool {
    let parameters = Json::parse(parameters).unwrap();
    Tool {
        name: name.to_owned(),
        description: "d".to_owned(),
        schema: ArgumentsSchema::compile(&parameters).unwrap(),
        parameters,
        policy: CallPolicy::new(EffectClass::Read),
        kind: ToolKind::TimeNow,
        version: None,
    }
}

fn function(name: &str, members: &str) -> String {
    format!(r#"{{"x":1.0,"type":"function","function":{{"name":"{name}"{members}}}}}"#)
}

fn check(fields: &str, accepts: &Accepts, expected: &str, counts: FeltDifferences) {
    let input = read(fields);
    let body = String::from_utf8(encode_for(&request(&input), accepts)).unwrap();
    assert_eq!(body, with(expected), "{accepts:?}");
    assert_eq!(differences(&request(&input), accepts), counts, "{fields}");
}

const NONE: FeltDifferences = FeltDifferences {
    moved_parts: 0,
    joined_results: 0,
    tools_left_out: 0,
    not_strict: 0,
};

/// Quirk 40: strict only where the schema qualifies.
#[test]
fn quirk_40_a_clients_tool_stays_strict_only_if_it_qualifies() {
    let tools = |open: &str| {
        format!(
            r#","tools":[{},{},{}],"z":1"#,
            function("f", &format!(r#","strict":true,"parameters":{CLOSED}"#)),
            function("g", open),
            function("h", &format!(r#","strict":false,"parameters":{OPEN}"#)),
        )
    };
    let said = tools(&format!(r#","strict":true,"parameters":{OPEN}"#));
    let unsaid = tools(&format!(r#","parameters":{OPEN}"#));
    check(&said, &strict(StrictTools::AsSent), &said, NONE);
    let one = FeltDifferences {
        not_strict: 1,
        ..NONE
    };
    check(&said, &strict(StrictTools::WhereItFits), &unsaid, one);
    let all = said
        .replace(r#""strict":true,"#, "")
        .replace(r#""strict":false,"#, "");
    let two = FeltDifferences {
        not_strict: 2,
        ..NONE
    };
    check(&said, &strict(StrictTools::Never), &all, two);
    // What says nothing is not touched.
    check(&all, &strict(StrictTools::WhereItFits), &all, NONE);
}

#[test]
fn our_tools_are_strict_where_they_fit_and_only_if_the_upstream_wants_it() {
    let input = read("");
    let (closed, open) = (tool("f", CLOSED), tool("g", OPEN));
    for (accepts, mark) in [
        (strict(StrictTools::AsSent), ""),
        (strict(StrictTools::WhereItFits), r#","strict":true"#),
        (strict(StrictTools::Never), ""),
    ] {
        let request = ModelRequest {
            tools: OfferedTools::Ours(vec![&closed, &open]),
            ..request(&input)
        };
        let body = String::from_utf8(encode_for(&request, &accepts)).unwrap();
        let expected = format!(
            concat!(
                r#","tools":[{{"type":"function","function":{{"name":"f","description":"d","parameters":{}{}}}}},"#,
                r#"{{"type":"function","function":{{"name":"g","description":"d","parameters":{}}}}}]"#
            ),
            CLOSED, mark, OPEN
        );
        assert_eq!(body, with(&expected), "{accepts:?}");
        assert_eq!(differences(&request, &accepts), NONE);
    }
}

/// Quirk 39: only the bad tool is left out, and that is reported.
#[test]
fn quirk_39_only_the_tool_that_cannot_be_said_is_left_out() {
    let written = format!(
        r#","tools":[{},{},{}],"tool_choice":"auto""#,
        function("f", &format!(r#", "parameters":{RECURSIVE}"#)),
        function(
            "g",
            r#","parameters":{"type":"object","properties":{"a":{"type":["string","null"]}},"additionalProperties":false},"description":"d""#
        ),
        function("h", &format!(r#","parameters":{OPEN}"#)),
    );
    let expected = format!(
        r#","tools":[{},{}],"tool_choice":"auto""#,
        function(
            "g",
            r#","parameters":{"type":"object","properties":{"a":{"nullable":true,"type":"string"}}},"description":"d""#
        ),
        function("h", &format!(r#","parameters":{OPEN}"#)),
    );
    let one = FeltDifferences {
        tools_left_out: 1,
        ..NONE
    };
    check(&written, &open_api(), &expected, one);
    // As it was written where it can be said.
    check(&written, &Accepts::everything(), &written, NONE);
}

#[test]
fn a_request_of_which_every_tool_is_left_out_has_none() {
    let written = format!(
        r#","tools":[{}],"tool_choice":"required","parallel_tool_calls":true,"a":1"#,
        function("f", &format!(r#","parameters":{RECURSIVE}"#)),
    );
    let one = FeltDifferences {
        tools_left_out: 1,
        ..NONE
    };
    check(&written, &open_api(), r#","a":1"#, one);
}

#[test]
fn a_tool_that_is_left_out_is_not_asked_for_by_name() {
    let kept = function("g", &format!(r#","parameters":{OPEN}"#));
    let named = |name: &str| {
        format!(r#""tool_choice":{{"type":"function","function":{{"name":"{name}"}}}}"#)
    };
    let written = |name: &str| {
        let bad = function("f", &format!(r#","parameters":{RECURSIVE}"#));
        format!(r#","tools":[{bad},{kept}],{}"#, named(name))
    };
    let one = FeltDifferences {
        tools_left_out: 1,
        ..NONE
    };
    let auto = format!(r#","tools":[{kept}],"tool_choice":"auto""#);
    check(&written("f"), &open_api(), &auto, one);
    let same = format!(r#","tools":[{kept}],{}"#, named("g"));
    check(&written("g"), &open_api(), &same, one);
}

#[test]
fn our_tools_are_described_as_the_upstream_reads_them() {
    let input = read("");
    let (closed, recursive) = (tool("f", CLOSED), tool("g", RECURSIVE));
    let request = ModelRequest {
        tools: OfferedTools::Ours(vec![&closed, &recursive]),
        ..request(&input)
    };
    let body = String::from_utf8(encode_for(&request, &open_api())).unwrap();
    let expected = concat!(
        r#","tools":[{"type":"function","function":{"name":"f","description":"d","#,
        r#""parameters":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}}}]"#
    );
    assert_eq!(body, with(expected));
    assert_eq!(differences(&request, &open_api()).tools_left_out, 1);
}

#[test]
fn the_old_form_is_rewritten_too_and_custom_tools_are_not() {
    let written = format!(r#","functions":[{{"name":"f","parameters":{CLOSED}}}]"#);
    let expected = r#","functions":[{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}}]"#;
    check(&written, &open_api(), expected, NONE);
    let custom = r#","tools":[{"type":"custom", "custom":{"name":"c"}}]"#;
    check(custom, &open_api(), custom, NONE);
    check(custom, &strict(StrictTools::Never), custom, NONE);
}
