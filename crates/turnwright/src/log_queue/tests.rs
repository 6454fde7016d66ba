use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;
use tw_runtime::metrics::DroppedLogLines;

use super::{BYTES_MAX, LINES_MAX, LogQueue};

/// Takes lines as its test says, and shows what it took.
#[derive(Clone)]
struct Sink {
    taken: Arc<Mutex<Vec<u8>>>,
    /// What the next write comes to; each write waits for its word.
    words: Arc<Mutex<Receiver<io::Result<()>>>>,
    writing: SyncSender<()>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writing.send(()).unwrap();
        self.words.lock().unwrap().recv().unwrap_or(Ok(()))?;
        self.taken.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Played {
    queue: LogQueue,
    sink: Sink,
    words: SyncSender<io::Result<()>>,
    writing: Receiver<()>,
    dropped: DroppedLogLines,
}

fn play() -> Played {
    let (words, heard) = sync_channel(16);
    let (writing, begun) = sync_channel(64 * 1024);
    let sink = Sink {
        taken: Arc::default(),
        words: Arc::new(Mutex::new(heard)),
        writing,
    };
    let dropped = DroppedLogLines::default();
    Played {
        queue: LogQueue::start(sink.clone(), dropped.clone()).unwrap(),
        sink,
        words,
        writing: begun,
        dropped,
    }
}

fn put(queue: &LogQueue, text: &str) {
    queue.make_writer().write_all(text.as_bytes()).unwrap();
}

fn taken(sink: &Sink) -> String {
    String::from_utf8(sink.taken.lock().unwrap().clone()).unwrap()
}

#[test]
fn lines_that_cannot_be_written_are_counted_and_told_of() {
    let played = play();
    let broken = || Err(io::ErrorKind::BrokenPipe.into());
    for word in [broken(), broken(), Ok(()), Ok(())] {
        played.words.send(word).unwrap();
    }
    put(&played.queue, "lost\n");
    played.writing.recv().unwrap();
    // The line that says what is missing cannot be written either; the line behind it can.
    put(&played.queue, "there\n");
    put(&played.queue, "there, too\n");
    drop(played.words);
    played.queue.flush();
    assert_eq!(
        taken(&played.sink),
        "there\n1 log lines are missing here\nthere, too\n"
    );
    assert_eq!(played.dropped.count(), 1);
}

#[test]
fn what_nobody_takes_holds_nobody_up() {
    let cases = [
        ("many lines", "x\n".to_owned(), LINES_MAX),
        ("long lines", "x".repeat(BYTES_MAX / 8), 8),
    ];
    for (what, line, room) in cases {
        let played = play();
        put(&played.queue, "first\n");
        // It is being written, and nobody takes it.
        played.writing.recv().unwrap();
        for _ in 0..room + 5 {
            put(&played.queue, &line);
        }
        assert_eq!(played.dropped.count(), 5, "{what}");
        // Now all is taken; the queue is full, so that this is known by what is written and not by a flush.
        drop(played.words);
        let expected = "first\n5 log lines are missing here\n";
        while taken(&played.sink).len() < expected.len() {
            played.writing.recv().unwrap();
        }
        let text = taken(&played.sink);
        assert!(text.starts_with(expected), "{what}");
    }
}
