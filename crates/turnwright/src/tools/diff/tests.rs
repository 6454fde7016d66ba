use tw_core::id::ToolId;
use uuid::Uuid;

use super::*;

const DEFINITION: &str = r#"{"name":"t","description":"d","type":"api_request","method":"GET",
"url":"https://one.example/","query":{"limit":10,"page":"1","sort":"up"},
"parameters":{"key":{"mode":"fixed","value":"canary-1","sensitive":true}}}"#;

fn changed(after: &str) -> ToolChange {
    ToolChange::Changed {
        name: "t".to_owned(),
        tool: ToolId(Uuid::nil()),
        follows: 2,
        before: DEFINITION.to_owned(),
        definition: after.to_owned(),
    }
}

#[test]
fn each_tool_has_a_line_in_the_order_given() {
    let named = |name: &str| name.to_owned();
    let changes = [
        ToolChange::Unchanged { name: named("c") },
        ToolChange::Created {
            name: named("a"),
            definition: DEFINITION.to_owned(),
        },
        ToolChange::Removed {
            name: named("b"),
            tool: ToolId(Uuid::nil()),
        },
    ];
    assert_eq!(text(&changes).unwrap(), "= c\n+ a\n- b\n");
}

#[test]
fn what_differs_stands_between_what_is_around_it() {
    let after = DEFINITION.replace("\"limit\":10", "\"limit\":20");
    let shown = r#"~ t (version 3)
    @@ -5,7 +5,7 @@
       "method": "GET",
       "url": "https://one.example/",
       "query": {
    -    "limit": 10,
    +    "limit": 20,
         "page": "1",
         "sort": "up"
       },
"#;
    assert_eq!(text(&[changed(&after)]).unwrap(), shown);
}

#[test]
fn sensitive_values_are_not_shown_and_their_change_is_told() {
    let after = DEFINITION.replace("canary-1", "canary-2");
    assert_eq!(
        text(&[changed(&after)]).unwrap(),
        "~ t (version 3)\n    (what differs is masked, or only how it is written)\n"
    );
    // Nor when something near them changes.
    let another = "\"sensitive\":true},\"b\":{\"mode\":\"fixed\",\"value\":1}}";
    let after = DEFINITION.replace("\"sensitive\":true}}", another);
    let shown = text(&[changed(&after)]).unwrap();
    assert!(shown.contains("***"), "{shown}");
    assert!(!shown.contains("canary"), "{shown}");
}
