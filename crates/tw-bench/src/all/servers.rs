//! The servers under measurement, with what a request to each needs.

use std::net::SocketAddr;

use anyhow::Context;

use super::process::BenchProcess;
use super::record::BenchRecord;
use super::request;
use super::scenarios::{LoadShape, MeasuredPeer, ScenarioTools};
use crate::spoken::SpokenFormat;

#[derive(Debug)]
pub struct BenchServer {
    pub peer: MeasuredPeer,
    pub address: SocketAddr,
    pub keys: ApiKeySpread,
    /// `None` for the fake upstream, which is a thread of this process.
    pub process: Option<BenchProcess>,
    /// Its record, if it keeps one.
    pub record: Option<BenchRecord>,
}

/// Keys of the clients.
#[derive(Clone, Debug)]
pub struct ApiKeySpread {
    pub plain: String,
    /// Key that may use the tool; `None` where there is none.
    pub tool: Option<String>,
    /// Key that may use the tool that breaks off, too.
    pub any_tool: Option<String>,
}

/// Key for servers that do not look at it.
const NO_KEY: &str = "sk-bench";

impl ApiKeySpread {
    pub fn none() -> Self {
        Self {
            plain: NO_KEY.to_owned(),
            tool: None,
            any_tool: None,
        }
    }
}

impl BenchServer {
    /// The fake upstream itself.
    pub fn direct(upstream: SocketAddr) -> Self {
        Self {
            peer: MeasuredPeer::Direct,
            address: upstream,
            keys: ApiKeySpread::none(),
            process: None,
            record: None,
        }
    }

    /// Process ids of the server; none for the fake upstream.
    pub fn pids(&self) -> Vec<u32> {
        self.process
            .as_ref()
            .map(BenchProcess::pids)
            .unwrap_or_default()
    }

    /// Asks for an answer of the form that the scenario has.
    ///
    /// # Errors
    /// It has no key for such requests.
    pub fn ask(&self, shape: &LoadShape) -> anyhow::Result<Vec<u8>> {
        let model = SpokenFormat::of(shape.upstream).model(shape.model);
        Ok(request::ask(shape.form, &model, self.key(shape.tools)?))
    }

    /// # Errors
    /// It has no key for such requests.
    pub fn key(&self, tools: ScenarioTools) -> anyhow::Result<&str> {
        Ok(match (&self.process, tools) {
            // The fake upstream looks at none.
            (None, _) | (Some(_), ScenarioTools::None) => &self.keys.plain,
            (Some(_), ScenarioTools::One | ScenarioTools::Mixed) => self
                .keys
                .tool
                .as_deref()
                .context("a server without tools")?,
        })
    }

    pub fn events(&self, turn: &str) -> Vec<u8> {
        request::events(turn, &self.keys.plain)
    }

    /// # Errors
    /// It does not end well.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            Some(process) => process.stop(),
            None => Ok(()),
        }
    }
}
