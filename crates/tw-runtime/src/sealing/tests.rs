use tw_core::id::OrgId;
use tw_core::time::Timestamp;
use tw_egress::env::Env;

use super::{SealFault, Sealer};

const OURS: OrgId = OrgId(7);

fn sealer(secret: u8) -> Sealer {
    Sealer {
        secret: [secret; 32],
        env: Env::seeded(u64::from(secret), Timestamp(0)),
    }
}

#[test]
fn what_is_sealed_is_opened_for_the_same_organization_alone() {
    let one = sealer(1);
    for content in ["", "Hello", &"\u{e4}".repeat(10_000)] {
        let sealed = one.seal(OURS, content);
        assert_eq!(one.open(OURS, &sealed).as_deref(), Ok(content));
        assert_eq!(one.open(OrgId(8), &sealed), Err(SealFault::Broken));
        assert_eq!(sealer(2).open(OURS, &sealed), Err(SealFault::Broken));
        assert!(content.is_empty() || !sealed.contains(content));
        // Nobody sees that two contents are equal.
        assert_ne!(one.seal(OURS, content), sealed);
    }
}

#[test]
fn a_seal_that_was_changed_anywhere_is_not_opened() {
    let one = sealer(1);
    let sealed = one.seal(OURS, "some content");
    let first = sealed.find('.').unwrap() + 1;
    for at in first..sealed.len() {
        let mut changed = sealed.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert_eq!(one.open(OURS, &changed), Err(SealFault::Broken), "{at}");
        let cut = &sealed[..at];
        assert_eq!(one.open(OURS, cut), Err(SealFault::Broken), "{at}");
    }
    for broken in [
        format!("{sealed}A"),
        format!("{sealed}="),
        "tws1.\u{e4}".to_owned(),
    ] {
        assert_eq!(one.open(OURS, &broken), Err(SealFault::Broken));
    }
    for foreign in ["", "gAAAAABpM0Yj", "tws2.AAAA", &sealed[1..]] {
        assert_eq!(one.open(OURS, foreign), Err(SealFault::Foreign));
    }
}
