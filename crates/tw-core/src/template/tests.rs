use proptest::prelude::*;

use super::{TextTemplate, ValueLanding, url_part};
use crate::variables::Variables;

fn variables(pairs: &[(&str, &str)]) -> Variables {
    let mut variables = Variables::default();
    for (name, value) in pairs {
        variables.set(name, (*value).to_owned());
    }
    variables
}

fn render(text: &str, landing: ValueLanding) -> Result<String, String> {
    let given = variables(&[
        ("plain", "x"),
        ("nested", "{{plain}} {plain}"),
        ("nasty", "a/b?c#d%e\\f g\"é"),
        ("lines", "a\r\nX-Evil: 1"),
        ("most", &"x".repeat(4096)),
        ("more", &"x".repeat(4097)),
    ]);
    let template = TextTemplate::parse(text).map_err(|error| error.to_string())?;
    template
        .render(&given, landing)
        .map_err(|error| error.to_string())
}

#[test]
fn variables_are_put_in_once_and_escaped_for_where_they_land() {
    for (text, landing, expected) in [
        ("", ValueLanding::Text, ""),
        (
            "no variables { } }}",
            ValueLanding::Text,
            "no variables { } }}",
        ),
        ("{{plain}}{{ plain }}", ValueLanding::Text, "xx"),
        ("<{{nested}}>", ValueLanding::Text, "<{{plain}} {plain}>"),
        ("{{nasty}}", ValueLanding::Text, "a/b?c#d%e\\f g\"é"),
        (
            "?{{nasty}}",
            ValueLanding::Url,
            "?a%2Fb%3Fc%23d%25e%5Cf%20g%22%C3%A9",
        ),
        ("{{nasty}}", ValueLanding::Header, "a/b?c#d%e\\f g\"é"),
    ] {
        assert_eq!(render(text, landing).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_cannot_be_put_in_names_the_variable() {
    for (text, landing, says) in [
        ("{{absent}}", ValueLanding::Text, "absent"),
        (
            "{{more}}",
            ValueLanding::Text,
            "\"more\" has more than 4096",
        ),
        ("{{more}}", ValueLanding::Url, "\"more\" has more than 4096"),
        ("{{lines}}", ValueLanding::Header, "lines"),
        ("{{", ValueLanding::Text, "followed by the name"),
        ("{{}}", ValueLanding::Text, "followed by the name"),
        ("{{a b}}", ValueLanding::Text, "followed by the name"),
        ("{{plain}", ValueLanding::Text, "followed by the name"),
        ("{{{plain}}}", ValueLanding::Text, "followed by the name"),
        ("{{1st}}", ValueLanding::Text, "followed by the name"),
    ] {
        let problem = render(text, landing).unwrap_err();
        assert!(problem.contains(says), "{text}: {problem}");
    }
    assert_eq!(
        render("{{most}}", ValueLanding::Text).map(|text| text.len()),
        Ok(4096)
    );
    let problem = render("{{lines}}", ValueLanding::Header).unwrap_err();
    assert!(!problem.contains("Evil"), "{problem}");
}

#[test]
fn prompts_leave_missing_variables_empty() {
    let template = TextTemplate::parse("For {{who}}, {{absent}}.").unwrap();
    let given = variables(&[("who", "Ada")]);
    assert_eq!(template.render_or_empty(&given), "For Ada, .");
    assert_eq!(template.variables().collect::<Vec<_>>(), ["who", "absent"]);
    assert_eq!(template.written(), "For {{who}}, {{absent}}.");
}

proptest! {
    #[test]
    fn any_text_is_a_template_or_refused_and_comes_back_as_written(text in "[a-c{} .]{0,24}") {
        if let Ok(template) = TextTemplate::parse(&text) {
            let again = TextTemplate::parse(&template.written());
            prop_assert_eq!(again, Ok(template));
        }
    }

    #[test]
    fn rendering_reads_the_named_variables_only(before in "[^{]{0,8}", value in ".{0,16}", behind in "[^{]{0,8}") {
        let template = TextTemplate::parse(&format!("{before}{{{{named}}}}{behind}")).unwrap();
        let given = variables(&[("named", &value), ("canary", "CANARY-7")]);
        let rendered = template.render(&given, ValueLanding::Text).unwrap();
        prop_assert_eq!(rendered, format!("{before}{value}{behind}"));
    }

    #[test]
    fn a_url_part_is_unreserved_and_decodes_to_the_text(text in any::<String>()) {
        let part = url_part(&text);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~%".contains(c);
        prop_assert!(part.chars().all(is_plain), "{}", part);
        let decoded = url::form_urlencoded::parse(part.as_bytes()).next().unwrap_or_default();
        prop_assert_eq!(decoded.0, text);
    }
}
