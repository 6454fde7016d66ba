//! One round: the servers are started, every scenario runs on each of them, the record is checked.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::figures::{Figure, Figures};
use super::record::{self, Acknowledged};
use super::scenarios::{Peer, Scenario, Shape, Tools};
use super::servers::Server;
use super::{nginx, turnwright};
use crate::floor::{self, turns};
use crate::load::answer::{Expected, Form};
use crate::load::{self, Observed, Plan};
use crate::machine::cpus::{self, Cpus};
use crate::machine::usage;
use crate::upstream::Upstream;
use crate::upstream::profile::Profile;

/// What all rounds share.
pub struct Bench {
    pub upstream: Upstream,
    pub server: PathBuf,
    /// `None` where no scenario needs it.
    pub nginx: Option<PathBuf>,
    pub scenarios: Vec<Scenario>,
    pub window: Duration,
    pub cpus: Cpus,
    /// On a disk: records are made beneath it.
    pub folder: PathBuf,
}

/// What was found beside figures.
#[derive(Debug, Default)]
pub struct Findings {
    /// Answers that were checked and right.
    pub answers: u64,
    /// Turns that were acknowledged and are in a record.
    pub recorded: u64,
    /// Runs that others disturbed each time.
    pub noisy: Vec<String>,
    /// What fails whatever the figures are.
    pub wrong: Vec<String>,
}

/// A run during which others took more than this much of a CPU is repeated.
const FOREIGN_MAX: f64 = 0.15;
const TRIES_MAX: u32 = 3;
/// After its first request a server gets so long to settle.
const SETTLE: Duration = Duration::from_secs(1);
/// Turns whose events are replayed.
const REPLAYED_TURNS: usize = 16;
/// As many as there are connections in the busiest plain scenario.
const FLOOR_BATCH: usize = 64;

impl Bench {
    /// # Errors
    /// Something could not be measured at all.
    pub fn round(&self, figures: &mut Figures, findings: &mut Findings) -> anyhow::Result<()> {
        let folder = tempfile::Builder::new()
            .prefix("tw-bench-")
            .tempdir_in(&self.folder)
            .with_context(|| format!("making a folder in {}", self.folder.display()))?;
        self.floors(folder.path(), figures)?;
        let tools_before = self.upstream.asked.tool.load(Ordering::Relaxed);
        let mut round = Round {
            bench: self,
            servers: self.start(folder.path())?,
            figures,
            findings,
            acknowledged: Acknowledged::default(),
            tool_turns: 0,
        };
        round.first_requests()?;
        for scenario in &self.scenarios {
            round.scenario(*scenario)?;
        }
        let tools = self.upstream.asked.tool.load(Ordering::Relaxed) - tools_before;
        round.finish(tools)
    }

    fn wants(&self, peer: Peer) -> bool {
        self.scenarios
            .iter()
            .any(|scenario| scenario.shape().peers.contains(&peer))
    }

    fn start(&self, folder: &Path) -> anyhow::Result<Vec<Server>> {
        let upstream = self.upstream.address;
        let mut servers = Vec::new();
        if self.wants(Peer::Direct) {
            servers.push(Server::direct(upstream));
        }
        if let Some(program) = &self.nginx {
            let folder = folder.join("nginx");
            servers.push(nginx::start(program, &folder, upstream, self.cpus)?);
        }
        let has_tools = |scenario: &Scenario| scenario.shape().tools == Tools::One;
        let tools = if self.scenarios.iter().any(has_tools) {
            Tools::One
        } else {
            Tools::None
        };
        let own = folder.join("turnwright");
        servers.push(turnwright::start(
            &self.server,
            &own,
            upstream,
            tools,
            self.cpus,
        )?);
        if self.wants(Peer::Unrecorded) {
            let folder = folder.join("unrecorded");
            servers.push(turnwright::start_unrecorded(
                &self.server,
                &folder,
                upstream,
                self.cpus,
            )?);
        }
        Ok(servers)
    }

    /// The bare statements, on the server's CPU and on the record's disk.
    fn floors(&self, folder: &Path, figures: &mut Figures) -> anyhow::Result<()> {
        let floor = |shape, batch| {
            cpus::run_pinned(self.cpus.server, || {
                floor::measure_one(folder, shape, batch, self.window)
            })
        };
        if self.scenarios.contains(&Scenario::C64)
            && let Some(cpu_us) = floor(turns::Shape::Relay, FLOOR_BATCH)?.cpu_per_turn_us
        {
            figures.note(Scenario::C64, Peer::Floor, Figure::CpuPerRequestUs, cpu_us);
        }
        if self.scenarios.contains(&Scenario::Turn1)
            && let Some(p99) = floor(turns::Shape::OneTool, 1)?.p99
        {
            let p99_us = p99.as_secs_f64() * 1e6;
            figures.note(Scenario::Turn1, Peer::Floor, Figure::TotalP99Us, p99_us);
        }
        Ok(())
    }
}

/// A round under way.
struct Round<'a> {
    bench: &'a Bench,
    servers: Vec<Server>,
    figures: &'a mut Figures,
    findings: &'a mut Findings,
    /// By the server that keeps a record.
    acknowledged: Acknowledged,
    /// Of all servers.
    tool_turns: u64,
}

impl Round<'_> {
    /// Each server answers one request, and its memory is taken.
    fn first_requests(&mut self) -> anyhow::Result<()> {
        let shape = Scenario::C1.shape();
        let expected = expected(&shape)?;
        for server in &self.servers {
            let request = server.chat(shape.form, shape.model, Tools::None)?;
            load::ask_once(server.address, &request, &expected)
                .with_context(|| format!("the first request to {}", server.peer.name()))?;
            self.findings.answers += 1;
            if server.database.is_some() {
                self.acknowledged.turns += 1;
            }
        }
        std::thread::park_timeout(SETTLE);
        if self.bench.scenarios.contains(&Scenario::Memory) {
            for server in &self.servers {
                let pids = server.pids();
                if !pids.is_empty() {
                    let mib = usage::resident_kib(&pids) as f64 / 1024.0;
                    let peer = server.peer;
                    self.figures
                        .note(Scenario::Memory, peer, Figure::AtRestMib, mib);
                }
            }
        }
        Ok(())
    }

    fn scenario(&mut self, scenario: Scenario) -> anyhow::Result<()> {
        let shape = scenario.shape();
        for at in 0..self.servers.len() {
            let peer = self.servers[at].peer;
            if !shape.peers.contains(&peer) {
                continue;
            }
            let requests = match shape.form {
                Form::Plain | Form::Chunks => {
                    vec![self.servers[at].chat(shape.form, shape.model, shape.tools)?]
                }
                Form::Events => self.finished_turns(at, &shape)?,
            };
            let plan = Plan {
                address: self.servers[at].address,
                requests,
                expected: expected(&shape)?,
                connections: shape.connections,
                ramp: shape.ramp,
                warm_up: shape.warm_up,
                window: shape.window.unwrap_or(self.bench.window),
                arrivals: shape.arrivals,
            };
            let name = format!("{} of {}", scenario.name(), peer.name());
            let observed = self.quietest(at, &name, &shape, &plan)?;
            eprintln!(
                "  {name}: {} answers in {:.1} s, foreign {:.2}",
                observed.requests,
                observed.window.as_secs_f64(),
                observed.foreign_share
            );
            self.figures.note_run(scenario, peer, &observed);
        }
        Ok(())
    }

    /// Runs until nobody disturbs it, and takes the run that was disturbed least.
    fn quietest(
        &mut self,
        at: usize,
        name: &str,
        shape: &Shape,
        plan: &Plan,
    ) -> anyhow::Result<Observed> {
        let mut best: Option<Observed> = None;
        for _ in 0..TRIES_MAX {
            let server = &self.servers[at];
            let observed = load::run(plan.clone(), &server.pids(), self.bench.cpus)?;
            self.findings.answers += observed.acknowledged;
            if shape.tools == Tools::One {
                self.tool_turns += observed.acknowledged;
            }
            if server.database.is_some() && shape.form != Form::Events {
                self.acknowledged.turns += observed.acknowledged;
                if shape.tools == Tools::One {
                    self.acknowledged.with_tool += observed.acknowledged;
                }
            }
            if observed.faults.count > 0 {
                let faults = &observed.faults;
                let shown = faults.shown.join("; ");
                let wrong = format!("{name}: {} wrong answers: {shown}", faults.count);
                self.findings.wrong.push(wrong);
            }
            if shape.form == Form::Chunks && observed.open_max < shape.connections {
                let open = observed.open_max;
                let wrong = format!("{name}: {open} streams open, not {}", shape.connections);
                self.findings.wrong.push(wrong);
            }
            let is_quiet = observed.foreign_share <= FOREIGN_MAX;
            let is_better = best
                .as_ref()
                .is_none_or(|best| observed.foreign_share < best.foreign_share);
            if is_better {
                best = Some(observed);
            }
            if is_quiet {
                break;
            }
        }
        let best = best.context("no run")?;
        if best.foreign_share > FOREIGN_MAX {
            let noisy = format!("{name}: foreign CPU {:.2}", best.foreign_share);
            self.findings.noisy.push(noisy);
        }
        Ok(best)
    }

    /// Makes turns with many events, and returns what asks for them.
    fn finished_turns(&mut self, at: usize, shape: &Shape) -> anyhow::Result<Vec<Vec<u8>>> {
        let server = &self.servers[at];
        let streamed = Expected {
            form: Form::Chunks,
            ..expected(shape)?
        };
        let request = server.chat(Form::Chunks, shape.model, Tools::None)?;
        let mut requests = Vec::with_capacity(REPLAYED_TURNS);
        for _ in 0..REPLAYED_TURNS {
            let turn = load::ask_once(server.address, &request, &streamed)?;
            let turn = turn.context("an answer without a turn")?;
            self.acknowledged.turns += 1;
            self.findings.answers += 1;
            requests.push(server.events(&turn));
        }
        Ok(requests)
    }

    /// Stops the servers and checks the record; `tools` is how often the tool was asked.
    fn finish(mut self, tools: u64) -> anyhow::Result<()> {
        let acknowledged = self.acknowledged;
        for server in &mut self.servers {
            server.stop()?;
            let Some(database) = &server.database else {
                continue;
            };
            match record::check(database, acknowledged) {
                Ok(()) => self.findings.recorded += acknowledged.turns,
                Err(error) => self.findings.wrong.push(format!("the record: {error:#}")),
            }
        }
        if tools != self.tool_turns {
            self.findings.wrong.push(format!(
                "the tool was asked {tools} times in {} turns that call it once",
                self.tool_turns
            ));
        }
        Ok(())
    }
}

fn expected(shape: &Shape) -> anyhow::Result<Expected> {
    let profile = Profile::parse(shape.model)?;
    ensure!(profile.deltas > 0, "a model without text");
    Ok(Expected {
        form: shape.form,
        text: profile.text(),
        deltas: u64::try_from(profile.deltas)?,
    })
}
