use std::net::SocketAddr;

use super::AddressGuard;
use crate::client::host_port::HostPort;
use crate::client::resolve::{FixedAnswers, Resolver};

#[track_caller]
fn check_may_use(denied: &str, local: &str, peer: &str, expected: bool) {
    let guard = AddressGuard {
        allowed: Vec::new(),
        denied: vec![HostPort::parse(denied).unwrap()],
        resolver: Resolver::Fixed(FixedAnswers::default()),
    };
    let local: SocketAddr = local.parse().unwrap();
    let peer: SocketAddr = peer.parse().unwrap();
    assert_eq!(guard.may_use(local, peer), expected, "{local} to {peer}");
}

#[test]
fn a_listener_of_ours_is_not_reached_by_an_unknown_address_of_this_host() {
    check_may_use("0.0.0.0:8787", "8.8.4.4:50000", "8.8.4.4:8787", false);
    check_may_use("[::]:8787", "8.8.4.4:50000", "8.8.4.4:8787", false);
    check_may_use("[::]:8787", "[2606::1]:50000", "[2606::1]:8787", false);
    check_may_use("0.0.0.0:8787", "8.8.4.4:50000", "8.8.4.4:8788", true);
    check_may_use("0.0.0.0:8787", "8.8.4.4:50000", "8.8.8.8:8787", true);
    check_may_use("10.0.0.1:8787", "8.8.4.4:50000", "8.8.4.4:8787", true);
}
