//! The way of log lines to standard error, which holds nobody up.
//!
//! Whoever reads standard error may have ended, its disk may be full, or nobody may read the pipe. A line is therefore
//! put into a bounded queue and written by a thread of its own; what finds no room, or cannot be written, is counted,
//! and the log says how many lines are missing as soon as it takes one again.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;
use tw_runtime::metrics::DroppedLogLines;

/// Lines that wait, at most: some seconds of a busy server, while a reader of its log restarts.
const LINES_MAX: usize = 8 * 1024;
/// Bytes of the lines that wait, at most. A line has about 200; those of a fault with many causes are longer.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Time that the end of the process waits for the lines that still wait.
const FLUSH_MAX: Duration = Duration::from_secs(1);

enum Entry {
    Line(Vec<u8>),
    /// Request to say when every entry before it is written.
    Flush(SyncSender<()>),
}

/// The queue that lines are put into; cheap to clone.
#[derive(Clone, Debug)]
pub struct LogQueue {
    entries: SyncSender<Entry>,
    bytes: Arc<AtomicUsize>,
    dropped: DroppedLogLines,
}

impl LogQueue {
    /// Starts the thread that writes to `out`.
    pub fn start(out: impl Write + Send + 'static, dropped: DroppedLogLines) -> io::Result<Self> {
        let (entries, taken) = sync_channel(LINES_MAX);
        let bytes = Arc::new(AtomicUsize::new(0));
        let (waiting, missing) = (Arc::clone(&bytes), dropped.clone());
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_all(&taken, out, &waiting, &missing))?;
        Ok(Self {
            entries,
            bytes,
            dropped,
        })
    }

    fn put(&self, line: Vec<u8>) {
        let length = line.len();
        let before = self.bytes.fetch_add(length, Ordering::Relaxed);
        let put = if before.saturating_add(length) > BYTES_MAX {
            Err(TrySendError::Full(Entry::Line(line)))
        } else {
            self.entries.try_send(Entry::Line(line))
        };
        if put.is_err() {
            self.bytes.fetch_sub(length, Ordering::Relaxed);
            self.dropped.add(1);
        }
    }

    /// Waits until what was put before is written, for [`FLUSH_MAX`] at most.
    pub fn flush(&self) {
        let (written, wait) = sync_channel(1);
        // A full queue is one that nobody writes from: then there is nothing to wait for.
        if self.entries.try_send(Entry::Flush(written)).is_ok() {
            let _ = wait.recv_timeout(FLUSH_MAX);
        }
    }
}

fn write_all(
    entries: &Receiver<Entry>,
    mut out: impl Write,
    waiting: &AtomicUsize,
    dropped: &DroppedLogLines,
) {
    let mut told = 0;
    for entry in entries {
        match entry {
            Entry::Line(line) => {
                waiting.fetch_sub(line.len(), Ordering::Relaxed);
                let missing = dropped.count();
                let gap = missing.saturating_sub(told);
                if gap > 0 && writeln!(out, "{gap} log lines are missing here").is_ok() {
                    told = missing;
                }
                if out.write_all(&line).is_err() {
                    dropped.add(1);
                }
            }
            Entry::Flush(written) => {
                let _ = out.flush();
                let _ = written.try_send(());
            }
        }
    }
}

/// The line of an event while it is being formatted.
pub struct LogLine<'a> {
    queue: &'a LogQueue,
    line: Vec<u8>,
}

impl Write for LogLine<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LogLine<'_> {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            self.queue.put(std::mem::take(&mut self.line));
        }
    }
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = LogLine<'a>;

    fn make_writer(&'a self) -> LogLine<'a> {
        LogLine {
            queue: self,
            line: Vec::new(),
        }
    }
}

/// Writes what is left when it is dropped.
#[must_use]
pub struct LogGuard(pub LogQueue);

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.0.flush();
    }
}

#[cfg(test)]
mod tests;
