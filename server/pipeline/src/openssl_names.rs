//! OpenSSL's names for cipher suites, groups and certificate attributes, which nginx uses in variables and settings,
//! and its formats of distinguished names.

use std::io::Write;

use sluice_message::hex::hex_text;
use x509_parser::asn1_rs::Any;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// Cipher suites by IANA number, in ascending order, except those with passwords or pre-shared keys.
const SUITES: &[(u16, &str)] = &[
    (0x002f, "AES128-SHA"),
    (0x0032, "DHE-DSS-AES128-SHA"),
    (0x0033, "DHE-RSA-AES128-SHA"),
    (0x0034, "ADH-AES128-SHA"),
    (0x0035, "AES256-SHA"),
    (0x0038, "DHE-DSS-AES256-SHA"),
    (0x0039, "DHE-RSA-AES256-SHA"),
    (0x003a, "ADH-AES256-SHA"),
    (0x003c, "AES128-SHA256"),
    (0x003d, "AES256-SHA256"),
    (0x0040, "DHE-DSS-AES128-SHA256"),
    (0x0041, "CAMELLIA128-SHA"),
    (0x0044, "DHE-DSS-CAMELLIA128-SHA"),
    (0x0045, "DHE-RSA-CAMELLIA128-SHA"),
    (0x0046, "ADH-CAMELLIA128-SHA"),
    (0x0067, "DHE-RSA-AES128-SHA256"),
    (0x006a, "DHE-DSS-AES256-SHA256"),
    (0x006b, "DHE-RSA-AES256-SHA256"),
    (0x006c, "ADH-AES128-SHA256"),
    (0x006d, "ADH-AES256-SHA256"),
    (0x0084, "CAMELLIA256-SHA"),
    (0x0087, "DHE-DSS-CAMELLIA256-SHA"),
    (0x0088, "DHE-RSA-CAMELLIA256-SHA"),
    (0x0089, "ADH-CAMELLIA256-SHA"),
    (0x009c, "AES128-GCM-SHA256"),
    (0x009d, "AES256-GCM-SHA384"),
    (0x009e, "DHE-RSA-AES128-GCM-SHA256"),
    (0x009f, "DHE-RSA-AES256-GCM-SHA384"),
    (0x00a2, "DHE-DSS-AES128-GCM-SHA256"),
    (0x00a3, "DHE-DSS-AES256-GCM-SHA384"),
    (0x00a6, "ADH-AES128-GCM-SHA256"),
    (0x00a7, "ADH-AES256-GCM-SHA384"),
    (0x00ba, "CAMELLIA128-SHA256"),
    (0x00bd, "DHE-DSS-CAMELLIA128-SHA256"),
    (0x00be, "DHE-RSA-CAMELLIA128-SHA256"),
    (0x00bf, "ADH-CAMELLIA128-SHA256"),
    (0x00c0, "CAMELLIA256-SHA256"),
    (0x00c3, "DHE-DSS-CAMELLIA256-SHA256"),
    (0x00c4, "DHE-RSA-CAMELLIA256-SHA256"),
    (0x00c5, "ADH-CAMELLIA256-SHA256"),
    (0x00ff, "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"),
    (0x1301, "TLS_AES_128_GCM_SHA256"),
    (0x1302, "TLS_AES_256_GCM_SHA384"),
    (0x1303, "TLS_CHACHA20_POLY1305_SHA256"),
    (0x5600, "TLS_FALLBACK_SCSV"),
    (0xc009, "ECDHE-ECDSA-AES128-SHA"),
    (0xc00a, "ECDHE-ECDSA-AES256-SHA"),
    (0xc013, "ECDHE-RSA-AES128-SHA"),
    (0xc014, "ECDHE-RSA-AES256-SHA"),
    (0xc018, "AECDH-AES128-SHA"),
    (0xc019, "AECDH-AES256-SHA"),
    (0xc023, "ECDHE-ECDSA-AES128-SHA256"),
    (0xc024, "ECDHE-ECDSA-AES256-SHA384"),
    (0xc027, "ECDHE-RSA-AES128-SHA256"),
    (0xc028, "ECDHE-RSA-AES256-SHA384"),
    (0xc02b, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (0xc02c, "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (0xc02f, "ECDHE-RSA-AES128-GCM-SHA256"),
    (0xc030, "ECDHE-RSA-AES256-GCM-SHA384"),
    (0xc050, "ARIA128-GCM-SHA256"),
    (0xc051, "ARIA256-GCM-SHA384"),
    (0xc052, "DHE-RSA-ARIA128-GCM-SHA256"),
    (0xc053, "DHE-RSA-ARIA256-GCM-SHA384"),
    (0xc056, "DHE-DSS-ARIA128-GCM-SHA256"),
    (0xc057, "DHE-DSS-ARIA256-GCM-SHA384"),
    (0xc05c, "ECDHE-ECDSA-ARIA128-GCM-SHA256"),
    (0xc05d, "ECDHE-ECDSA-ARIA256-GCM-SHA384"),
    (0xc060, "ECDHE-ARIA128-GCM-SHA256"),
    (0xc061, "ECDHE-ARIA256-GCM-SHA384"),
    (0xc072, "ECDHE-ECDSA-CAMELLIA128-SHA256"),
    (0xc073, "ECDHE-ECDSA-CAMELLIA256-SHA384"),
    (0xc076, "ECDHE-RSA-CAMELLIA128-SHA256"),
    (0xc077, "ECDHE-RSA-CAMELLIA256-SHA384"),
    (0xc09c, "AES128-CCM"),
    (0xc09d, "AES256-CCM"),
    (0xc09e, "DHE-RSA-AES128-CCM"),
    (0xc09f, "DHE-RSA-AES256-CCM"),
    (0xc0a0, "AES128-CCM8"),
    (0xc0a1, "AES256-CCM8"),
    (0xc0a2, "DHE-RSA-AES128-CCM8"),
    (0xc0a3, "DHE-RSA-AES256-CCM8"),
    (0xc0ac, "ECDHE-ECDSA-AES128-CCM"),
    (0xc0ad, "ECDHE-ECDSA-AES256-CCM"),
    (0xc0ae, "ECDHE-ECDSA-AES128-CCM8"),
    (0xc0af, "ECDHE-ECDSA-AES256-CCM8"),
    (0xcca8, "ECDHE-RSA-CHACHA20-POLY1305"),
    (0xcca9, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (0xccaa, "DHE-RSA-CHACHA20-POLY1305"),
];

/// The supported suites, by IANA name.
const SPOKEN: [(&str, &str); 6] = [
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-ECDSA-AES128-GCM-SHA256",
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256",
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384",
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-RSA-CHACHA20-POLY1305",
    ),
];

/// Key exchange groups by IANA number, in ascending order.
const GROUPS: &[(u16, &str)] = &[
    (19, "prime192v1"),
    (21, "secp224r1"),
    (22, "secp256k1"),
    (23, "prime256v1"),
    (24, "secp384r1"),
    (25, "secp521r1"),
    (26, "brainpoolP256r1"),
    (27, "brainpoolP384r1"),
    (28, "brainpoolP512r1"),
    (29, "X25519"),
    (30, "X448"),
    (256, "ffdhe2048"),
    (257, "ffdhe3072"),
    (258, "ffdhe4096"),
    (259, "ffdhe6144"),
    (260, "ffdhe8192"),
    (4587, "SecP256r1MLKEM768"),
    (4588, "X25519MLKEM768"),
    (4589, "SecP384r1MLKEM1024"),
];

/// OpenSSL's name for the suite with this IANA name; TLS 1.3 suites have the same name in both.
pub fn suite_of(iana: &'static str) -> &'static str {
    let found = SPOKEN.iter().find(|(known, _)| *known == iana);
    found.map_or(iana, |(_, name)| *name)
}

/// OpenSSL's name for the suite with this number.
pub fn suite_name(number: u16) -> Option<&'static str> {
    by_number(SUITES, number)
}

/// OpenSSL's name for the group with this number.
pub fn group_name(number: u16) -> Option<&'static str> {
    by_number(GROUPS, number)
}

fn by_number(table: &[(u16, &'static str)], number: u16) -> Option<&'static str> {
    let at = table.binary_search_by_key(&number, |(known, _)| *known);
    at.ok().map(|at| table[at].1)
}

/// Attributes with short names in OpenSSL.
const ATTRIBUTES: &[(&str, &str)] = &[
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.3", "mail"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.2.840.113549.1.9.2", "unstructuredName"),
    ("1.2.840.113549.1.9.8", "unstructuredAddress"),
    ("1.3.6.1.4.1.311.60.2.1.1", "jurisdictionL"),
    ("1.3.6.1.4.1.311.60.2.1.2", "jurisdictionST"),
    ("1.3.6.1.4.1.311.60.2.1.3", "jurisdictionC"),
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.16", "postalAddress"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.18", "postOfficeBox"),
    ("2.5.4.20", "telephoneNumber"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.45", "x500UniqueIdentifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.72", "role"),
    ("2.5.4.97", "organizationIdentifier"),
];

fn short_name(oid: &str) -> Option<&'static str> {
    let found = ATTRIBUTES.iter().find(|(known, _)| *known == oid);
    found.map(|(_, name)| *name)
}

/// Appends a name in RFC 2253 format, last RDN first; non-ASCII bytes are escaped.
pub fn push_name(name: &X509Name<'_>, out: &mut Vec<u8>) {
    let parts: Vec<_> = name.iter_rdn().collect();
    for (at, part) in parts.iter().rev().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let attributes: Vec<_> = part.iter().collect();
        for (at, attribute) in attributes.iter().rev().enumerate() {
            if at > 0 {
                out.push(b'+');
            }
            push_attribute(attribute, out);
        }
    }
}

fn push_attribute(attribute: &AttributeTypeAndValue<'_>, out: &mut Vec<u8>) {
    let oid = attribute.attr_type().to_id_string();
    let value = attribute.attr_value();
    match (short_name(&oid), text_of(value)) {
        (Some(name), Some(text)) => {
            out.extend_from_slice(name.as_bytes());
            out.push(b'=');
            push_escaped(&text, out);
        }
        (name, _) => {
            out.extend_from_slice(name.unwrap_or(&oid).as_bytes());
            out.extend_from_slice(b"=#");
            let der = crate::client_cert::der_of(value);
            out.extend_from_slice(hex_text(&der).to_ascii_uppercase().as_bytes());
        }
    }
}

/// The text of a value; `None` if it is not a string.
fn text_of(value: &Any<'_>) -> Option<String> {
    const UTF8: u32 = 12;
    const TEXTS: [u32; 6] = [18, 19, 20, 22, 26, 27];
    const BMP: u32 = 30;
    match value.tag().0 {
        UTF8 => Some(String::from_utf8_lossy(value.data).into_owned()),
        // Treat T61String as Latin-1, as other implementations do.
        tag if TEXTS.contains(&tag) => {
            Some(value.data.iter().map(|byte| char::from(*byte)).collect())
        }
        BMP => {
            let units = value.data.chunks(2).map(|pair| {
                u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or_default()])
            });
            Some(
                char::decode_utf16(units)
                    .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
                    .collect(),
            )
        }
        _ => None,
    }
}

/// Escapes according to RFC 2253, section 2.4; control characters and non-ASCII bytes become hexadecimal.
fn push_escaped(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        let is_end = at + 1 == bytes.len();
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => {
                out.extend_from_slice(&[b'\\', byte])
            }
            b'#' if at == 0 => out.extend_from_slice(b"\\#"),
            b' ' if at == 0 || is_end => out.extend_from_slice(b"\\ "),
            0x20..=0x7e => out.push(byte),
            _ => show(out, format_args!("\\{byte:02X}")),
        }
    }
}

/// Appends a name in OpenSSL's legacy format: separated by slashes, first RDN first.
pub fn push_slashes(name: &X509Name<'_>, out: &mut Vec<u8>) {
    for attribute in name.iter_attributes() {
        let oid = attribute.attr_type().to_id_string();
        out.push(b'/');
        out.extend_from_slice(short_name(&oid).unwrap_or(&oid).as_bytes());
        out.push(b'=');
        for &byte in attribute.attr_value().data {
            match byte {
                b' '..=b'~' => out.push(byte),
                _ => show(out, format_args!("\\x{byte:02X}")),
            }
        }
    }
}

fn show(out: &mut Vec<u8>, value: std::fmt::Arguments<'_>) {
    out.write_fmt(value)
        .expect("writing to memory does not fail");
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use x509_parser::certificate::X509Certificate;
    use x509_parser::prelude::FromDer;

    use super::*;

    /// Created with `openssl x509 -req`, with a name that needs escaping; the expected texts are the output of nginx
    /// 1.22.
    const CERT: &str = "\
     MIIB3zCCAYYCAwoS/zAKBggqhkjOPQQDAjA0MQswCQYDVQQGEwJERTETMBEGA1UECgwKw5xuw68sIEluYzEQMA4GA1UEAwwHUm9v\
     dCBDQTAeFw0yNjExMjIxMjU3NDVaFw0yNzAzMDIxMjU3NDVaMIHBMQswCQYDVQQGEwJERTEKMAgGA1UECAwBczEKMAgGA1UEBwwB\
     bDETMBEGA1UECgwKw5xuw68sIEluYzELMAkGA1UECwwCI3gxEDAOBgNVBAMMB2NsaWVudCAxEjAQBgoJkiaJk/IsZAEBDAJ1MTEL\
     MAkGA1UEBRMCNzcxFDASBgoJkiaJk/IsZAEZFgR0ZXN0MQowCAYDVQQMDAFUMQowCAYDVQQqDAFHMQowCAYDVQQEDAFTMQswCQYD\
     VQQJDAJzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABIpCMjpazXuW9+UcOW//UQvnM6TxPSg/yYH1M2SCz/fW7pH/Y/v2Un/n\
     4BDVwofVLmx3I3humeIfcxCKNuornWUwCgYIKoZIzj0EAwIDRwAwRAIgUVxwBLMBFbKfsw4/wr1MB5iJXU6hGzx36/h+kJqhEvoC\
     ICUPAPR1CJ8T8tTTUtapnmQGwtMhKVe18fveyP6twLFy";

    #[test]
    fn names_are_written_as_by_openssl() {
        let der = STANDARD.decode(CERT).unwrap();
        let (_, cert) = X509Certificate::from_der(&der).unwrap();
        let mut out = Vec::new();
        push_name(cert.subject(), &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "street=st,SN=S,GN=G,title=T,DC=test,serialNumber=77,UID=u1,CN=client\\ ,OU=\\#x,O=\\C3\\9Cn\\C3\\AF\\, Inc,L=l,ST=s,C=DE"
        );
        let mut out = Vec::new();
        push_slashes(cert.issuer(), &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "/C=DE/O=\\xC3\\x9Cn\\xC3\\xAF, Inc/CN=Root CA"
        );
    }

    #[test]
    fn tables_are_sorted_and_names_found() {
        assert!(SUITES.is_sorted_by(|a, b| a.0 < b.0) && GROUPS.is_sorted_by(|a, b| a.0 < b.0));
        for (_, name) in SPOKEN {
            assert!(SUITES.iter().any(|(_, known)| *known == name), "{name}");
        }
        assert_eq!(suite_of("TLS_AES_128_GCM_SHA256"), "TLS_AES_128_GCM_SHA256");
        assert_eq!(suite_name(0xc02b), Some("ECDHE-ECDSA-AES128-GCM-SHA256"));
        assert_eq!((group_name(29), group_name(0x0a0a)), (Some("X25519"), None));
    }
}
