use super::check;
use crate::tidy::tree::SourceTree;

const CODE: &str = "
enum Light {
    Red,
    Green { since: u32 },
}

impl Crossing {
    fn new() -> Self {
        Self { light: Light::Red }
    }

    fn go(&mut self) {
        if let Light::Red = self.light {
            self.light = Light::Green {
                since: 1,
            };
        }
    }
}
";

fn found(diagram: &str) -> Vec<String> {
    let page = format!("# Map\n\n```mermaid\nstateDiagram-v2\n{diagram}```\n");
    let tree = SourceTree::of(&[
        ("ARCHITECTURE.md", &page),
        ("crates/a/src/light.rs", CODE),
        (
            "crates/a/src/light/stop.rs",
            "fn stop(light: &mut Light) {\n    *light = Light::Red;\n}\n",
        ),
    ]);
    check(&tree).iter().map(ToString::to_string).collect()
}

#[test]
fn a_diagram_that_says_what_the_code_does_is_right() {
    let diagram = "\
%% Light in crates/a/src/light.rs
[*] --> Red : new
Red --> Green : go
Green --> Red : stop
Green --> [*]
";
    assert_eq!(found(diagram), Vec::<String>::new());
}

#[test]
fn states_and_moves_that_differ_are_told() {
    let diagram = "\
%% Light in crates/a/src/light.rs
[*] --> Red : new
Red --> Yellow : go, wait
Yellow --> Red : new
";
    assert_eq!(
        found(diagram),
        [
            "ARCHITECTURE.md:3: `Light` has no `Yellow`",
            "ARCHITECTURE.md:3: `Light::Green` is missing",
            "ARCHITECTURE.md:7: `go` makes no `Light::Yellow`",
            "ARCHITECTURE.md:7: `wait` makes no `Light::Yellow`",
            "ARCHITECTURE.md:3: no edge says that `go` makes `Light::Green`",
            "ARCHITECTURE.md:3: no edge says that `stop` makes `Light::Red`",
        ]
    );
}

#[test]
fn a_diagram_of_no_enum_is_told() {
    assert_eq!(
        found("[*] --> Red\n"),
        ["ARCHITECTURE.md:3: the diagram names no enum of the code: `%% ENUM in FILE`"]
    );
}
