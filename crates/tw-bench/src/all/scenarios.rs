//! The scenarios: those of the reference measurement, turns with tools, open streams, replay and memory.

use std::time::Duration;

use clap::ValueEnum;
use tw_wire::format::WireFormat;

use crate::load::Arrivals;
use crate::load::answer::ExpectedForm;

/// Scenarios in the order in which they run. Memory is first, while a server has done nothing yet.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scenario {
    /// 2,000 open streams.
    #[value(name = "memory")]
    Memory,
    /// Plain requests, one at a time.
    #[value(name = "c1")]
    C1,
    /// Plain requests, 64 at a time.
    #[value(name = "c64")]
    C64,
    /// Plain requests, 2,000 a second.
    #[value(name = "rate2k")]
    Rate2k,
    /// Streams without pause, one event to a write.
    #[value(name = "sse-b1")]
    SseB1,
    /// Streams without pause, 16 events to a write.
    #[value(name = "sse-b16")]
    SseB16,
    /// Streams in chat completions over an upstream of the same, 16 events to a write.
    #[value(name = "pair-chat-chat")]
    PairChatChat,
    /// Streams in chat completions over an upstream of Messages.
    #[value(name = "pair-chat-messages")]
    PairChatMessages,
    /// Streams in chat completions over an upstream of Responses.
    #[value(name = "pair-chat-responses")]
    PairChatResponses,
    /// Streams in Messages over an upstream of chat completions.
    #[value(name = "pair-messages-chat")]
    PairMessagesChat,
    /// Streams in Messages over an upstream of the same.
    #[value(name = "pair-messages-messages")]
    PairMessagesMessages,
    /// Streams in Messages over an upstream of Responses.
    #[value(name = "pair-messages-responses")]
    PairMessagesResponses,
    /// Streams in Responses over an upstream of chat completions.
    #[value(name = "pair-responses-chat")]
    PairResponsesChat,
    /// Streams in Responses over an upstream of Messages.
    #[value(name = "pair-responses-messages")]
    PairResponsesMessages,
    /// Streams in Responses over an upstream of the same.
    #[value(name = "pair-responses-responses")]
    PairResponsesResponses,
    /// 10 paced streams.
    #[value(name = "open10")]
    Open10,
    /// 50 paced streams.
    #[value(name = "open50")]
    Open50,
    /// The same of a model that thinks before it speaks, as all do.
    #[value(name = "think50")]
    Think50,
    /// 500 paced streams.
    #[value(name = "open500")]
    Open500,
    /// One-tool turns, one at a time.
    #[value(name = "turn1")]
    Turn1,
    /// One-tool turns, 64 in flight.
    #[value(name = "turn64")]
    Turn64,
    /// One-tool turns, streamed, 64 in flight.
    #[value(name = "turn64-sse")]
    Turn64Sse,
    /// Rounds with a call of the server and one of the client, 64 in flight.
    #[value(name = "mixed64")]
    Mixed64,
    /// The events of finished turns.
    #[value(name = "replay")]
    Replay,
    /// A client that resends a growing history.
    #[value(name = "conversation")]
    Conversation,
    /// 10,000 open streams.
    #[value(name = "crowd")]
    Crowd,
    /// The same, of which 1,000 are never read.
    #[value(name = "stalled")]
    Stalled,
}

/// Peers that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MeasuredPeer {
    /// The fake upstream itself.
    Direct,
    Nginx,
    Turnwright,
    /// The same server, whose record is in a PostgreSQL database.
    Postgres,
    /// The same server, whose writer writes nothing.
    Unrecorded,
    /// The bare statements of a turn.
    Floor,
}

impl MeasuredPeer {
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Nginx => "nginx",
            Self::Turnwright => "turnwright",
            Self::Postgres => "postgres",
            Self::Unrecorded => "unrecorded",
            Self::Floor => "floor",
        }
    }
}

/// Tools that the requests are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScenarioTools {
    None,
    /// The benched tool: the model calls it and then answers.
    One,
    /// The benched tool and one of the client's own: the model calls both at once, and answers when both have results.
    Mixed,
}

/// The load that a scenario puts on a server.
#[derive(Clone, Copy, Debug)]
pub struct LoadShape {
    pub says: &'static str,
    pub peers: &'static [MeasuredPeer],
    pub form: ExpectedForm,
    /// Format of the upstream that is asked.
    pub upstream: WireFormat,
    /// Profile of the answers, as the fake upstream knows it.
    pub model: &'static str,
    pub tools: ScenarioTools,
    pub connections: usize,
    /// Connections beside these that ask once and never read.
    pub silent: usize,
    pub ramp: Duration,
    pub warm_up: Duration,
    /// Length of the window; `None` is as long as was asked for.
    pub window: Option<Duration>,
    pub arrivals: Arrivals,
}

const RELAYS: &[MeasuredPeer] = &[
    MeasuredPeer::Direct,
    MeasuredPeer::Nginx,
    MeasuredPeer::Turnwright,
];
const TURNS: &[MeasuredPeer] = &[
    MeasuredPeer::Turnwright,
    MeasuredPeer::Postgres,
    MeasuredPeer::Unrecorded,
];

const CHAT: WireFormat = WireFormat::OpenAiChat;
const MESSAGES: WireFormat = WireFormat::AnthropicMessages;
const RESPONSES: WireFormat = WireFormat::OpenAiResponses;

/// A chat completion in chunks.
pub const CHUNKS: ExpectedForm = ExpectedForm::Stream(CHAT);

/// Load of plain requests of 16 words in a closed loop; the others differ from it.
const PLAIN: LoadShape = LoadShape {
    says: "",
    peers: RELAYS,
    form: ExpectedForm::Plain,
    upstream: CHAT,
    model: "mock-t16",
    tools: ScenarioTools::None,
    connections: 64,
    silent: 0,
    ramp: Duration::ZERO,
    warm_up: Duration::from_secs(1),
    window: None,
    arrivals: Arrivals::Closed,
};

/// Load of streams of 50 deltas, 20 ms apart.
const PACED: LoadShape = LoadShape {
    form: CHUNKS,
    model: "mock-t50-d20",
    ramp: Duration::from_millis(900),
    warm_up: Duration::from_secs(2),
    ..PLAIN
};

/// Load of a pair of formats; those of all pairs differ in nothing else.
const PAIR: LoadShape = LoadShape {
    says: "the client's format over the upstream's: 200 deltas without pause, 16 events to a write, 32 connections",
    peers: &[MeasuredPeer::Turnwright],
    model: "mock-t200-b16",
    connections: 32,
    // Nine of them in three rounds are to take little more than half a minute.
    warm_up: Duration::from_millis(250),
    window: Some(Duration::from_secs(1)),
    ..PLAIN
};

/// Load of connections that carry one stream each, which lasts longer than the ramp and the window.
const CROWD: LoadShape = LoadShape {
    peers: &[MeasuredPeer::Turnwright],
    model: "mock-t10-d4000",
    connections: 10_000,
    ramp: Duration::from_secs(20),
    warm_up: Duration::from_secs(26),
    window: Some(Duration::from_secs(8)),
    ..PACED
};
const STALLED: usize = 1_000;
/// Model for those that do not read: its answers have more than fits between the fake upstream and them.
pub const STALLED_MODEL: &str = "mock-t20000-b16";

impl Scenario {
    pub fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }

    pub fn shape(self) -> LoadShape {
        match self {
            // Each connection carries one stream, which lasts longer than the ramp and the window.
            Self::Memory => LoadShape {
                says: "2,000 streams held open, 500 ms between deltas",
                peers: &[MeasuredPeer::Nginx, MeasuredPeer::Turnwright],
                model: "mock-t20-d500",
                connections: 2000,
                ramp: Duration::from_secs(3),
                warm_up: Duration::from_secs(4),
                window: Some(Duration::from_secs(4)),
                ..PACED
            },
            Self::C1 => LoadShape {
                says: "plain, 16 words, one at a time",
                connections: 1,
                ..PLAIN
            },
            Self::C64 => LoadShape {
                says: "plain, 16 words, 64 connections",
                ..PLAIN
            },
            Self::Rate2k => LoadShape {
                says: "plain, 16 words, 2,000 a second",
                arrivals: Arrivals::PerSecond(2000.0),
                ..PLAIN
            },
            Self::SseB1 => LoadShape {
                says: "200 deltas without pause, one event to a write, 32 connections",
                form: CHUNKS,
                model: "mock-t200",
                connections: 32,
                ..PLAIN
            },
            Self::SseB16 => LoadShape {
                says: "200 deltas without pause, 16 events to a write, 32 connections",
                form: CHUNKS,
                model: "mock-t200-b16",
                connections: 32,
                ..PLAIN
            },
            Self::PairChatChat => pair(CHAT, CHAT),
            Self::PairChatMessages => pair(CHAT, MESSAGES),
            Self::PairChatResponses => pair(CHAT, RESPONSES),
            Self::PairMessagesChat => pair(MESSAGES, CHAT),
            Self::PairMessagesMessages => pair(MESSAGES, MESSAGES),
            Self::PairMessagesResponses => pair(MESSAGES, RESPONSES),
            Self::PairResponsesChat => pair(RESPONSES, CHAT),
            Self::PairResponsesMessages => pair(RESPONSES, MESSAGES),
            Self::PairResponsesResponses => pair(RESPONSES, RESPONSES),
            Self::Open10 => LoadShape {
                says: "10 streams at once, 50 deltas 20 ms apart",
                connections: 10,
                ..PACED
            },
            Self::Open50 => LoadShape {
                says: "50 streams at once, 50 deltas 20 ms apart",
                connections: 50,
                ..PACED
            },
            Self::Think50 => LoadShape {
                says: "the same of a model that thinks for 50 ms",
                model: "mock-t50-f50-d20",
                connections: 50,
                ..PACED
            },
            Self::Open500 => LoadShape {
                says: "500 streams at once, 50 deltas 20 ms apart",
                connections: 500,
                ramp: Duration::from_secs(1),
                warm_up: Duration::from_secs(3),
                ..PACED
            },
            Self::Turn1 => LoadShape {
                says: "one HTTP tool of effect `once`, plain, one at a time",
                peers: TURNS,
                tools: ScenarioTools::One,
                connections: 1,
                ..PLAIN
            },
            Self::Turn64 => LoadShape {
                says: "one HTTP tool of effect `once`, plain, 64 in flight",
                peers: TURNS,
                tools: ScenarioTools::One,
                ..PLAIN
            },
            Self::Turn64Sse => LoadShape {
                says: "one HTTP tool of effect `once`, streamed, 64 in flight",
                peers: TURNS,
                form: CHUNKS,
                tools: ScenarioTools::One,
                ..PLAIN
            },
            Self::Mixed64 => LoadShape {
                says: "a call of the server's tool and one of the client's in one round, and its answer, 64 in flight",
                peers: &[MeasuredPeer::Turnwright],
                model: "mock-t16-c2",
                tools: ScenarioTools::Mixed,
                ..PLAIN
            },
            Self::Replay => LoadShape {
                says: "the events of finished turns of 4,000 deltas, 8 connections",
                peers: &[MeasuredPeer::Turnwright],
                form: ExpectedForm::Events,
                model: "mock-t4000-b16",
                connections: 8,
                ..PLAIN
            },
            Self::Conversation => LoadShape {
                says: "200 turns of one client that resends its history, every tenth with a hidden call",
                peers: &[MeasuredPeer::Direct, MeasuredPeer::Turnwright],
                model: "mock-t16-c0",
                tools: ScenarioTools::One,
                connections: 1,
                ..PLAIN
            },
            Self::Crowd => LoadShape {
                says: "10,000 streams held open, 4 s between deltas",
                ..CROWD
            },
            Self::Stalled => LoadShape {
                says: "the same with 1,000 of the streams never read",
                connections: CROWD.connections - STALLED,
                silent: STALLED,
                ..CROWD
            },
        }
    }
}

fn pair(client: WireFormat, upstream: WireFormat) -> LoadShape {
    LoadShape {
        form: ExpectedForm::Stream(client),
        upstream,
        ..PAIR
    }
}
