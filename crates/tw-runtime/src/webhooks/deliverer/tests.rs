use tw_core::id::WebhookKey;
use tw_core::time::Timestamp;
use tw_store::system::webhooks::DueWebhook;

use super::{SLOTS, SLOTS_FAILING, SLOTS_OF_ONE, Slots};

fn webhook(key: i64, failures: u32) -> DueWebhook {
    DueWebhook {
        webhook: WebhookKey(key),
        failures,
        due: Timestamp(0),
    }
}

fn take_all(slots: &mut Slots, webhook: &DueWebhook) -> usize {
    let room = slots.room(webhook);
    (0..room).for_each(|_| slots.take(webhook));
    room
}

#[test]
fn those_that_fail_leave_half_of_the_slots_to_the_others() {
    let mut slots = Slots::default();
    let failing = (0..1_000).map(|key| take_all(&mut slots, &webhook(key, 1)));
    assert_eq!(failing.sum::<usize>(), SLOTS_FAILING);
    assert_eq!(take_all(&mut slots, &webhook(1, 1)), 0);
    assert_eq!(take_all(&mut slots, &webhook(5_000, 0)), SLOTS_OF_ONE);
    assert_eq!(take_all(&mut slots, &webhook(5_000, 0)), 0);
    let others = (6_000..7_000).map(|key| take_all(&mut slots, &webhook(key, 0)));
    assert_eq!(others.sum::<usize>() + SLOTS_OF_ONE, SLOTS - SLOTS_FAILING);
}

#[test]
fn slots_come_back_whatever_a_webhook_was_when_it_took_them() {
    let mut slots = Slots::default();
    assert_eq!(take_all(&mut slots, &webhook(1, 0)), SLOTS_OF_ONE);
    // It fails meanwhile, and takes no more.
    assert_eq!(take_all(&mut slots, &webhook(1, 3)), 0);
    (0..SLOTS_OF_ONE).for_each(|_| slots.give_back(WebhookKey(1)));
    assert_eq!(take_all(&mut slots, &webhook(1, 3)), 1);
    slots.give_back(WebhookKey(1));
    slots.give_back(WebhookKey(1));
    assert_eq!(
        (slots.used, slots.used_by_failing, slots.of.len()),
        (0, 0, 0)
    );
}
