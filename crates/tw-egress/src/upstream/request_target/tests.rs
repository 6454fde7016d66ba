use super::is_deployment;

#[test]
fn only_what_may_stand_in_the_path_is_a_deployment() {
    for name in ["gpt-4o", "my_model.v2", "a", "..a"] {
        assert!(is_deployment(name), "{name}");
    }
    let long = "a".repeat(65);
    for name in [
        "", ".", "..", "a/b", "a?b", "a#b", "a%2fb", "ä", "a b", &long,
    ] {
        assert!(!is_deployment(name), "{name}");
    }
}
