//! Scripts that Redis runs as one step: called by their digest, and sent whole when the server does not know them yet.

use std::fmt::Write;

use sha1::{Digest, Sha1};
use sluice_wire::resp::encode_command;

/// A script in Lua.
#[derive(Debug)]
pub struct Script {
    text: &'static str,
    pub(super) digest: String,
}

impl Script {
    /// The script with this text.
    pub fn new(text: &'static str) -> Script {
        let mut digest = String::with_capacity(40);
        for byte in Sha1::digest(text.as_bytes()) {
            write!(digest, "{byte:02x}").expect("a string takes any text");
        }
        Script { text, digest }
    }

    /// The command that runs it by its digest, with one key and some arguments.
    pub(super) fn by_digest(&self, key: &[u8], args: &[&[u8]]) -> Vec<u8> {
        command(b"EVALSHA", self.digest.as_bytes(), (key, args))
    }

    /// The command that sends it, runs it, and makes the server know it.
    pub(super) fn whole(&self, key: &[u8], args: &[&[u8]]) -> Vec<u8> {
        command(b"EVAL", self.text.as_bytes(), (key, args))
    }
}

fn command(name: &[u8], script: &[u8], (key, args): (&[u8], &[&[u8]])) -> Vec<u8> {
    let mut out = Vec::with_capacity(128 + script.len() + key.len());
    let head = [name, script, b"1", key];
    encode_command(head.into_iter().chain(args.iter().copied()), &mut out);
    out
}
