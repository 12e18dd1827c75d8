//! Replays the inputs under `fuzz/seeds/caddyfile`, among them everything the fuzzer found, against the assertions of
//! its target.

use std::fs;
use std::path::Path;

use crate::invariants;

#[test]
fn seeds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/caddyfile");
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the target has seeds") {
        let path = entry.expect("the folder can be read").path();
        println!("{}", path.display());
        // The fuzzer hands on nothing but UTF-8 either.
        invariants::check(&fs::read_to_string(&path).expect("seeds are UTF-8"));
        count += 1;
    }
    assert!(count >= 10, "only {count} seeds were found");
}
