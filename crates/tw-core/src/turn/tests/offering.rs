//! Which tools a request is offered.

use std::sync::Arc;

use super::{PARAMETERS, tool};
use crate::approval::ApprovalWords;
use crate::json::Json;
use crate::model::CallForm;
use crate::request::{ModelInput, RequestTools, ToolEntry};
use crate::tenant::{ToolGrant, ToolsMode};
use crate::tool::{EffectClass, Tool};
use crate::turn::{MixedListEntry, OfferError, OfferOutcome, OfferRules, ToolOffer};

pub(super) fn registry() -> Vec<Arc<Tool>> {
    ["zeta", "alpha", "mid"]
        .map(|name| tool(name, EffectClass::Read))
        .to_vec()
}

pub(super) fn listing(names: &[&str]) -> ModelInput {
    let entries = names.iter().map(|name| entry(name, Some(PARAMETERS)));
    super::trace::input(RequestTools::List(entries.collect()))
}

fn offer(
    input: &ModelInput,
    grant: &ToolGrant,
    mode: ToolsMode,
    registry: &[Arc<Tool>],
    tools_max: usize,
) -> Result<OfferOutcome, OfferError> {
    let rules = OfferRules {
        grant,
        mode,
        approvals: ApprovalWords::Known,
        tools_max,
    };
    crate::turn::offer(input, &rules, registry)
}

fn entry(name: &str, parameters: Option<&str>) -> ToolEntry {
    ToolEntry {
        name: name.to_owned(),
        form: CallForm::Function,
        description: None,
        strict: None,
        is_of_provider: false,
        parameters: parameters.map(|text| Json::parse(text).unwrap()),
        raw: Json::parse("{}").unwrap(),
    }
}

pub(super) fn offered(input: &ModelInput, grant: &ToolGrant) -> Result<Vec<String>, OfferError> {
    offered_as(input, grant, ToolsMode::Replace)
}

fn offered_as(
    input: &ModelInput,
    grant: &ToolGrant,
    mode: ToolsMode,
) -> Result<Vec<String>, OfferError> {
    offer(input, grant, mode, &registry(), 128).map(|offered| match offered.offer {
        ToolOffer::Relay => Vec::new(),
        ToolOffer::Ours(tools) => tools.iter().map(|tool| tool.name.clone()).collect(),
        ToolOffer::Mixed(listed) => {
            let name = |listed: &MixedListEntry| match listed {
                MixedListEntry::Ours(tool) => tool.name.clone(),
                MixedListEntry::Client(name) => format!("{name} (client)"),
            };
            listed.iter().map(name).collect()
        }
    })
}

/// What a list is made into where the key's tools are added to it, and which names meet.
#[test]
fn a_keys_tools_are_added_behind_a_list_that_does_not_name_them() {
    let named =
        |names: &[&str]| ToolGrant::Named(names.iter().map(|name| (*name).to_owned()).collect());
    for (list, grant, offers, shared) in [
        (
            &["theirs", "other"][..],
            ToolGrant::All,
            &["theirs (client)", "other (client)", "alpha", "mid", "zeta"][..],
            &[][..],
        ),
        (
            &["theirs"],
            named(&["zeta", "alpha", "gone"]),
            &["theirs (client)", "alpha", "zeta"],
            &[],
        ),
        // An empty list is a list.
        (&[], ToolGrant::All, &["alpha", "mid", "zeta"], &[]),
        // A name of ours selects ours, in its place.
        (
            &["mid", "theirs"],
            ToolGrant::All,
            &["mid", "theirs (client)", "alpha", "zeta"],
            &["mid"],
        ),
        (
            &["zeta", "mid"],
            named(&["mid", "zeta"]),
            &["zeta", "mid"],
            &["zeta", "mid"],
        ),
        // One that the key may not use is the client's own.
        (&["zeta"], named(&["mid"]), &["zeta (client)", "mid"], &[]),
        // Nothing to add leaves a relay.
        (&["theirs"], ToolGrant::None, &[], &[]),
        (&["theirs"], named(&["gone"]), &[], &[]),
        (&[], ToolGrant::None, &[], &[]),
    ] {
        let input = listing(list);
        assert_eq!(
            offered_as(&input, &grant, ToolsMode::Add).unwrap(),
            offers,
            "{list:?} {grant:?}"
        );
        let offered = offer(&input, &grant, ToolsMode::Add, &registry(), 128).unwrap();
        assert_eq!(offered.names_shared, shared, "{list:?} {grant:?}");
        let exact = offer(&input, &grant, ToolsMode::Replace, &registry(), 128).unwrap();
        assert!(exact.names_shared.is_empty());
    }
    let absent = super::trace::input(RequestTools::Absent);
    assert_eq!(
        offered_as(&absent, &ToolGrant::All, ToolsMode::Add).unwrap(),
        ["alpha", "mid", "zeta"]
    );
}

#[test]
fn what_cannot_be_added_is_refused_and_a_relay_is_not() {
    let add = |input: &ModelInput, grant: &ToolGrant, max| {
        offer(input, grant, ToolsMode::Add, &registry(), max).map(|_| ())
    };
    // The client's own count, too: the provider has a limit of its own.
    let listed = listing(&["one", "two"]);
    assert_eq!(add(&listed, &ToolGrant::All, 5), Ok(()));
    assert_eq!(
        add(&listed, &ToolGrant::All, 4),
        Err(OfferError::TooMany { offered: 5, max: 4 })
    );
    let mut several = listed;
    several.choices = 2;
    assert_eq!(
        add(&several, &ToolGrant::All, 128),
        Err(OfferError::SeveralChoices)
    );
    assert_eq!(add(&several, &ToolGrant::None, 128), Ok(()));
    let old = super::trace::input(RequestTools::ByName(vec![entry("theirs", None)]));
    assert_eq!(
        add(&old, &ToolGrant::All, 128),
        Err(OfferError::MixedByName)
    );
    assert_eq!(add(&old, &ToolGrant::None, 128), Ok(()));
}

#[test]
fn without_a_list_a_key_is_offered_what_it_was_granted() {
    let absent = super::trace::input(RequestTools::Absent);
    let named = ToolGrant::Named(vec!["zeta".to_owned(), "mid".to_owned(), "gone".to_owned()]);
    assert_eq!(
        offered(&absent, &ToolGrant::All).unwrap(),
        ["alpha", "mid", "zeta"]
    );
    assert_eq!(offered(&absent, &named).unwrap(), ["mid", "zeta"]);
    assert!(offered(&absent, &ToolGrant::None).unwrap().is_empty());
}

#[test]
fn an_empty_list_offers_nothing() {
    assert!(offered(&listing(&[]), &ToolGrant::All).unwrap().is_empty());
}

#[test]
fn names_that_the_key_may_not_use_are_the_clients_own() {
    let named = ToolGrant::Named(vec!["mid".to_owned()]);
    assert!(
        offered(&listing(&["zeta", "theirs"]), &named)
            .unwrap()
            .is_empty()
    );
    assert_eq!(offered(&listing(&["mid"]), &named).unwrap(), ["mid"]);
}

#[test]
fn a_mixed_list_keeps_the_clients_order() {
    let listed = listing(&["theirs", "zeta", "other", "alpha"]);
    assert_eq!(
        offered(&listed, &ToolGrant::All).unwrap(),
        ["theirs (client)", "zeta", "other (client)", "alpha"]
    );
}

#[test]
fn the_old_form_does_not_mix() {
    let names = ["mid", "theirs"].map(|name| entry(name, None));
    let listed = super::trace::input(RequestTools::ByName(names.to_vec()));
    let refused = offered(&listed, &ToolGrant::All);
    assert_eq!(refused, Err(OfferError::MixedByName));
}

#[test]
fn several_choices_go_with_a_clients_own_tools_only() {
    let mut input = listing(&["theirs"]);
    input.choices = 2;
    assert!(offered(&input, &ToolGrant::All).unwrap().is_empty());
    input.tools = listing(&["theirs", "mid"]).tools;
    let mixed = offered(&input, &ToolGrant::All);
    assert_eq!(mixed, Err(OfferError::SeveralChoices));
    input.tools = RequestTools::Absent;
    assert_eq!(
        offered(&input, &ToolGrant::All),
        Err(OfferError::SeveralChoices)
    );
}

#[test]
fn our_description_holds_and_a_different_one_is_counted() {
    let other = r#"{"type":"object"}"#;
    for (parameters, replaced) in [(None, 0), (Some(PARAMETERS), 0), (Some(other), 1)] {
        for form in [RequestTools::List, RequestTools::ByName] {
            let input = super::trace::input(form(vec![entry("mid", parameters)]));
            let offered = offer(
                &input,
                &ToolGrant::All,
                ToolsMode::Replace,
                &registry(),
                128,
            )
            .unwrap();
            assert_eq!(offered.schemas_replaced, replaced);
            let ToolOffer::Ours(tools) = offered.offer else {
                panic!("mid is ours");
            };
            assert_eq!(tools[0].parameters.as_str(), PARAMETERS);
        }
    }
}

#[test]
fn more_tools_than_a_request_may_have_are_not_offered() {
    let absent = super::trace::input(RequestTools::Absent);
    let offered = |max| {
        offer(
            &absent,
            &ToolGrant::All,
            ToolsMode::Replace,
            &registry(),
            max,
        )
        .map(|_| ())
    };
    assert_eq!(offered(3), Ok(()));
    assert_eq!(offered(2), Err(OfferError::TooMany { offered: 3, max: 2 }));
}

#[test]
fn tools_that_are_too_large_together_are_not_offered() {
    let absent = super::trace::input(RequestTools::Absent);
    let of_bytes = |bytes: usize| {
        let mut large = (*tool("large", EffectClass::Read)).clone();
        large.description = "d".repeat(bytes - large.parameters.as_str().len());
        let registry = [Arc::new(large)];
        offer(&absent, &ToolGrant::All, ToolsMode::Replace, &registry, 128).map(|_| ())
    };
    let max = crate::limits::OFFERED_BYTES_MAX;
    assert_eq!(of_bytes(max), Ok(()));
    assert_eq!(
        of_bytes(max + 1),
        Err(OfferError::TooLarge {
            bytes: max + 1,
            max
        })
    );
}
