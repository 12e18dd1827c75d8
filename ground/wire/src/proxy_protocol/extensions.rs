//! Extensions of the binary header: values with a type (TLVs, section 2.2.1 of the specification and those after it).

/// The type of the extension that holds those of TLS.
const SSL: u8 = 0x20;

/// The bytes before the extensions of TLS: what the client did, and the result of verifying its certificate.
const SSL_FIXED: usize = 5;

/// The names of types, and whether they are extensions of TLS.
const NAMES: [(&str, u8); 10] = [
    ("alpn", 0x01),
    ("authority", 0x02),
    ("unique_id", 0x05),
    ("ssl", SSL),
    ("netns", 0x30),
    ("ssl_version", 0x21),
    ("ssl_cn", 0x22),
    ("ssl_cipher", 0x23),
    ("ssl_sig_alg", 0x24),
    ("ssl_key_alg", 0x25),
];

/// The value of the extension called `name` in `extensions`: one of the names in nginx's documentation, or a type such as
/// `0x01`, and one of TLS such as `ssl_0x21`. `None` if there is none.
pub fn find<'a>(extensions: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (of_ssl, rest) = match name.strip_prefix("ssl_") {
        Some(rest) => (true, rest),
        None => (false, name),
    };
    let kind = match rest.strip_prefix("0x") {
        Some(digits) if !digits.is_empty() => u8::from_str_radix(digits, 16).ok()?,
        Some(_) => return None,
        None => NAMES.iter().find(|(known, _)| *known == name)?.1,
    };
    match of_ssl {
        false => of_kind(extensions, kind),
        true => of_kind(of_kind(extensions, SSL)?.get(SSL_FIXED..)?, kind),
    }
}

/// The result of verifying the client's certificate: 0 if it has one that is valid. `None` without an extension of TLS.
pub fn ssl_verify(extensions: &[u8]) -> Option<u32> {
    let fixed = of_kind(extensions, SSL)?.get(1..SSL_FIXED)?;
    fixed.try_into().ok().map(u32::from_be_bytes)
}

/// The value of the first extension of this type. Nothing is found behind one that is cut off.
fn of_kind(mut extensions: &[u8], kind: u8) -> Option<&[u8]> {
    while let [found, high, low, rest @ ..] = extensions {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (value, rest) = rest.split_at_checked(length)?;
        if *found == kind {
            return Some(value);
        }
        extensions = rest;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len()).unwrap().to_be_bytes();
        [&[kind], &length[..], value].concat()
    }

    #[test]
    fn extensions_are_found_by_name_and_by_type() {
        let ssl = [
            &[1, 0, 0, 0, 7][..],
            &tlv(0x21, b"TLSv1.3"),
            &tlv(0x22, b"client"),
        ]
        .concat();
        let all = [tlv(0x02, b"a.example"), tlv(0x20, &ssl), tlv(0xe0, b"x")].concat();
        for (name, value) in [
            ("authority", Some(&b"a.example"[..])),
            ("0x02", Some(b"a.example")),
            ("0x2", Some(b"a.example")),
            ("0xE0", Some(b"x")),
            ("ssl", Some(&ssl)),
            ("ssl_version", Some(b"TLSv1.3")),
            ("ssl_0x22", Some(b"client")),
            ("ssl_cipher", None),
            ("ssl_0x02", None),
            ("alpn", None),
            ("0x", None),
            ("0x100", None),
            ("nothing", None),
        ] {
            assert_eq!(find(&all, name), value, "{name}");
        }
        assert_eq!(ssl_verify(&all), Some(7));
        assert_eq!(ssl_verify(b""), None);
    }

    #[test]
    fn what_is_cut_off_is_not_found() {
        let all = tlv(0x02, b"a.example");
        for end in 0..all.len() {
            assert_eq!(find(&all[..end], "authority"), None, "{end}");
        }
        assert_eq!(find(&tlv(0x20, b"ab"), "ssl_cn"), None);
        assert_eq!(ssl_verify(&tlv(0x20, b"ab")), None);
    }
}
