//! Encodes fields as header blocks (RFC 7541, section 6). The caller chooses the fields.
//!
//! A field enters the table when it is sent the second time. Fields that never repeat, as most values that name one
//! request or one file, therefore do not evict those that every response has.

use alloc::vec::Vec;

use sluice_message::{FieldId, Status};

use super::kind::NameKind;
use super::table::{FIXED, FIXED_NAMES, Table};
use super::{integer, text};
use crate::h2::limits::SIGHTINGS_MAX;

/// Whether a field may enter tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It may, here and at every hop after us.
    Allowed,
    /// It must not: a value that somebody could guess by watching sizes (RFC 7541, section 7.1.3).
    Never,
}

/// The encoding end of one direction of a connection.
#[derive(Clone, Debug)]
pub struct Encoder {
    table: Table,
    /// Our bound, whatever the peer allows.
    size_limit: usize,
    /// The smallest and the last size the peer allowed since the last block, if it matters.
    resized: Option<(usize, usize)>,
    sightings: [u32; SIGHTINGS_MAX],
    next_sighting: usize,
    lower: Vec<u8>,
}

impl Encoder {
    /// An encoder for a peer that has said nothing yet, with a table of at most `table_bytes_max` bytes.
    pub fn new(table_bytes_max: u16) -> Encoder {
        let size_limit = usize::from(table_bytes_max);
        // The peer starts with 4,096 bytes (RFC 9113, section 6.5.2), so a smaller size has to be announced.
        let initial = 4096;
        let mut encoder = Encoder {
            table: Table::new(initial),
            size_limit,
            resized: None,
            sightings: [0; SIGHTINGS_MAX],
            next_sighting: 0,
            lower: Vec::new(),
        };
        encoder.limit_table(initial as u32);
        encoder
    }

    /// The peer allows a table of this size from now on.
    pub fn limit_table(&mut self, peers_max: u32) {
        let size = self.size_limit.min(peers_max as usize);
        let smallest = match self.resized {
            Some((smallest, _)) => smallest.min(size),
            None if size == self.table.size_max() => return,
            None => size,
        };
        self.resized = Some((smallest, size));
    }

    /// Memory held, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.table.capacity_bytes() + self.lower.capacity()
    }

    /// Begins a block and announces a new table size to the peer (RFC 7541, section 4.2).
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some((smallest, last)) = self.resized.take() {
            for size in [smallest, last] {
                if size != self.table.size_max() {
                    integer::encode(size, 5, 0x20, out);
                    self.table.resize(size);
                }
            }
        }
    }

    /// Appends `:status`.
    pub fn status(&mut self, status: Status, out: &mut Vec<u8>) {
        let number = match status.code() {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            code => {
                let digit = |value: u16| b'0' + (value % 10) as u8;
                let text = [digit(code / 100), digit(code / 10), digit(code)];
                return self.known_name(8, b":status", &text, out);
            }
        };
        out.push(0x80 | number);
    }

    /// Appends `:method`.
    pub fn method(&mut self, method: &str, out: &mut Vec<u8>) {
        match method {
            "GET" => out.push(0x82),
            "POST" => out.push(0x83),
            _ => self.known_name(2, b":method", method.as_bytes(), out),
        }
    }

    /// Appends `:scheme`.
    pub fn scheme(&mut self, https: bool, out: &mut Vec<u8>) {
        out.push(if https { 0x87 } else { 0x86 });
    }

    /// Appends `:path`.
    pub fn path(&mut self, path: &[u8], out: &mut Vec<u8>) {
        if path == b"/" {
            out.push(0x84);
        } else {
            self.known_name(4, b":path", path, out);
        }
    }

    /// Appends `:authority`.
    pub fn authority(&mut self, authority: &[u8], out: &mut Vec<u8>) {
        self.known_name(1, b":authority", authority, out);
    }

    /// Appends `:protocol`, which the fixed table does not have.
    pub fn protocol(&mut self, protocol: &[u8], out: &mut Vec<u8>) {
        out.push(0);
        text::encode(b":protocol", 7, 0, out);
        text::encode(protocol, 7, 0, out);
    }

    /// Appends a field with a checked name, whose letters become small, and a checked value.
    pub fn field(&mut self, id: FieldId, name: &[u8], value: &[u8], keep: Keep, out: &mut Vec<u8>) {
        let number = FIXED_NAMES[id as usize];
        if keep == Keep::Never {
            integer::encode(usize::from(number), 4, 0x10, out);
            if number == 0 {
                self.lower_case(name);
                text::encode(&self.lower, 7, 0, out);
            }
            return text::encode(value, 7, 0, out);
        }
        if number != 0 {
            let name = FIXED[usize::from(number) - 1].1.as_bytes();
            return self.known_name(number, name, value, out);
        }
        self.lower_case(name);
        let name = core::mem::take(&mut self.lower);
        self.known_name(0, &name, value, out);
        self.lower = name;
    }

    fn lower_case(&mut self, name: &[u8]) {
        self.lower.clear();
        self.lower.extend_from_slice(name);
        self.lower.make_ascii_lowercase();
    }

    /// Appends a field whose name has the number `number` in the fixed table, or 0.
    fn known_name(&mut self, number: u8, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let hash = hash(name, value);
        if let Some(at) = self.table.find(hash, name, value) {
            return integer::encode(FIXED.len() + 1 + at, 7, 0x80, out);
        }
        // What fills a quarter of the table by itself pushes out more than it saves.
        let fits = (name.len() + value.len()) * 4 <= self.table.size_max();
        if fits && self.sightings.contains(&hash) {
            integer::encode(usize::from(number), 6, 0x40, out);
            // Nobody reads what the names of this table are.
            self.table.insert(name, value, NameKind::Empty, true, hash);
        } else {
            integer::encode(usize::from(number), 4, 0, out);
            self.sightings[self.next_sighting] = hash;
            self.next_sighting = (self.next_sighting + 1) % SIGHTINGS_MAX;
        }
        if number == 0 {
            text::encode(name, 7, 0, out);
        }
        text::encode(value, 7, 0, out);
    }
}

/// A hash that is cheap and good enough to find a field among some dozen. Who makes fields collide makes us
/// compare them, which their number bounds. Never 0, which stands for nothing seen.
fn hash(name: &[u8], value: &[u8]) -> u32 {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut mix =
        |word: u64| state = (state.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    mix(name.len() as u64);
    for text in [name, value] {
        let (words, rest) = text.as_chunks::<8>();
        for word in words {
            mix(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        mix(u64::from_le_bytes(last));
    }
    (state >> 32) as u32 | 1
}
