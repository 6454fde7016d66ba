use super::{ModelNames, NamePattern};

fn pattern(text: &str) -> NamePattern {
    NamePattern::new(text).unwrap()
}

fn names(patterns: &[&str], aliases: &[(&str, &str)]) -> ModelNames {
    ModelNames::new(
        patterns.iter().map(|text| pattern(text)).collect(),
        aliases
            .iter()
            .map(|(alias, sent)| (pattern(alias), (*sent).to_owned()))
            .collect(),
    )
}

#[test]
fn a_star_stands_for_any_text() {
    for (text, matching, others) in [
        ("o3", vec!["o3"], vec!["o3-mini", "O3", "", "o"]),
        (
            "gpt-*",
            vec!["gpt-", "gpt-4o", "gpt-*"],
            vec!["gpt", "my-gpt-4o"],
        ),
        ("*", vec!["", "a", "ü/b"], vec![]),
        (
            "*-mini",
            vec!["-mini", "o3-mini"],
            vec!["o3-mini-2", "mini"],
        ),
        (
            "a*b*c",
            vec!["abc", "aXbYc", "abbcc", "a*b*c"],
            vec!["acb", "ab", "ac", "abcd"],
        ),
        ("*b*", vec!["b", "abc"], vec!["", "ac"]),
        ("a**c", vec!["ac", "abc"], vec!["a", "c"]),
        // The parts may not share a letter of the name.
        ("ab*ba", vec!["abba", "abcba"], vec!["aba"]),
        ("a*aa*a", vec!["aaaa", "abaaba"], vec!["aaa"]),
        ("a.c", vec!["a.c"], vec!["abc"]),
    ] {
        for name in matching {
            assert!(pattern(text).matches(name), "{text} {name}");
        }
        for name in others {
            assert!(!pattern(text).matches(name), "{text} {name}");
        }
    }
    assert_eq!(NamePattern::new(""), None);
}

#[test]
fn without_patterns_every_model_is_served() {
    let all = ModelNames::all();
    assert!(all.serves("anything"));
    assert_eq!(all.sent("anything"), "anything");
    let aliased = names(&[], &[("a", "b")]);
    assert!(aliased.serves("anything"));
}

#[test]
fn an_alias_is_served_whatever_the_patterns_say() {
    let served = names(&["gpt-*"], &[("fast", "gpt-4o-mini")]);
    assert!(served.serves("fast"));
    assert!(served.serves("gpt-4o"));
    assert!(!served.serves("fast-2"));
    assert_eq!(served.sent("fast"), "gpt-4o-mini");
    assert_eq!(served.sent("gpt-4o"), "gpt-4o");
}

#[test]
fn the_most_exact_alias_counts_in_whatever_order_they_are_written() {
    let aliases = [
        ("*", "any"),
        ("gpt-*", "gpt"),
        ("gpt-4*", "four"),
        ("gpt-4o", "exact"),
        ("gpt-4o*", "begins"),
    ];
    let mut backwards = aliases;
    backwards.reverse();
    for aliases in [aliases, backwards] {
        let served = names(&[], &aliases);
        for (name, sent) in [
            ("gpt-4o", "exact"),
            ("gpt-4o-mini", "begins"),
            ("gpt-4.1", "four"),
            ("gpt-5", "gpt"),
            ("llama", "any"),
        ] {
            assert_eq!(served.sent(name), sent, "{name}");
        }
    }
}

#[test]
fn only_names_that_are_written_out_are_known() {
    let served = names(&["gpt-*", "o3"], &[("fast", "x"), ("*", "y")]);
    assert_eq!(served.written().collect::<Vec<_>>(), ["fast", "o3"]);
}
