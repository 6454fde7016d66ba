use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::Instant;

use super::StallGuardedStream;

const STALL_MAX: Duration = Duration::from_secs(120);

#[tokio::test(start_paused = true)]
async fn a_write_that_nobody_takes_fails_after_the_span() {
    let (ours, _theirs) = duplex(8);
    let mut ours = StallGuardedStream::new(ours, STALL_MAX);
    let began = Instant::now();
    let error = ours.write_all(b"more than fits").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(began.elapsed().as_secs(), STALL_MAX.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_no_stalled_one() {
    let (ours, mut theirs) = duplex(8);
    let mut ours = StallGuardedStream::new(ours, STALL_MAX);
    let almost = STALL_MAX - Duration::from_secs(1);
    let reading = tokio::spawn(async move {
        let mut read = 0;
        for _ in 0..10 {
            tokio::time::advance(almost).await;
            read += theirs.read(&mut [0; 8]).await.unwrap();
        }
        read
    });
    ours.write_all(&[b'x'; 80]).await.unwrap();
    drop(ours);
    assert_eq!(reading.await.unwrap(), 80);
}

#[tokio::test(start_paused = true)]
async fn a_silence_of_our_own_is_nobodys_stall() {
    let (ours, mut theirs) = duplex(8);
    let mut ours = StallGuardedStream::new(ours, STALL_MAX);
    ours.write_all(b"one").await.unwrap();
    tokio::time::advance(STALL_MAX * 2).await;
    ours.write_all(b"two").await.unwrap();
    drop(ours);
    let mut read = String::new();
    theirs.read_to_string(&mut read).await.unwrap();
    assert_eq!(read, "onetwo");
}
