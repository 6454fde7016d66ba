//! Properties of the codecs over invented answers and requests.

use proptest::prelude::{Just, Strategy, any, proptest};
use proptest::{collection, option, prop_assert_eq, prop_oneof};
use serde_json::{Value, json};
use tw_core::json::Literal;
use tw_core::limits::RequestLimits;
use tw_core::model::{
    AnswerDelta, CallDelta, CallForm, DeltaRest, Finish, ModelEvent, ReasoningText,
};
use tw_core::native::AnswerOrigin;
use tw_core::request::{ChoiceSent, ModelInput, ModelRequest, OfferedTools};
use tw_wire::openai_chat::outcome::ChatDialect;
use tw_wire::openai_chat::request;
use tw_wire::openai_chat::{FORMAT, REASONING_CONTENT};

use crate::answer;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z \"\\\\\n\r\t/{}:,]{1,12}",
        "\\PC{1,6}",
        Just("🦊\u{0}é".to_owned())
    ]
}

fn delta() -> impl Strategy<Value = ModelEvent> {
    (
        0..3u32,
        option::of(text()),
        option::of(text()),
        option::of(text()),
    )
        .prop_filter("something is said", |(_, text, reasoning, refusal)| {
            text.is_some() || reasoning.is_some() || refusal.is_some()
        })
        .prop_map(|(choice, text, reasoning, refusal)| {
            let rest = DeltaRest {
                refusal: refusal.as_deref().map(Literal::from_text),
                reasoning: reasoning.map(|text| ReasoningText {
                    place: REASONING_CONTENT,
                    text: Literal::from_text(&text),
                }),
                ..DeltaRest::default()
            };
            let rest = (rest != DeltaRest::default()).then(|| Box::new(rest));
            ModelEvent::Delta(AnswerDelta {
                choice,
                text: text.as_deref().map(Literal::from_text),
                rest,
            })
        })
}

/// Calls of choice 0, whole or in two pieces.
fn calls() -> impl Strategy<Value = Vec<ModelEvent>> {
    let call = ("[a-z_]{1,8}", text(), option::of(text()));
    collection::vec(call, 0..4).prop_map(|calls| {
        let mut events = Vec::new();
        for (at, (name, first, second)) in calls.into_iter().enumerate() {
            let piece = CallDelta {
                choice: 0,
                call: u32::try_from(at).expect("few calls"),
                id: Some(format!("call_{at}").into()),
                name: Some(name.into()),
                form: CallForm::Function,
                // No object, or a complete one would make the next piece a call of its own.
                arguments: Some(Literal::from_text(&format!("x{first}"))),
                native: None,
            };
            let rest = second.map(|text| CallDelta {
                id: None,
                name: None,
                arguments: Some(Literal::from_text(&text)),
                ..piece.clone()
            });
            events.push(ModelEvent::Call(piece));
            events.extend(rest.map(ModelEvent::Call));
        }
        events
    })
}

fn model_answer() -> impl Strategy<Value = Vec<ModelEvent>> {
    (collection::vec(delta(), 0..12), calls()).prop_map(|(deltas, calls)| {
        let mut events = vec![ModelEvent::Start {
            model: Some("m".to_owned()),
            created_s: Some(7),
        }];
        events.extend(deltas);
        events.extend(calls);
        events.push(ModelEvent::Finish {
            choice: 0,
            reason: Finish::Stop,
        });
        events.push(ModelEvent::Done);
        events
    })
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            collection::btree_map("[a-z]{1,4}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn client_request() -> impl Strategy<Value = Value> {
    let said = (
        prop_oneof![Just("user"), Just("system"), Just("assistant")],
        text(),
    )
        .prop_map(|(role, text)| json!({"content": text, "role": role}));
    (
        collection::vec(said, 1..5),
        collection::btree_map("x_[a-z]{1,6}", json_value(), 0..5),
    )
        .prop_map(|(messages, unknown)| {
            let mut request = json!({"stream": true, "model": "m", "messages": messages, "n": 2});
            if let Value::Object(fields) = &mut request {
                fields.extend(unknown);
            }
            request
        })
}

/// An upstream that knows the model by this name.
pub fn home(model: &str) -> &'static AnswerOrigin {
    Box::leak(Box::new(AnswerOrigin {
        format: FORMAT,
        upstream: "up".into(),
        model: model.into(),
    }))
}

pub fn untouched(input: &ModelInput) -> ModelRequest<'_> {
    ModelRequest {
        input,
        messages: input.messages.iter().collect(),
        to: home(&input.model),
        tools: OfferedTools::AsSent,
        tool_choice: ChoiceSent::AsSent,
        rounds: Vec::new(),
        completion_tokens_left: None,
        ask_usage: false,
    }
}

/// The events but for the text that every stream of ours begins with, and that stays empty beside calls alone.
fn said(events: &[ModelEvent]) -> Vec<ModelEvent> {
    let is_blank = |event: &&ModelEvent| match event {
        ModelEvent::Delta(AnswerDelta { text, rest, .. }) => {
            rest.is_none() && text.as_ref().is_some_and(Literal::is_empty)
        }
        _ => false,
    };
    let said = events.iter().filter(|event| !is_blank(event));
    said.cloned().collect()
}

proptest! {
    #[test]
    fn what_is_written_is_read_whatever_the_pieces(
        events in model_answer(),
        cuts in collection::vec(any::<proptest::sample::Index>(), 0..6),
    ) {
        let written = answer::write_stream(&answer::log(&events), ChatDialect::Tools);
        let whole = answer::events([written.as_slice()]);
        prop_assert_eq!(said(&whole), said(&events));

        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(written.len() + 1)).collect();
        cuts.sort_unstable();
        cuts.push(written.len());
        let mut from = 0;
        let pieces: Vec<&[u8]> = cuts.into_iter().map(|to| {
            let piece = &written[from..to];
            from = to;
            piece
        }).collect();
        prop_assert_eq!(answer::events(pieces), whole);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in collection::vec(any::<u8>(), 0..200)) {
        let mut events = Vec::new();
        let limits = RequestLimits::defaults();
        let _refused = request::decode(&bytes, &limits).is_err();
        let _refused = tw_wire::openai_chat::body::decode(&bytes, Default::default(), &mut events).is_err();
        let error = tw_wire::openai_chat::body::decode_error(500, None, &bytes);
        prop_assert_eq!(error.status, Some(500));
        let mut decoder = tw_wire::openai_chat::stream::StreamDecoder::new(
            &tw_wire::upstream_answer::StreamLimits { event_bytes_max: 100, empty_bytes_max: 100_000 },
        );
        let _refused = decoder.feed(&bytes, &mut events).is_err();
        let _refused = decoder.finish(&mut events).is_err();
    }

    #[test]
    fn an_odd_chunk_is_read_or_refused(chunk in json_value(), delta in json_value(), calls in json_value()) {
        for value in [
            chunk.clone(),
            json!({"choices": chunk}),
            json!({"choices": [{"delta": delta}], "usage": chunk, "error": calls}),
            json!({"choices": [{"delta": {"tool_calls": calls, "content": delta, "x": chunk}}]}),
            json!({"choices": [{"delta": {"tool_calls": [{"index": calls, "function": delta, "id": chunk}]}}]}),
        ] {
            let mut bytes = Vec::new();
            tw_wire::sse::write_data(&mut bytes, value.to_string().as_bytes());
            let mut events = Vec::new();
            let limits = tw_wire::upstream_answer::StreamLimits::defaults();
            let mut decoder = tw_wire::openai_chat::stream::StreamDecoder::new(&limits);
            let _refused = decoder.feed(&bytes, &mut events).is_err();
            let _refused = tw_wire::openai_chat::body::decode(value.to_string().as_bytes(), Default::default(), &mut events).is_err();
            let _error = tw_wire::openai_chat::body::decode_error(400, None, value.to_string().as_bytes());
        }
    }

    #[test]
    fn an_untouched_request_goes_on_as_it_came(request in client_request()) {
        let limits = RequestLimits::defaults();
        let body = request.to_string();
        let input = request::decode(body.as_bytes(), &limits).expect("the request is valid");
        let encoded = request::encode(&untouched(&input));
        let sent: Value = serde_json::from_slice(&encoded).expect("JSON is sent");
        prop_assert_eq!(&sent, &request);
        let again = request::decode(&encoded, &limits).expect("it is still valid");
        prop_assert_eq!(&again.fields, &input.fields);
        prop_assert_eq!(&again.messages, &input.messages);
    }
}
