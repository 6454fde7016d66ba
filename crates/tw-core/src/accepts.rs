//! Rules of what an upstream accepts, as data.

use std::collections::BTreeMap;

use crate::call_ids::CallIdRule;
use crate::native::NativeLabel;

/// The rules by which requests to an upstream are written, where upstreams differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepts {
    /// `stream_options`, by which a stream is asked for its usage.
    pub usage_in_streams: bool,
    pub system_role: SystemRole,
    pub token_limit: TokenLimit,
    /// Results of calls may hold images and other parts that are no text.
    pub images_in_results: bool,
    pub addresses: AddressRule,
    pub strict: StrictTools,
    pub schemas: SchemaDialect,
    pub reasoning: ReasoningSent,
    pub call_ids: CallIdRule,
    /// The rule for ids of calls that nobody knows the maker of: a client of another format may have any.
    pub unknown_call_ids: CallIdRule,
    /// Fields of a request that are not sent as they are; any other field is.
    pub fields: BTreeMap<Box<str>, FieldRule>,
}

/// The way of a request's field to an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldRule {
    /// Sent as the client wrote it, whatever it may have been meant for.
    Sent,
    LeftOut,
    /// Sent under another name, unless the client wrote that one, too.
    Renamed(Box<str>),
}

/// The role of the messages that the operator of an application writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemRole {
    AsSent,
    System,
    Developer,
}

/// The field that limits the tokens of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenLimit {
    AsSent,
    MaxTokens,
    MaxCompletionTokens,
}

/// The way of an image or a file that a client names by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRule {
    /// Its address is sent, where the format has a place for it.
    AsSent,
    /// Its content is downloaded and sent.
    Downloaded,
}

/// Whether a function is marked `strict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrictTools {
    /// A client's tool as it says, ours not.
    AsSent,
    /// Ours whose schema qualifies, and a client's that says so and qualifies.
    WhereItFits,
    /// The word is not sent.
    Never,
}

/// The language in which the arguments of tools are described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaDialect {
    /// JSON Schema, as written.
    JsonSchema,
    /// The part of it that OpenAPI 3.0 has, without references.
    OpenApi,
}

/// The field in which the reasoning of earlier answers goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningSent {
    AsSent,
    Field(NativeLabel),
    /// Reasoning does not go back.
    Never,
}

impl Accepts {
    /// The rules of an upstream that accepts everything the format knows: requests go out as they
    /// are.
    pub fn everything() -> Self {
        Self {
            usage_in_streams: true,
            system_role: SystemRole::AsSent,
            token_limit: TokenLimit::AsSent,
            images_in_results: true,
            addresses: AddressRule::AsSent,
            strict: StrictTools::AsSent,
            schemas: SchemaDialect::JsonSchema,
            reasoning: ReasoningSent::AsSent,
            call_ids: CallIdRule::AsSent,
            unknown_call_ids: CallIdRule::AsSent,
            fields: BTreeMap::new(),
        }
    }

    /// Whether messages go out as they are.
    pub fn all_messages(&self) -> bool {
        self.system_role == SystemRole::AsSent
            && self.images_in_results
            && self.reasoning == ReasoningSent::AsSent
            && self.call_ids == CallIdRule::AsSent
            && self.unknown_call_ids == CallIdRule::AsSent
    }

    /// Whether tools go out as they are.
    pub fn all_tools(&self) -> bool {
        self.strict == StrictTools::AsSent && self.schemas == SchemaDialect::JsonSchema
    }
}
