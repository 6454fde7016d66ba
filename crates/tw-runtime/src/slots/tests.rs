use futures_util::FutureExt;
use tw_core::arguments::ArgumentsSchema;
use tw_core::id::{ToolId, ToolVersionKey};
use tw_core::json::Json;
use tw_core::tool::{CallPolicy, EffectClass, Tool, ToolKind, ToolVersion};
use uuid::Uuid;

use super::{CallSlot, CallSlots};

/// A version of the tool with this number, of which so many calls may run at once.
fn tool(id: u128, number: u32, concurrency_max: u32) -> Tool {
    let parameters = Json::parse("{}").unwrap();
    let mut policy = CallPolicy::new(EffectClass::Read);
    policy.concurrency_max = concurrency_max;
    Tool {
        name: "a".to_owned(),
        description: String::new(),
        schema: ArgumentsSchema::compile(&parameters).unwrap(),
        parameters,
        policy,
        kind: ToolKind::TimeNow,
        version: Some(ToolVersion {
            tool: ToolId(Uuid::from_u128(id)),
            key: ToolVersionKey(i64::from(number)),
            number,
        }),
    }
}

/// A slot, if there is one now.
fn take(slots: &CallSlots, tool: &Tool) -> Option<CallSlot> {
    slots.wait(Some(tool)).now_or_never().flatten()
}

#[test]
fn all_versions_share_the_places_of_the_newest() {
    let slots = CallSlots::default();
    let (old, new) = (tool(1, 1, 5), tool(1, 2, 2));
    let held = [take(&slots, &new), take(&slots, &new)];
    assert!(held.iter().all(Option::is_some));
    // A turn that still offers the old version does not bring its limit back.
    assert!(take(&slots, &old).is_none());
    assert!(take(&slots, &new).is_none());
    drop(held);
    assert!(take(&slots, &old).is_some());
}

#[test]
fn tools_of_one_name_have_places_of_their_own() {
    let slots = CallSlots::default();
    let held = take(&slots, &tool(1, 1, 1));
    assert!(held.is_some());
    assert!(take(&slots, &tool(1, 1, 1)).is_none());
    assert!(take(&slots, &tool(2, 1, 1)).is_some());
}
