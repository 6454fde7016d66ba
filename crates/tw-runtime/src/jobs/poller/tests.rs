use std::collections::BTreeMap;

use tw_core::id::OrgId;
use tw_core::time::Timestamp;
use tw_store::system::jobs::DueJobs;

use super::{PollSlots, SLOTS, SLOTS_OF_ONE, SlotSharing};

fn take_all(slots: &mut PollSlots, organization: i64) -> usize {
    let room = slots.room(OrgId(organization));
    slots.take(OrgId(organization), room);
    room
}

/// Jobs that are due, by organization; the first ones have waited longest.
type Backlog = BTreeMap<i64, usize>;

/// Begins to ask about what is due; how often jobs were claimed for it.
fn pass(slots: &mut PollSlots, backlog: &mut Backlog) -> usize {
    let due = |(organization, jobs): (&i64, &usize)| {
        (*jobs > 0).then_some(DueJobs {
            organization: OrgId(*organization),
            due: Timestamp(*organization),
        })
    };
    let mut sharing = SlotSharing::new(backlog.iter().filter_map(due).collect());
    let mut claims = 0;
    while let Some(shares) = sharing.next(slots) {
        claims += 1;
        let claimed = shares.iter().map(|(organization, room)| {
            let jobs = backlog.get_mut(&organization.0).unwrap();
            let claimed = (*jobs).min(*room);
            *jobs -= claimed;
            claimed
        });
        let claimed: Vec<usize> = claimed.collect();
        sharing.claimed(slots, &shares, &claimed);
    }
    claims
}

fn in_use<const N: usize>(slots: &PollSlots, organizations: [i64; N]) -> [usize; N] {
    organizations.map(|organization| slots.in_use(OrgId(organization)))
}

#[test]
fn organizations_that_hold_all_they_get_leave_some_to_the_next() {
    let mut slots = PollSlots::default();
    let taken: Vec<usize> = (0..9).map(|of| take_all(&mut slots, of)).collect();
    assert_eq!(taken, [64, 64, 64, 32, 16, 8, 4, 2, 1]);
    assert_eq!(take_all(&mut slots, 0), 0, "it has all that it may have");
    assert_eq!(take_all(&mut slots, 100), 1);
    assert_eq!((slots.used, take_all(&mut slots, 101)), (SLOTS, 0));

    // Pass by pass four of them come to hold all there are.
    let mut slots = PollSlots::default();
    let mut backlog: Backlog = (0..4).map(|of| (of, 10_000)).collect();
    for _ in 0..10 {
        pass(&mut slots, &mut backlog);
    }
    assert_eq!(in_use(&slots, [0, 1, 2, 3]), [SLOTS_OF_ONE; 4]);
    // What comes back goes to others, who have waited for less long.
    backlog.extend([(10, 3), (11, 2)]);
    for organization in [0, 1, 2, 3, 0] {
        slots.give_back(OrgId(organization), 1);
        pass(&mut slots, &mut backlog);
    }
    assert_eq!(in_use(&slots, [10, 11]), [3, 2]);
    assert_eq!(in_use(&slots, [0, 1, 2, 3]), [62, 63, 63, 63]);
    // And to them, where nobody else has anything.
    slots.give_back(OrgId(1), 1);
    pass(&mut slots, &mut backlog);
    assert_eq!(in_use(&slots, [0, 1, 2, 3]), [63, 62, 63, 63]);
}

#[test]
fn all_that_are_due_are_asked_about_in_one_pass_while_there_is_room() {
    let mut slots = PollSlots::default();
    let mut backlog: Backlog = (0..100).map(|of| (of, 1)).collect();
    backlog.extend([(100, 50), (101, 70)]);
    let claims = pass(&mut slots, &mut backlog);
    assert_eq!(slots.used, 100 + 50 + SLOTS_OF_ONE);
    assert!(claims < 20, "{claims}");
    let left: Vec<_> = backlog.into_iter().filter(|(_, jobs)| *jobs > 0).collect();
    assert_eq!(left, [(101, 70 - SLOTS_OF_ONE)]);
}

/// Another process has them, or the claims could not be written.
#[test]
fn whoever_gets_no_job_is_not_asked_for_again() {
    let mut slots = PollSlots::default();
    let due = (0..20).map(|organization| DueJobs {
        organization: OrgId(organization),
        due: Timestamp(0),
    });
    let mut sharing = SlotSharing::new(due.collect());
    let mut asked = Vec::new();
    while let Some(shares) = sharing.next(&mut slots) {
        sharing.claimed(&mut slots, &shares, &vec![0; shares.len()]);
        asked.extend(shares.into_iter().map(|(organization, _)| organization.0));
    }
    assert_eq!(asked, (0..20).collect::<Vec<_>>());
    assert_eq!((slots.used, slots.of.len()), (0, 0));
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
