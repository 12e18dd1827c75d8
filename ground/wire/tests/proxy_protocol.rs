//! PROXY protocol headers: valid ones, invalid ones, and data that merely looks like one.

use sluice_wire::proxy_protocol::{Beginning, HEADER_BYTES_MAX, HeaderError, decode};

use crate::feed_proxy;

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// The header's length and the client it names.
fn client(bytes: &[u8]) -> (usize, Option<String>) {
    feed_proxy::check_beginning(bytes);
    match decode(bytes) {
        Ok(Beginning::Header { length, ends, .. }) => {
            let text = ends.map(|ends| format!("{} to {}", ends.source, ends.destination));
            (length, text)
        }
        other => panic!("{other:?}"),
    }
}

fn v2(version: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u16).to_be_bytes();
    [SIGNATURE, &[version, family], &length, body].concat()
}

#[test]
fn lines_are_read() {
    for (line, expected) in [
        (
            "PROXY TCP4 192.0.2.9 192.0.2.1 1234 443\r\nGET /",
            Some("192.0.2.9:1234 to 192.0.2.1:443"),
        ),
        (
            "PROXY TCP6 2001:db8::9 ::1 0 65535\r\n",
            Some("[2001:db8::9]:0 to [::1]:65535"),
        ),
        ("PROXY UNKNOWN\r\n", None),
        ("PROXY UNKNOWN whatever it says\r\n", None),
    ] {
        let (length, found) = client(line.as_bytes());
        assert_eq!(found.as_deref(), expected, "{line}");
        assert_eq!(length, line.find('\n').unwrap() + 1);
    }
}

#[test]
fn lines_that_are_not_quite_right_are_refused() {
    for line in [
        "PROXY \r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP4 192.0.2.9 192.0.2.1 1234\r\n",
        "PROXY TCP4 192.0.2.9 192.0.2.1 1234 443 \r\n",
        "PROXY TCP4 192.0.2.9 192.0.2.1 1234 443 x\r\n",
        "PROXY TCP4  192.0.2.9 192.0.2.1 1234 443\r\n",
        "PROXY TCP4 192.0.2.9 192.0.2.1 1234 443\n",
        "PROXY TCP4 192.0.2.9 192.0.2.1 1234 65536\r\n",
        "PROXY TCP4 192.0.2.9 192.0.2.1 +1 443\r\n",
        "PROXY TCP4 192.0.2.9 192.0.2.1 01 443\r\n",
        "PROXY TCP4 192.0.2.09 192.0.2.1 1 443\r\n",
        "PROXY TCP4 ::1 ::1 1 443\r\n",
        "PROXY TCP6 192.0.2.9 192.0.2.1 1 443\r\n",
        "PROXY TCP5 192.0.2.9 192.0.2.1 1 443\r\n",
        "PROXY tcp4 192.0.2.9 192.0.2.1 1 443\r\n",
        "PROXY TCP4 192.0.2.9\r192.0.2.1 1 443\r\n",
    ] {
        feed_proxy::check_beginning(line.as_bytes());
        assert!(decode(line.as_bytes()).is_err(), "{line}");
    }
    let endless = format!("PROXY UNKNOWN {}", "x".repeat(200));
    assert_eq!(decode(endless.as_bytes()), Err(HeaderError::BadLine));
}

#[test]
fn binary_headers_are_read_and_their_extensions_passed_over() {
    let four = [192, 0, 2, 9, 192, 0, 2, 1, 4, 210, 1, 187];
    let expected = Some("192.0.2.9:1234 to 192.0.2.1:443".to_owned());
    assert_eq!(client(&v2(0x21, 0x11, &four)), (28, expected.clone()));
    let extended = [&four[..], &[0x04, 0, 2, 1, 2], b"odd"].concat();
    assert_eq!(client(&v2(0x21, 0x11, &extended)), (36, expected));
    let mut six = [0; 36];
    (six[15], six[31], six[33], six[35]) = (1, 2, 3, 4);
    let (length, found) = client(&v2(0x21, 0x21, &six));
    assert_eq!((length, found.as_deref()), (52, Some("[::1]:3 to [::2]:4")));
    assert_eq!(client(&v2(0x20, 0x00, b"")), (16, None));
    assert_eq!(
        client(&v2(0x20, 0x11, &four)),
        (28, None),
        "the proxy speaks for itself"
    );
    assert_eq!(client(&v2(0x21, 0x00, b"x")), (17, None));
    assert_eq!(client(&v2(0x21, 0x31, &[0; 216])), (232, None));
}

#[test]
fn binary_headers_that_are_not_quite_right_are_refused() {
    use HeaderError::{BadFamily, BadVersion, TooLong, TooShort};
    let four = [0; 12];
    for (bytes, error) in [
        (v2(0x11, 0x11, &four), BadVersion),
        (v2(0x22, 0x11, &four), BadVersion),
        (v2(0x21, 0x41, &four), BadFamily),
        (v2(0x21, 0x13, &four), BadFamily),
        (v2(0x21, 0x11, &four[..11]), TooShort),
        (v2(0x21, 0x21, &four), TooShort),
        (v2(0x21, 0x11, &[0; HEADER_BYTES_MAX - 15]), TooLong),
    ] {
        feed_proxy::check_beginning(&bytes);
        assert_eq!(decode(&bytes), Err(error), "{bytes:?}");
        // The length is not waited for.
        assert_eq!(decode(&bytes[..16]), Err(error), "{bytes:?}");
    }
    let longest = v2(0x21, 0x11, &[0; HEADER_BYTES_MAX - 16]);
    assert_eq!(client(&longest).0, HEADER_BYTES_MAX);
}

#[test]
fn local_proxy_headers_are_distinguished() {
    for text in [
        "GET / HTTP/1.1",
        "PROPFIND / ",
        "PROXX",
        "\r\n\r\nGET",
        "\u{16}\u{3}",
        "p",
    ] {
        feed_proxy::check_beginning(text.as_bytes());
        assert_eq!(decode(text.as_bytes()), Ok(Beginning::Absent), "{text}");
    }
    for text in ["", "P", "PRO", "PROXY", "\r\n", "\r\n\r\n\0\r\nQUI"] {
        assert_eq!(decode(text.as_bytes()), Ok(Beginning::Incomplete), "{text}");
    }
}
