//! Kinds of addresses: public, private or never to be reached, also when one address hides inside another.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// Whether a tool may connect to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressStanding {
    /// Address that every tool may connect to.
    Public,
    /// Address that is reached only where the operator allows it.
    Private,
    /// Address that no tool reaches, whatever is allowed: metadata services, and those that name no single host.
    Never,
}

/// Special-purpose ranges of IANA's registry for IPv4, as of 2026.
const V4_PRIVATE: [Ipv4Net; 12] = [
    v4([10, 0, 0, 0], 8),
    v4([100, 64, 0, 0], 10),
    v4([127, 0, 0, 0], 8),
    v4([169, 254, 0, 0], 16),
    v4([172, 16, 0, 0], 12),
    v4([192, 0, 0, 0], 24),
    v4([192, 0, 2, 0], 24),
    v4([192, 88, 99, 0], 24),
    v4([192, 168, 0, 0], 16),
    v4([198, 18, 0, 0], 15),
    v4([198, 51, 100, 0], 24),
    v4([203, 0, 113, 0], 24),
];

/// `0.0.0.0/8` reaches this host on Linux; the others are groups of hosts or reserved.
const V4_NEVER: [Ipv4Net; 3] = [
    v4([0, 0, 0, 0], 8),
    v4([224, 0, 0, 0], 4),
    v4([240, 0, 0, 0], 4),
];

/// Addresses at which clouds give credentials to whoever asks from inside a machine.
const V4_METADATA: [Ipv4Addr; 6] = [
    // Most clouds.
    Ipv4Addr::new(169, 254, 169, 254),
    // Amazon's containers, and its Kubernetes.
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    // Alibaba; it lies inside the carriers' shared range.
    Ipv4Addr::new(100, 100, 100, 200),
    // Azure's host agent; it looks public.
    Ipv4Addr::new(168, 63, 129, 16),
    // Oracle's older one.
    Ipv4Addr::new(192, 0, 0, 192),
];

const V6_METADATA: [Ipv6Addr; 3] = [
    // Amazon's machines, and its Kubernetes.
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    // Google.
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

/// The only part of IPv6 from which IANA gives addresses to hosts of the internet.
const V6_GLOBAL: Ipv6Net = v6([0x2000, 0, 0], 3);
/// Parts of [`V6_GLOBAL`] that are something else: protocols and Teredo, documentation (twice)
/// and 6to4.
const V6_SPECIAL: [Ipv6Net; 4] = [
    v6([0x2001, 0, 0], 23),
    v6([0x2001, 0xdb8, 0], 32),
    v6([0x2002, 0, 0], 16),
    v6([0x3fff, 0, 0], 20),
];
const V6_MULTICAST: Ipv6Net = v6([0xff00, 0, 0], 8);
/// Prefix that translates to the IPv4 address in the last four bytes (RFC 6052).
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0], 96);
/// Prefix like [`NAT64`], for use inside one network (RFC 8215).
const NAT64_LOCAL: Ipv6Net = v6([0x64, 0xff9b, 1], 48);
/// Prefix with IPv4 addresses in the last four bytes: compatible, mapped and translated ones.
const V4_INSIDE: Ipv6Net = v6([0, 0, 0], 64);
const SIX_TO_FOUR: Ipv6Net = v6([0x2002, 0, 0], 16);
const TEREDO: Ipv6Net = v6([0x2001, 0, 0], 32);

const fn v4(octets: [u8; 4], bits: u8) -> Ipv4Net {
    let [a, b, c, d] = octets;
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}

const fn v6(start: [u16; 3], bits: u8) -> Ipv6Net {
    let [a, b, c] = start;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), bits)
}

/// Judges an address by its own range and by every IPv4 address that it stands for.
pub(super) fn standing(address: IpAddr) -> AddressStanding {
    match address {
        IpAddr::V4(address) => standing_v4(address),
        IpAddr::V6(address) => standing_v6(address),
    }
}

fn standing_v4(address: Ipv4Addr) -> AddressStanding {
    let is_in = |nets: &[Ipv4Net]| nets.iter().any(|net| net.contains(&address));
    if V4_METADATA.contains(&address) || is_in(&V4_NEVER) {
        AddressStanding::Never
    } else if is_in(&V4_PRIVATE) {
        AddressStanding::Private
    } else {
        AddressStanding::Public
    }
}

fn standing_v6(address: Ipv6Addr) -> AddressStanding {
    if address.is_loopback() {
        return AddressStanding::Private;
    }
    if address.is_unspecified() || V6_MULTICAST.contains(&address) || V6_METADATA.contains(&address)
    {
        return AddressStanding::Never;
    }
    // The translator connects to the inner address, and in networks without IPv4 every name
    // resolves to such addresses.
    if NAT64.contains(&address) {
        return standing_v4(last_v4(address));
    }
    if hidden_v4(address)
        .into_iter()
        .flatten()
        .any(|inner| standing_v4(inner) == AddressStanding::Never)
    {
        return AddressStanding::Never;
    }
    let is_special = V6_SPECIAL.iter().any(|net| net.contains(&address));
    if V6_GLOBAL.contains(&address) && !is_special && !is_isatap(address) {
        AddressStanding::Public
    } else {
        AddressStanding::Private
    }
}

/// The address as the network will see it: a mapped one is connected to as IPv4.
pub(super) fn on_the_wire(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) if NAT64.contains(&v6) => IpAddr::V4(last_v4(v6)),
        IpAddr::V4(_) | IpAddr::V6(_) => address.to_canonical(),
    }
}

fn hidden_v4(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let bits = address.to_bits();
    if V4_INSIDE.contains(&address) || NAT64_LOCAL.contains(&address) || is_isatap(address) {
        [Some(last_v4(address)), None]
    } else if SIX_TO_FOUR.contains(&address) {
        [Some(v4_of(bits >> 80)), None]
    } else if TEREDO.contains(&address) {
        // The server, and the client with its bits turned over (RFC 4380).
        [Some(v4_of(bits >> 64)), Some(v4_of(!bits))]
    } else {
        [None, None]
    }
}

/// Interface identifiers of RFC 5214, under any prefix.
fn is_isatap(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    matches!((segments[4], segments[5]), (0 | 0x200, 0x5efe))
}

fn last_v4(address: Ipv6Addr) -> Ipv4Addr {
    v4_of(address.to_bits())
}

/// The lowest 32 bits.
fn v4_of(bits: u128) -> Ipv4Addr {
    let [.., a, b, c, d] = bits.to_be_bytes();
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests;
