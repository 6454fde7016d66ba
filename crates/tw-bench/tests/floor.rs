//! `tw-bench floor`, as it is called.

use std::process::Command;

#[test]
fn the_floor_is_measured_at_each_batch_size() {
    let run = Command::new(env!("CARGO_BIN_EXE_tw-bench"))
        .args(["floor", "--seconds", "1", "--batch", "1,8"])
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    assert!(run.status.success(), "{out}{err}");
    for batch in [1_u64, 8] {
        let turns = out.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let is_row = words.next()?.parse() == Ok(batch);
            is_row.then(|| words.next()?.parse::<u64>().ok()).flatten()
        });
        assert!(turns.is_some_and(|turns| turns > 0), "{batch}: {out}");
    }
}
