use tw_core::id::{CallRef, TurnId};
use tw_wire::trace_context::{SpanId, TraceId, TraceParent};
use uuid::Uuid;

use super::{SpanOf, TraceSampler, TracedTurn, hashed};

fn parent(is_sampled: bool) -> TraceParent {
    TraceParent {
        trace: TraceId([7; 16]),
        span: SpanId([7; 8]),
        is_sampled,
    }
}

#[test]
fn what_is_sampled() {
    let low = TraceId([0; 16]);
    let high = TraceId([0xff; 16]);
    // The name, its argument, and whether it takes a low id, a high one, one of a sampled parent and of another.
    for (name, ratio, expected) in [
        ("always_on", 1.0, [true, true, true, true]),
        ("always_off", 1.0, [false, false, false, false]),
        ("traceidratio", 0.5, [true, false, false, false]),
        ("traceidratio", 1.0, [true, true, true, true]),
        ("traceidratio", 0.0, [false, false, false, false]),
        ("parentbased_always_on", 1.0, [true, true, true, false]),
        ("parentbased_always_off", 1.0, [false, false, true, false]),
        ("parentbased_traceidratio", 0.5, [true, false, true, false]),
    ] {
        let sampler = TraceSampler::parse(name, ratio).unwrap();
        let found = [
            sampler.samples(low, None),
            sampler.samples(high, None),
            sampler.samples(high, Some(parent(true))),
            sampler.samples(high, Some(parent(false))),
        ];
        assert_eq!(found, expected, "{name} {ratio}");
    }
    for wrong in ["", "on", "parentbased_", "parentbased_on", "jaeger_remote"] {
        assert_eq!(TraceSampler::parse(wrong, 1.0), None, "{wrong}");
    }
}

#[test]
fn ids_follow_from_the_turn_alone() {
    let of = |turn: u128| TracedTurn {
        turn: TurnId(Uuid::from_u128(turn)),
        trace: TraceId(hashed(TurnId(Uuid::from_u128(turn)), "trace", &[])),
        parent: None,
        state: None,
        is_sampled: true,
        contents: false,
        to_upstreams: true,
        to_tools: false,
        conversation: String::new(),
    };
    let call = CallRef {
        round: 1,
        position: 2,
    };
    let parts = [
        SpanOf::Turn,
        SpanOf::Round(1),
        SpanOf::Round(2),
        SpanOf::ModelAttempt { round: 1, n: 2 },
        SpanOf::ModelAttempt { round: 2, n: 1 },
        SpanOf::Call(call),
        SpanOf::CallAttempt { call, n: 1 },
    ];
    let mut ids: Vec<SpanId> = parts.iter().map(|part| of(1).span(*part)).collect();
    let again: Vec<SpanId> = parts.iter().map(|part| of(1).span(*part)).collect();
    assert_eq!(ids, again);
    ids.extend(parts.iter().map(|part| of(2).span(*part)));
    ids.sort_by_key(|id| id.0);
    ids.dedup();
    assert_eq!(ids.len(), 2 * parts.len());
    assert_eq!(of(1).for_tool(SpanOf::Turn), None);
    let told = of(1).for_upstream(SpanOf::Round(1)).unwrap().parent;
    assert_eq!(told.span, of(1).span(SpanOf::Round(1)));
    assert_eq!(told.trace, of(1).trace);
}
