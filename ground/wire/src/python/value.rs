//! How dictionaries are written: as marshal or as JSON. `environ` and `scope` say what is in them.

use sluice_message::FieldId;

/// Writes the values of a Python dictionary, one after the other. The caller opens and closes containers in pairs,
/// and in dictionaries writes a key before each value.
pub trait Values {
    /// Opens a dictionary.
    fn open_dict(&mut self);

    /// Closes a dictionary.
    fn close_dict(&mut self);

    /// Opens a tuple of so many values, at most 255.
    fn open_tuple(&mut self, count: u8);

    /// Closes a tuple.
    fn close_tuple(&mut self);

    /// Opens a list of so many values.
    fn open_list(&mut self, count: u32);

    /// Closes a list.
    fn close_list(&mut self);

    /// A key: ASCII, at most 255 bytes, without characters that JSON escapes.
    fn key(&mut self, key: &str);

    /// The key of a header in a WSGI environment: `HTTP_` and the name in upper case, with underscores.
    fn header_key(&mut self, id: FieldId, name: &[u8]);

    /// A text, whose characters are the bytes of all parts in order (latin-1, as PEP 3333 demands).
    fn latin1<'p>(&mut self, parts: impl Iterator<Item = &'p [u8]> + Clone);

    /// A text.
    fn text(&mut self, text: &str);

    /// A byte string.
    fn bytes(&mut self, bytes: &[u8]);

    /// The lower-case name of a header, as a byte string.
    fn header_name(&mut self, id: FieldId, name: &[u8]);

    /// An integer.
    fn integer(&mut self, value: i32);

    /// `None`.
    fn none(&mut self);

    /// `True` or `False`.
    fn boolean(&mut self, value: bool);
}

/// A text in parts of which only one is needed.
pub(super) fn one(bytes: &[u8]) -> core::iter::Once<&[u8]> {
    core::iter::once(bytes)
}
