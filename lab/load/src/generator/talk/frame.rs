//! WebSocket frames (RFC 6455, section 5): written as a client writes them, read as a client reads them. Separate from
//! the server's code, so that a mistake there is not hidden by the same mistake here.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Opcodes (section 5.2).
pub const TEXT: u8 = 1;
/// A binary message.
pub const BINARY: u8 = 2;
/// Closes the connection.
pub const CLOSE: u8 = 8;
/// Asks whether the peer is alive.
pub const PING: u8 = 9;
/// The reply to a ping.
pub const PONG: u8 = 10;

const CONTINUATION: u8 = 0;

/// Section 5.5: maximum payload of control frames.
const CONTROL_BYTES_MAX: u64 = 125;

/// Appended to every key (section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The `Sec-WebSocket-Accept` for a key (section 4.2.2).
pub fn accept(key: &str) -> String {
    let whole = format!("{key}{GUID}");
    let sum = digest(&SHA1_FOR_LEGACY_USE_ONLY, whole.as_bytes());
    STANDARD.encode(sum.as_ref())
}

/// A complete message in one client frame, which is masked (section 5.3).
pub fn client_frame(opcode: u8, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![0x80 | opcode];
    match payload.len() {
        short @ 0..=125 => frame.push(0x80 | short as u8),
        middle @ 126..=0xFFFF => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&(middle as u16).to_be_bytes());
        }
        long => {
            frame.push(0x80 | 127);
            frame.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&mask);
    let masked = payload.iter().zip(mask.iter().cycle());
    frame.extend(masked.map(|(byte, mask)| byte ^ mask));
    frame
}

/// Why bytes are not valid server frames.
pub type NoFrame = &'static str;

/// A parsed piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A part of a message.
    Data(&'a [u8]),
    /// The message is complete; its opcode.
    End(u8),
    /// A control frame: opcode and payload.
    Control(u8, Vec<u8>),
}

/// The frame parser of one connection.
#[derive(Debug, Default)]
pub struct Frames {
    /// Bytes of an incomplete frame head: at most 10.
    head: Vec<u8>,
    /// The current frame, once its head is complete.
    frame: Option<Frame>,
    /// The opcode of the current message.
    message: Option<u8>,
    control: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    last: bool,
    opcode: u8,
    left: u64,
}

impl Frames {
    /// Whether a message or a frame is incomplete.
    pub fn is_inside(&self) -> bool {
        self.frame.is_some() || self.message.is_some() || !self.head.is_empty()
    }

    /// Consumes bytes up to the next piece. Returns how many were used, and the piece; without one all were.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Option<Piece<'a>>), NoFrame> {
        let mut at = 0;
        loop {
            let Some(frame) = &mut self.frame else {
                let Some(byte) = input.get(at) else {
                    return Ok((at, None));
                };
                self.head.push(*byte);
                at += 1;
                if let Some(frame) = begin(&self.head, self.message)? {
                    self.head.clear();
                    self.frame = Some(frame);
                    if frame.opcode & 8 == 0 && frame.opcode != CONTINUATION {
                        self.message = Some(frame.opcode);
                    }
                }
                continue;
            };
            if frame.left > 0 {
                let rest = &input[at..];
                if rest.is_empty() {
                    return Ok((at, None));
                }
                let taken = rest
                    .len()
                    .min(usize::try_from(frame.left).unwrap_or(usize::MAX));
                frame.left -= taken as u64;
                at += taken;
                if frame.opcode & 8 == 0 {
                    return Ok((at, Some(Piece::Data(&rest[..taken]))));
                }
                self.control.extend_from_slice(&rest[..taken]);
                continue;
            }
            let Frame { last, opcode, .. } = *frame;
            self.frame = None;
            if opcode & 8 != 0 {
                let payload = std::mem::take(&mut self.control);
                return Ok((at, Some(Piece::Control(opcode, payload))));
            }
            if last {
                let opcode = self.message.take().unwrap_or(opcode);
                return Ok((at, Some(Piece::End(opcode))));
            }
        }
    }
}

/// The frame that begins with these bytes, if they are its complete head.
fn begin(head: &[u8], message: Option<u8>) -> Result<Option<Frame>, NoFrame> {
    let &[first, ref rest @ ..] = head else {
        return Ok(None);
    };
    let opcode = first & 0x0F;
    if first & 0x70 != 0 {
        return Err("a frame with reserved bits although no extension was negotiated");
    }
    if !matches!(opcode, CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG) {
        return Err("a frame with an unknown opcode");
    }
    match (opcode, message) {
        (CONTINUATION, None) => return Err("a continuation frame without a message"),
        (TEXT | BINARY, Some(_)) => return Err("a message inside another one"),
        _ => {}
    }
    let &[second, ref length @ ..] = rest else {
        return Ok(None);
    };
    if second & 0x80 != 0 {
        return Err("a masked frame from a server");
    }
    let (wanted, least) = match second {
        126 => (2, 126),
        127 => (8, 0x1_0000),
        _ => (0, 0),
    };
    if length.len() < wanted {
        return Ok(None);
    }
    let left = match wanted {
        0 => u64::from(second),
        _ => length
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    };
    if left < least || left >> 63 != 0 {
        return Err("a length that is not minimally encoded");
    }
    let (last, control) = (first & 0x80 != 0, opcode & 8 != 0);
    if control && (!last || left > CONTROL_BYTES_MAX) {
        return Err("a fragmented or too long control frame");
    }
    Ok(Some(Frame { last, opcode, left }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_standard() {
        // RFC 6455, sections 1.3 and 5.7.
        assert_eq!(
            accept("dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
        assert_eq!(
            client_frame(TEXT, b"Hello", [0x37, 0xfa, 0x21, 0x3d]),
            [
                0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58
            ]
        );
        for (length, head) in [
            (256_usize, &[0x82, 0xFE, 0x01, 0x00][..]),
            (65_536, &[0x82, 0xFF, 0, 0, 0, 0, 0, 1, 0, 0][..]),
        ] {
            let frame = client_frame(BINARY, &vec![0; length], [0; 4]);
            assert!(frame.starts_with(head));
            assert_eq!(frame.len(), head.len() + 4 + length);
        }
    }

    /// All messages and control frames, parsed in steps of `step` bytes.
    fn read(bytes: &[u8], step: usize) -> Result<Vec<(u8, Vec<u8>)>, NoFrame> {
        let (mut frames, mut found, mut message) = (Frames::default(), Vec::new(), Vec::new());
        for mut input in bytes.chunks(step) {
            loop {
                let (used, piece) = frames.next(input)?;
                input = &input[used..];
                match piece {
                    None => break,
                    Some(Piece::Data(data)) => message.extend_from_slice(data),
                    Some(Piece::End(opcode)) => found.push((opcode, std::mem::take(&mut message))),
                    Some(Piece::Control(opcode, payload)) => found.push((opcode, payload)),
                }
            }
        }
        Ok(found)
    }

    #[test]
    fn messages_are_put_together_in_any_steps() {
        // Section 5.7: a fragmented "Hello", here with a ping between its parts, then an empty one and 256 bytes.
        let mut bytes = vec![0x01, 0x03, b'H', b'e', b'l', 0x89, 0x01, b'?'];
        bytes.extend([0x80, 0x02, b'l', b'o', 0x82, 0x00, 0x82, 0x7E, 0x01, 0x00]);
        bytes.extend([7; 256]);
        let wanted = vec![
            (PING, b"?".to_vec()),
            (TEXT, b"Hello".to_vec()),
            (BINARY, Vec::new()),
            (BINARY, vec![7; 256]),
        ];
        for step in [1, 2, 3, 7, 64, 1_000] {
            assert_eq!(read(&bytes, step), Ok(wanted.clone()), "{step}");
        }
    }

    #[test]
    fn frames_that_a_server_may_not_send_are_errors() {
        for (bytes, word) in [
            (&[0xC1, 0x00][..], "reserved"),
            (&[0x83, 0x00], "unknown"),
            (&[0x80, 0x00], "without a message"),
            (&[0x01, 0x00, 0x81, 0x00], "inside"),
            (&[0x81, 0x80, 0, 0, 0, 0], "masked"),
            (&[0x81, 0x7E, 0x00, 0x7D], "minimally"),
            (&[0x81, 0x7F, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF], "minimally"),
            (&[0x09, 0x00], "control"),
            (&[0x89, 0x7E, 0x01, 0x00], "control"),
        ] {
            let error = read(bytes, 1).unwrap_err();
            assert!(error.contains(word), "{bytes:02x?}: {error}");
        }
    }
}
