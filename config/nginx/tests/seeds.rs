//! Replays the inputs under `fuzz/seeds/nginx`, among them everything the fuzzer found, and the complete sites of
//! `tests/data/nginx`, against the assertions of the fuzz target; and texts made of random pieces.

use std::fs;
use std::path::Path;

use crate::invariants;

fn each(folder: &str, least: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(folder);
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("the folder can be read").path();
        println!("{}", path.display());
        invariants::check(&fs::read_to_string(&path).expect("it is UTF-8"));
        count += 1;
    }
    assert!(count >= least, "only {count} files were found");
}

#[test]
fn seeds() {
    each("fuzz/seeds/nginx", 8);
}

#[test]
fn whole_sites() {
    each("tests/data/nginx", 55);
}

/// Pieces of the language in any order: most of it is wrong, and none of it may do harm.
#[test]
fn random_pieces() {
    const PIECES: &[&str] = &[
        "events",
        "http",
        "server",
        "location",
        "if",
        "map",
        "{",
        "}",
        ";",
        "\"",
        "'",
        "\\",
        "$",
        "${",
        "$uri",
        "$1",
        "~",
        "~*",
        "=",
        "^~",
        "/a",
        "return",
        "200",
        "rewrite",
        "^/(.*)$",
        "last",
        "proxy_pass",
        "http://a",
        "\n",
        " ",
        "#",
        "é",
        "listen",
        "80",
        "include",
        "more.conf",
        "*",
        "set",
        "try_files",
        "=404",
        "@a",
        "add_header",
        "root",
    ];
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..4000 {
        let mut text = String::new();
        for _ in 0..40 {
            // xorshift: any sequence does, as long as it is the same in each run.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let index = usize::try_from(state % PIECES.len() as u64).expect("it is small");
            text.push_str(PIECES[index]);
            if state & 0x100 != 0 {
                text.push(' ');
            }
        }
        invariants::check(&text);
    }
}
