//! Real counterparts for tests: HTTP listeners on loopback that play upstreams and tools, and a
//! plain HTTP client that shows every byte.
//!
//! Nothing here is shipped. Start reading at [`listener::Listener`].

pub mod listener;

pub mod client;
pub mod connect_proxy;
pub mod polling;
pub mod postgres;
pub mod recordings;
pub mod tls_listener;
