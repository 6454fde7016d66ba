use rusqlite::Connection;
use tw_core::change::{Change, Outcome};
use tw_core::relayed_request::{RelayOutcome, RelayedRequest, RelayedTokens};
use tw_store::apply::StoreApplyError;

use crate::world::{StoreWorld, at, on_each_store};

fn relayed(world: &StoreWorld, n: i64) -> RelayedRequest {
    RelayedRequest {
        organization: world.organization,
        api_key: world.key,
        end_user: Some("ada".to_owned()),
        path: "/v1/embeddings",
        model: "m".to_owned(),
        upstream: "one".to_owned(),
        attempts: 2,
        outcome: RelayOutcome::Completed,
        http_status: Some(200),
        tokens: RelayedTokens {
            input: Some(5),
            output: None,
        },
        request_bytes: 6,
        response_bytes: u64::MAX,
        request_id: format!("req_{n}"),
        started: at(n),
        ended: at(n + 1),
    }
}

async fn record(world: &StoreWorld, relayed: RelayedRequest) -> Result<Outcome, StoreApplyError> {
    let change = Change::RecordRelayedRequest(Box::new(relayed));
    world.write(change).await
}

/// The columns of all records, as text.
fn rows(world: &StoreWorld) -> Vec<String> {
    let Some(path) = &world.path else {
        return Vec::new();
    };
    let database = Connection::open(path).unwrap();
    let mut select = database
        .prepare(
            "SELECT concat_ws('|', o.slug, api_key, coalesce(u.name, '-'), path, model, upstream, attempts, outcome,
                coalesce(http_status, '-'), coalesce(input_tokens, '-'), coalesce(output_tokens, '-'), request_bytes,
                response_bytes, request_id, r.created_us - 1000000000, ended_us - 1000000000)
             FROM relayed_request r JOIN organization o ON o.key = r.organization
                LEFT JOIN end_user u ON u.key = r.end_user ORDER BY r.key",
        )
        .unwrap();
    let rows = select.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[tokio::test]
async fn a_relayed_request_is_recorded_as_it_was() {
    on_each_store(async |world| {
        let nameless = RelayedRequest {
            end_user: None,
            outcome: RelayOutcome::Cancelled,
            http_status: None,
            tokens: RelayedTokens::default(),
            ..relayed(&world, 20)
        };
        for relayed in [relayed(&world, 10), nameless, relayed(&world, 30)] {
            assert_eq!(record(&world, relayed).await.unwrap(), Outcome::Done);
        }
        if world.path.is_some() {
            let key = world.key.0;
            let max = i64::MAX;
            assert_eq!(
                rows(&world),
                [
                    format!("default|{key}|ada|/v1/embeddings|m|one|2|completed|200|5|-|6|{max}|req_10|10|11"),
                    format!("default|{key}|-|/v1/embeddings|m|one|2|cancelled|-|-|-|6|{max}|req_20|20|21"),
                    format!("default|{key}|ada|/v1/embeddings|m|one|2|completed|200|5|-|6|{max}|req_30|30|31"),
                ]
            );
        }
    })
    .await;
}

#[tokio::test]
async fn nobody_is_recorded_under_the_key_of_another_organization() {
    on_each_store(async |world| {
        let strange = RelayedRequest {
            organization: world.stranger,
            ..relayed(&world, 1)
        };
        let refused = record(&world, strange).await;
        assert!(
            matches!(refused, Err(StoreApplyError::Conflict { .. })),
            "{refused:?}"
        );
        assert_eq!(rows(&world), Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn old_records_go_a_few_at_a_time_the_oldest_first() {
    on_each_store(async |world| {
        for n in [30, 10, 20, 40] {
            record(&world, relayed(&world, n)).await.unwrap();
        }
        let expire = async |requests_max| {
            let before = at(41);
            world
                .write(Change::ExpireRelayedRequests {
                    before,
                    requests_max,
                })
                .await
                .unwrap()
        };
        assert_eq!(expire(2).await, Outcome::Count(2));
        let left = |row: &String| row.contains("req_30") || row.contains("req_40");
        assert!(rows(&world).iter().all(left), "{:?}", rows(&world));
        assert_eq!(expire(2).await, Outcome::Count(1));
        assert_eq!(expire(2).await, Outcome::Count(0));
        if world.path.is_some() {
            assert_eq!(rows(&world).len(), 1);
        }
    })
    .await;
}
