//! The clock, randomness and fresh ids, from one place, so that a test can give its own.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use rand::Rng;
use tw_core::time::Timestamp;
use uuid::Uuid;

/// The source of time, ids and random bytes.
#[derive(Clone, Debug)]
pub struct Env(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Seeded(Arc<Mutex<Seeded>>),
}

#[derive(Debug)]
struct Seeded {
    now: Timestamp,
    state: u64,
}

impl Env {
    /// The machine's clock and randomness.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands until it is moved, and ids that follow from the seed.
    pub fn seeded(seed: u64, now: Timestamp) -> Self {
        Self(Source::Seeded(Arc::new(Mutex::new(Seeded {
            now,
            state: seed,
        }))))
    }

    /// Moves a seeded clock, also back; nobody moves the machine's.
    pub fn move_clock(&self, now: Timestamp) {
        match &self.0 {
            Source::System => {}
            Source::Seeded(seeded) => lock(seeded).now = now,
        }
    }

    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => {
                let since = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
            }
            Source::Seeded(seeded) => lock(seeded).now,
        }
    }

    /// An id that sorts by time (UUIDv7).
    pub fn ordered_id(&self) -> Uuid {
        let millis = u64::try_from(self.now().0.div_euclid(1000)).unwrap_or_default();
        let mut random = [0; 10];
        self.fill_id(&mut random);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }

    /// An id whose bits are all random, so that it cannot be guessed (UUIDv4).
    pub fn random_id(&self) -> Uuid {
        let mut random = [0; 16];
        self.fill_id(&mut random);
        uuid::Builder::from_random_bytes(random).into_uuid()
    }

    /// Ids cannot be guessed either, but there are three in each request, and a system call for each is felt: they come
    /// from a generator of the thread's own (ChaCha), which the operating system seeds again and again.
    fn fill_id(&self, bytes: &mut [u8]) {
        match &self.0 {
            Source::System => rand::rng().fill_bytes(bytes),
            Source::Seeded(_) => self.fill(bytes),
        }
    }

    /// Fills `bytes` with random ones, from the operating system unless seeded. For what is kept secret.
    pub fn fill(&self, bytes: &mut [u8]) {
        match &self.0 {
            Source::System => {
                // Without randomness neither keys nor ids are safe, so there is nothing to go on with.
                #[expect(
                    clippy::expect_used,
                    reason = "a system without randomness cannot run this server"
                )]
                getrandom::fill(bytes).expect("the operating system gives random bytes");
            }
            Source::Seeded(seeded) => {
                let mut seeded = lock(seeded);
                for chunk in bytes.chunks_mut(8) {
                    chunk.copy_from_slice(&seeded.next().to_le_bytes()[..chunk.len()]);
                }
            }
        }
    }
}

fn lock(seeded: &Mutex<Seeded>) -> std::sync::MutexGuard<'_, Seeded> {
    seeded
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Seeded {
    /// SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
