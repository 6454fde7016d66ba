use std::sync::atomic::Ordering;
use std::time::Duration;

use tw_wire::format::WireFormat;

use super::answer::{ExpectedAnswer, ExpectedForm};
use super::{Arrivals, ConnectionWork, Observed, Plan, SilentClients, ask_once, run, share};
use crate::all::request;
use crate::machine::cpus::Cpus;
use crate::upstream::FakeUpstream;
use crate::upstream::profile::Profile;

const CHUNKS: ExpectedForm = ExpectedForm::Stream(WireFormat::OpenAiChat);
const MESSAGES: ExpectedForm = ExpectedForm::Stream(WireFormat::AnthropicMessages);
const RESPONSES: ExpectedForm = ExpectedForm::Stream(WireFormat::OpenAiResponses);
const ANY_CPUS: Cpus = Cpus { server: 0, rig: 0 };

fn expected(form: ExpectedForm, model: &str) -> ExpectedAnswer {
    let profile = Profile::parse(model).unwrap();
    ExpectedAnswer {
        form,
        text: profile.text(),
        deltas: profile.deltas as u64,
    }
}

fn observe(
    upstream: &FakeUpstream,
    form: ExpectedForm,
    model: &str,
    expected: ExpectedAnswer,
    arrivals: Arrivals,
) -> Observed {
    let plan = Plan {
        address: upstream.address,
        work: ConnectionWork::Requests(vec![request::ask(form, model, "key")]),
        expected,
        pause: Profile::parse(model).unwrap().pause,
        connections: 3,
        silent: None,
        ramp: Duration::ZERO,
        warm_up: Duration::ZERO,
        window: Duration::from_millis(100),
        arrivals,
    };
    run(plan, &[], ANY_CPUS).unwrap()
}

#[test]
fn the_fake_upstream_answers_as_expected() {
    let upstream = FakeUpstream::start().unwrap();
    for (form, model) in [
        (ExpectedForm::Plain, "mock-t16"),
        (CHUNKS, "mock-t40"),
        (CHUNKS, "mock-t40-b16"),
        (CHUNKS, "mock-t3-d5"),
        (MESSAGES, "messages-mock-t40-b16"),
        (RESPONSES, "responses-mock-t40-b16"),
    ] {
        let right = expected(form, model);
        let asked = ask_once(upstream.address, &request::ask(form, model, "key"), &right);
        assert_eq!(asked.unwrap(), None, "{model}");
        let observed = observe(&upstream, form, model, right.clone(), Arrivals::Closed);
        assert_eq!(observed.faults.count, 0, "{model}: {:?}", observed.faults);
        assert!(observed.acknowledged >= 3, "{model}: {observed:?}");
        assert!(observed.requests <= observed.acknowledged, "{model}");
        assert_eq!(observed.totals.len() as u64, observed.requests, "{model}");
        // A part of an answer may have come before or behind the window, the rest of it not.
        let deltas = if form == ExpectedForm::Plain {
            0
        } else {
            right.deltas
        };
        assert!(
            observed.deltas >= observed.requests * deltas,
            "{model}: {observed:?}"
        );
        assert!(
            observed.deltas <= observed.acknowledged * deltas,
            "{model}: {observed:?}"
        );

        let other = ExpectedAnswer {
            text: format!("{}more", right.text),
            ..right
        };
        let observed = observe(&upstream, form, model, other, Arrivals::Closed);
        assert_eq!(observed.acknowledged, 0, "{model}");
        assert!(observed.faults.count >= 3, "{model}");
    }
}

#[test]
fn a_rate_is_kept_whatever_the_server_does() {
    let upstream = FakeUpstream::start().unwrap();
    let model = "mock-t1";
    let arrivals = Arrivals::PerSecond(200.0);
    let right = expected(ExpectedForm::Plain, model);
    let observed = observe(&upstream, ExpectedForm::Plain, model, right, arrivals);
    assert_eq!(observed.faults.count, 0, "{:?}", observed.faults);
    // 200 a second in 100 ms, the first at once.
    assert_eq!(observed.acknowledged, 20);
}

#[test]
fn a_paced_text_is_held_against_its_pace() {
    let upstream = FakeUpstream::start().unwrap();
    let model = "mock-t30-d5";
    let right = expected(CHUNKS, model);
    let observed = observe(&upstream, CHUNKS, model, right, Arrivals::Closed);
    assert_eq!(observed.faults.count, 0, "{:?}", observed.faults);
    // The fake keeps its pace to a millisecond or so, unless the machine is busy; the first piece sets it.
    assert!(observed.lateness.contains(&Duration::ZERO));
    assert!(observed.lateness.len() > 3, "{:?}", observed.lateness);

    let model = "mock-t3";
    let right = expected(CHUNKS, model);
    let observed = observe(&upstream, CHUNKS, model, right, Arrivals::Closed);
    assert!(observed.lateness.is_empty());
}

#[test]
fn some_ask_and_do_not_read() {
    let upstream = FakeUpstream::start().unwrap();
    let model = "mock-t1";
    let plan = Plan {
        address: upstream.address,
        work: ConnectionWork::Requests(vec![request::ask(ExpectedForm::Plain, model, "key")]),
        expected: expected(ExpectedForm::Plain, model),
        pause: Duration::ZERO,
        connections: 1,
        silent: Some(SilentClients {
            request: request::ask(CHUNKS, "mock-t1000", "key"),
            connections: 2,
        }),
        ramp: Duration::ZERO,
        warm_up: Duration::ZERO,
        window: Duration::from_millis(50),
        arrivals: Arrivals::Closed,
    };
    let observed = run(plan, &[], ANY_CPUS).unwrap();
    assert_eq!((observed.silent, observed.faults.count), (2, 0));
    let asked = upstream.asked.model.load(Ordering::Relaxed);
    assert_eq!(asked, observed.acknowledged + 2);
}

#[test]
fn a_server_that_is_not_there_is_a_fault() {
    let address = FakeUpstream::start().unwrap().address;
    let right = expected(ExpectedForm::Plain, "mock-t1");
    let error = ask_once(
        address,
        &request::ask(ExpectedForm::Plain, "mock-t1", "key"),
        &right,
    );
    assert!(error.is_err());
}

#[test]
fn connections_start_evenly() {
    let ramp = Duration::from_secs(1);
    let starts: Vec<u128> = (0..4)
        .map(|index| share(ramp, index, 4).as_millis())
        .collect();
    assert_eq!(starts, [0, 250, 500, 750]);
}
