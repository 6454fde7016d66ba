use tw_core::id::OrgId;

use super::{PollSlots, SLOTS, SLOTS_OF_ONE};

fn take_all(slots: &mut PollSlots, organization: i64) -> usize {
    let room = slots.room(OrgId(organization));
    slots.take(OrgId(organization), room);
    room
}

#[test]
fn organizations_that_hold_all_they_get_leave_some_to_the_next() {
    let mut slots = PollSlots::default();
    let taken: Vec<usize> = (0..9).map(|of| take_all(&mut slots, of)).collect();
    assert_eq!(taken, [64, 64, 64, 32, 16, 8, 4, 2, 1]);
    assert_eq!(take_all(&mut slots, 0), 0, "it has all that it may have");
    assert_eq!(take_all(&mut slots, 100), 1);
    assert_eq!((slots.used, take_all(&mut slots, 101)), (SLOTS, 0));
}

#[test]
fn slots_come_back_to_all() {
    let mut slots = PollSlots::default();
    assert_eq!(take_all(&mut slots, 1), SLOTS_OF_ONE);
    slots.give_back(OrgId(1), SLOTS_OF_ONE - 1);
    slots.give_back(OrgId(2), 1);
    assert_eq!(slots.used, 1);
    assert_eq!(take_all(&mut slots, 1), SLOTS_OF_ONE - 1);
    slots.give_back(OrgId(1), SLOTS_OF_ONE);
    assert_eq!((slots.used, slots.of.len()), (0, 0));
}
