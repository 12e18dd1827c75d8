//! Decodes field sections (RFC 9204, section 4.5), and the instructions of the peer's encoder stream that fill the
//! dynamic table (section 4.3).

use alloc::vec::Vec;

use super::super::limits::Limits;
use super::error::QpackError;
use super::fixed::FIXED;
use crate::h2::hpack::text::{self, Text};
use crate::h2::hpack::{Decoded, HpackError, NameKind, Table, integer, is_clean};

/// What became of a field section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All its fields were handed out.
    Done,
    /// It refers to entries that have not arrived: the owner keeps it, and decodes it again when
    /// [`Decoder::ready`] names its stream.
    Blocked,
}

/// The decoding end of a connection.
#[derive(Clone, Debug)]
pub struct Decoder {
    table: Table,
    /// How many entries there have been.
    inserted: u64,
    /// The largest size that the peer may choose.
    limit: usize,
    /// The instruction that is not complete.
    pending: Vec<u8>,
    scratch: Vec<u8>,
    /// What our decoder stream has to tell.
    out: Vec<u8>,
    /// The streams whose sections wait, and for how many entries.
    blocked: Vec<(u64, u64)>,
    blocked_max: usize,
}

/// A reference to an entry.
#[derive(Clone, Copy)]
enum Entry {
    Fixed(usize),
    /// The number of places behind the newest.
    Dynamic(usize),
}

/// The prefix of a section, decoded.
#[derive(Clone, Copy)]
struct Prefix {
    /// How many entries there have to be.
    required: u64,
    base: u64,
}

impl Decoder {
    /// A decoder for a peer to which these limits are announced.
    pub fn new(limits: &Limits) -> Decoder {
        Decoder {
            // The peer says how large it is before it uses it (RFC 9204, section 3.2.3).
            table: Table::new(0),
            inserted: 0,
            limit: usize::from(limits.table_bytes_max),
            pending: Vec::new(),
            scratch: Vec::new(),
            out: Vec::new(),
            blocked: Vec::new(),
            blocked_max: usize::from(limits.blocked_streams_max),
        }
    }

    /// What has to be sent on our decoder stream. The owner sends it and clears it.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Memory held, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        let buffers = self.pending.capacity() + self.scratch.capacity() + self.out.capacity();
        self.table.capacity_bytes() + buffers + self.blocked.capacity() * size_of::<(u64, u64)>()
    }

    /// How many entries there have been.
    pub fn inserted_count(&self) -> u64 {
        self.inserted
    }

    /// A stream whose section waits no longer; each is named once.
    pub fn ready(&mut self) -> Option<u64> {
        let is_ready = |(_, required): &(u64, u64)| *required <= self.inserted;
        let at = self.blocked.iter().position(is_ready)?;
        Some(self.blocked.swap_remove(at).0)
    }

    /// A stream was reset, or its section is not going to be read (RFC 9204, section 2.2.2.2).
    pub fn cancel(&mut self, stream: u64) {
        self.blocked.retain(|(other, _)| *other != stream);
        if self.limit > 0 {
            integer::encode(stream as usize, 6, 0x40, &mut self.out);
        }
    }

    /// Takes bytes of the peer's encoder stream.
    ///
    /// # Errors
    /// The connection has to be closed with [`crate::h3::Code::ENCODER_STREAM_ERROR`].
    pub fn receive(&mut self, mut input: &[u8]) -> Result<(), QpackError> {
        let before = self.inserted;
        if !self.pending.is_empty() {
            self.pending.extend_from_slice(input);
            let pending = core::mem::take(&mut self.pending);
            let used = self.run(&pending)?;
            self.pending = pending;
            self.pending.drain(..used);
            input = &[];
        }
        let used = self.run(input)?;
        if used < input.len() {
            self.pending.extend_from_slice(&input[used..]);
        }
        if self.pending.is_empty() {
            self.pending = Vec::new();
        }
        let added = self.inserted - before;
        if added > 0 {
            integer::encode(added as usize, 6, 0, &mut self.out);
        }
        Ok(())
    }

    /// Decodes a whole section and hands its fields to `each`, in order. After an error the decoder is of no use any
    /// more.
    ///
    /// # Errors
    /// The connection has to be closed with [`crate::h3::Code::DECOMPRESSION_FAILED`].
    pub fn decode(
        &mut self,
        stream: u64,
        section: &[u8],
        mut each: impl FnMut(Decoded<'_>),
    ) -> Result<Outcome, QpackError> {
        let mut rest = section;
        let prefix = self.prefix(&mut rest)?;
        if prefix.required > self.inserted {
            if self.blocked.len() >= self.blocked_max {
                return Err(QpackError::TooManyBlocked);
            }
            self.blocked.push((stream, prefix.required));
            return Ok(Outcome::Blocked);
        }
        while let Some(first) = rest.first() {
            match *first {
                0xc0.. => each(self.field(Entry::Fixed(fixed(&mut rest, 6)?))?),
                0x80.. => {
                    let index = u64::from(integer::decode(&mut rest, 6)?);
                    each(self.field(self.before_base(prefix, index)?)?);
                }
                0x50..0x60 | 0x70..0x80 => {
                    let entry = Entry::Fixed(fixed(&mut rest, 4)?);
                    self.literal(entry, &mut rest, &mut each)?;
                }
                0x40.. => {
                    let index = u64::from(integer::decode(&mut rest, 4)?);
                    let entry = self.before_base(prefix, index)?;
                    self.literal(entry, &mut rest, &mut each)?;
                }
                0x20.. => self.own_name(&mut rest, &mut each)?,
                0x10.. => {
                    let index = u64::from(integer::decode(&mut rest, 4)?);
                    each(self.field(self.behind_base(prefix, index)?)?);
                }
                _ => {
                    let index = u64::from(integer::decode(&mut rest, 3)?);
                    let entry = self.behind_base(prefix, index)?;
                    self.literal(entry, &mut rest, &mut each)?;
                }
            }
        }
        if prefix.required > 0 {
            integer::encode(stream as usize, 7, 0x80, &mut self.out);
        }
        Ok(Outcome::Done)
    }

    /// The prefix of a section (RFC 9204, section 4.5.1).
    fn prefix(&self, rest: &mut &[u8]) -> Result<Prefix, QpackError> {
        let encoded = u64::from(integer::decode(rest, 8)?);
        let required = self.required(encoded).ok_or(QpackError::Prefix)?;
        let is_below = rest.first().ok_or(HpackError::Truncated)? & 0x80 != 0;
        let delta = u64::from(integer::decode(rest, 7)?);
        let base = match is_below {
            false => Some(required + delta),
            true => required.checked_sub(delta + 1),
        };
        let base = base.ok_or(QpackError::Prefix)?;
        Ok(Prefix { required, base })
    }

    /// The count of entries that a prefix means, which it has modulo twice the most entries a table can have.
    fn required(&self, encoded: u64) -> Option<u64> {
        if encoded == 0 {
            return Some(0);
        }
        let entries_max = (self.limit / 32) as u64;
        let full = 2 * entries_max;
        if encoded > full {
            return None;
        }
        let largest = self.inserted + entries_max;
        let wrapped = largest / full * full;
        let required = wrapped + encoded - 1;
        let required = match required > largest {
            true => required.checked_sub(full)?,
            false => required,
        };
        (required > 0).then_some(required)
    }

    /// The entry `index` places before the base.
    fn before_base(&self, prefix: Prefix, index: u64) -> Result<Entry, QpackError> {
        let number = prefix.base.checked_sub(index + 1);
        self.numbered(prefix, number.ok_or(QpackError::Index)?)
    }

    /// The entry `index` places behind the base.
    fn behind_base(&self, prefix: Prefix, index: u64) -> Result<Entry, QpackError> {
        self.numbered(prefix, prefix.base + index)
    }

    fn numbered(&self, prefix: Prefix, number: u64) -> Result<Entry, QpackError> {
        if number >= prefix.required {
            return Err(QpackError::Unannounced);
        }
        // There are as many as are required, or the section would wait.
        let at = self.inserted - 1 - number;
        usize::try_from(at)
            .ok()
            .filter(|at| self.table.entry(*at).is_some())
            .map(Entry::Dynamic)
            .ok_or(QpackError::Index)
    }

    fn field(&self, entry: Entry) -> Result<Decoded<'_>, QpackError> {
        match entry {
            Entry::Fixed(at) => {
                let (kind, name, value) = FIXED[at];
                Ok(Decoded {
                    name: name.as_bytes(),
                    value: value.as_bytes(),
                    kind,
                    clean: true,
                })
            }
            Entry::Dynamic(at) => {
                let entry = self.table.entry(at).ok_or(QpackError::Index)?;
                Ok(Decoded {
                    name: self.table.name(entry),
                    value: self.table.value(entry),
                    kind: entry.kind,
                    clean: entry.clean,
                })
            }
        }
    }

    /// A field with the name of an entry and a value of its own.
    fn literal(
        &mut self,
        entry: Entry,
        rest: &mut &[u8],
        each: &mut impl FnMut(Decoded<'_>),
    ) -> Result<(), QpackError> {
        self.scratch.clear();
        let value = text::decode(rest, 7, &mut self.scratch)?;
        let value = value.bytes(&self.scratch);
        let named = self.field(entry)?;
        each(Decoded {
            value,
            clean: is_clean(value),
            ..named
        });
        Ok(())
    }

    /// A field with a name of its own.
    fn own_name(
        &mut self,
        rest: &mut &[u8],
        each: &mut impl FnMut(Decoded<'_>),
    ) -> Result<(), QpackError> {
        self.scratch.clear();
        let name = text::decode(rest, 3, &mut self.scratch)?;
        let value = text::decode(rest, 7, &mut self.scratch)?;
        let (name, value) = (name.bytes(&self.scratch), value.bytes(&self.scratch));
        each(Decoded {
            name,
            value,
            kind: NameKind::look(name),
            clean: is_clean(value),
        });
        Ok(())
    }

    /// Follows the complete instructions at the front of `input`; gives their length.
    fn run(&mut self, input: &[u8]) -> Result<usize, QpackError> {
        let mut used = 0;
        while used < input.len() {
            match self.instruction(&input[used..]) {
                Ok(length) => used += length,
                Err(QpackError::Text(HpackError::Truncated)) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(used)
    }

    /// Follows one instruction; gives its length. Changes nothing if it is not complete.
    fn instruction(&mut self, input: &[u8]) -> Result<usize, QpackError> {
        let mut rest = input;
        self.scratch.clear();
        match input.first().copied().unwrap_or_default() {
            0xc0.. => {
                let at = fixed(&mut rest, 6)?;
                let value = self.entry_string(&mut rest, 7)?;
                let (kind, name, _) = FIXED[at];
                self.insert(&Text::Input(name.as_bytes()), &value, kind)?;
            }
            0x80.. => {
                let at = integer::decode(&mut rest, 6)? as usize;
                let value = self.entry_string(&mut rest, 7)?;
                let (kind, name) = self.copy_name(at)?;
                self.insert(&name, &value, kind)?;
            }
            0x40.. => {
                let name = self.entry_string(&mut rest, 5)?;
                let value = self.entry_string(&mut rest, 7)?;
                let kind = NameKind::look(name.bytes(&self.scratch));
                self.insert(&name, &value, kind)?;
            }
            0x20.. => {
                let size = integer::decode(&mut rest, 5)? as usize;
                if size > self.limit {
                    return Err(QpackError::Capacity);
                }
                self.table.resize(size);
            }
            _ => {
                let at = integer::decode(&mut rest, 5)? as usize;
                let (kind, name) = self.copy_name(at)?;
                let start = self.scratch.len();
                let entry = self.table.entry(at).ok_or(QpackError::Index)?;
                self.scratch.extend_from_slice(self.table.value(entry));
                self.insert(&name, &Text::Scratch(start..self.scratch.len()), kind)?;
            }
        }
        Ok(input.len() - rest.len())
    }

    /// A string of an instruction, of which no more is kept than can be an entry.
    fn entry_string<'a>(
        &mut self,
        rest: &mut &'a [u8],
        prefix: u32,
    ) -> Result<Text<'a>, QpackError> {
        let mut ahead = *rest;
        let is_coded = ahead.first().ok_or(HpackError::Truncated)? & 1 << prefix != 0;
        let length = integer::decode(&mut ahead, prefix)? as usize;
        // The longest code of a byte has 30 bits.
        let longest = if is_coded { 4 * self.limit } else { self.limit };
        if length > longest {
            return Err(QpackError::EntryTooLarge);
        }
        Ok(text::decode(rest, prefix, &mut self.scratch)?)
    }

    /// The name of an entry. It is copied, since making room may drop the entry.
    fn copy_name(&mut self, at: usize) -> Result<(NameKind, Text<'static>), QpackError> {
        let entry = self.table.entry(at).ok_or(QpackError::Index)?;
        let start = self.scratch.len();
        self.scratch.extend_from_slice(self.table.name(entry));
        Ok((entry.kind, Text::Scratch(start..self.scratch.len())))
    }

    fn insert(
        &mut self,
        name: &Text<'_>,
        value: &Text<'_>,
        kind: NameKind,
    ) -> Result<(), QpackError> {
        let (name, value) = (name.bytes(&self.scratch), value.bytes(&self.scratch));
        if name.len() + value.len() + 32 > self.table.size_max() {
            return Err(QpackError::EntryTooLarge);
        }
        self.table.insert(name, value, kind, is_clean(value), 0);
        self.inserted += 1;
        Ok(())
    }
}

/// The number of an entry of the fixed table.
fn fixed(rest: &mut &[u8], prefix: u32) -> Result<usize, QpackError> {
    let index = integer::decode(rest, prefix)? as usize;
    match index < FIXED.len() {
        true => Ok(index),
        false => Err(QpackError::Index),
    }
}
