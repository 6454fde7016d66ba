//! The client of tools, against listeners that misbehave and names that lie.

mod causes;
mod certificates;
pub(crate) mod guarded;
mod lists;
mod proxied;
mod secure;
mod wire;

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use tw_egress::client::host_port::{AllowedDestination, HostPort};
use tw_egress::client::resolve::{FixedAnswers, Resolver};
use tw_egress::client::{
    ClientOptions, EgressClient, OutgoingRequest, PoolOptions, RequestTimeouts, web_roots,
};

/// A client to change before it is built.
pub(crate) fn options() -> ClientOptions {
    ClientOptions {
        resolver: Resolver::Fixed(FixedAnswers::default()),
        allowed: Vec::new(),
        denied: Vec::new(),
        trusted_roots: web_roots(),
        certificates: Vec::new(),
        proxy: None,
        pool: PoolOptions::defaults(),
        read_bytes_max: 64 * 1024 * 1024,
    }
}

/// One that may reach this place, as the organization `default`.
fn allowing(place: &str) -> ClientOptions {
    ClientOptions {
        allowed: vec![allowed(place)],
        ..options()
    }
}

fn allowed(place: &str) -> AllowedDestination {
    AllowedDestination::parse(place, None).unwrap()
}

fn place(text: &str) -> HostPort {
    HostPort::parse(text).unwrap()
}

fn client(options: ClientOptions) -> EgressClient {
    EgressClient::new(options)
}

pub(crate) fn resolving(answers: FixedAnswers) -> ClientOptions {
    ClientOptions {
        resolver: Resolver::Fixed(answers),
        ..options()
    }
}

pub(crate) fn ips(addresses: &[&str]) -> Vec<IpAddr> {
    addresses.iter().map(|a| a.parse().unwrap()).collect()
}

fn get(url: &str) -> OutgoingRequest {
    OutgoingRequest {
        method: Method::GET,
        url: url.to_owned(),
        headers: Vec::new(),
        body: Bytes::new(),
        timeouts: RequestTimeouts {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(5),
            idle: Duration::from_secs(5),
            total: Duration::from_secs(20),
        },
        response_bytes_max: 1024 * 1024,
    }
}

/// A request whose repetition would matter.
fn post(url: &str) -> OutgoingRequest {
    OutgoingRequest {
        method: Method::POST,
        body: Bytes::from_static(b"pay"),
        ..get(url)
    }
}

/// A port on loopback that must not be reached.
pub(crate) struct Trap(TcpListener);

impl Trap {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    pub(crate) fn port(&self) -> u16 {
        self.address().port()
    }

    #[track_caller]
    pub(crate) fn assert_untouched(&self) {
        let accepted = self.0.accept();
        assert_eq!(
            accepted.map(|_| ()).map_err(|error| error.kind()),
            Err(std::io::ErrorKind::WouldBlock),
            "the trap was reached"
        );
    }
}
