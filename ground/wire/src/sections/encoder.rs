//! What header compression has to offer for heads to be written.

use alloc::vec::Vec;

use sluice_message::{FieldId, Status};

use crate::h2::hpack;
use crate::h3::qpack;

pub(crate) use hpack::Keep;

/// The encoding end of header compression.
pub(crate) trait FieldEncoder {
    /// Begins a section.
    fn begin(&mut self, out: &mut Vec<u8>);
    /// Appends `:status`.
    fn status(&mut self, status: Status, out: &mut Vec<u8>);
    /// Appends `:method`.
    fn method(&mut self, method: &str, out: &mut Vec<u8>);
    /// Appends `:scheme`.
    fn scheme(&mut self, https: bool, out: &mut Vec<u8>);
    /// Appends `:path`.
    fn path(&mut self, path: &[u8], out: &mut Vec<u8>);
    /// Appends `:authority`.
    fn authority(&mut self, authority: &[u8], out: &mut Vec<u8>);
    /// Appends a field with a checked name, whose letters become small, and a checked value.
    fn field(&mut self, id: FieldId, name: &[u8], value: &[u8], keep: Keep, out: &mut Vec<u8>);
}

macro_rules! encoders {
    ($($encoder:ty),*) => {
        $(impl FieldEncoder for $encoder {
            #[inline]
            fn begin(&mut self, out: &mut Vec<u8>) {
                self.begin(out);
            }

            #[inline]
            fn status(&mut self, status: Status, out: &mut Vec<u8>) {
                self.status(status, out);
            }

            #[inline]
            fn method(&mut self, method: &str, out: &mut Vec<u8>) {
                self.method(method, out);
            }

            #[inline]
            fn scheme(&mut self, https: bool, out: &mut Vec<u8>) {
                self.scheme(https, out);
            }

            #[inline]
            fn path(&mut self, path: &[u8], out: &mut Vec<u8>) {
                self.path(path, out);
            }

            #[inline]
            fn authority(&mut self, authority: &[u8], out: &mut Vec<u8>) {
                self.authority(authority, out);
            }

            #[inline]
            fn field(&mut self, id: FieldId, name: &[u8], value: &[u8], keep: Keep, out: &mut Vec<u8>) {
                self.field(id, name, value, keep, out);
            }
        })*
    };
}

encoders!(hpack::Encoder, qpack::Encoder);
