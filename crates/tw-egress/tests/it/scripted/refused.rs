//! Scripts that are not accepted, and what is said about them.

use tw_egress::scripted::{Script, ScriptError};

fn message(script: &str) -> String {
    Script::parse(script).unwrap_err().to_string()
}

/// A second rule, and how the message about it begins.
const CASES: &[(&str, &str)] = &[
    ("", "rule 2: `text` is missing: a rule answers with"),
    ("txt = 'x'\ntext = 'y'", "rule 2: `txt` is an unknown key"),
    (
        "text = 1",
        "rule 2: `text` must be a string, is of type integer",
    ),
    (
        "when = 'x'\ntext = ''",
        "rule 2: `when` must be a table, is of type string",
    ),
    (
        "when = { lastrole = 'user' }\ntext = ''",
        "rule 2: `when.lastrole` is an unknown key",
    ),
    (
        "when = { times = 0 }\ntext = ''",
        "rule 2: `when.times` must be a whole number from 1 to 1000000000, is 0",
    ),
    (
        "when = { stream = 1 }\ntext = ''",
        "rule 2: `when.stream` must be true or false, is of type integer",
    ),
    (
        "text = 'x'\ntext_pieces = ['x']",
        "rule 2: `text_pieces` has no effect beside `text`",
    ),
    (
        "text_pieces = [1]",
        "rule 2: `text_pieces[0]` must be a string, is of type integer",
    ),
    (
        "text = '{{last_reslut}}'",
        "rule 2: `text` has the unknown placeholder {{last_reslut}}",
    ),
    (
        "text = '{{result_0}}'",
        "rule 2: `text` has the unknown placeholder {{result_0}}",
    ),
    (
        "text = '{{last_user.name}}'",
        "rule 2: `text` has the unknown placeholder {{last_user.name}}",
    ),
    (
        "text = 'x'\npiece_chars = 0",
        "rule 2: `piece_chars` must be a whole number from 1",
    ),
    (
        "text = 'x'\ndelay_ms = 600001",
        "rule 2: `delay_ms` must be a whole number from 0 to 600000, is 600001",
    ),
    (
        "text = 'x'\ndelta_ms = -1",
        "rule 2: `delta_ms` must be a whole number from 0 to 600000, is -1",
    ),
    (
        "calls = [{ arguments = {} }]",
        "rule 2: `calls[0].name` is missing",
    ),
    (
        "calls = [{ name = 'f' }, 1]",
        "rule 2: `calls[1]` must be a table, is of type integer",
    ),
    (
        "calls = [{ name = 'f', args = {} }]",
        "rule 2: `calls[0].args` is an unknown key",
    ),
    (
        "calls = [{ name = 'f', arguments = 1 }]",
        "rule 2: `calls[0].arguments` must be a table or a string",
    ),
    (
        "calls = [{ name = 'f', arguments = { a = nan } }]",
        "rule 2: `calls[0].arguments` holds NaN, which JSON",
    ),
    (
        "text = 'x'\ncut_after = 1\nsilent_after = 1",
        "rule 2: `silent_after` has no effect beside `cut_after`",
    ),
    ("text = 'x'\nusage = 3", "rule 2: `usage` must be a table"),
    ("error = 'x'", "rule 2: `status` is missing beside `error`"),
    (
        "status = 200",
        "rule 2: `status` must be a whole number from 400 to 599, is 200",
    ),
    (
        "status = 500\ntext = 'x'",
        "rule 2: `text` has no effect beside `status` or `error`",
    ),
    (
        "status = 500\ndelta_ms = 1",
        "rule 2: `delta_ms` has no effect beside `status` or `error`",
    ),
    (
        "status = 500\nerror = { code = true }",
        "rule 2: `error.code` must be a string or a whole number",
    ),
    (
        "status = 500\nerror = { msg = 'x' }",
        "rule 2: `error.msg` is an unknown key",
    ),
    (
        "body = 'x'\nerror = 'y'",
        "rule 2: `error` has no effect beside `body`",
    ),
    (
        "body = 'x'\ncontent_type = \"a\\r\\nb\"",
        "rule 2: `content_type` may hold only visible ASCII and spaces",
    ),
    (
        "text = 'x'\ncontent_type = 'a/b'",
        "rule 2: `content_type` has no effect beside a completion",
    ),
    (
        "text = 'x'\nretry_after = 1.5",
        "rule 2: `retry_after` must be whole seconds or a string",
    ),
    (
        "raw = ['x']\nno_done = true",
        "rule 2: `no_done` has no effect beside `raw`",
    ),
    (
        "raw = [[256]]",
        "rule 2: `raw[0]` must hold whole numbers from 0 to 255",
    ),
    (
        "raw = ['x', true]",
        "rule 2: `raw[1]` must be a string or an array of bytes, is of type boolean",
    ),
];

#[test]
fn the_rule_and_the_field_are_named() {
    for (rule, expected) in CASES {
        let message = message(&format!("[[rule]]\ntext = 'first'\n[[rule]]\n{rule}"));
        assert!(message.starts_with(expected), "{rule}\n{message}");
    }
}

#[test]
fn the_file_as_a_whole() {
    assert!(matches!(
        Script::parse("[[rule]"),
        Err(ScriptError::Toml { .. })
    ));
    assert!(matches!(
        Script::parse("rule = 1"),
        Err(ScriptError::TopKey { .. })
    ));
    assert!(
        matches!(Script::parse("[[rules]]\ntext = 'x'"), Err(ScriptError::TopKey { key }) if key == "rules")
    );
    assert!(matches!(
        Script::parse(""),
        Err(ScriptError::RuleCount { rules: 0, .. })
    ));
    let many = "[[rule]]\ntext = 'x'\n".repeat(513);
    assert!(matches!(
        Script::parse(&many),
        Err(ScriptError::RuleCount { rules: 513, .. })
    ));
    let large = "#".repeat(256 * 1024 + 1);
    assert!(matches!(
        Script::parse(&large),
        Err(ScriptError::TooLarge { .. })
    ));
    let deep = format!(
        "[[rule]]\ncalls = [{{ name = 'f', arguments = {{ a = {}1{} }} }}]",
        "[".repeat(5000),
        "]".repeat(5000)
    );
    assert!(matches!(
        Script::parse(&deep),
        Err(ScriptError::Toml { .. })
    ));
}

#[test]
fn the_lists_are_bounded() {
    let calls = "{ name = 'f' },".repeat(33);
    assert_eq!(
        message(&format!("[[rule]]\ncalls = [{calls}]")),
        "rule 1: `calls` has 33 entries, at most 32 are allowed"
    );
    let raw = "'',".repeat(1025);
    assert_eq!(
        message(&format!("[[rule]]\nraw = [{raw}]")),
        "rule 1: `raw` has 1025 entries, at most 1024 are allowed"
    );
}
