//! Which tools a request is offered.

use std::sync::Arc;

use super::{PARAMETERS, tool};
use crate::change::ToolGrant;
use crate::json::Json;
use crate::model::CallForm;
use crate::request::{ModelInput, ToolEntry, Tools};
use crate::tool::{EffectClass, Tool};
use crate::turn::{Listed, Offer, OfferError, offer};

pub(super) fn registry() -> Vec<Arc<Tool>> {
    ["zeta", "alpha", "mid"]
        .map(|name| tool(name, EffectClass::Read))
        .to_vec()
}

pub(super) fn listing(names: &[&str]) -> ModelInput {
    let entries = names.iter().map(|name| entry(name, Some(PARAMETERS)));
    super::trace::input(Tools::List(entries.collect()))
}

fn entry(name: &str, parameters: Option<&str>) -> ToolEntry {
    ToolEntry {
        name: name.to_owned(),
        form: CallForm::Function,
        parameters: parameters.map(|text| Json::parse(text).unwrap()),
        raw: Json::parse("{}").unwrap(),
    }
}

pub(super) fn offered(input: &ModelInput, grant: &ToolGrant) -> Result<Vec<String>, OfferError> {
    offer(input, grant, &registry(), 128).map(|offered| match offered.offer {
        Offer::Relay => Vec::new(),
        Offer::Ours(tools) => tools.iter().map(|tool| tool.name.clone()).collect(),
        Offer::Mixed(listed) => {
            let name = |listed: &Listed| match listed {
                Listed::Ours(tool) => tool.name.clone(),
                Listed::Client(name) => format!("{name} (client)"),
            };
            listed.iter().map(name).collect()
        }
    })
}

#[test]
fn without_a_list_a_key_is_offered_what_it_was_granted() {
    let absent = super::trace::input(Tools::Absent);
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
    let listed = super::trace::input(Tools::Legacy(names.to_vec()));
    let refused = offered(&listed, &ToolGrant::All);
    assert_eq!(refused, Err(OfferError::MixedLegacy));
}

#[test]
fn several_choices_go_with_a_clients_own_tools_only() {
    let mut input = listing(&["theirs"]);
    input.choices = 2;
    assert!(offered(&input, &ToolGrant::All).unwrap().is_empty());
    input.tools = listing(&["theirs", "mid"]).tools;
    let mixed = offered(&input, &ToolGrant::All);
    assert_eq!(mixed, Err(OfferError::SeveralChoices));
    input.tools = Tools::Absent;
    assert_eq!(
        offered(&input, &ToolGrant::All),
        Err(OfferError::SeveralChoices)
    );
}

#[test]
fn our_description_holds_and_a_different_one_is_counted() {
    let other = r#"{"type":"object"}"#;
    for (parameters, replaced) in [(None, 0), (Some(PARAMETERS), 0), (Some(other), 1)] {
        for form in [Tools::List, Tools::Legacy] {
            let input = super::trace::input(form(vec![entry("mid", parameters)]));
            let offered = offer(&input, &ToolGrant::All, &registry(), 128).unwrap();
            assert_eq!(offered.schemas_replaced, replaced);
            let Offer::Ours(tools) = offered.offer else {
                panic!("mid is ours");
            };
            assert_eq!(tools[0].parameters.as_str(), PARAMETERS);
        }
    }
}

#[test]
fn more_tools_than_a_request_may_have_are_not_offered() {
    let absent = super::trace::input(Tools::Absent);
    let offered = |max| offer(&absent, &ToolGrant::All, &registry(), max).map(|_| ());
    assert_eq!(offered(3), Ok(()));
    assert_eq!(offered(2), Err(OfferError::TooMany { offered: 3, max: 2 }));
}

#[test]
fn tools_that_are_too_large_together_are_not_offered() {
    let absent = super::trace::input(Tools::Absent);
    let of_bytes = |bytes: usize| {
        let mut large = (*tool("large", EffectClass::Read)).clone();
        large.description = "d".repeat(bytes - large.parameters.as_str().len());
        let registry = [Arc::new(large)];
        offer(&absent, &ToolGrant::All, &registry, 128).map(|_| ())
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
