//! A list of headers in one buffer. Names and values are spans of it, so parsing, copying and sending a list does not
//! allocate once the buffers have grown. The meaning of each header is up to the other modules.

use alloc::vec::Vec;
use core::fmt;

use crate::name::{FieldId, FieldName, is_token_byte, is_value_byte};

/// Headers in the order in which they arrived or were added. Names compare case-insensitively, values are bytes.
///
/// `clear` keeps the memory, so one list serves request after request. The bytes of removed lines stay in the buffer
/// until then; the caller's limits bound how much is added.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    lines: Vec<Line>,
    /// Whether a line may be [`Place::Apart`]: without one nothing has to be looked at before sending.
    any_apart: bool,
}

/// What a header has that no message can carry (RFC 9110, sections 5.1 and 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Its name is not a token.
    Name,
    /// Its value has a line end, a zero byte or another control character.
    Value,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unfit::Name => "a header name is not a token",
            Unfit::Value => "a header value has a control character",
        })
    }
}

impl core::error::Error for Unfit {}

#[derive(Clone, Copy, Debug)]
struct Line {
    name_at: u32,
    value_at: u32,
    value_len: u32,
    name_len: u16,
    id: FieldId,
    place: Place,
}

/// How a line stands in the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// As on the wire: name, colon, value, CR LF in one piece, and every byte may stand there.
    Whole,
    /// The value stands elsewhere, or something in the line must not go on the wire.
    Apart,
}

/// A line that is the same for every message, checked and written out once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedField {
    id: FieldId,
    name_len: u16,
    /// Name, colon and space, value, CR LF.
    line: alloc::boxed::Box<[u8]>,
}

impl FixedField {
    /// The line `name: value`. Bytes that must not stand in a value become spaces.
    pub fn new(name: &FieldName, value: &[u8]) -> FixedField {
        let mut fields = Fields::new();
        fields.push_name(name, value);
        let mut line = Vec::new();
        fields.write_lines(&mut line, |_| true);
        FixedField {
            id: name.id(),
            name_len: name.as_str().len() as u16,
            line: line.into(),
        }
    }

    /// The line of a field with a known name.
    pub fn known(id: FieldId, value: &[u8]) -> FixedField {
        let name = FieldName::new(id.as_str()).expect("a known name is a token");
        FixedField::new(&name, value)
    }
}

/// One field line.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The name's number.
    pub id: FieldId,
    /// The name as it was spelled.
    pub name: &'a [u8],
    /// The value without the white space around it.
    pub value: &'a [u8],
}

impl Fields {
    /// An empty list.
    pub const fn new() -> Self {
        Fields {
            bytes: Vec::new(),
            lines: Vec::new(),
            any_apart: false,
        }
    }

    /// Empties the list and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lines.clear();
        self.any_apart = false;
    }

    /// Whether a message can carry all lines as they are. Lines that a codec has read are not looked at again, only
    /// those whose text was put together here.
    pub fn fit(&self) -> Result<(), Unfit> {
        if !self.any_apart {
            return Ok(());
        }
        for line in self.lines.iter().filter(|line| line.place == Place::Apart) {
            let field = self.field(line);
            if line.id == FieldId::Other && !is_token(field.name) {
                return Err(Unfit::Name);
            }
            if !is_clean(field.value) {
                return Err(Unfit::Value);
            }
        }
        Ok(())
    }

    /// The number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is no line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The memory held, in bytes, for the accounting of idle connections.
    pub fn capacity_bytes(&self) -> usize {
        self.bytes.capacity() + self.lines.capacity() * size_of::<Line>()
    }

    /// The line at `index`, in order.
    pub fn at(&self, index: usize) -> Option<Field<'_>> {
        self.lines.get(index).map(|line| self.field(line))
    }

    /// All lines in order.
    pub fn iter(&self) -> impl Iterator<Item = Field<'_>> {
        self.lines.iter().map(|line| self.field(line))
    }

    /// The numbers of the names, line by line: enough to tell whether a closer look is worth it.
    pub fn ids(&self) -> impl Iterator<Item = FieldId> {
        self.lines.iter().map(|line| line.id)
    }

    /// The lengths of all lines, of name and value together, with the numbers of the names.
    pub fn sizes(&self) -> impl Iterator<Item = (FieldId, usize)> {
        let size = |line: &Line| usize::from(line.name_len) + line.value_len as usize;
        self.lines.iter().map(move |line| (line.id, size(line)))
    }

    /// The value of the first line with the known name `id`. For [`FieldId::Other`] use [`Fields::find`].
    pub fn first(&self, id: FieldId) -> Option<&[u8]> {
        debug_assert!(id != FieldId::Other);
        self.lines
            .iter()
            .find(|line| line.id == id)
            .map(|line| self.field(line).value)
    }

    /// The values of all lines with the known name `id`.
    pub fn all(&self, id: FieldId) -> impl Iterator<Item = &[u8]> {
        debug_assert!(id != FieldId::Other);
        self.lines
            .iter()
            .filter(move |line| line.id == id)
            .map(|line| self.field(line).value)
    }

    /// Whether a line with the known name `id` exists.
    pub fn has(&self, id: FieldId) -> bool {
        self.lines.iter().any(|line| line.id == id)
    }

    /// The values of all lines called `name`, whatever its case.
    pub fn find<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let id = FieldId::of(name);
        self.lines
            .iter()
            .filter(move |line| self.is_named(line, id, name))
            .map(|line| self.field(line).value)
    }

    /// The value of the first line called `name`, whatever its case.
    pub fn find_first<'a>(&'a self, name: &'a [u8]) -> Option<&'a [u8]> {
        self.find(name).next()
    }

    /// Adds a line with a known name, after all others.
    pub fn push(&mut self, id: FieldId, value: &[u8]) {
        debug_assert!(id != FieldId::Other);
        self.push_raw(id, id.as_str().as_bytes(), value);
    }

    /// Adds a line that was written out before.
    pub fn push_fixed(&mut self, field: &FixedField) {
        let name_at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&field.line);
        let before_value = u32::from(field.name_len) + 2;
        self.lines.push(Line {
            name_at,
            value_at: name_at + before_value,
            value_len: field.line.len() as u32 - before_value - 2,
            name_len: field.name_len,
            id: field.id,
            place: Place::Whole,
        });
    }

    /// Adds a line with a name of the configuration.
    pub fn push_name(&mut self, name: &FieldName, value: &[u8]) {
        self.push_raw(name.id(), name.as_str().as_bytes(), value);
    }

    /// Adds a line whose name and value the caller has checked; `id` is the number of `name`.
    pub fn push_raw(&mut self, id: FieldId, name: &[u8], value: &[u8]) {
        let named = id != FieldId::Other || is_token(name);
        let place = if named && is_clean(value) {
            Place::Whole
        } else {
            Place::Apart
        };
        self.push_at(id, name, value, place);
    }

    /// As [`Fields::push_raw`] where the caller has found that `name` is a token and that all of `value` may stand in
    /// a field: a codec has looked at every byte already.
    pub fn push_clean(&mut self, id: FieldId, name: &[u8], value: &[u8]) {
        debug_assert!((id != FieldId::Other || is_token(name)) && is_clean(value));
        self.push_at(id, name, value, Place::Whole);
    }

    fn push_at(&mut self, id: FieldId, name: &[u8], value: &[u8], place: Place) {
        self.bytes.reserve(name.len() + value.len() + 4);
        let name_at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(b": ");
        let value_at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
        self.any_apart |= place == Place::Apart;
        self.lines.push(Line {
            name_at,
            value_at,
            value_len: value.len() as u32,
            name_len: name.len() as u16,
            id,
            place,
        });
    }

    /// Copies `head` (a whole head section) into an empty list; [`Fields::mark`] then names the lines in it.
    pub fn adopt(&mut self, head: &[u8]) {
        debug_assert!(self.bytes.is_empty() && self.lines.is_empty());
        self.bytes.extend_from_slice(head);
    }

    /// As [`Fields::adopt`] where the lines were marked first: a codec learns where the head section ends only
    /// by reading its lines. Until this call such lines must not be read.
    pub fn adopt_marked(&mut self, head: &[u8]) {
        debug_assert!(self.bytes.is_empty());
        debug_assert!(
            self.lines
                .iter()
                .all(|line| (line.value_at + line.value_len) as usize <= head.len())
        );
        self.bytes.extend_from_slice(head);
    }

    /// Adds a line whose name and value stand at these offsets of the head section, adopted before or right after
    /// by [`Fields::adopt_marked`].
    #[inline]
    pub fn mark(
        &mut self,
        id: FieldId,
        name_at: u32,
        name_len: u16,
        value_at: u32,
        value_len: u32,
    ) {
        debug_assert!(self.bytes.is_empty() || (value_at + value_len) as usize <= self.bytes.len());
        self.lines.push(Line {
            name_at,
            value_at,
            value_len,
            name_len,
            id,
            place: Place::Whole,
        });
    }

    /// Appends the lines for which `keep` returns true to `out`, each as `name: value` and CR LF. Adjacent lines are
    /// copied together: most heads take one or two copies.
    ///
    /// No content can inject another line: a line whose name is not a token is skipped, and control characters in a
    /// value become spaces (RFC 9110, section 5.5).
    pub fn write_lines(&self, out: &mut Vec<u8>, mut keep: impl FnMut(Field<'_>) -> bool) {
        let (mut from, mut to) = (0, 0);
        for line in &self.lines {
            if !keep(self.field(line)) {
                continue;
            }
            let end = (line.value_at + line.value_len) as usize;
            let whole = line.place == Place::Whole && self.bytes.get(end..end + 2) == Some(b"\r\n");
            if whole && to == line.name_at as usize {
                to = end + 2;
                continue;
            }
            out.extend_from_slice(&self.bytes[from..to]);
            if whole {
                (from, to) = (line.name_at as usize, end + 2);
            } else {
                (from, to) = (0, 0);
                write_apart(self.field(line), out);
            }
        }
        out.extend_from_slice(&self.bytes[from..to]);
    }

    /// Replaces all lines of that known name by one, at the place of the first, else at the end.
    pub fn set(&mut self, id: FieldId, value: &[u8]) {
        self.set_raw(id, id.as_str().as_bytes(), value);
    }

    /// Replaces all lines of that name by one, at the place of the first, else at the end.
    pub fn set_name(&mut self, name: &FieldName, value: &[u8]) {
        self.set_raw(name.id(), name.as_str().as_bytes(), value);
    }

    /// As [`Fields::set_name`] for a name that the caller has checked; `id` is its number.
    pub fn set_raw(&mut self, id: FieldId, name: &[u8], value: &[u8]) {
        let Some(first) = self.position(id, name) else {
            return self.push_raw(id, name, value);
        };
        self.push_raw(id, name, value);
        let line = self
            .lines
            .pop()
            .expect("a line was pushed on the line above");
        self.lines[first] = line;
        let mut at = 0;
        let (bytes, lines) = (&self.bytes, &mut self.lines);
        lines.retain(|line| {
            at += 1;
            at - 1 <= first || !is_named(bytes, line, id, name)
        });
    }

    /// Removes all lines with this known name and returns whether there were any.
    pub fn remove(&mut self, id: FieldId) -> bool {
        let before = self.lines.len();
        self.lines.retain(|line| line.id != id);
        before != self.lines.len()
    }

    /// Removes all lines called `name` and returns whether there were any.
    pub fn remove_name(&mut self, name: &[u8]) -> bool {
        let id = FieldId::of(name);
        let before = self.lines.len();
        let bytes = &self.bytes;
        self.lines.retain(|line| !is_named(bytes, line, id, name));
        before != self.lines.len()
    }

    /// Keeps only the lines for which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(Field<'_>) -> bool) {
        let bytes = &self.bytes;
        self.lines.retain(|line| keep(field(bytes, line)));
    }

    /// Replaces the value of the line at `index`, which must exist.
    pub fn replace_at(&mut self, index: usize, value: &[u8]) {
        let value_at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        let line = &mut self.lines[index];
        line.value_at = value_at;
        line.value_len = value.len() as u32;
        line.place = Place::Apart;
        self.any_apart = true;
    }

    /// Adds all lines of `other` after those here.
    pub fn append(&mut self, other: &Fields) {
        let base = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&other.bytes);
        self.any_apart |= other.any_apart;
        self.lines.extend(other.lines.iter().map(|line| Line {
            name_at: line.name_at + base,
            value_at: line.value_at + base,
            ..*line
        }));
    }

    fn position(&self, id: FieldId, name: &[u8]) -> Option<usize> {
        self.lines
            .iter()
            .position(|line| self.is_named(line, id, name))
    }

    fn is_named(&self, line: &Line, id: FieldId, name: &[u8]) -> bool {
        is_named(&self.bytes, line, id, name)
    }

    fn field(&self, line: &Line) -> Field<'_> {
        field(&self.bytes, line)
    }
}

fn write_apart(field: Field<'_>, out: &mut Vec<u8>) {
    if field.id == FieldId::Other && !is_token(field.name) {
        return;
    }
    out.extend_from_slice(field.name);
    out.extend_from_slice(b": ");
    let clean = |byte: &u8| if is_value_byte(*byte) { *byte } else { b' ' };
    out.extend(field.value.iter().map(clean));
    out.extend_from_slice(b"\r\n");
}

fn is_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| is_token_byte(*byte))
}

/// Looks at all bytes without a way out, which compiles to vector comparisons.
fn is_clean(value: &[u8]) -> bool {
    value
        .iter()
        .fold(true, |clean, byte| clean & is_value_byte(*byte))
}

fn is_named(bytes: &[u8], line: &Line, id: FieldId, name: &[u8]) -> bool {
    line.id == id && (id != FieldId::Other || field(bytes, line).name.eq_ignore_ascii_case(name))
}

fn field<'a>(bytes: &'a [u8], line: &Line) -> Field<'a> {
    Field {
        id: line.id,
        name: &bytes[line.name_at as usize..line.name_at as usize + line.name_len as usize],
        value: &bytes[line.value_at as usize..line.value_at as usize + line.value_len as usize],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn what_no_message_can_carry_is_found_and_only_looked_for_where_text_was_put_together() {
        for byte in 0..=255_u8 {
            let mut fields = Fields::new();
            fields.push(FieldId::Vary, b"a");
            fields.push_raw(FieldId::Other, b"X-A", &[b'1', byte, b'2']);
            let fit = if is_value_byte(byte) {
                Ok(())
            } else {
                Err(Unfit::Value)
            };
            assert_eq!(fields.fit(), fit, "{byte}");
            let mut other = Fields::new();
            other.append(&fields);
            assert_eq!(other.fit(), fit, "{byte}");
            other.remove_name(b"x-a");
            assert_eq!(other.fit(), Ok(()));
            other.replace_at(0, &[byte]);
            assert_eq!(other.fit(), fit, "{byte}");
            fields.clear();
            fields.push_raw(FieldId::Other, &[b'X', byte], b"1");
            let fit = if is_token_byte(byte) {
                Ok(())
            } else {
                Err(Unfit::Name)
            };
            assert_eq!(fields.fit(), fit, "{byte}");
        }
    }

    fn list(fields: &Fields) -> Vec<(&[u8], &[u8])> {
        fields.iter().map(|f| (f.name, f.value)).collect()
    }

    #[test]
    fn setting_replaces_all_lines_of_a_name_at_the_place_of_the_first() {
        let mut fields = Fields::new();
        fields.push_raw(FieldId::Other, b"X-A", b"1");
        fields.push(FieldId::Vary, b"b");
        fields.push_raw(FieldId::Other, b"x-a", b"2");
        fields.set_raw(FieldId::Other, b"X-a", b"3");
        assert_eq!(
            list(&fields),
            vec![(&b"X-a"[..], &b"3"[..]), (b"Vary", b"b")]
        );
    }

    #[test]
    fn names_compare_without_case() {
        let mut fields = Fields::new();
        fields.push_raw(FieldId::of(b"coNNection"), b"coNNection", b"close");
        assert_eq!(fields.first(FieldId::Connection), Some(&b"close"[..]));
        assert!(fields.remove_name(b"CONNECTION"));
        assert!(fields.is_empty());
    }

    #[test]
    fn lines_are_written_as_they_would_be_one_by_one() {
        let mut fields = Fields::new();
        fields.adopt(b"A:1\r\nB: 2 \r\nC:\t3\r\n");
        fields.mark(FieldId::Other, 0, 1, 2, 1);
        fields.mark(FieldId::Other, 5, 1, 8, 1);
        fields.mark(FieldId::Other, 12, 1, 15, 1);
        fields.push_raw(FieldId::Other, b"D", b"4");
        fields.push_raw(FieldId::Other, b"E", b"5");
        fields.replace_at(3, b"44");
        fields.set_raw(FieldId::Other, b"A", b"11");
        let mut out = Vec::new();
        fields.write_lines(&mut out, |_| true);
        assert_eq!(out, b"A: 11\r\nB: 2\r\nC:\t3\r\nD: 44\r\nE: 5\r\n");
        out.clear();
        fields.write_lines(&mut out, |field| field.name != b"C");
        assert_eq!(out, b"A: 11\r\nB: 2\r\nD: 44\r\nE: 5\r\n");
    }

    #[test]
    fn a_fixed_line_is_as_one_that_was_pushed() {
        let fixed = FixedField::known(FieldId::Server, b"a\nb");
        let mut fields = Fields::new();
        fields.push(FieldId::Date, b"d");
        fields.push_fixed(&fixed);
        assert_eq!(fields.first(FieldId::Server), Some(&b"a b"[..]));
        let mut out = Vec::new();
        fields.write_lines(&mut out, |_| true);
        assert_eq!(out, b"Date: d\r\nServer: a b\r\n");
    }

    #[test]
    fn no_line_can_add_another() {
        let mut fields = Fields::new();
        fields.push_raw(FieldId::Other, b"X\r\nY", b"1");
        fields.push_raw(FieldId::Other, b"", b"2");
        fields.push(FieldId::Location, b"/a\r\nSet-Cookie: b\0");
        let mut out = Vec::new();
        fields.write_lines(&mut out, |_| true);
        assert_eq!(out, b"Location: /a  Set-Cookie: b \r\n");
    }

    #[test]
    fn appended_lines_keep_their_values() {
        let (mut a, mut b) = (Fields::new(), Fields::new());
        a.push(FieldId::Date, b"d");
        b.push(FieldId::Server, b"s");
        a.append(&b);
        assert_eq!(list(&a), vec![(&b"Date"[..], &b"d"[..]), (b"Server", b"s")]);
    }
}
