//! Histories as clients keep them, with what goes wrong in them: results that are missing, late, twice or of no call,
//! ids that come twice, answers that were given twice, texts of nothing, halves of characters.

use super::rng::Rng;

#[derive(Clone, Debug)]
pub enum HistoryStep {
    System(String),
    User(Vec<Part>),
    Assistant(Answer),
    Result(CallResult),
}

#[derive(Clone, Debug)]
pub enum Part {
    Text(String),
    Image(&'static str),
    File,
    Audio,
    /// Of an id that a provider knows.
    FileId,
}

#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub reasoning: Option<String>,
    /// The reasoning has what its maker knows it by.
    pub is_signed: bool,
    pub text: Option<String>,
    pub calls: Vec<Call>,
}

#[derive(Clone, Debug)]
pub struct Call {
    pub id: String,
    pub name: &'static str,
    pub arguments: String,
    pub is_custom: bool,
}

#[derive(Clone, Debug)]
pub struct CallResult {
    pub id: String,
    pub is_custom: bool,
    pub content: Vec<Part>,
    pub is_error: bool,
}

/// What stands for half a character until the request is text: a `String` cannot hold one.
pub const HALF: char = '\u{e000}';

const TEXTS: [&str; 9] = [
    "hello",
    "",
    " ",
    "\n",
    "Ünïcödé 🎈",
    "a half \u{e000} of one",
    "ends with space ",
    "{\"json\": true}",
    "\"quoted\" and \\ back",
];
const IMAGES: [&str; 4] = [
    "data:image/png;base64,AAAA",
    "https://example.com/a.png",
    "data:image/webp;base64,AAAA",
    "data:image/svg+xml;base64,AAAA",
];
const IDS: [&str; 8] = [
    "call_1",
    "call_2",
    "call_3",
    "toolu_4",
    "functions.f:5",
    "id with space",
    "a.very_long_id_that_has_more_than_forty_characters_in_it",
    "call_1",
];
pub const NAMES: [&str; 3] = ["f", "g", "deleted"];
pub const CUSTOM: &str = "patch";
const ARGUMENTS: [&str; 7] = [
    "{}",
    "{\"a\":1}",
    "{\"a\": {\"b\": [1, 2.50]}}",
    "",
    "{\"a\":",
    "[1]",
    "{\"t\":\"é🎈\"}",
];
const STEPS_MAX: usize = 9;

fn text(rng: &mut Rng) -> String {
    rng.pick(&TEXTS).to_owned()
}

fn part(rng: &mut Rng) -> Part {
    match rng.below(9) {
        0 | 1 => Part::Image(rng.pick(&IMAGES)),
        2 => Part::File,
        3 => Part::Audio,
        4 => Part::FileId,
        _ => Part::Text(text(rng)),
    }
}

fn parts(rng: &mut Rng) -> Vec<Part> {
    if rng.one_in(3) {
        (0..=rng.below(3)).map(|_| part(rng)).collect()
    } else {
        vec![Part::Text(text(rng))]
    }
}

fn answer(rng: &mut Rng) -> Answer {
    let mut answer = Answer {
        reasoning: rng.one_in(4).then(|| text(rng)),
        is_signed: rng.one_in(2),
        text: (!rng.one_in(3)).then(|| text(rng)),
        calls: Vec::new(),
    };
    if rng.one_in(2) {
        let count = 1 + rng.below(3);
        answer.calls = (0..count).map(|_| call(rng)).collect();
    }
    answer
}

fn call(rng: &mut Rng) -> Call {
    let is_custom = rng.one_in(6);
    Call {
        id: rng.pick(&IDS).to_owned(),
        name: if is_custom { CUSTOM } else { rng.pick(&NAMES) },
        arguments: if is_custom {
            text(rng)
        } else {
            rng.pick(&ARGUMENTS).to_owned()
        },
        is_custom,
    }
}

fn result(rng: &mut Rng, call: &Call) -> CallResult {
    CallResult {
        id: call.id.clone(),
        is_custom: call.is_custom,
        content: parts(rng),
        is_error: rng.one_in(8),
    }
}

/// A history that begins with the user and ends with the user or a result, as most do; in some, holes.
pub fn history(rng: &mut Rng) -> Vec<HistoryStep> {
    // Half of them have nothing wrong, so that what needs no change is tried, too.
    let goes_wrong = rng.one_in(2);
    let mut steps = Vec::new();
    let mut late: Vec<HistoryStep> = Vec::new();
    if rng.one_in(3) {
        steps.push(HistoryStep::System(text(rng)));
    }
    if !(goes_wrong && rng.one_in(10)) {
        steps.push(HistoryStep::User(parts(rng)));
    }
    for _ in 0..rng.below(STEPS_MAX) {
        if goes_wrong && rng.one_in(12) {
            steps.push(HistoryStep::System(text(rng)));
        }
        if goes_wrong && rng.one_in(15) {
            let none = call(rng);
            steps.push(HistoryStep::Result(result(rng, &none)));
        }
        let mut given = answer(rng);
        if !goes_wrong {
            tell_apart(&mut given.calls);
        }
        let calls = given.calls.clone();
        steps.push(HistoryStep::Assistant(given.clone()));
        let mut results = Vec::new();
        for call in &calls {
            let result = HistoryStep::Result(result(rng, call));
            match rng.below(if goes_wrong { 8 } else { 1 }) {
                5 => {}
                6 => late.push(result),
                7 => results.extend([result.clone(), result]),
                _ => results.push(result),
            }
        }
        if rng.one_in(4) {
            rng.shuffle(&mut results);
        }
        steps.extend(results);
        if goes_wrong && rng.one_in(10) {
            // A branch: the answer was asked for again.
            steps.push(HistoryStep::Assistant(given));
        }
        if calls.is_empty() || rng.one_in(3) {
            steps.push(HistoryStep::User(parts(rng)));
        }
        if rng.one_in(2) {
            steps.append(&mut late);
        }
    }
    if goes_wrong && rng.one_in(8) {
        steps.push(HistoryStep::Assistant(answer(rng)));
    }
    if steps.is_empty() {
        steps.push(HistoryStep::User(parts(rng)));
    }
    steps
}

fn tell_apart(calls: &mut [Call]) {
    for (at, call) in calls.iter_mut().enumerate() {
        call.id = format!("call_{at}_{}", call.name);
        if call.is_custom {
            call.arguments = "plain".to_owned();
        } else if !call.arguments.ends_with('}') {
            call.arguments = "{}".to_owned();
        }
    }
}
