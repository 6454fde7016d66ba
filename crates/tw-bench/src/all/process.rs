//! A server as a process of its own.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::machine::{cpus, usage};

/// A process that is stopped, at the latest, when this is dropped.
#[derive(Debug)]
pub struct BenchProcess {
    name: String,
    child: Child,
}

/// Longest time for a server to drain.
const STOP_MAX: Duration = Duration::from_secs(60);
const STOP_POLL: Duration = Duration::from_millis(20);
/// Bytes of a log that are shown.
const LOG_SHOWN_BYTES: usize = 2000;

impl BenchProcess {
    /// Starts a server on one CPU; what it says on standard error goes to `log`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(
        name: &str,
        cpu: usize,
        command: &Command,
        output: Stdio,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let file = File::create(log).with_context(|| format!("making {}", log.display()))?;
        let mut pinned = cpus::pinned(cpu, command)?;
        pinned.stdin(Stdio::null()).stdout(output).stderr(file);
        let child = pinned.spawn();
        Ok(Self {
            name: name.to_owned(),
            child: child.with_context(|| format!("starting {name}"))?,
        })
    }

    /// The first line on standard output, which the command must have piped.
    ///
    /// # Errors
    /// The process ended before it, or its output is not piped.
    pub fn first_line(&mut self, log: &Path) -> anyhow::Result<String> {
        let Some(output) = self.child.stdout.take() else {
            bail!("{}: its output is not read", self.name);
        };
        let mut line = String::new();
        BufReader::new(output)
            .read_line(&mut line)
            .with_context(|| format!("reading what {} says", self.name))?;
        ensure!(
            line.ends_with('\n'),
            "{} did not start: {}",
            self.name,
            end_of(log)
        );
        Ok(line.trim_end().to_owned())
    }

    /// The process and its workers.
    pub fn pids(&self) -> Vec<u32> {
        usage::tree(self.child.id())
    }

    /// Whether the server has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The server itself: what starts it becomes it.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as a power cut would.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child
            .kill()
            .with_context(|| format!("killing {}", self.name))?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    /// It does not end in time, or not with success.
    pub fn stop(mut self) -> anyhow::Result<()> {
        let status = self.terminate()?;
        ensure!(status.success(), "{} ended with {status}", self.name);
        Ok(())
    }

    fn terminate(&mut self) -> anyhow::Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        kill_process(Pid::from_child(&self.child), Signal::TERM)
            .with_context(|| format!("stopping {}", self.name))?;
        let began = Instant::now();
        while began.elapsed() < STOP_MAX {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            std::thread::park_timeout(STOP_POLL);
        }
        self.child.kill()?;
        self.child.wait()?;
        bail!("{} did not end within {STOP_MAX:?}", self.name)
    }
}

impl Drop for BenchProcess {
    fn drop(&mut self) {
        if let Err(error) = self.terminate() {
            eprintln!("tw-bench: {error:#}");
        }
    }
}

/// The end of a log.
pub fn end_of(log: &Path) -> String {
    let mut bytes = Vec::new();
    // A log that cannot be read says nothing.
    let _ = File::open(log).and_then(|mut file| file.read_to_end(&mut bytes));
    let from = bytes.len().saturating_sub(LOG_SHOWN_BYTES);
    String::from_utf8_lossy(&bytes[from..]).trim().to_owned()
}

/// Runs a command to its end and returns what it prints.
///
/// # Errors
/// It cannot be started, or fails.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let shown = format!("{command:?}");
    let done = command
        .output()
        .with_context(|| format!("running {shown}"))?;
    ensure!(
        done.status.success(),
        "{shown} ended with {}: {}",
        done.status,
        String::from_utf8_lossy(&done.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// Writes a file that a server reads.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}
