//! A round: the servers are started, every scenario runs on each of them, the record is checked.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::figures::{Figure, Figures};
use super::record::{self, Acknowledged};
use super::scenarios::{CHUNKS, LoadShape, MeasuredPeer, STALLED_MODEL, Scenario, ScenarioTools};
use super::servers::BenchServer;
use super::{nginx, turnwright};
use crate::floor::{self, turns};
use crate::load::answer::{ExpectedAnswer, ExpectedForm};
use crate::load::conversation::{self, Conversation};
use crate::load::mixed::MixedRound;
use crate::load::{self, ConnectionWork, Observed, Plan, SilentClients};
use crate::machine::cpus::{self, Cpus};
use crate::machine::usage;
use crate::upstream::FakeUpstream;
use crate::upstream::profile::Profile;

/// Parts and settings that all rounds share.
pub struct Bench {
    pub upstream: FakeUpstream,
    pub server: PathBuf,
    /// `None` where no scenario needs it.
    pub nginx: Option<PathBuf>,
    pub scenarios: Vec<Scenario>,
    pub window: Duration,
    pub cpus: Cpus,
    /// Folder on a disk: records are made beneath it.
    pub folder: PathBuf,
    /// Most streams that the limit of open files allows: each is a file at either side.
    pub streams_max: usize,
}

/// Findings of the rounds beside figures.
#[derive(Debug, Default)]
pub struct RoundFindings {
    /// Answers that were checked and right.
    pub answers: u64,
    /// Turns that were acknowledged and are in a record.
    pub recorded: u64,
    /// Runs that others disturbed each time.
    pub noisy: Vec<String>,
    /// Scenarios that ran with less than they ask for.
    pub fewer: Vec<String>,
    /// Faults that fail the bench whatever the figures are.
    pub wrong: Vec<String>,
}

impl RoundFindings {
    /// Says once if a scenario runs with fewer streams than it asks for.
    fn note_fewer(&mut self, scenario: Scenario, shape: &LoadShape) {
        let asked = scenario.shape();
        let (asked, run) = (
            asked.connections + asked.silent,
            shape.connections + shape.silent,
        );
        let fewer = format!(
            "{}: {run} streams, not {asked}, since the limit of open files is low",
            scenario.name()
        );
        if run < asked && !self.fewer.contains(&fewer) {
            self.fewer.push(fewer);
        }
    }
}

/// Share of a CPU beyond which a run is repeated, since others took it.
const FOREIGN_MAX: f64 = 0.15;
const TRIES_MAX: u32 = 3;
/// Time for a server to settle after its first request.
const SETTLE: Duration = Duration::from_secs(1);
/// Turns whose events are replayed.
const REPLAYED_TURNS: usize = 16;
/// Name of the client's own tool in mixed rounds.
const CLIENT_TOOL: &str = "bench_seat";
const CONVERSATIONS: usize = 3;
const CONVERSATION_TURNS: usize = 200;
const CONVERSATION_CALLS_EVERY: usize = 10;
const CONVERSATION_CALLS_MODEL: &str = "mock-t16-c1";
/// Turns to a transaction of the floor: as many as there are connections in the busiest plain scenario.
const FLOOR_BATCH: usize = 64;

impl Bench {
    /// # Errors
    /// Something could not be measured at all.
    pub fn round(&self, figures: &mut Figures, findings: &mut RoundFindings) -> anyhow::Result<()> {
        let folder = tempfile::Builder::new()
            .prefix("tw-bench-")
            .tempdir_in(&self.folder)
            .with_context(|| format!("making a folder in {}", self.folder.display()))?;
        self.floors(folder.path(), figures)?;
        let asked = &self.upstream.asked;
        let before = Results {
            tool: asked.tool.load(Ordering::Relaxed),
            given: asked.results.load(Ordering::Relaxed),
        };
        let servers = self.start(folder.path())?;
        let mut round = Round {
            bench: self,
            acknowledged: servers.iter().map(|_| Acknowledged::default()).collect(),
            servers,
            figures,
            findings,
            results: Results::default(),
        };
        round.first_requests()?;
        for scenario in &self.scenarios {
            round.scenario(*scenario)?;
        }
        round.finish(before)
    }

    /// The load of a scenario that is run: where the limit of open files is low, fewer streams than it asks for.
    fn shape(&self, scenario: Scenario) -> LoadShape {
        let shape = scenario.shape();
        let asked = shape.connections + shape.silent;
        if asked <= self.streams_max {
            return shape;
        }
        let silent = shape.silent * self.streams_max / asked;
        LoadShape {
            connections: self.streams_max - silent,
            silent,
            ..shape
        }
    }

    fn wants(&self, peer: MeasuredPeer) -> bool {
        self.scenarios
            .iter()
            .any(|scenario| scenario.shape().peers.contains(&peer))
    }

    fn start(&self, folder: &Path) -> anyhow::Result<Vec<BenchServer>> {
        let upstream = self.upstream.address;
        let mut servers = Vec::new();
        if self.wants(MeasuredPeer::Direct) {
            servers.push(BenchServer::direct(upstream));
        }
        if let Some(program) = &self.nginx {
            let folder = folder.join("nginx");
            servers.push(nginx::start(program, &folder, upstream, self.cpus)?);
        }
        let has_tools = |scenario: &Scenario| scenario.shape().tools != ScenarioTools::None;
        let tools = if self.scenarios.iter().any(has_tools) {
            ScenarioTools::One
        } else {
            ScenarioTools::None
        };
        let own = folder.join("turnwright");
        servers.push(turnwright::start(
            &self.server,
            &own,
            upstream,
            tools,
            self.cpus,
        )?);
        if self.wants(MeasuredPeer::Unrecorded) {
            let folder = folder.join("unrecorded");
            servers.push(turnwright::start_unrecorded(
                &self.server,
                &folder,
                upstream,
                self.cpus,
            )?);
        }
        if self.wants(MeasuredPeer::Postgres) {
            let folder = folder.join("postgres");
            let started =
                turnwright::start_on_postgres(&self.server, &folder, upstream, self.cpus)?;
            servers.extend(started);
        }
        Ok(servers)
    }

    /// Measures the bare statements, on the server's CPU and on the record's disk.
    fn floors(&self, folder: &Path, figures: &mut Figures) -> anyhow::Result<()> {
        let floor = |shape, batch| {
            cpus::run_pinned(self.cpus.server, || {
                floor::measure_one(folder, shape, batch, self.window)
            })
        };
        if self.scenarios.contains(&Scenario::C64)
            && let Some(cpu_us) = floor(turns::TurnShape::Relay, FLOOR_BATCH)?.cpu_per_turn_us
        {
            figures.note(
                Scenario::C64,
                MeasuredPeer::Floor,
                Figure::CpuPerRequestUs,
                cpu_us,
            );
        }
        if self.scenarios.contains(&Scenario::Turn1)
            && let Some(p99) = floor(turns::TurnShape::OneTool, 1)?.p99
        {
            let p99_us = p99.as_secs_f64() * 1e6;
            figures.note(
                Scenario::Turn1,
                MeasuredPeer::Floor,
                Figure::TotalP99Us,
                p99_us,
            );
        }
        Ok(())
    }
}

/// A round under way.
struct Round<'a> {
    bench: &'a Bench,
    servers: Vec<BenchServer>,
    figures: &'a mut Figures,
    findings: &'a mut RoundFindings,
    /// Turns and calls that each server acknowledged.
    acknowledged: Vec<Acknowledged>,
    /// Results of all servers' turns.
    results: Results,
}

/// Results of calls.
#[derive(Clone, Copy, Debug, Default)]
struct Results {
    /// Results that the benched tool was asked for.
    tool: u64,
    /// Results that the model was given with the request that follows the calls.
    given: u64,
}

impl Round<'_> {
    /// Asks each server once, and takes its memory.
    fn first_requests(&mut self) -> anyhow::Result<()> {
        let shape = Scenario::C1.shape();
        let expected = expected(&shape)?;
        for (server, acknowledged) in self.servers.iter().zip(&mut self.acknowledged) {
            let request = server.ask(&shape)?;
            load::ask_once(server.address, &request, &expected)
                .with_context(|| format!("the first request to {}", server.peer.name()))?;
            self.findings.answers += 1;
            acknowledged.turns += 1;
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
        let shape = self.bench.shape(scenario);
        self.findings.note_fewer(scenario, &shape);
        for at in 0..self.servers.len() {
            let peer = self.servers[at].peer;
            if !shape.peers.contains(&peer) {
                continue;
            }
            if scenario == Scenario::Conversation {
                self.conversations(at, &shape)?;
                continue;
            }
            let plan = Plan {
                address: self.servers[at].address,
                work: self.work(at, &shape)?,
                expected: expected(&shape)?,
                pause: Profile::parse(shape.model)?.pause,
                connections: shape.connections,
                silent: self.silent(at, &shape)?,
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
            self.figures.note_run(scenario, &shape, peer, &observed);
        }
        Ok(())
    }

    fn work(&mut self, at: usize, shape: &LoadShape) -> anyhow::Result<ConnectionWork> {
        let server = &self.servers[at];
        Ok(match (shape.form, shape.tools) {
            (ExpectedForm::Events, _) => ConnectionWork::Requests(self.finished_turns(at, shape)?),
            (
                ExpectedForm::Plain | ExpectedForm::Stream(_),
                ScenarioTools::None | ScenarioTools::One,
            ) => ConnectionWork::Requests(vec![server.ask(shape)?]),
            (ExpectedForm::Plain | ExpectedForm::Stream(_), ScenarioTools::Mixed) => {
                ConnectionWork::Mixed(MixedRound {
                    key: server.key(shape.tools)?.to_owned(),
                    model: shape.model.to_owned(),
                    ours: turnwright::TOOL.to_owned(),
                    theirs: CLIENT_TOOL.to_owned(),
                })
            }
        })
    }

    fn silent(&self, at: usize, shape: &LoadShape) -> anyhow::Result<Option<SilentClients>> {
        if shape.silent == 0 {
            return Ok(None);
        }
        let asked = LoadShape {
            model: STALLED_MODEL,
            ..*shape
        };
        Ok(Some(SilentClients {
            request: self.servers[at].ask(&asked)?,
            connections: shape.silent,
        }))
    }

    /// Holds conversations, and checks that the hidden results were given to the model again.
    fn conversations(&mut self, at: usize, shape: &LoadShape) -> anyhow::Result<()> {
        let server = &self.servers[at];
        let peer = server.peer;
        let asked = &self.bench.upstream.asked;
        for number in 1..=CONVERSATIONS {
            let plan = Conversation {
                key: server.key(shape.tools)?.to_owned(),
                user: format!("user {number}"),
                turns: CONVERSATION_TURNS,
                calls_every: CONVERSATION_CALLS_EVERY,
                model: shape.model.to_owned(),
                calling_model: CONVERSATION_CALLS_MODEL.to_owned(),
                text: Profile::parse(shape.model)?.text(),
            };
            let before = asked.earlier_results.load(Ordering::Relaxed);
            let took = conversation::hold(server.address, &plan)
                .with_context(|| format!("a conversation with {}", peer.name()))?;
            self.figures.note_conversation(peer, &took);
            self.findings.answers += took.len() as u64;
            if server.record.is_none() {
                continue;
            }
            let restored = asked.earlier_results.load(Ordering::Relaxed) - before;
            if restored != plan.restored() {
                self.findings.wrong.push(format!(
                    "conversation of {}: {restored} hidden results were given again, not {}",
                    peer.name(),
                    plan.restored()
                ));
            }
            self.acknowledged[at].turns += took.len() as u64;
            self.acknowledged[at].calls += plan.calls();
            self.results.tool += plan.calls();
            self.results.given += plan.calls();
        }
        eprintln!("  conversation of {}: {CONVERSATIONS} held", peer.name());
        Ok(())
    }

    /// Counts what the answers of a run must have left behind.
    fn acknowledge(&mut self, at: usize, shape: &LoadShape, observed: &Observed) {
        let answers = observed.acknowledged;
        let (turns, calls, tool) = match shape.tools {
            ScenarioTools::None => (1, 0, 0),
            ScenarioTools::One => (1, 1, 1),
            ScenarioTools::Mixed => (2, 2, 1),
        };
        self.findings.answers += answers * turns;
        self.results.tool += answers * tool;
        self.results.given += answers * calls;
        if shape.form != ExpectedForm::Events {
            let acknowledged = &mut self.acknowledged[at];
            acknowledged.turns += answers * turns;
            acknowledged.calls += answers * calls;
            acknowledged.left += observed.silent;
        }
    }

    /// Runs until nobody disturbs it, and takes the run that was disturbed least.
    fn quietest(
        &mut self,
        at: usize,
        name: &str,
        shape: &LoadShape,
        plan: &Plan,
    ) -> anyhow::Result<Observed> {
        let mut best: Option<Observed> = None;
        for _ in 0..TRIES_MAX {
            let server = &self.servers[at];
            let observed = load::run(plan.clone(), &server.pids(), self.bench.cpus)?;
            self.acknowledge(at, shape, &observed);
            if observed.faults.count > 0 {
                let faults = &observed.faults;
                let shown = faults.shown.join("; ");
                let wrong = format!("{name}: {} wrong answers: {shown}", faults.count);
                self.findings.wrong.push(wrong);
            }
            if matches!(shape.form, ExpectedForm::Stream(_))
                && observed.open_max < shape.connections
            {
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
    fn finished_turns(&mut self, at: usize, shape: &LoadShape) -> anyhow::Result<Vec<Vec<u8>>> {
        let server = &self.servers[at];
        let streamed = LoadShape {
            form: CHUNKS,
            ..*shape
        };
        let (request, expected) = (server.ask(&streamed)?, expected(&streamed)?);
        let mut requests = Vec::with_capacity(REPLAYED_TURNS);
        for _ in 0..REPLAYED_TURNS {
            let turn = load::ask_once(server.address, &request, &expected)?;
            let turn = turn.context("an answer without a turn")?;
            self.acknowledged[at].turns += 1;
            self.findings.answers += 1;
            requests.push(server.events(&turn));
        }
        Ok(requests)
    }

    /// Stops the servers and checks the record and what the fakes were asked since `before`.
    fn finish(mut self, before: Results) -> anyhow::Result<()> {
        for (server, acknowledged) in self.servers.iter_mut().zip(&self.acknowledged) {
            server.stop()?;
            let Some(record) = &server.record else {
                continue;
            };
            match record::check(record, *acknowledged) {
                Ok(()) => self.findings.recorded += acknowledged.turns,
                Err(error) => self.findings.wrong.push(format!("the record: {error:#}")),
            }
        }
        let asked = &self.bench.upstream.asked;
        let tool = asked.tool.load(Ordering::Relaxed) - before.tool;
        let given = asked.results.load(Ordering::Relaxed) - before.given;
        for (what, found, expected) in [
            ("the tool was asked", tool, self.results.tool),
            ("the model was given results", given, self.results.given),
        ] {
            if found != expected {
                let wrong = format!("{what} {found} times; {expected} calls were answered");
                self.findings.wrong.push(wrong);
            }
        }
        Ok(())
    }
}

fn expected(shape: &LoadShape) -> anyhow::Result<ExpectedAnswer> {
    let profile = Profile::parse(shape.model)?;
    ensure!(profile.deltas > 0, "a model without text");
    Ok(ExpectedAnswer {
        form: shape.form,
        text: profile.text(),
        deltas: u64::try_from(profile.deltas)?,
    })
}
