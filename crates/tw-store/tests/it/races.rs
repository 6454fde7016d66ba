//! Two stores on one PostgreSQL database, which write what only one of them may, or what both add to.

use std::time::Duration;

use futures_util::future::join_all;
use tw_core::approval::ApprovalVerdict;
use tw_core::change::{Change, NewTurn, Outcome, SaveTool, ToolRoom, TurnChange};
use tw_core::conversation::{AddedItems, ItemPlace, ItemSource};
use tw_core::price::MicroUsd;
use tw_core::quota::QuotaHolder;
use tw_core::time::CalendarMonth;
use tw_core::turn_status::TurnStatus;
use tw_core::webhook::{WEBHOOKS_MAX, WebhookChange, WebhookEvent};

use crate::world::{StoreWorld, at, create_organization, end_turn, turn_id};
use crate::{approvals, blobs, items, money, quotas, tools, webhooks};

/// Times that each race is run.
const ROUNDS: u128 = 20;

/// A world, and the same from another process; `None` where there is no server to test with.
async fn two() -> Option<(StoreWorld, StoreWorld)> {
    let world = StoreWorld::on_postgres().await?;
    let beside = world.beside().await;
    Some((world, beside))
}

/// The outcomes of turns that are accepted by each store at once, the lesser first.
async fn accepted_by_both(
    (world, beside): (&StoreWorld, &StoreWorld),
    (one, other): (NewTurn, NewTurn),
    first: [Vec<TurnChange>; 2],
) -> Vec<Outcome> {
    let [first_of_one, first_of_other] = first;
    let (one, other) = tokio::join!(
        world.accept_with(one, first_of_one),
        beside.accept_with(other, first_of_other),
    );
    let outcomes = [one.unwrap().remove(0), other.unwrap().remove(0)];
    let (done, refused): (Vec<Outcome>, Vec<Outcome>) = outcomes
        .into_iter()
        .partition(|outcome| *outcome == Outcome::Done);
    [done, refused].concat()
}

#[tokio::test]
async fn one_turn_at_a_time_adds_items_to_a_conversation() {
    let Some((world, beside)) = two().await else {
        return;
    };
    let expected = [Outcome::Done, Outcome::ConversationBusy];
    for round in 0..ROUNDS {
        let conversation = format!("c{round}");
        let n = 4 * round;
        let place = |n, place| NewTurn {
            conversation: conversation.clone(),
            adds_items: Some(AddedItems {
                source: ItemSource::Answer,
                place,
            }),
            ..items::added(&world, n, ItemSource::Answer, (None, None))
        };
        let making = |n| {
            let metadata = "{}".to_owned();
            place(n, ItemPlace::First { metadata })
        };
        let both = (&world, &beside);
        let turns = (making(n + 1), making(n + 2));
        let outcomes = accepted_by_both(both, turns, Default::default()).await;
        assert_eq!(outcomes, expected, "made, round {round}");
        let made = items::make(&world, &format!("d{round}"), None).await;
        assert_eq!(made, Outcome::Done);
        let behind = |n| NewTurn {
            conversation: format!("d{round}"),
            ..place(n, ItemPlace::Behind { head: None })
        };
        let turns = (behind(n + 3), behind(n + 4));
        let outcomes = accepted_by_both(both, turns, Default::default()).await;
        assert_eq!(outcomes, expected, "behind, round {round}");
    }
}

#[tokio::test]
async fn a_quota_is_taken_by_no_more_than_it_has_room_for() {
    let Some((world, beside)) = two().await else {
        return;
    };
    let (one, other) = (world.accept(1).await, world.accept(2).await);
    for round in 0..20 {
        let at_us = round * quotas::HOUR_US;
        let taken = [
            quotas::quota(QuotaHolder::Organization, None, 5),
            quotas::quota(QuotaHolder::Key, Some("draw"), 9),
        ];
        let takes = (0..8).map(|n| {
            let (world, turn) = [(&world, one), (&beside, other)][n % 2];
            world.write(quotas::take(world, turn, &taken, at_us))
        });
        let outcomes = join_all(takes).await;
        let outcomes = outcomes.into_iter().map(Result::unwrap);
        let done = outcomes.filter(|outcome| *outcome == Outcome::Done);
        assert_eq!(done.count(), 5, "round {round}");
        let more = quotas::take(&world, one, &taken[1..], at_us);
        assert_eq!(
            world.write(more).await.unwrap(),
            Outcome::Done,
            "given back"
        );
    }
}

#[tokio::test]
async fn a_question_is_answered_once() {
    let Some((world, beside)) = two().await else {
        return;
    };
    for round in 0..ROUNDS {
        let n = 3 * round;
        let asked = approvals::asking(&world, n + 1).await.id;
        // One that nobody answered in time does not change by its answer.
        let verdict = if round % 2 == 0 {
            ApprovalVerdict::Approved
        } else {
            let expire = Change::ExpireApprovals {
                now: at(approvals::UNTIL + 1),
                calls_max: 9,
            };
            assert_eq!(world.write(expire).await.unwrap(), Outcome::Count(1));
            ApprovalVerdict::Expired
        };
        let answering = |n| approvals::answering(&world, n, asked, verdict.clone());
        let (one, acts) = answering(n + 2);
        let (other, acts_too) = answering(n + 3);
        let first = [vec![acts], vec![acts_too]];
        let outcomes = accepted_by_both((&world, &beside), (one, other), first).await;
        let expected = [Outcome::Done, Outcome::ApprovalClosed { asked }];
        assert_eq!(outcomes, expected, "round {round}");
    }
}

#[tokio::test]
async fn the_last_room_is_taken_once() {
    let Some((world, beside)) = two().await else {
        return;
    };
    for round in 0..ROUNDS {
        let organization = create_organization(&world.store, &format!("o{round}")).await;
        let save = |n: u128| SaveTool {
            room: ToolRoom {
                tools_max: 1,
                bytes_max: 1 << 20,
            },
            ..tools::new_tool(organization, 2 * round + n, &format!("t{n}"))
        };
        let save = |n| Change::SaveTool(Box::new(save(n)));
        let (one, other) = tokio::join!(world.write(save(1)), beside.write(save(2)));
        let outcomes = [one.unwrap(), other.unwrap()];
        let refused = outcomes.iter().filter(|one| **one == Outcome::TooManyTools);
        assert_eq!(refused.count(), 1, "{outcomes:?}");
    }
    let all = webhooks::settings(&WebhookEvent::ALL);
    let create = |n| webhooks::new(world.organization, n, all.clone());
    for n in 1..u128::from(WEBHOOKS_MAX) {
        assert_eq!(webhooks::write(&world, create(n)).await, Outcome::Done);
    }
    let last = u128::from(WEBHOOKS_MAX);
    for round in 0..ROUNDS {
        let n = last + 2 * round;
        let (one, other) = tokio::join!(
            webhooks::write(&world, create(n)),
            webhooks::write(&beside, create(n + 1)),
        );
        let taken = match (one, other) {
            (Outcome::Done, Outcome::TooMany) => n,
            (Outcome::TooMany, Outcome::Done) => n + 1,
            both => panic!("{both:?}"),
        };
        let delete = WebhookChange::Delete {
            organization: world.organization,
            webhook: webhooks::id(taken),
            at: at(2),
        };
        assert_eq!(webhooks::write(&world, delete).await, Outcome::Done);
    }
}

#[tokio::test]
async fn a_delivery_is_claimed_by_one_process() {
    let Some((world, beside)) = two().await else {
        return;
    };
    let of = webhooks::with_webhook(&world).await;
    for round in 0..ROUNDS {
        for n in 1..=4 {
            webhooks::ended(&world, 4 * round + n, TurnStatus::Completed).await;
        }
        let (one, other) = tokio::join!(
            webhooks::claim(&world, &of, "a", at(200)),
            webhooks::claim(&beside, &of, "b", at(200)),
        );
        let mut claimed: Vec<i64> = one.iter().map(|one| one.delivery.0).collect();
        claimed.extend(other.iter().map(|one| one.delivery.0));
        // What both wanted one of them has; the other may have passed over all.
        assert!(claimed.len() <= 4, "{claimed:?}");
        claimed.sort_unstable();
        claimed.dedup();
        assert_eq!(claimed.len(), one.len() + other.len(), "taken twice");
        let rest = webhooks::claim(&world, &of, "a", at(200)).await;
        assert_eq!(claimed.len() + rest.len(), 4);
    }
}

/// A content that one store lets go while another begins to use it is there for whoever uses it, and gone with the last.
#[tokio::test]
async fn a_content_is_there_while_a_text_holds_it() {
    let Some((world, beside)) = two().await else {
        return;
    };
    let images = ['a', 'b'];
    let (new, first) = blobs::new_turn(&world, 1, &images);
    world.accept_with(new, first).await.unwrap();
    for n in 2..40 {
        let (new, first) = blobs::new_turn(&world, n, &images);
        // Erases the turn before, which alone holds the contents.
        let (_, accepted) =
            tokio::join!(blobs::erase(&world, n - 1), beside.accept_with(new, first));
        assert_eq!(accepted.unwrap()[0], Outcome::Done);
        blobs::assert_whole(&world, n, &images).await;
    }
    let (stored, uses) = blobs::counts(&world).await;
    assert_eq!((stored.len(), uses), (2, 8));
    blobs::erase(&world, 39).await;
    assert_eq!(blobs::counts(&world).await, (Vec::new(), 0));
    // Two uses that go at once: neither is the last one for whoever looks too early.
    for n in (40..80).step_by(2) {
        for n in [n, n + 1] {
            let (new, first) = blobs::new_turn(&world, n, &images);
            world.accept_with(new, first).await.unwrap();
        }
        let erase_one = Change::EraseDue {
            now: at(500),
            turns_max: 1,
        };
        let (one, other) = tokio::join!(
            world.write(erase_one.clone()),
            beside.write(erase_one.clone())
        );
        one.unwrap();
        other.unwrap();
        // One that found nothing but what the other one had.
        world.write(erase_one).await.unwrap();
        assert_eq!(blobs::counts(&world).await, (Vec::new(), 0), "{n}");
    }
}

/// Turns that are charged and end at once, in batches of each of four connections.
#[tokio::test]
async fn sums_are_added_to_by_all() {
    let Some((world, beside)) = two().await else {
        return;
    };
    const TURNS: u32 = 80;
    let at = money::noon(money::DAY);
    let spend = async |n: u32| {
        let world = if n.is_multiple_of(2) { &world } else { &beside };
        let new = NewTurn {
            end_user: Some(format!("user {}", n % 5)),
            model: format!("model {}", n % 3),
            at,
            ..world.new_turn(u128::from(n))
        };
        world.accept_new(new).await.unwrap();
        let turn = turn_id(u128::from(n));
        let mut charged = money::attempt(1, at).to_vec();
        charged.push(money::charge(money::request(1), 10, at));
        world.write_turn(turn, charged).await.unwrap();
        let end = TurnChange::EndTurn(tw_core::change::EndTurn {
            at,
            ..end_turn(TurnStatus::Completed)
        });
        world.write_turn(turn, vec![end]).await.unwrap();
    };
    join_all((1..=TURNS).map(spend)).await;
    let month = CalendarMonth::of(at);
    let user = Some("user 1".to_owned());
    let store = &world.store;
    let spent = store.month_spent(world.organization, world.key, user, month);
    let spent = spent.await.unwrap();
    let all = i64::from(TURNS) * 10;
    assert_eq!(
        (spent.organization, spent.key, spent.end_user),
        (MicroUsd(all), MicroUsd(all), MicroUsd(all / 5))
    );
    let day = money::usage(&world, &[], (money::DAY, money::DAY)).await;
    assert_eq!((day[0].sums.turns, day[0].sums.cost), (80, MicroUsd(all)));
}

/// A turn begins while another process has given its end user another name, and before that is committed.
#[tokio::test]
async fn a_turn_is_not_of_an_end_user_who_is_being_forgotten() {
    let Some(world) = StoreWorld::on_postgres().await else {
        return;
    };
    let of_ann = |n| NewTurn {
        end_user: Some("ann".to_owned()),
        ..world.new_turn(n)
    };
    world.accept_new(of_ann(1)).await.unwrap();
    let schema = world.schema.as_ref().unwrap();
    let (mut client, outside) = (schema.client().await, schema.outside().await);
    let forgetting = client.transaction().await.unwrap();
    let rename = "UPDATE end_user SET name = 'erased-1', erasing_us = 1 WHERE name = 'ann'";
    assert_eq!(forgetting.execute(rename, &[]).await.unwrap(), 1);
    let waiting =
        "SELECT 1 FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'";
    let commit = async {
        while outside
            .query(waiting, &[&schema.name])
            .await
            .unwrap()
            .is_empty()
        {}
        forgetting.commit().await.unwrap();
    };
    let commit = tokio::time::timeout(Duration::from_secs(30), commit);
    let (accepted, committed) = tokio::join!(world.accept_new(of_ann(2)), commit);
    committed.unwrap();
    assert_eq!(accepted.unwrap(), Outcome::Done);
    for (n, name) in [(1, "erased-1"), (2, "ann")] {
        let found = world.recovered(turn_id(n)).await;
        assert_eq!(found.turn.end_user.as_deref(), Some(name), "{n}");
    }
}
