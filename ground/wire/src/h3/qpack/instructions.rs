//! The peer's decoder stream (RFC 9204, section 4.4): what became of our entries. Since we insert none, only
//! one instruction can stand there: that a stream was cancelled.

use super::super::error::Code;

/// Bytes of the longest stream number.
const NUMBER_BYTES_MAX: u8 = 10;

/// Reads the instructions of the peer's decoder stream.
#[derive(Debug, Default)]
pub struct DecoderStreamReader {
    /// Bytes of the number that is not complete; 0 between instructions.
    read: u8,
    glitches: u32,
}

impl DecoderStreamReader {
    /// Takes bytes of the stream.
    ///
    /// # Errors
    /// The connection has to be closed with the code: an acknowledgement of something that was never sent.
    pub fn receive(&mut self, input: &[u8]) -> Result<(), Code> {
        for byte in input {
            let goes_on = match self.read {
                0 if byte & 0xc0 == 0x40 => {
                    self.glitches = self.glitches.saturating_add(1);
                    byte & 0x3f == 0x3f
                }
                0 => return Err(Code::DECODER_STREAM_ERROR),
                NUMBER_BYTES_MAX => return Err(Code::DECODER_STREAM_ERROR),
                _ => byte & 0x80 != 0,
            };
            self.read = if goes_on { self.read + 1 } else { 0 };
        }
        Ok(())
    }

    /// Instructions since the last call, for the budget of the connection.
    pub fn take_glitches(&mut self) -> u32 {
        core::mem::take(&mut self.glitches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cancellations_are_taken() {
        let mut reader = DecoderStreamReader::default();
        for input in [&[0x40 | 4][..], &[0x7f], &[0x80, 0x80], &[1, 0x41]] {
            assert_eq!(reader.receive(input), Ok(()));
        }
        assert_eq!((reader.take_glitches(), reader.take_glitches()), (3, 0));
        for input in [
            &[0x80][..],
            &[0x01],
            &[0x00],
            &[
                0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
            ],
        ] {
            let mut reader = DecoderStreamReader::default();
            assert_eq!(reader.receive(input), Err(Code::DECODER_STREAM_ERROR));
        }
    }
}
