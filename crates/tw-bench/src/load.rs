//! Load on one server: so many connections, each asking again as soon as it is answered, or requests at a fixed rate.
//!
//! Every answer is checked. One thread does all; what it counts is what happened within the window.

pub mod answer;
pub mod conversation;
pub mod exchange;
pub mod mixed;
pub mod pace;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::http::Afterwards;
use crate::machine::cpus::Cpus;
use crate::machine::usage::{self, ResourceCounters};
use answer::{AnswerProgress, ExpectedAnswer};
use exchange::Connection;
use mixed::MixedRound;
use pace::Pace;

/// A plan of load: what is asked, of whom, by how many and for how long.
#[derive(Clone, Debug)]
pub struct Plan {
    pub address: SocketAddr,
    pub work: ConnectionWork,
    pub expected: ExpectedAnswer,
    /// Time between two pieces of an answer's text; zero if they come without pause.
    pub pause: Duration,
    pub connections: usize,
    /// Connections beside these that ask once and never read.
    pub silent: Option<SilentClients>,
    /// The connections start evenly within this time.
    pub ramp: Duration,
    /// Time from the start until the window opens.
    pub warm_up: Duration,
    pub window: Duration,
    pub arrivals: Arrivals,
}

/// Requests that a connection makes, again and again.
#[derive(Clone, Debug)]
pub enum ConnectionWork {
    /// Requests that are written as they stand; each connection begins with another one and takes them by turns.
    Requests(Vec<Vec<u8>>),
    Mixed(MixedRound),
}

/// Clients that ask and do not read.
#[derive(Clone, Debug)]
pub struct SilentClients {
    pub request: Vec<u8>,
    pub connections: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Closed loop: each connection asks again when it is answered.
    Closed,
    /// Requests a second, whatever the server does; a request's time counts from when it was due.
    PerSecond(f64),
}

/// Observations of the window.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub window: Duration,
    /// Requests that were answered whole and right.
    pub requests: u64,
    pub events: u64,
    /// Pieces of text, each an event of its own whatever the format is.
    pub deltas: u64,
    /// Times from the request, or from when it was due, to the end of its answer.
    pub totals: Vec<Duration>,
    /// Times from there to the first text.
    pub firsts: Vec<Duration>,
    /// Times by which each piece of a paced text came later than its pace from the first piece on.
    pub lateness: Vec<Duration>,
    /// Silent connections that were open to the end.
    pub silent: u64,
    /// CPU time of the server.
    pub server_cpu: Duration,
    pub resident_before_kib: u64,
    pub resident_peak_kib: u64,
    /// CPUs that neither the server nor the load and its upstream used.
    pub foreign_share: f64,
    pub open_max: usize,
    /// Answers that were right, those outside the window too.
    pub acknowledged: u64,
    pub faults: AnswerFaults,
}

/// Answers that were wrong or did not come.
#[derive(Clone, Debug, Default)]
pub struct AnswerFaults {
    pub count: u64,
    /// The first few.
    pub shown: Vec<String>,
}

const FAULTS_SHOWN: usize = 3;
/// Time that is given, after the window, to what is open then.
const LAST_ANSWERS: Duration = Duration::from_secs(30);
const RESIDENT_INTERVAL: Duration = Duration::from_millis(250);

impl AnswerFaults {
    pub fn note(&mut self, fault: String) {
        self.count += 1;
        if self.shown.len() < FAULTS_SHOWN {
            self.shown.push(fault);
        }
    }
}

/// Runs the plan on the calling thread; `server` are the processes whose CPU time and memory count.
///
/// # Errors
/// The load itself could not run; a bad answer is a fault in what was observed.
pub fn run(plan: Plan, server: &[u32], cpus: Cpus) -> anyhow::Result<Observed> {
    LocalSet::new().block_on(&runtime()?, observe(plan, server, cpus))
}

/// Asks once and returns the turn's id, if the server told one.
///
/// # Errors
/// No answer, or a wrong one.
pub fn ask_once(
    address: SocketAddr,
    request: &[u8],
    expected: &ExpectedAnswer,
) -> anyhow::Result<Option<String>> {
    runtime()?.block_on(async {
        let mut connection = Connection::open(address).await?;
        let mut reading = AnswerProgress::new(expected);
        let until = Instant::now() + LAST_ANSWERS;
        let answered = timeout_at(
            until,
            connection.exchange(request, &mut reading, |_, _, _| {}),
        );
        let head = answered.await.context("no answer in time")??;
        reading.check(head.status)?;
        Ok(head.turn)
    })
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("a runtime")
}

/// State that the connections share.
struct Shared {
    plan: Plan,
    opens: Instant,
    closes: Instant,
    pace: Option<Pace>,
    tally: RefCell<Observed>,
    open: Cell<usize>,
}

async fn observe(plan: Plan, server: &[u32], cpus: Cpus) -> anyhow::Result<Observed> {
    let starts = Instant::now();
    let opens = starts + plan.warm_up;
    let closes = opens + plan.window;
    let pace = match plan.arrivals {
        Arrivals::Closed => None,
        Arrivals::PerSecond(rate) => Some(Pace::start(rate, starts, closes)?),
    };
    let resident_before_kib = usage::resident_kib(server);
    let shared = Rc::new(Shared {
        plan,
        opens,
        closes,
        pace,
        tally: RefCell::default(),
        open: Cell::new(0),
    });
    let mut workers = Vec::with_capacity(shared.plan.connections);
    for index in 0..shared.plan.connections {
        let shared = Rc::clone(&shared);
        workers.push(tokio::task::spawn_local(async move {
            sleep(share(shared.plan.ramp, index, shared.plan.connections)).await;
            shared.work(index).await;
        }));
    }
    if let Some(silent) = shared.plan.silent.clone() {
        for index in 0..silent.connections {
            let (shared, silent) = (Rc::clone(&shared), silent.clone());
            workers.push(tokio::task::spawn_local(async move {
                sleep(share(shared.plan.ramp, index, silent.connections)).await;
                shared.stay_silent(&silent).await;
            }));
        }
    }
    sleep_until(opens).await;
    let before = ResourceCounters::now(server, cpus)?;
    let began = Instant::now();
    let mut resident_peak_kib = usage::resident_kib(server);
    loop {
        sleep_until(closes.min(Instant::now() + RESIDENT_INTERVAL)).await;
        resident_peak_kib = resident_peak_kib.max(usage::resident_kib(server));
        if Instant::now() >= closes {
            break;
        }
    }
    let window = began.elapsed();
    let used = ResourceCounters::now(server, cpus)?.since(before);
    for worker in workers {
        worker.await.context("a connection's task")?;
    }
    let tally = shared.tally.take();
    Ok(Observed {
        window,
        server_cpu: used.server,
        resident_before_kib,
        resident_peak_kib,
        foreign_share: used.foreign_s / window.as_secs_f64(),
        ..tally
    })
}

/// The time at which connection `index` of `count` starts.
fn share(ramp: Duration, index: usize, count: usize) -> Duration {
    ramp.mul_f64(index as f64 / count.max(1) as f64)
}

impl Shared {
    async fn work(&self, index: usize) {
        let mut connection = None;
        let mut reading = AnswerProgress::new(&self.plan.expected);
        let mut next = index;
        let mut is_first = true;
        loop {
            let due = match &self.pace {
                Some(pace) => pace.next().await,
                // Each connection asks once, however short the window is.
                None => Some(Instant::now()).filter(|now| is_first || *now < self.closes),
            };
            is_first = false;
            let Some(due) = due else {
                return;
            };
            let at = next;
            next = next.wrapping_add(1);
            self.open.set(self.open.get() + 1);
            {
                let mut tally = self.tally.borrow_mut();
                tally.open_max = tally.open_max.max(self.open.get());
            }
            let asked = self.ask(&mut connection, at, &mut reading, due);
            let asked = timeout_at(self.closes + LAST_ANSWERS, asked).await;
            self.open.set(self.open.get() - 1);
            let fault = match asked {
                Ok(Ok(())) => continue,
                Ok(Err(fault)) => fault,
                Err(_elapsed) => anyhow::anyhow!("no answer in time"),
            };
            connection = None;
            self.tally.borrow_mut().faults.note(format!("{fault:#}"));
            if Instant::now() >= self.closes {
                return;
            }
            // A server that refuses is not asked again at once.
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Asks and reads nothing until the window has closed.
    async fn stay_silent(&self, silent: &SilentClients) {
        let asked = async {
            let mut connection = Connection::open_narrow(self.plan.address).await?;
            connection.send(&silent.request).await?;
            sleep_until(self.closes).await;
            anyhow::Ok(())
        };
        match asked.await {
            Ok(()) => self.tally.borrow_mut().silent += 1,
            Err(fault) => {
                let fault = format!("a client that does not read: {fault:#}");
                self.tally.borrow_mut().faults.note(fault);
            }
        }
    }

    async fn ask(
        &self,
        kept: &mut Option<Connection>,
        at: usize,
        reading: &mut AnswerProgress<'_>,
        due: Instant,
    ) -> anyhow::Result<()> {
        if kept.is_none() {
            *kept = Some(Connection::open(self.plan.address).await?);
        }
        let Some(connection) = kept else {
            bail!("no connection");
        };
        let request: Cow<'_, [u8]> = match &self.plan.work {
            ConnectionWork::Requests(requests) => {
                let request = requests.get(at % requests.len().max(1));
                request.context("nothing to ask")?.into()
            }
            ConnectionWork::Mixed(mixed) => {
                let (head, answer) = connection.fetch(&mixed.first()).await?;
                ensure!(head.afterwards == Afterwards::Keep, "closed too early");
                mixed.second(head.status, &answer)?.into()
            }
        };
        reading.begin();
        let is_inside = |at: Instant| at >= self.opens && at < self.closes;
        let pause = self.plan.pause;
        let mut began = None;
        let mut pieces_before = 0;
        let head = connection
            .exchange(&request, reading, |events, pieces, at| {
                if is_inside(at) {
                    let mut tally = self.tally.borrow_mut();
                    tally.events += events;
                    tally.deltas += pieces - pieces_before;
                }
                pieces_before = pieces;
                if pause.is_zero() || pieces == 0 {
                    return;
                }
                let due = *began.get_or_insert(at) + pause.mul_f64((pieces - 1) as f64);
                if is_inside(at) {
                    let late = at.saturating_duration_since(due);
                    self.tally.borrow_mut().lateness.push(late);
                }
            })
            .await?;
        let ended = Instant::now();
        reading.check(head.status)?;
        let mut tally = self.tally.borrow_mut();
        tally.acknowledged += 1;
        if is_inside(ended) {
            tally.requests += 1;
            tally.totals.push(ended.saturating_duration_since(due));
            if let Some(first) = reading.first {
                tally.firsts.push(first.saturating_duration_since(due));
            }
        }
        if head.afterwards == Afterwards::Close {
            *kept = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
