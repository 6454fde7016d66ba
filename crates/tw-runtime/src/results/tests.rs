//! Lifetimes, where no time has to pass: a nanosecond is over before anybody looks.

use std::time::Duration;

use tw_core::tool::{SelectedAnswer, ToolOutput};

use super::{ResultCache, ResultKey};

const LONG: Duration = Duration::from_secs(3600);
const OVER: Duration = Duration::from_nanos(1);
const KEY: ResultKey = ResultKey([7; 32]);

fn text(text: &str) -> ToolOutput {
    ToolOutput::Text {
        text: text.to_owned(),
        cut: false,
        selected: Some(SelectedAnswer {
            text: "part".to_owned(),
            cut: false,
        }),
    }
}

#[test]
fn a_result_holds_for_its_own_lifetime() {
    let results = ResultCache::new(1024 * 1024);
    assert_eq!(results.get(KEY), None);
    results.put(KEY, LONG, text("a"));
    results.put(ResultKey([8; 32]), OVER, text("b"));
    assert_eq!(results.get(KEY), Some(text("a")));
    assert_eq!(results.get(ResultKey([8; 32])), None);
}

#[test]
fn a_newer_result_brings_its_lifetime() {
    let results = ResultCache::new(1024 * 1024);
    results.put(KEY, OVER, text("a"));
    results.put(KEY, LONG, text("b"));
    assert_eq!(results.get(KEY), Some(text("b")));
    results.put(KEY, OVER, text("c"));
    assert_eq!(results.get(KEY), None);
}

#[test]
fn what_is_kept_stays_within_its_bytes() {
    let results = ResultCache::new(10_000);
    for number in 0..100 {
        results.put(ResultKey([number; 32]), LONG, text(&"x".repeat(900)));
    }
    let large = ResultKey([200; 32]);
    results.put(large, LONG, text(&"x".repeat(10_000)));
    results.0.run_pending_tasks();
    assert!(results.0.weighted_size() <= 10_000);
    assert_eq!(results.get(large), None, "more than all");
    let kept = (0..100).filter(|number| results.get(ResultKey([*number; 32])).is_some());
    assert!((1..=10).contains(&kept.count()));
}
