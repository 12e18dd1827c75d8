//! The values of `$uid_got` and `$uid_set`.

/// The cookie of a request.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The name of the cookie.
    pub name: Box<str>,
    /// What was received.
    pub got: Option<[u8; 16]>,
    /// What is sent.
    pub set: Option<[u8; 16]>,
}

impl Known {
    /// Appends `$uid_got` or `$uid_set`: the name and the four numbers in native byte order.
    pub fn push(&self, which: Which, out: &mut Vec<u8>) {
        let value = match which {
            Which::Got => self.got,
            Which::Set => self.set,
        };
        let Some(value) = value else { return };
        out.extend_from_slice(self.name.as_bytes());
        out.push(b'=');
        for number in value.chunks_exact(4) {
            let number = u32::from_ne_bytes([number[0], number[1], number[2], number[3]]);
            out.extend_from_slice(format!("{number:08X}").as_bytes());
        }
    }
}

/// Which cookie to show.
#[derive(Clone, Copy)]
pub enum Which {
    /// The one that was received.
    Got,
    /// The one that is sent.
    Set,
}
