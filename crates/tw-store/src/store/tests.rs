use std::sync::{Arc, mpsc};

use tw_core::change::Change;
use tw_core::time::Timestamp;

use super::{Store, StoreOptions};
use crate::figures::WriterFigures;
use crate::writer::WriterWakes;
use crate::writer::sqlite;

#[tokio::test]
async fn a_store_is_full_while_its_writer_is_behind() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        queue_jobs_max: 1,
        ..StoreOptions::defaults(Timestamp(0))
    };
    let (go, wait) = mpsc::sync_channel(1);
    let path = folder.path().join("t.db");
    let figures = WriterFigures::new();
    let of_writer = figures.clone();
    let store = Store::open_with(
        &path,
        &options,
        (figures, Arc::default()),
        move |conn, queue| {
            let _: Result<(), _> = wait.recv();
            sqlite::run(&conn, queue, 1, (&of_writer, &WriterWakes::default()));
        },
    );
    let store = store.unwrap();
    assert!(!store.is_full());
    let change = Change::CheckWritable { at: Timestamp(1) };
    let mut write = std::pin::pin!(store.apply(vec![change]));
    tokio::select! {
        biased;
        written = &mut write => panic!("written without a writer: {written:?}"),
        () = std::future::ready(()) => {}
    }
    assert!(store.is_full());
    go.send(()).unwrap();
    write.await.unwrap();
    assert!(!store.is_full());
}
