//! Close codes (RFC 6455, section 7.4) and the payload of Close frames.

use core::str;

use super::fault::Fault;
use super::frame::CONTROL_BYTES_MAX;

/// The purpose of the connection is fulfilled.
pub const NORMAL: u16 = 1000;
/// An endpoint goes away: a server that stops, a page that was left.
pub const GOING_AWAY: u16 = 1001;
/// Never sent: a Close frame without a code.
pub const NO_STATUS: u16 = 1005;
/// Never sent: the connection ended without a Close frame.
pub const ABNORMAL: u16 = 1006;
/// A message breaks the receiver's rules.
pub const POLICY_VIOLATION: u16 = 1008;
/// The server met something that it cannot fulfil the request with.
pub const UNEXPECTED_CONDITION: u16 = 1011;

/// The service restarts: the client may come again (registry of IANA).
pub const SERVICE_RESTART: u16 = 1012;

/// The server is overloaded: the client may try again later (registry of IANA).
pub const TRY_AGAIN_LATER: u16 = 1013;

/// Whether `code` may be in a Close frame: those that the RFC and the registry of IANA define for it, and the ranges for
/// libraries and applications.
pub const fn is_sendable(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// The code and the reason in the payload of a Close frame (section 5.5.1).
///
/// # Errors
///
/// [`Fault::CloseLength`] for one byte, [`Fault::CloseCode`], and [`Fault::Text`] if the reason is not UTF-8.
pub(super) fn parse(payload: &[u8]) -> Result<(u16, &str), Fault> {
    let (code, reason) = match payload {
        [] => return Ok((NO_STATUS, "")),
        [_] => return Err(Fault::CloseLength),
        [high, low, reason @ ..] => (u16::from_be_bytes([*high, *low]), reason),
    };
    if !is_sendable(code) {
        return Err(Fault::CloseCode(code));
    }
    match str::from_utf8(reason) {
        Ok(reason) => Ok((code, reason)),
        Err(_) => Err(Fault::Text),
    }
}

/// The start of `reason` that fits into a control frame behind the code, without half a character.
pub(super) fn fitting(reason: &str) -> &str {
    let longest = CONTROL_BYTES_MAX - 2;
    &reason[..reason.floor_char_boundary(longest)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads() {
        assert_eq!(parse(b""), Ok((NO_STATUS, "")));
        assert_eq!(parse(b"\x03\xe8"), Ok((NORMAL, "")));
        assert_eq!(parse("\u{3}\u{7f}".as_bytes()), Err(Fault::CloseCode(895)));
        assert_eq!(parse(b"\x0f\xa0bye"), Ok((4000, "bye")));
        assert_eq!(parse(b"\x03"), Err(Fault::CloseLength));
        assert_eq!(parse(b"\x03\xe8\xff"), Err(Fault::Text));
        for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, u16::MAX] {
            assert_eq!(parse(&code.to_be_bytes()), Err(Fault::CloseCode(code)));
        }
    }

    #[test]
    fn reasons_end_at_a_character() {
        let long = "ä".repeat(100);
        assert_eq!(fitting(&long), "ä".repeat(61));
        assert_eq!(fitting("short"), "short");
    }
}
