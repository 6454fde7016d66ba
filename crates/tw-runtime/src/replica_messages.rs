//! What the servers on one database tell each other over NATS: how far the log of a turn is, and that there is something
//! to look at.
//!
//! Nothing else is told, so whoever reads along learns no contents. Whoever hears something reads the record, which
//! decides: a message that is lost, late, told twice or made up costs a look, or saves none.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use ring::hmac;
use tokio::time::{Instant, sleep, sleep_until};
use tw_core::id::TurnId;
use tw_egress::nats::{NatsConfig, NatsConnection, NatsSubscription};

use crate::error_chain::ErrorChain;
use crate::replicas::nothing_left;
use crate::runtime::RuntimeInner;
use crate::sealing::Sealer;

/// What the key of the subjects is for, and the version of what is told.
const PURPOSE: &[u8] = b"turnwright nats subjects 1";
/// Bytes of the name that a database's subjects have in common; nobody guesses it.
const NAME_BYTES: usize = 16;
/// Shortest time between two looks that messages lead to, so that nobody who floods a subject floods the database.
const LOOKS_APART: Duration = Duration::from_millis(5);
/// Pause before the database is asked again for the name.
const NAME_PAUSE: Duration = Duration::from_secs(1);
/// Time that the last messages of a process get.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// A connection, and the subjects of one database.
#[derive(Debug)]
pub(crate) struct ReplicaMessages {
    nats: NatsConnection,
    /// `turnwright.NAME`, where the name follows from the database's secret.
    prefix: String,
}

impl ReplicaMessages {
    pub(crate) fn is_connected(&self) -> bool {
        self.nats.is_connected()
    }

    /// Tells whoever follows the turn elsewhere up to which number its log can be read.
    pub(crate) fn tell_durable(&self, turn: TurnId, last: u64) {
        self.nats
            .publish(self.turn_subject(turn), Bytes::from(last.to_string()));
    }

    /// Tells all other servers that there is something for them.
    pub(crate) fn hint(&self) {
        self.nats.publish(self.hint_subject(), Bytes::new());
    }

    /// What is told of a turn from now on; `None` while there is no connection.
    pub(crate) fn of_turn(&self, turn: TurnId) -> Option<TurnMessages> {
        if !self.nats.is_connected() {
            return None;
        }
        let messages = self.nats.subscribe(self.turn_subject(turn))?;
        Some(TurnMessages { messages })
    }

    /// Waits a while for what was told last to leave.
    pub(crate) async fn flush(&self) {
        self.nats.flush_within(FLUSH_MAX).await;
    }

    fn turn_subject(&self, turn: TurnId) -> String {
        format!("{}.turn.{turn}", self.prefix)
    }

    fn hint_subject(&self) -> String {
        format!("{}.hint", self.prefix)
    }
}

/// What other servers tell of one turn.
#[derive(Debug)]
pub(crate) struct TurnMessages {
    messages: NatsSubscription,
}

impl TurnMessages {
    /// Ends when the log is said to go on behind `after`, and not sooner than a little after `looked`.
    ///
    /// # Cancel safety
    /// What is heard and leads to nothing is not needed again.
    pub(crate) async fn told_of_more(&mut self, after: u64, looked: Instant) {
        sleep_until(looked + LOOKS_APART).await;
        loop {
            let told = self.messages.next().await;
            let last = told.and_then(|told| told.parse::<u64>().ok());
            if last.is_some_and(|last| last > after) {
                return;
            }
        }
    }
}

/// Connects, and takes hints out to the other servers and in from them, until the process drives nothing any more.
pub(crate) async fn run(inner: Arc<RuntimeInner>, config: NatsConfig) {
    let talking = async {
        let prefix = prefix_of(&inner).await;
        let (nats, keeper) = match NatsConnection::start(config).await {
            Ok(started) => started,
            Err(error) => {
                tracing::error!(error = %ErrorChain(&error), "connecting to NATS");
                return;
            }
        };
        let told = inner
            .replicas
            .messages
            .get_or_init(|| ReplicaMessages { nats, prefix });
        tokio::join!(
            keeper.keep(),
            hear_hints(&inner, told),
            tell_hints(&inner, told)
        );
    };
    tokio::select! {
        () = talking => {}
        () = nothing_left(&inner) => {}
    }
}

async fn hear_hints(inner: &RuntimeInner, messages: &ReplicaMessages) {
    let Some(mut hints) = messages.nats.subscribe(messages.hint_subject()) else {
        tracing::error!("a new connection to NATS has no room");
        return;
    };
    loop {
        hints.next().await;
        inner.replicas.hinted();
        sleep(LOOKS_APART).await;
    }
}

async fn tell_hints(inner: &RuntimeInner, messages: &ReplicaMessages) {
    loop {
        inner.store.hint_written().await;
        messages.hint();
    }
}

/// What all subjects of this database begin with.
async fn prefix_of(inner: &RuntimeInner) -> String {
    loop {
        match Sealer::of(&inner.sealer, &inner.store, &inner.env).await {
            Ok(sealer) => {
                let key = sealer.signing_key(PURPOSE);
                let tag = key.map(|key| hmac::sign(&key, b""));
                let name = tag
                    .as_ref()
                    .map_or(&[][..], |tag| &tag.as_ref()[..NAME_BYTES]);
                debug_assert!(!name.is_empty(), "a key is made of any secret");
                return format!("turnwright.{}", URL_SAFE_NO_PAD.encode(name));
            }
            Err(error) => {
                tracing::warn!(error = %ErrorChain(&error), "reading the name of the database's subjects");
                sleep(NAME_PAUSE).await;
            }
        }
    }
}
