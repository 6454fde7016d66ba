//! Pinning: the server has one CPU, and what measures it has the other.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use anyhow::{Context, bail};
use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The two CPUs of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Cpus {
    pub server: usize,
    /// CPU of the load and the fake upstream.
    pub rig: usize,
}

impl Cpus {
    /// The first two CPUs that this process may use.
    ///
    /// # Errors
    /// There are fewer.
    pub fn choose() -> anyhow::Result<Self> {
        let allowed = sched_getaffinity(None).context("asking for the CPUs of this process")?;
        let mut usable = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        let (Some(server), Some(rig)) = (usable.next(), usable.next()) else {
            bail!("two CPUs are needed: one for the server, one for the load");
        };
        Ok(Self { server, rig })
    }
}

/// Keeps the calling thread, and the threads it starts from now on, on one CPU.
///
/// # Errors
/// The system refuses.
pub fn pin_this_thread(cpu: usize) -> anyhow::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu);
    sched_setaffinity(None, &only).with_context(|| format!("pinning a thread to CPU {cpu}"))
}

/// Runs `work` on a thread of its own that is pinned to `cpu`, and waits for it.
///
/// # Errors
/// Those of `work`; or the thread could not be started or pinned.
pub fn run_pinned<T: Send>(
    cpu: usize,
    work: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    thread::scope(|scope| {
        let pinned = scope.spawn(|| {
            pin_this_thread(cpu)?;
            work()
        });
        match pinned.join() {
            Ok(done) => done,
            Err(_panic) => bail!("a pinned thread panicked"),
        }
    })
}

#[derive(clap::Args)]
pub struct PinnedArgs {
    #[arg(long)]
    cpu: usize,
    /// A program and its arguments.
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

/// The same command on one CPU, ended when the thread that starts it ends: what it runs first is this program, see
/// [`become_pinned`].
///
/// # Errors
/// This program does not know where it is.
pub fn pinned(cpu: usize, command: &Command) -> anyhow::Result<Command> {
    let own = std::env::current_exe().context("where this program is")?;
    let mut pinned = Command::new(own);
    pinned.args(["pinned", "--cpu"]).arg(cpu.to_string());
    pinned.arg("--").arg(command.get_program());
    pinned.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => pinned.env(name, value),
            None => pinned.env_remove(name),
        };
    }
    Ok(pinned)
}

/// Turns this process into the command.
///
/// # Errors
/// Returns only if that fails.
pub fn become_pinned(args: &PinnedArgs) -> anyhow::Result<Infallible> {
    pin_this_thread(args.cpu)?;
    // A bench that is killed stops nothing by itself.
    set_parent_process_death_signal(Some(Signal::TERM)).context("tying a server to the bench")?;
    let (program, rest) = args.command.split_first().context("no program")?;
    let error = Command::new(program).args(rest).exec();
    Err(error).with_context(|| format!("starting {}", program.to_string_lossy()))
}

/// Raises the limit of open files for this process and what it starts, and returns what it is then.
///
/// Where the hard limit is lower and this process may not raise it, that is how far it goes.
///
/// # Errors
/// The limit cannot be set at all.
pub fn raise_open_files(wanted: u64) -> anyhow::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return Ok(current);
    }
    let set = |open_files, maximum| {
        let raised = Rlimit {
            current: Some(open_files),
            maximum,
        };
        setrlimit(Resource::Nofile, raised)
    };
    if set(wanted, limit.maximum.map(|hard| hard.max(wanted))).is_ok() {
        return Ok(wanted);
    }
    let most = limit.maximum.map_or(wanted, |hard| hard.min(wanted));
    set(most, limit.maximum)
        .with_context(|| format!("raising the limit of open files to {most}"))?;
    Ok(most)
}
