use super::{code_only, has_word, line_of};

fn check(text: &str, expected: &str) {
    let squeezed = code_only(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert_eq!(squeezed, expected, "{text}");
}

#[test]
fn comments_go() {
    check("a // x\nb", "a b");
    check("a /* x /* y */ z */ b", "a b");
    check("a /* never closed", "a");
}

#[test]
fn strings_go_with_their_escapes() {
    check(r#"f("a \" // b", c)"#, "f( , c)");
    check(r##"f(r#"a " b"#, c)"##, "f( , c)");
    check(r##"f(br"\", c)"##, "f(b , c)");
    check("f(\"ends in an escape\\", "f(");
}

#[test]
fn characters_go_and_lifetimes_stay() {
    check(
        "f('\"', 'é', '\\'', '\\u{1F600}', '😀') g",
        "f( , , , , ) g",
    );
    check(
        "fn f<'a>(x: &'a str, y: &'static str)",
        "fn f<'a>(x: &'a str, y: &'static str)",
    );
}

#[test]
fn raw_identifiers_and_words_that_end_in_r_stay() {
    check("r#type + for_r", "r#type + for_r");
    check("let var = 1;", "let var = 1;");
}

#[test]
fn lines_keep_their_numbers() {
    let code = code_only("\"a\nb\" /*\n*/ word");
    assert_eq!(line_of(&code, code.find("word").unwrap()), 3);
}

#[test]
fn words_are_whole() {
    assert!(has_word("use tokio::time;", "tokio"));
    assert!(!has_word("tokio_util", "tokio"));
    assert!(!has_word("operand", "rand"));
}
