use super::{TraceContext, TraceParent};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn what_is_a_parent() {
    let same = |text: &str| TraceParent::parse(text).map(|parent| parent.to_string());
    assert_eq!(same(PARENT).as_deref(), Some(PARENT));
    let unsampled = PARENT.replace("-01", "-00");
    assert_eq!(same(&unsampled), Some(unsampled.clone()));
    // Flags and versions that are to come.
    assert_eq!(same(&PARENT.replace("-01", "-ff")).as_deref(), Some(PARENT));
    let later = PARENT.replace("00-0a", "cc-0a");
    assert_eq!(same(&later).as_deref(), Some(PARENT));
    assert_eq!(same(&format!("{later}-more")).as_deref(), Some(PARENT));
    for wrong in [
        "",
        "00",
        &PARENT[..54],
        &PARENT.replace("00-0a", "ff-0a"),
        &PARENT.replace("0af7", "0AF7"),
        &PARENT.replace("0af7", "0ag7"),
        &PARENT.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
        &PARENT.replace("b7ad6b7169203331", &"0".repeat(16)),
        &PARENT.replace('-', "_"),
        &format!("{PARENT}-more"),
        &format!("{later}.more"),
        &PARENT.replace("b7ad", "b\u{e9}d"),
    ] {
        assert_eq!(TraceParent::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn what_is_kept_of_a_request() {
    let read = |parents: &[&str], states: &[&str]| {
        let context = TraceContext::read(|name| {
            let values = if name == "traceparent" {
                parents
            } else {
                states
            };
            values
                .iter()
                .map(|value| value.as_bytes())
                .collect::<Vec<_>>()
                .into_iter()
        });
        context.map(|context| context.state.as_deref().map(str::to_owned))
    };
    assert_eq!(read(&[], &["a=1"]), None);
    assert_eq!(read(&[PARENT, PARENT], &[]), None);
    assert_eq!(read(&["nonsense"], &["a=1"]), None);
    assert_eq!(read(&[PARENT], &[]), Some(None));
    assert_eq!(
        read(&[PARENT], &["a=1,b=2", "c=3"]),
        Some(Some("a=1,b=2,c=3".to_owned()))
    );
    // A state that cannot be kept does not cost the parent.
    let many = vec!["a=1"; 33].join(",");
    let long = format!("a={}", "1".repeat(512));
    for wrong in ["a", "=1", "a=\u{e9}", &many, &long] {
        assert_eq!(read(&[PARENT], &[wrong]), Some(None), "{wrong}");
    }
}
