use std::sync::mpsc;

use super::aside;

/// One thread runs everything, so that what it has to do can only be done by another one.
#[test]
fn others_run_while_something_large_is_under_way() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let (say, hear) = mpsc::sync_channel(1);
    let large = runtime.spawn(async move {
        let other = tokio::spawn(async move { say.send(()).unwrap() });
        aside(true, || hear.recv().unwrap());
        other.await.unwrap();
    });
    runtime.block_on(large).unwrap();
}

#[tokio::test]
async fn where_there_is_one_thread_it_runs_there() {
    assert_eq!(aside(true, || 1), 1);
    assert_eq!(aside(false, || 2), 2);
}

#[test]
fn it_runs_without_a_runtime() {
    assert_eq!(aside(true, || 3), 3);
}
