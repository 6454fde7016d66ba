//! Real counterparts for tests: HTTP listeners on loopback that play upstreams and tools, and a
//! plain HTTP client that shows every byte.
//!
//! Of this only [`job_api`] is shipped, as the image service of `turnwright demo`. Start reading at [`listener::Listener`].

pub mod listener;

pub mod client;
pub mod connect_proxy;
pub mod job_api;
#[cfg(feature = "for_tests")]
pub mod nats;
pub mod polling;
#[cfg(feature = "for_tests")]
pub mod postgres;
pub mod recordings;
#[cfg(feature = "for_tests")]
pub mod tls_listener;
