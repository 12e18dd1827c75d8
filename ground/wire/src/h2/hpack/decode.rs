//! Decodes header blocks to fields (RFC 7541, section 6). The caller interprets the fields.

use alloc::vec::Vec;

use super::error::HpackError;
use super::kind::{NameKind, is_clean};
use super::table::{FIXED, Table};
use super::text::Text;
use super::{integer, text};

/// A decoded field. Bytes are as they came; `kind` and `clean` tell whether they are allowed.
#[derive(Clone, Copy, Debug)]
pub struct Decoded<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// What the name is.
    pub kind: NameKind,
    /// Whether the value may stand in a field (RFC 9113, section 8.2.1).
    pub clean: bool,
}

/// The decoding end of one direction of a connection.
#[derive(Clone, Debug)]
pub struct Decoder {
    table: Table,
    /// The largest size the peer may choose.
    limit: usize,
    scratch: Vec<u8>,
}

/// Where a name stands.
enum Name<'a> {
    Own(Text<'a>),
    Fixed(usize),
    Entry(usize),
}

impl Decoder {
    /// A decoder whose peer knows of no other table size than `table_bytes_max`.
    pub fn new(table_bytes_max: u16) -> Decoder {
        Decoder {
            table: Table::new(usize::from(table_bytes_max)),
            limit: usize::from(table_bytes_max),
            scratch: Vec::new(),
        }
    }

    /// The peer has heard that it may use at most this size. If its table is larger, the next block has to begin
    /// with another size.
    pub fn limit_table(&mut self, table_bytes_max: u16) {
        self.limit = usize::from(table_bytes_max);
    }

    /// Memory held, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.table.capacity_bytes() + self.scratch.capacity()
    }

    /// Gives back what only decoding needs.
    pub fn shrink(&mut self) {
        self.scratch = Vec::new();
    }

    /// Decodes a whole block and hands its fields to `each`, in order. After an error the decoder is of no use any
    /// more.
    pub fn decode(
        &mut self,
        block: &[u8],
        mut each: impl FnMut(Decoded<'_>),
    ) -> Result<(), HpackError> {
        let mut rest = block;
        self.take_sizes(&mut rest)?;
        while let Some(first) = rest.first() {
            match *first {
                0x80.. => each(self.indexed(integer::decode(&mut rest, 7)?)?),
                0x40.. => self.literal(&mut rest, 6, &mut each)?,
                0x20.. => return Err(HpackError::SizeLate),
                _ => self.literal(&mut rest, 4, &mut each)?,
            }
        }
        Ok(())
    }

    /// The changes of the table size that a block may begin with (RFC 7541, section 4.2).
    fn take_sizes(&mut self, rest: &mut &[u8]) -> Result<(), HpackError> {
        while matches!(rest.first(), Some(0x20..0x40)) {
            let size = integer::decode(rest, 5)? as usize;
            if size > self.limit {
                return Err(HpackError::SizeTooLarge);
            }
            self.table.resize(size);
        }
        if self.table.size_max() > self.limit {
            return Err(HpackError::SizeMissing);
        }
        Ok(())
    }

    /// The field with the number `index` (RFC 7541, section 6.1).
    #[inline]
    fn indexed(&self, index: u32) -> Result<Decoded<'_>, HpackError> {
        let index = (index as usize).checked_sub(1).ok_or(HpackError::Index)?;
        if let Some((kind, name, value)) = FIXED.get(index) {
            return Ok(Decoded {
                name: name.as_bytes(),
                value: value.as_bytes(),
                kind: *kind,
                clean: true,
            });
        }
        let entry = self.table.entry(index - FIXED.len());
        let entry = entry.ok_or(HpackError::Index)?;
        Ok(Decoded {
            name: self.table.name(entry),
            value: self.table.value(entry),
            kind: entry.kind,
            clean: entry.clean,
        })
    }

    /// A field with a value of its own (RFC 7541, section 6.2), which enters the table if the prefix has six bits.
    fn literal(
        &mut self,
        rest: &mut &[u8],
        prefix: u32,
        each: &mut impl FnMut(Decoded<'_>),
    ) -> Result<(), HpackError> {
        self.scratch.clear();
        let index = integer::decode(rest, prefix)? as usize;
        let (name, kind) = match index {
            0 => (Name::Own(text::decode(rest, 7, &mut self.scratch)?), None),
            _ if index <= FIXED.len() => (Name::Fixed(index - 1), Some(FIXED[index - 1].0)),
            _ => {
                let at = index - 1 - FIXED.len();
                let entry = self.table.entry(at).ok_or(HpackError::Index)?;
                (Name::Entry(at), Some(entry.kind))
            }
        };
        let value = text::decode(rest, 7, &mut self.scratch)?;
        let (name_bytes, value_bytes) = (self.name(&name), value.bytes(&self.scratch));
        let field = Decoded {
            name: name_bytes,
            value: value_bytes,
            kind: kind.unwrap_or_else(|| NameKind::look(name_bytes)),
            clean: is_clean(value_bytes),
        };
        each(field);
        if prefix == 6 {
            let (kind, clean) = (field.kind, field.clean);
            self.insert(&name, &value, kind, clean);
        }
        Ok(())
    }

    fn insert(&mut self, name: &Name<'_>, value: &Text<'_>, kind: NameKind, clean: bool) {
        let mut name_at = 0..0;
        if let Name::Entry(at) = name
            && let Some(entry) = self.table.entry(*at)
        {
            // Making room may drop the entry whose name this is (RFC 7541, section 4.4).
            let start = self.scratch.len();
            self.scratch.extend_from_slice(self.table.name(entry));
            name_at = start..self.scratch.len();
        }
        let name = match name {
            Name::Own(text) => text.bytes(&self.scratch),
            Name::Fixed(at) => FIXED[*at].1.as_bytes(),
            Name::Entry(_) => &self.scratch[name_at],
        };
        let value = value.bytes(&self.scratch);
        self.table.insert(name, value, kind, clean, 0);
    }

    fn name<'a>(&'a self, name: &'a Name<'a>) -> &'a [u8] {
        match name {
            Name::Own(text) => text.bytes(&self.scratch),
            Name::Fixed(at) => FIXED[*at].1.as_bytes(),
            Name::Entry(at) => self
                .table
                .entry(*at)
                .map_or(&[], |entry| self.table.name(entry)),
        }
    }
}
