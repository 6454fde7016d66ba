//! Faults: the failures that a client is told when a turn cannot give it an answer.
//!
//! One kind inside; each surface renders it in its own shape.

/// A turn's failure as a client may see it; never holds anything secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnFault {
    pub class: FaultClass,
    pub message: String,
    /// The upstream's own words, where it gave any.
    pub code: Option<String>,
    pub kind: Option<String>,
    pub param: Option<String>,
    /// Seconds after which a retry may help.
    pub retry_after_s: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultClass {
    /// The upstream refused the request itself; its status is kept (400, 404, 413, 422).
    Refused { status: u16 },
    /// The upstream refused our credentials, failed or answered nonsense.
    UpstreamFailed,
    /// The upstream reported an error inside a stream.
    UpstreamReported,
    /// The upstream limits us.
    UpstreamLimited,
    /// The upstream was silent for too long.
    UpstreamSilent,
    /// The turn's own deadline passed.
    Deadline,
    /// A restart of ours cut the answer.
    Interrupted,
    /// The turn was stopped.
    Cancelled,
    /// A fault of ours; the log knows more.
    Internal,
}

/// Words for an account without money or a quota that does not come back by waiting a little:
/// OpenAI's, Moonshot's, DeepSeek's, Alibaba's, Zhipu's 1113, MiniMax's 1008. Compared by their letters and digits.
const USED_UP: [&str; 11] = [
    "insufficientquota",
    "quotaexhausted",
    "exceededcurrentquota",
    "exceededcurrentquotaerror",
    "billinghardlimitreached",
    "billingnotactive",
    "insufficientbalance",
    "insufficientcredits",
    "arrearage",
    "1113",
    "1008",
];

/// Whether an upstream's words say that a quota is used up, not that a rate is too high.
pub fn is_used_up(code: Option<&str>, kind: Option<&str>) -> bool {
    let letters = |word: &str| -> String {
        let letters = word.chars().filter(char::is_ascii_alphanumeric);
        letters.map(|letter| letter.to_ascii_lowercase()).collect()
    };
    let words = [code, kind];
    words
        .into_iter()
        .flatten()
        .any(|word| USED_UP.contains(&letters(word).as_str()))
}

impl FaultClass {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refused { .. } => "refused",
            Self::UpstreamFailed => "upstream_failed",
            Self::UpstreamReported => "upstream_reported",
            Self::UpstreamLimited => "upstream_limited",
            Self::UpstreamSilent => "upstream_silent",
            Self::Deadline => "deadline",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
            Self::Internal => "internal",
        }
    }

    pub fn parse(text: &str, status: Option<u16>) -> Option<Self> {
        if text == "refused" {
            return status.map(|status| Self::Refused { status });
        }
        [
            Self::UpstreamFailed,
            Self::UpstreamReported,
            Self::UpstreamLimited,
            Self::UpstreamSilent,
            Self::Deadline,
            Self::Interrupted,
            Self::Cancelled,
            Self::Internal,
        ]
        .into_iter()
        .find(|class| class.as_str() == text)
    }
}

impl TurnFault {
    /// Whether the upstream's words say that a quota is used up, as [`is_used_up`] reads them.
    pub fn is_used_up(&self) -> bool {
        is_used_up(self.code.as_deref(), self.kind.as_deref())
    }

    pub fn new(class: FaultClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            code: None,
            kind: None,
            param: None,
            retry_after_s: None,
        }
    }
}
