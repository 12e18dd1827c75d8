//! UTF-8 that arrives in pieces.

use core::str;

/// How much of a growing text has been found to be UTF-8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Checked(usize);

/// A text is not UTF-8, whatever follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotText;

impl Checked {
    /// Checks what was added to `text` since the last call. The start of a character at its end, at most three bytes,
    /// waits for the rest.
    pub(super) fn extend(&mut self, text: &[u8]) -> Result<(), NotText> {
        match str::from_utf8(&text[self.0..]) {
            Ok(_) => self.0 = text.len(),
            Err(error) if error.error_len().is_none() => self.0 += error.valid_up_to(),
            Err(_) => return Err(NotText),
        }
        Ok(())
    }

    /// The length of the whole characters that were found.
    pub(super) fn whole_bytes(self) -> usize {
        self.0
    }

    /// Whether all of `text` was found to be UTF-8: none of its characters is unfinished.
    pub(super) fn is_whole(self, text: &[u8]) -> bool {
        self.0 == text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_characters_wait_and_impossible_ones_do_not() {
        let text = "aé€😀".as_bytes();
        let mut checked = Checked::default();
        for end in 0..=text.len() {
            assert_eq!(checked.extend(&text[..end]), Ok(()), "{end}");
            let whole = str::from_utf8(&text[..end]).is_ok();
            assert_eq!(checked.is_whole(&text[..end]), whole, "{end}");
        }
        // A surrogate, an overlong form and a number above the last character are refused at their second byte.
        for bad in [
            &b"\xed\xa0"[..],
            b"\xe0\x80",
            b"\xf4\x90",
            b"\xff",
            b"a\x80",
        ] {
            assert_eq!(Checked::default().extend(bad), Err(NotText), "{bad:?}");
        }
    }
}
