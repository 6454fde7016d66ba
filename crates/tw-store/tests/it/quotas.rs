//! What was used of quotas.

use tw_core::change::{Change, NewTurn, Outcome, TurnChange};
use tw_core::id::TurnId;
use tw_core::quota::{CallQuota, ClockMinute, QuotaHolder, TakeCallQuotas};
use tw_core::time::Timestamp;
use tw_store::read::quotas::TokensUsed;

use crate::world::{StoreWorld, on_each_store};

pub const HOUR_US: i64 = 3_600_000_000;
const MINUTE_US: i64 = 60_000_000;

pub fn quota(of: QuotaHolder, tool: Option<&str>, calls_max: u32) -> CallQuota {
    CallQuota {
        of,
        tool: tool.map(str::to_owned),
        calls_max,
    }
}

pub fn take(world: &StoreWorld, turn: TurnId, quotas: &[CallQuota], at_us: i64) -> Change {
    Change::TakeCallQuotas(Box::new(TakeCallQuotas {
        organization: world.organization,
        turn,
        quotas: quotas.to_vec(),
        at: Timestamp(at_us),
    }))
}

async fn accepted(world: &StoreWorld, n: u128, end_user: Option<&str>) -> TurnId {
    let new = NewTurn {
        end_user: end_user.map(str::to_owned),
        ..world.new_turn(n)
    };
    let turn = new.id;
    let outcomes = world.store.accept_turn(Box::new(new), Vec::new()).await;
    assert_eq!(outcomes.unwrap(), [Outcome::Done]);
    turn
}

#[tokio::test]
async fn a_call_is_counted_in_all_of_its_quotas_or_in_none() {
    on_each_store(async |world| {
        let world = &world;
        let ada = accepted(world, 1, Some("ada")).await;
        let bob = accepted(world, 2, Some("bob")).await;
        let nobody = accepted(world, 3, None).await;
        let draw = [
            quota(QuotaHolder::Organization, None, 4),
            quota(QuotaHolder::EndUser, Some("draw"), 2),
        ];
        let reached = |quota| Outcome::QuotaReached { quota };
        let rows = [
            (ada, &draw[..], 0, Outcome::Done),
            (ada, &draw[..], HOUR_US - 1, Outcome::Done),
            (ada, &draw[..], HOUR_US - 1, reached(1)),
            // What was refused took nothing of the organization's.
            (bob, &draw[..], 0, Outcome::Done),
            // Another tool counts for the organization alone.
            (nobody, &draw[..1], 0, Outcome::Done),
            (nobody, &draw[..1], 0, reached(0)),
            (bob, &draw[..], 0, reached(0)),
            // The next hour begins anew.
            (ada, &draw[..], HOUR_US, Outcome::Done),
        ];
        for (row, (turn, quotas, at_us, expected)) in rows.into_iter().enumerate() {
            let outcome = world.write(take(world, turn, quotas, at_us)).await;
            assert_eq!(outcome.unwrap(), expected, "row {row}");
        }
        // Nothing of one key is another's.
        let by_key = [quota(QuotaHolder::Key, None, 1)];
        let first = world.write(take(world, ada, &by_key, 0)).await.unwrap();
        let second = world.write(take(world, bob, &by_key, 0)).await.unwrap();
        assert_eq!((first, second), (Outcome::Done, reached(0)));
    })
    .await;
}

#[tokio::test]
async fn tokens_are_counted_for_all_whose_turn_it_is() {
    on_each_store(async |world| {
        let world = &world;
        let used = async |user: Option<&str>, at_us| {
            let minute = ClockMinute::of(Timestamp(at_us));
            let user = user.map(str::to_owned);
            let (organization, key) = (world.organization, world.key);
            let used = world.store.tokens_used(organization, key, user, minute);
            used.await.unwrap()
        };
        assert_eq!(used(Some("ada"), 0).await, TokensUsed::default());
        let ada = accepted(world, 1, Some("ada")).await;
        let nobody = accepted(world, 2, None).await;
        for (turn, tokens, at_us) in [
            (ada, 10, 0),
            (ada, 5, MINUTE_US - 1),
            (nobody, 7, 0),
            (ada, u64::MAX, MINUTE_US),
        ] {
            let count = TurnChange::CountTokens {
                tokens,
                at: Timestamp(at_us),
            };
            world.write_turn(turn, vec![count]).await.unwrap();
        }
        let expected = TokensUsed {
            organization: 22,
            key: 22,
            end_user: 15,
        };
        assert_eq!(used(Some("ada"), 30_000_000).await, expected);
        let of_nobody = TokensUsed {
            end_user: 0,
            ..expected
        };
        assert_eq!(used(None, 0).await, of_nobody);
        assert_eq!(used(Some("bob"), 0).await, of_nobody);
        assert_eq!(used(None, MINUTE_US).await.key, 1_000_000_000_000);
        // Old counts go, a few at a time.
        let expire = |before, rows_max| Change::ExpireQuotas {
            before: Timestamp(before),
            rows_max,
        };
        let gone = world.write(expire(MINUTE_US, 2)).await.unwrap();
        assert_eq!(gone, Outcome::Count(2));
        let gone = world.write(expire(MINUTE_US, 9)).await.unwrap();
        assert_eq!(gone, Outcome::Count(1));
        assert_eq!(used(Some("ada"), 0).await, TokensUsed::default());
        assert_eq!(used(None, MINUTE_US).await.key, 1_000_000_000_000);
    })
    .await;
}
