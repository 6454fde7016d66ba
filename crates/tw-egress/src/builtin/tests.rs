use serde_json::json;

use super::{BuiltinDefinition, CALCULATE, TIME_NOW, calculate, time_now};

/// 2026-03-05T08:37:09.999999Z.
const NOW_US: i64 = 1_772_699_829_999_999;

#[track_caller]
fn value(expression: &str) -> (String, bool) {
    let text = calculate(&json!({ "expression": expression }))
        .unwrap_or_else(|error| panic!("{expression}: {error}"));
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["expression"], expression);
    (
        answer["result"].as_str().unwrap().to_owned(),
        answer["exact"].as_bool().unwrap(),
    )
}

#[track_caller]
fn fault(expression: &str) -> String {
    calculate(&json!({ "expression": expression })).expect_err(expression)
}

#[test]
fn exact_values() {
    let cases = [
        ("1+2*3", "7"),
        ("(1+2)*3", "9"),
        ("0.1 + 0.2", "0.3"),
        ("10 / 3 * 3", "10"),
        ("1/8", "0.125"),
        ("-1/8", "-0.125"),
        ("1 - 1", "0"),
        ("0 * -5", "0"),
        ("-2^2", "-4"),
        ("(-2)^2", "4"),
        ("2^3^2", "512"),
        ("2^-2", "0.25"),
        ("0^0", "1"),
        ("2^100", "1267650600228229401496703205376"),
        ("--3", "3"),
        ("+3 - -3", "6"),
        ("7 % 3", "1"),
        ("-7 % 3", "-1"),
        ("7 % -3", "1"),
        ("5.5 % 2", "1.5"),
        ("6 × 7 ÷ 2 − 1", "20"),
        ("1e3 + 2.5E-1 + 1e−1 + 1e+1", "1010.35"),
        (".5", "0.5"),
        ("1.50", "1.5"),
        ("abs(-3.5)", "3.5"),
        ("round(2.5)", "3"),
        ("round(-2.5)", "-3"),
        ("round(2.345, 2)", "2.35"),
        ("round(1234, -2)", "1200"),
        ("round(2/3, 4)", "0.6667"),
        ("round(1234.50 * (1 + 0.19), 2)", "1469.06"),
        ("floor(-1.5)", "-2"),
        ("ceil(-1.5)", "-1"),
        ("min(3, 1, 2)", "1"),
        ("max(3, 1, 2)", "3"),
        ("max(7)", "7"),
        ("sqrt(0)", "0"),
        ("sqrt(2.25)", "1.5"),
        ("sqrt(1/9) * 3", "1"),
        (
            "12345678901234567890 * 98765432109876543210",
            "1219326311370217952237463801111263526900",
        ),
        ("1/2^10", "0.0009765625"),
    ];
    for (expression, expected) in cases {
        assert_eq!(
            value(expression),
            (expected.to_owned(), true),
            "{expression}"
        );
    }
}

/// Compared with Python's `decimal` at 34 digits (`prec=34`, `ROUND_HALF_EVEN`), exponents in lower case without sign.
#[test]
fn rounded_values() {
    let cases = [
        ("1/3", "0.3333333333333333333333333333333333"),
        ("-2/3", "-0.6666666666666666666666666666666667"),
        ("2/3*10", "6.666666666666666666666666666666667"),
        ("1/3000000", "3.333333333333333333333333333333333e-7"),
        ("1/300000", "0.000003333333333333333333333333333333333"),
        ("10^40/3", "3.333333333333333333333333333333333e39"),
        ("sqrt(2)", "1.414213562373095048801688724209698"),
        ("sqrt(3)*10^-3", "0.001732050807568877293527446341505872"),
        ("floor(sqrt(2))", "1"),
        ("sqrt(2) - sqrt(2)", "0"),
        ("1.0001234567^100000", "229786.9800114056329668967699240976"),
        ("(1+0.0499/12)^360", "4.454416559428710997073028397950717"),
    ];
    for (expression, expected) in cases {
        assert_eq!(
            value(expression),
            (expected.to_owned(), false),
            "{expression}"
        );
    }
}

#[test]
fn faults_name_the_position() {
    let cases = [
        (
            "",
            "position 1: expected a number, a function or '(' but found the end",
        ),
        (
            "1 +",
            "position 4: expected a number, a function or '(' but found the end",
        ),
        (
            "2 ** 3",
            "position 4: expected a number, a function or '(' but found '*'",
        ),
        (
            "15% + 1 %",
            "position 10: expected a number, a function or '(' but found the end",
        ),
        (
            "2 3",
            "position 3: expected an operator or the end but found '3'",
        ),
        (
            "2(3)",
            "position 2: expected an operator or the end but found '('",
        ),
        (
            "1 + €5",
            "position 5: expected a number, a function or '(' but found '€'",
        ),
        (
            "1 – 1",
            "position 3: expected an operator or the end but found '–'",
        ),
        ("(1", "position 3: expected ')' but found the end"),
        (
            "1)",
            "position 2: expected an operator or the end but found ')'",
        ),
        ("abs 1", "position 5: expected '(' but found '1'"),
        ("5.", "position 3: expected a digit but found the end"),
        ("2e", "position 3: expected a digit but found the end"),
        (
            "1_000",
            "position 2: expected an operator or the end but found '_'",
        ),
        (
            "1,000",
            "position 2: a comma only separates arguments; write numbers without thousands separators",
        ),
        (
            "(1,000)",
            "position 3: a comma only separates arguments; write numbers without thousands separators",
        ),
        (
            "max(1,000)",
            "position 7: a number does not begin with 0 before another digit; write numbers without thousands separators",
        ),
        (
            "1 + sin(1)",
            "position 5: unknown name \"sin\"; the functions are abs, round, floor, ceil, min, max, sqrt",
        ),
        (
            "round(1, 2, 3)",
            "position 1: round takes 1 or 2 arguments but got 3",
        ),
        ("abs(1, 2)", "position 1: abs takes 1 argument but got 2"),
        ("1 / (2 - 2)", "position 3: division by zero"),
        ("1 % 0", "position 3: division by zero"),
        ("0^-1", "position 2: division by zero"),
        (
            "2^0.5",
            "position 2: the exponent must be a whole number; for a square root use sqrt(x)",
        ),
        (
            "1^1000001",
            "position 2: the exponent must be between -1000000 and 1000000",
        ),
        (
            "1 + sqrt(-1)",
            "position 5: square root of a negative number",
        ),
        (
            "round(1, 0.5)",
            "position 1: the digits of round must be a whole number between -1000 and 1000",
        ),
        ("10^1001", "position 3: the value is beyond 10^1000"),
        ("2^1000000", "position 2: the value is beyond 10^1000"),
        (
            "1e99999999999999999999",
            "position 1: the value is beyond 10^1000",
        ),
        (
            "1e-99999999999999999999",
            "position 1: the value is not zero but nearer to it than 10^-1000",
        ),
        (
            "10^-1001",
            "position 3: the value is not zero but nearer to it than 10^-1000",
        ),
    ];
    for (expression, expected) in cases {
        assert_eq!(fault(expression), expected, "{expression}");
    }
}

#[test]
fn limits_are_answers() {
    assert_eq!(value("10^1000").0.len(), 1_001);
    assert_eq!(value("10^-1000").0.len(), 1_002);
    assert_eq!(value(&"1".repeat(1_000)).0.len(), 1_000);
    assert!(fault(&"1".repeat(1_001)).contains("longer than 1000 characters"));
    assert_eq!(
        value(&format!("{}1{}", "(".repeat(63), ")".repeat(63))).0,
        "1"
    );
    for deep in ["(", "-", "abs(", "2^"] {
        assert!(
            fault(&deep.repeat(250)).contains("nested deeper than 64 levels"),
            "{deep}"
        );
    }
    // 2^-1000 ends after 1,000 places and is written; one more place is rounded.
    assert!(value("2^-1000").1);
    assert_eq!(
        value("2^-1001"),
        ("4.666318092516094394950447723619086e-302".to_owned(), false)
    );
}

#[test]
fn small_expressions_agree_with_integers() {
    for left in -12_i64..=12 {
        for right in -12_i64..=12 {
            let pair = |operator| format!("({left}) {operator} ({right})");
            assert_eq!(value(&pair("+")), ((left + right).to_string(), true));
            assert_eq!(value(&pair("-")), ((left - right).to_string(), true));
            assert_eq!(value(&pair("*")), ((left * right).to_string(), true));
            assert_eq!(
                value(&format!("min({left}, {right})")).0,
                left.min(right).to_string()
            );
            assert_eq!(
                value(&format!("({left})^abs({right})")).0,
                i128::from(left)
                    .pow(right.unsigned_abs() as u32)
                    .to_string()
            );
            if right != 0 {
                assert_eq!(value(&pair("%")), ((left % right).to_string(), true));
                assert_eq!(
                    value(&format!("floor({left} / ({right}))")).0,
                    (left as f64 / right as f64)
                        .floor()
                        .to_string()
                        .replace("-0", "0")
                );
                assert_eq!(
                    value(&format!("({left} / ({right})) * ({right})")),
                    (left.to_string(), true)
                );
            }
        }
    }
}

#[test]
fn every_short_text_is_answered() {
    let alphabet = [
        "1", "0", ".", "e", "-", "^", "/", "%", "(", ")", ",", "max", "sqrt(", "round(", " ", "é",
    ];
    let mut texts = vec![String::new()];
    for _ in 0..4 {
        texts = texts
            .iter()
            .flat_map(|text| alphabet.iter().map(move |part| format!("{text}{part}")))
            .collect();
        for text in &texts {
            if let Err(error) = calculate(&json!({ "expression": text })) {
                assert!(error.starts_with("position "), "{text}: {error}");
            }
        }
    }
}

#[test]
fn any_json_is_answered() {
    for arguments in [
        json!(null),
        json!([]),
        json!({}),
        json!("1+1"),
        json!({ "expression": 1, "zone": 1 }),
    ] {
        assert_eq!(
            calculate(&arguments),
            Err("expression must be a string".to_owned())
        );
    }
    assert!(
        time_now(&json!(null), NOW_US)
            .unwrap()
            .contains("\"zone\":\"UTC\"")
    );
    assert!(
        time_now(&json!({ "zone": 1 }), NOW_US)
            .unwrap_err()
            .starts_with("zone must be a string")
    );
    assert_eq!(
        time_now(&json!({}), i64::MAX),
        Err("the current time cannot be written as a date".to_owned())
    );
    assert_eq!(
        time_now(&json!({}), i64::MIN),
        Err("the current time cannot be written as a date".to_owned())
    );
}

#[test]
fn time_in_zones() {
    let cases = [
        (
            "UTC",
            r#"{"zone":"UTC","iso":"2026-03-05T08:37:09+00:00","date":"2026-03-05","time":"08:37:09","weekday":"Thursday","utc_offset":"+00:00","unix_seconds":1772699829}"#,
        ),
        (
            "asia/KOLKATA",
            r#"{"zone":"Asia/Kolkata","iso":"2026-03-05T14:07:09+05:30","date":"2026-03-05","time":"14:07:09","weekday":"Thursday","utc_offset":"+05:30","unix_seconds":1772699829}"#,
        ),
        (
            "+05:30",
            r#"{"zone":"+05:30","iso":"2026-03-05T14:07:09+05:30","date":"2026-03-05","time":"14:07:09","weekday":"Thursday","utc_offset":"+05:30","unix_seconds":1772699829}"#,
        ),
        (
            "-10",
            r#"{"zone":"-10","iso":"2026-03-04T22:37:09-10:00","date":"2026-03-04","time":"22:37:09","weekday":"Wednesday","utc_offset":"-10:00","unix_seconds":1772699829}"#,
        ),
        (
            " America/New_York ",
            r#"{"zone":"America/New_York","iso":"2026-03-05T03:37:09-05:00","date":"2026-03-05","time":"03:37:09","weekday":"Thursday","utc_offset":"-05:00","unix_seconds":1772699829}"#,
        ),
    ];
    for (zone, expected) in cases {
        assert_eq!(
            time_now(&json!({ "zone": zone }), NOW_US),
            Ok(expected.to_owned()),
            "{zone}"
        );
    }
}

#[test]
fn a_second_before_1970_is_one_second() {
    let text = time_now(&json!({}), -1).unwrap();
    assert!(
        text.contains("1969-12-31T23:59:59+00:00") && text.contains("\"unix_seconds\":-1"),
        "{text}"
    );
}

#[test]
fn unknown_zones_get_suggestions() {
    let generic = "use an IANA time zone such as Europe/Paris, or an offset such as +05:30";
    let cases = [
        (
            "Europe/Pari",
            "unknown time zone \"Europe/Pari\"; did you mean Europe/Paris",
        ),
        (
            "New York",
            "unknown time zone \"New York\"; did you mean America/New_York?",
        ),
        (
            "Kolkata",
            "unknown time zone \"Kolkata\"; did you mean Asia/Kolkata",
        ),
        (
            "Calcuta",
            "unknown time zone \"Calcuta\"; did you mean Asia/Calcutta",
        ),
    ];
    for (zone, expected) in cases {
        let error = time_now(&json!({ "zone": zone }), NOW_US).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
        assert!(error.matches(", ").count() < 3, "{error}");
    }
    for zone in [
        "",
        "Mars/Olympus_Mons",
        "EST5EDT,M3.2.0,M11.1.0",
        "../../etc/passwd",
        "Etc/Unknown",
    ] {
        let error = time_now(&json!({ "zone": zone }), NOW_US).unwrap_err();
        assert!(error.starts_with("unknown time zone"), "{error}");
    }
    assert!(
        time_now(&json!({ "zone": "Mars/Olympus_Mons" }), NOW_US)
            .unwrap_err()
            .ends_with(generic)
    );
    assert_eq!(
        time_now(&json!({ "zone": "+99:99" }), NOW_US),
        Err("offset \"+99:99\" is not valid; write it like +05:30".to_owned())
    );
    assert!(
        time_now(&json!({ "zone": "é".repeat(40) }), NOW_US)
            .unwrap_err()
            .contains("longer than 64 bytes")
    );
}

#[test]
fn schemas_are_closed_objects() {
    for BuiltinDefinition {
        name,
        description,
        parameters,
    } in [TIME_NOW, CALCULATE]
    {
        let schema: serde_json::Value = serde_json::from_str(parameters).unwrap();
        assert_eq!(schema["additionalProperties"], false, "{name}");
        assert!(!description.contains("  "), "{name}");
    }
}
