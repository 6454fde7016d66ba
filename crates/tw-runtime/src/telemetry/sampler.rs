//! Which traces are recorded, by the names that `OTEL_TRACES_SAMPLER` has for it.

use tw_wire::trace_context::{TraceId, TraceParent};

/// A rule that says of each trace the same wherever it is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceSampler {
    /// The client's word counts where it has one.
    pub follows_parent: bool,
    pub roots: SampledRoots,
}

/// What is recorded of traces on which nobody has decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SampledRoots {
    All,
    None,
    /// This part of them, from 0 to 1.
    Ratio(f64),
}

impl TraceSampler {
    /// Reads the name of a sampler; `ratio` is its argument, if it takes one.
    pub fn parse(name: &str, ratio: f64) -> Option<Self> {
        let (follows_parent, roots) = match name.strip_prefix("parentbased_") {
            Some(roots) => (true, roots),
            None => (false, name),
        };
        let roots = match roots {
            "always_on" => SampledRoots::All,
            "always_off" => SampledRoots::None,
            "traceidratio" => SampledRoots::Ratio(ratio),
            _ => return None,
        };
        Some(Self {
            follows_parent,
            roots,
        })
    }

    pub(super) fn samples(self, trace: TraceId, parent: Option<TraceParent>) -> bool {
        if let Some(parent) = parent
            && self.follows_parent
        {
            return parent.is_sampled;
        }
        match self.roots {
            SampledRoots::All => true,
            SampledRoots::None => false,
            SampledRoots::Ratio(ratio) => {
                let TraceId([.., a, b, c, d, e, f, g]) = trace;
                // The last 56 bits of an id are random.
                let random = u64::from_be_bytes([0, a, b, c, d, e, f, g]);
                (random as f64) < ratio * RANDOM_VALUES
            }
        }
    }
}

/// Number of values that 56 bits have.
const RANDOM_VALUES: f64 = (1_u64 << 56) as f64;
