//! Who answers, with what a request to each needs.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;

use super::process::Process;
use super::request;
use super::scenarios::{Peer, Tools};
use crate::load::answer::Form;

#[derive(Debug)]
pub struct Server {
    pub peer: Peer,
    pub address: SocketAddr,
    pub keys: Keys,
    /// `None` for the fake upstream, which is a thread of this process.
    pub process: Option<Process>,
    /// Where its record is, if it keeps one.
    pub database: Option<PathBuf>,
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct Keys {
    pub plain: String,
    /// May use the tool; `None` where there is none.
    pub tool: Option<String>,
    /// May use the one that breaks off too.
    pub any_tool: Option<String>,
}

/// For those who do not look at it.
const NO_KEY: &str = "sk-bench";

impl Keys {
    pub fn none() -> Self {
        Self {
            plain: NO_KEY.to_owned(),
            tool: None,
            any_tool: None,
        }
    }
}

impl Server {
    /// The fake upstream itself.
    pub fn direct(upstream: SocketAddr) -> Self {
        Self {
            peer: Peer::Direct,
            address: upstream,
            keys: Keys::none(),
            process: None,
            database: None,
        }
    }

    /// Its processes; none for the fake upstream.
    pub fn pids(&self) -> Vec<u32> {
        self.process.as_ref().map(Process::pids).unwrap_or_default()
    }

    /// # Errors
    /// It has no key for such requests.
    pub fn chat(&self, form: Form, model: &str, tools: Tools) -> anyhow::Result<Vec<u8>> {
        Ok(request::chat(form, model, self.key(tools)?))
    }

    /// # Errors
    /// It has no key for such requests.
    pub fn key(&self, tools: Tools) -> anyhow::Result<&str> {
        Ok(match (&self.process, tools) {
            // The fake upstream looks at none.
            (None, _) | (Some(_), Tools::None) => &self.keys.plain,
            (Some(_), Tools::One | Tools::Mixed) => self
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
