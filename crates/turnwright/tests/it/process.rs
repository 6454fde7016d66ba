//! Starting the command.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tw_testkit::client::TestClient;
use tw_testkit::listener::Listener;

/// What the command reads of the environment; a test starts with none of it.
const VARIABLES: [&str; 16] = [
    "DATABASE_URL",
    "NATS_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ENABLE_TOOLS",
    "RUST_LOG",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "http_proxy",
    "HTTP_PROXY",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
];
/// And all that begin with this.
const PREFIX: &str = "TURNWRIGHT_";

pub const SECRET: &str = "sk-of-the-operator-77";

pub fn turnwright() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnwright"));
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with(PREFIX) {
            command.env_remove(variable);
        }
    }
    // Listeners count what they are asked.
    command.env("TURNWRIGHT_CHECK_UPSTREAMS", "false");
    command.stdin(Stdio::null());
    command
}

/// Makes a key in a data folder.
pub fn create_key(data: &Path, flags: &[&str]) -> Output {
    let mut command = turnwright();
    command.args(["keys", "create", "--data"]).arg(data);
    command.args(flags).output().unwrap()
}

/// Overwrites the first page of a table of a database that nobody has open.
pub fn break_table(database: &Path, table: &str) {
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let page: u32 = rusqlite::Connection::open(database)
        .unwrap()
        .query_row(root, [table], |row| row.get(0))
        .unwrap();
    let end = usize::try_from(page).unwrap() * 4096;
    let mut bytes = std::fs::read(database).unwrap();
    bytes[end - 4096..end].fill(0xa5);
    std::fs::write(database, bytes).unwrap();
}

/// The names of all that is in a folder, in order.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry).to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The key that was printed.
pub fn key_of(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8(output.stdout.clone())
        .unwrap()
        .trim_end()
        .to_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// `serve` on a free port; killed when dropped.
pub struct ServerProcess {
    pub client: TestClient,
    child: Child,
    stdout: BufReader<ChildStdout>,
    log: PathBuf,
}

/// A `serve` in front of an upstream, still to be spawned.
pub fn serve(data: &Path, upstream: &Listener) -> Command {
    serve_at("127.0.0.1:0", data, upstream)
}

/// [`serve`] on an address.
pub fn serve_at(listen: &str, data: &Path, upstream: &Listener) -> Command {
    let mut command = turnwright();
    command
        .args(["serve", "--listen", listen, "--data"])
        .arg(data)
        .env("OPENAI_API_KEY", SECRET)
        .env("OPENAI_BASE_URL", upstream.url("/v1"));
    command
}

/// A program under which a server hears of its terminal's end, though the tests may have been started by `nohup`.
pub const HEARS_HANG_UP: [&str; 2] = ["env", "--default-signal=HUP"];

/// The same command, run by another program.
pub fn run_by(runner: &[&str], plain: &Command) -> Command {
    let mut command = Command::new(runner[0]);
    command
        .args(&runner[1..])
        .arg(plain.get_program())
        .args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

impl ServerProcess {
    /// Waits for the line that says where it listens. The log goes to a file beside the data.
    pub fn start(mut command: Command, data: &Path) -> Self {
        let log = File::create(data.with_extension("log")).unwrap();
        command.stderr(log);
        Self::start_with_log(command, data)
    }

    /// [`Server::start`], the log going where the command says; what a pipe of it brings stays in the child.
    pub fn start_with_log(mut command: Command, data: &Path) -> Self {
        let log = data.with_extension("log");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let address = line
            .trim_end()
            .strip_prefix("listening on http://")
            .unwrap_or_else(|| panic!("{line:?}: {:?}", std::fs::read_to_string(&log)))
            .parse()
            .unwrap();
        Self {
            client: TestClient { address, key: None },
            child,
            stdout,
            log,
        }
    }

    /// What reads the log ends.
    pub fn close_log(&mut self) {
        drop(self.child.stderr.take());
    }

    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Its terminal goes away.
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// Whether it does something about that: the first bit of the mask of signals that it catches.
    pub fn catches_hang_up(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        u64::from_str_radix(mask.unwrap().trim(), 16).unwrap() & 1 == 1
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Waits for the process's end and returns its exit code and what else it printed.
    pub fn end(&mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (code, rest)
    }

    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // One that has ended cannot be killed again.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
