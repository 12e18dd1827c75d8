//! Checks that a text is a host with an optional port (RFC 3986, section 3.2). The router interprets the host.

use core::net::Ipv6Addr;

use memchr::memchr;

/// Whether `text` is a non-empty host, then maybe `:` and a port. User information, paths and white space are
/// refused: RFC 9110, section 4.2.4 deprecates the first, and the rest never belongs there.
pub(crate) fn is_authority(text: &[u8]) -> bool {
    if let Some(rest) = text.strip_prefix(b"[") {
        let Some(end) = memchr(b']', rest) else {
            return false;
        };
        return is_ipv6(&rest[..end]) && is_port_suffix(&rest[end + 1..]);
    }
    let (mut end, mut escapes) = (0, false);
    while let Some(byte) = text.get(end).filter(|byte| NAME[**byte as usize]) {
        escapes |= *byte == b'%';
        end += 1;
    }
    let name = &text[..end];
    let whole = !escapes || escapes_are_whole(name);
    end > 0 && whole && labels_are_whole(name) && is_port_suffix(&text[end..])
}

/// Whether no label but the first is empty: names of DNS have none (RFC 1035, section 2.3.1), and `..` would climb where a
/// host becomes the name of a folder. As nginx does, a dot at either end is taken.
fn labels_are_whole(name: &[u8]) -> bool {
    name != b"." && memchr::memmem::find(name, b"..").is_none()
}

/// Whether `text` is a host with a port, as CONNECT requires (RFC 9112, section 3.2.3).
pub(crate) fn is_authority_with_port(text: &[u8]) -> bool {
    is_authority(text) && text.last().is_some_and(u8::is_ascii_digit) && has_port(text)
}

fn has_port(text: &[u8]) -> bool {
    let digits = text
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    text.len() > digits && text[text.len() - digits - 1] == b':'
}

/// IPv6 addresses only: no zone, which has no meaning away from the client (RFC 6874, section 4), and no
/// addresses of future versions, of which there are none.
fn is_ipv6(text: &[u8]) -> bool {
    core::str::from_utf8(text).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// Nothing, or a colon and a port below 65,536. RFC 3986 lets the port be empty.
fn is_port_suffix(text: &[u8]) -> bool {
    let Some(digits) = text.strip_prefix(b":") else {
        return text.is_empty();
    };
    digits.len() <= 5
        && digits.iter().all(u8::is_ascii_digit)
        && digits
            .iter()
            .fold(0, |port: u32, digit| port * 10 + u32::from(digit - b'0'))
            < 65_536
}

fn escapes_are_whole(name: &[u8]) -> bool {
    let mut rest = name;
    while let Some(at) = memchr(b'%', rest) {
        let digits = rest.get(at + 1..at + 3);
        if !digits.is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit)) {
            return false;
        }
        rest = &rest[at + 3..];
    }
    true
}

/// The bytes of a registered name: unreserved characters, sub-delimiters and escapes.
const NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut i = 0;
    while i < 256 {
        let byte = i as u8;
        table[i] = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'%')
            || matches!(byte, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*')
            || matches!(byte, b'+' | b',' | b';' | b'=');
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_distinguished_from_everything_else() {
        for text in [
            "a",
            "A.b-c_d:80",
            "1.2.3.4:65535",
            "[::1]",
            "[::1]:8080",
            "a:",
            "a%41",
            "x,y",
            ".a",
            "a.",
        ] {
            assert!(is_authority(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            ":",
            ":80",
            "a b",
            "a/b",
            "u@h",
            "u:p@h",
            "a:65536",
            "a:-1",
            "a:8a",
            "a:80:80",
            "[::1",
            "[]",
            "[::1]x",
            "[fe80::1%25eth0]",
            "[v1.a]",
            "[1.2.3.4]",
            "a%4",
            "a%zz",
            "a\\b",
            "a?b",
            "a#b",
            "\"a\"",
            "h\u{f6}st",
            "a\t",
            "::1",
            "a:000080",
            ".",
            "..",
            "...",
            ".:80",
            "a..b",
            "a..",
            "..a:80",
        ] {
            assert!(!is_authority(text.as_bytes()), "{text}");
        }
        assert!(is_authority_with_port(b"a:443") && is_authority_with_port(b"[::1]:1"));
        for text in ["a", "a1", "a:", "[::1]", "[::1]:", "1.2.3.4"] {
            assert!(!is_authority_with_port(text.as_bytes()), "{text}");
        }
    }
}
