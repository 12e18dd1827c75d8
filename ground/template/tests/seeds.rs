//! Replays the inputs under `fuzz/seeds/template`, among them everything the fuzzer found, and mutations of them.

use std::fs;
use std::path::Path;

use crate::invariants;

fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/template");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .expect("the target has seeds")
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    paths.sort();
    let read = |path| fs::read(path).expect("the seed can be read");
    paths.iter().map(read).collect()
}

#[test]
fn seeds_run_to_an_end() {
    let seeds = seeds();
    assert!(seeds.len() >= 10, "only {} seeds were found", seeds.len());
    for seed in seeds {
        invariants::check(&seed);
    }
}

#[test]
fn seeds_with_pieces_of_others_run_to_an_end() {
    let seeds = seeds();
    let mut state = 0x5eed_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below.max(1)
    };
    for _ in 0..3_000 {
        let mut text = seeds[random(seeds.len())].clone();
        for _ in 0..1 + random(3) {
            let other = &seeds[random(seeds.len())];
            let from = random(other.len());
            let to = from + random(other.len() - from);
            let at = random(text.len());
            let end = at + random(text.len() - at).min(12);
            text.splice(at..end, other[from..to].iter().copied());
        }
        text.truncate(400);
        invariants::check(&text);
    }
}
