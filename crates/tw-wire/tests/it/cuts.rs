//! However the network cuts a stream, it is read the same.

use tw_core::model::ModelEvent;

use crate::answer::events;
use crate::shared::{Recording, chat_streams};

/// Streams up to this size are cut at every byte; the square of it is what that costs.
const CUT_EVERYWHERE_BYTES_MAX: usize = 16 * 1024;
const RANDOM_CUTS: u64 = 2_000;
const PIECES_MAX: u64 = 8;

#[test]
fn small_recordings_are_cut_at_every_byte() {
    for Recording { file, bytes, .. } in chat_streams() {
        if bytes.len() > CUT_EVERYWHERE_BYTES_MAX {
            continue;
        }
        let whole = events([bytes.as_slice()]);
        for cut in 1..bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert!(events([head, tail]) == whole, "{file} cut at {cut}");
        }
    }
}

#[test]
fn large_recordings_are_cut_at_random() {
    for Recording { file, bytes, .. } in chat_streams() {
        if bytes.len() <= CUT_EVERYWHERE_BYTES_MAX {
            continue;
        }
        let whole = events([bytes.as_slice()]);
        for seed in 1..=RANDOM_CUTS {
            assert!(in_pieces(&bytes, seed) == whole, "{file} with seed {seed}");
        }
    }
}

#[test]
fn recordings_are_read_one_byte_at_a_time() {
    for Recording { file, bytes, .. } in chat_streams() {
        assert!(
            events(bytes.chunks(1)) == events([bytes.as_slice()]),
            "{file}"
        );
    }
}

fn in_pieces(bytes: &[u8], seed: u64) -> Vec<ModelEvent> {
    let mut state = seed;
    let count = next(&mut state) % (PIECES_MAX - 1) + 1;
    let mut cuts: Vec<usize> = (0..count)
        .map(|_| (next(&mut state) % bytes.len() as u64) as usize)
        .collect();
    cuts.sort_unstable();
    cuts.push(bytes.len());
    let mut from = 0;
    events(cuts.into_iter().map(|to| {
        let piece = &bytes[from..to];
        from = to;
        piece
    }))
}

/// SplitMix64: a seed gives the same numbers everywhere.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
