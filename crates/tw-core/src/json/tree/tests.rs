use proptest::prelude::*;
use serde_json::Value;

use super::{JsonTree, MemberOrder};
use crate::json::Json;

fn written(text: &str, order: MemberOrder) -> String {
    JsonTree::read(&Json::parse(text).unwrap())
        .unwrap()
        .write(order)
}

#[test]
fn digits_order_and_the_last_of_equal_names_stay() {
    for (text, as_it_is, by_name) in [
        (
            r#" { "b" : [ 1.50 , -0.0, 1E+2, 12345678901234567890123 ] , "a" : {} } "#,
            r#"{"b":[1.50,-0.0,1E+2,12345678901234567890123],"a":{}}"#,
            r#"{"a":{},"b":[1.50,-0.0,1E+2,12345678901234567890123]}"#,
        ),
        (
            r#"{"a":1,"b":2,"a":{"x":3,"x":4}}"#,
            r#"{"a":{"x":4},"b":2}"#,
            r#"{"a":{"x":4},"b":2}"#,
        ),
        (
            r#"{"a":1,"\u0061":2,"q\"\\}":"]\u00e9\ud83d\ude00\n"}"#,
            "{\"a\":2,\"q\\\"\\\\}\":\"]é😀\\n\"}",
            "{\"a\":2,\"q\\\"\\\\}\":\"]é😀\\n\"}",
        ),
        ("[]", "[]", "[]"),
        (
            "[null,true,false,\"\"]",
            "[null,true,false,\"\"]",
            "[null,true,false,\"\"]",
        ),
    ] {
        assert_eq!(written(text, MemberOrder::AsItIs), as_it_is);
        assert_eq!(written(text, MemberOrder::ByName), by_name);
    }
}

#[test]
fn what_nests_too_deep_is_not_taken_apart() {
    for (levels, is_read) in [(128, true), (129, false), (100_000, false)] {
        let text = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let json = Json::parse(&text).unwrap();
        assert_eq!(JsonTree::read(&json).is_some(), is_read, "{levels}");
    }
}

pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((".{0,6}", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_read_is_what_the_parser_reads(value in any_json(), is_pretty in any::<bool>()) {
        let text = if is_pretty {
            serde_json::to_string_pretty(&value).unwrap()
        } else {
            value.to_string()
        };
        let again: Value = serde_json::from_str(&written(&text, MemberOrder::AsItIs)).unwrap();
        prop_assert_eq!(&again, &value);
        let sorted: Value = serde_json::from_str(&written(&text, MemberOrder::ByName)).unwrap();
        prop_assert_eq!(sorted, value);
    }
}
