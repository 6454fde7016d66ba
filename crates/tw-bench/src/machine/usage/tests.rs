use std::time::Duration;

use super::{ProcessStat, parse_busy, parse_process, parse_resident_kib, tree};

#[test]
fn a_process_whose_name_looks_like_fields() {
    let line =
        "4711 (a) S 9 (b) R 12 4711 4711 0 -1 4194560 1 2 3 4 150 25 7 8 20 0 4 0 99 1 2 3\n";
    let stat = parse_process(line);
    let expected = ProcessStat {
        parent: 12,
        cpu: Duration::from_millis(1750),
    };
    assert_eq!(stat, Some(expected));
    assert_eq!(parse_process("4711 (a) S 12"), None);
}

#[test]
fn waiting_is_not_busy() {
    let text = "cpu  9 9 9 9 9 9 9 9 9 9\n\
                cpu0 1 1 1 1000 1000 1 1 1 0 0\n\
                cpu1 100 20 30 5000 7000 4 5 6 50 0\n\
                cpu10 1 1 1 1 1 1 1 1 1 1\n";
    assert_eq!(parse_busy(text, 1), Some(Duration::from_millis(1650)));
    assert_eq!(parse_busy(text, 0), Some(Duration::from_millis(60)));
    assert_eq!(parse_busy(text, 2), None);
}

#[test]
fn resident_memory() {
    let status = "Name:\tx\nVmHWM:\t  999 kB\nVmRSS:\t   13432 kB\nRssAnon:\t 1 kB\n";
    assert_eq!(parse_resident_kib(status), Some(13_432));
    assert_eq!(parse_resident_kib("Name:\tx\n"), None);
}

#[test]
fn a_tree_holds_its_root() {
    let own = std::process::id();
    assert_eq!(tree(own).first(), Some(&own));
}
