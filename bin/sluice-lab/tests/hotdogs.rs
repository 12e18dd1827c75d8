//! Study 000 with the upstream that it had, lighttpd.

use std::path::Path;

use crate::abilities::skipped;
use crate::world::{Folder, installed, lab, output_text, result};

/// Where Debian's lighttpd has the module that makes the response.
const MODULE: &str = "/usr/lib/lighttpd/mod_magnet.so";

#[test]
fn the_log_of_lighttpd_shows_that_a_relay_caches_nothing() {
    if !installed("lighttpd") {
        return;
    }
    if !Path::new(MODULE).exists() {
        skipped("lighttpd's mod_magnet is not installed");
        return;
    }
    let folder = Folder::new("hotdogs");
    let out = folder.file("out");
    let only = "subject=floor; test=proxy-lighttpd";
    let short = "-d 2s --warmup 100ms --repeats 1 -c 4";
    let words = ["run", "000", "--only", only, "--out", &out];
    let output = lab(&words
        .into_iter()
        .chain(short.split(' '))
        .collect::<Vec<_>>());
    assert!(output.status.success(), "{}", output_text(&output));
    let result = result(&out);
    let [cell] = &result.cells[..] else {
        panic!("{} cells", result.cells.len());
    };
    let [block] = &cell.blocks[..] else {
        panic!("{} blocks", cell.blocks.len());
    };
    assert_eq!(block.load.failed(), 0);
    let [check] = &block.checks[..] else {
        panic!("{:?}", block.checks);
    };
    assert!(check.claim.contains("log_lines"), "{check:?}");
    assert_eq!(check.holds, Some(true), "{check:?}");
}
