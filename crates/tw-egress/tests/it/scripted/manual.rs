//! The examples of the manual are scripts that are accepted.

use tw_egress::scripted::Script;

const MANUAL: &str = include_str!("../../../../../docs/scripted-model.md");

#[test]
fn every_example_of_the_manual_is_a_script() {
    let fenced = MANUAL
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap());
    let written = MANUAL
        .split("<<'END'\n")
        .skip(1)
        .map(|rest| rest.split("\nEND\n").next().unwrap());
    let examples: Vec<&str> = fenced.chain(written).collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        assert!(
            Script::parse(example).is_ok(),
            "{:?}\n{example}",
            Script::parse(example)
        );
    }
}
