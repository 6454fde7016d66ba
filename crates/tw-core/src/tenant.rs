//! Rights of an organization's API key: what it may do, and the turns that it may see.

use crate::id::ApiKeyId;

/// A thing that a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyScope {
    Chat,
    /// Reading turns that the key made, which `chat` allows, too.
    TurnsRead,
    /// Reading turns of the whole organization.
    TurnsReadAll,
    ToolsRead,
    ToolsWrite,
    WebhooksRead,
    WebhooksWrite,
    Admin,
}

impl KeyScope {
    /// Scopes of a key that is made without a word about them.
    pub const DEFAULT: [Self; 3] = [Self::Chat, Self::TurnsRead, Self::ToolsRead];

    pub const ALL: [Self; 8] = [
        Self::Chat,
        Self::TurnsRead,
        Self::TurnsReadAll,
        Self::ToolsRead,
        Self::ToolsWrite,
        Self::WebhooksRead,
        Self::WebhooksWrite,
        Self::Admin,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::TurnsRead => "turns:read",
            Self::TurnsReadAll => "turns:read_all",
            Self::ToolsRead => "tools:read",
            Self::ToolsWrite => "tools:write",
            Self::WebhooksRead => "webhooks:read",
            Self::WebhooksWrite => "webhooks:write",
            Self::Admin => "admin",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

/// The tools of ours that a key may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolGrant {
    None,
    All,
    Named(Vec<String>),
}

impl ToolGrant {
    pub fn allows(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Named(names) => names.iter().any(|granted| granted == name),
        }
    }
}

/// The fate of a key's tools where a request brings a list of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolsMode {
    /// The request's list takes their place: it is exact.
    Replace,
    /// The key's tools are added to the list. Agents always send one, and know nothing of the
    /// server's tools.
    Add,
}

impl ToolsMode {
    pub const ALL: [Self; 2] = [Self::Replace, Self::Add];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::Add => "add",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyMemory {
    Off,
    Key,
}

/// The API key and the end user of an organization whose turns are read or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnOwner {
    /// `None` for all keys.
    pub api_key: Option<ApiKeyId>,
    /// `None` for all end users, and for turns that name none.
    pub end_user: Option<String>,
}
