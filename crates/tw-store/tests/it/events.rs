use tw_core::change::{EventFlush, TurnChange};
use tw_core::turn_status::TurnStatus;
use tw_store::apply::StoreApplyError;
use tw_store::read::events::NumberedEvent;

use crate::world::{at, end_turn, event, flush, on_each_store};

fn numbered(from: u64, to: u64) -> Vec<NumberedEvent> {
    (from..=to)
        .map(|number| NumberedEvent {
            number,
            fence: 1,
            event: event(number),
        })
        .collect()
}

#[tokio::test]
async fn a_page_starts_where_the_reader_was() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let read = async |after, max| {
            world
                .store
                .events_after(world.organization, turn, after, max)
                .await
                .unwrap()
                .unwrap()
        };
        let empty = read(0, 10).await;
        assert_eq!(
            (empty.events, empty.last, empty.complete, empty.erased),
            (Vec::new(), 0, false, false)
        );
        for flush in [flush(1, 3), flush(4, 1), flush(5, 4)] {
            world
                .write_turn(turn, vec![TurnChange::AppendEvents(flush)])
                .await
                .unwrap();
        }
        for (after, max, from, to) in [
            (0, 100, 1, 8),
            (0, 2, 1, 2),
            (2, 100, 3, 8),
            (3, 1, 4, 4),
            (4, 2, 5, 6),
            (7, 9, 8, 8),
            (8, 9, 9, 8),
        ] {
            let page = read(after, max).await;
            assert_eq!(
                page.events,
                numbered(from, to),
                "after {after}, at most {max}"
            );
            assert_eq!(
                (page.last, page.status, page.fence),
                (8, TurnStatus::Running, 1)
            );
            assert!(!page.complete);
        }
        for after in [100, u64::MAX] {
            let beyond = read(after, 9).await;
            assert_eq!((beyond.events, beyond.last), (Vec::new(), 8));
        }
        let now = world
            .store
            .events_after_now(world.organization, turn, 6, 1)
            .unwrap()
            .unwrap();
        assert_eq!(now.events, numbered(7, 7));
    })
    .await;
}

#[tokio::test]
async fn a_page_is_complete_when_the_turn_is_final_and_nothing_follows() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let both = vec![
            TurnChange::AppendEvents(flush(1, 3)),
            TurnChange::EndTurn(end_turn(TurnStatus::Completed)),
        ];
        world.write_turn(turn, both).await.unwrap();
        for (after, max, complete) in [
            (0, 3, true),
            (0, 2, false),
            (2, 1, true),
            (3, 1, true),
            (1, 0, false),
        ] {
            let page = world
                .store
                .events_after(world.organization, turn, after, max)
                .await
                .unwrap()
                .unwrap();
            assert_eq!(page.complete, complete, "after {after}, at most {max}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_gap_and_a_repetition_are_refused() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let refused = async |flush| {
            let refused = world
                .write_turn(turn, vec![TurnChange::AppendEvents(flush)])
                .await;
            assert!(
                matches!(
                    refused,
                    Err(StoreApplyError::Guard { .. } | StoreApplyError::Conflict { .. })
                ),
                "{refused:?}"
            );
        };
        refused(flush(2, 1)).await;
        world
            .write_turn(turn, vec![TurnChange::AppendEvents(flush(1, 2))])
            .await
            .unwrap();
        for first in [1, 2, 4] {
            refused(flush(first, 1)).await;
        }
        let none = EventFlush {
            first: 3,
            events: Vec::new(),
            at: at(0),
        };
        world
            .write_turn(turn, vec![TurnChange::AppendEvents(none)])
            .await
            .unwrap();
        let far = EventFlush {
            first: u64::MAX,
            ..flush(3, 1)
        };
        let refused = world
            .write_turn(turn, vec![TurnChange::AppendEvents(far)])
            .await;
        assert!(
            matches!(refused, Err(StoreApplyError::Encode { .. })),
            "{refused:?}"
        );
        let found = world.recovered(turn).await;
        assert_eq!(found.events, numbered(1, 2));
    })
    .await;
}
