//! The contents of a client certificate as the placeholders `{http.request.tls.client.*}` show them, in the same form
//! as Caddy. The TLS handshake decides whether the certificate is trusted.

use std::net::IpAddr;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sluice_message::hex::{hex_text, push_hex};
use sluice_route::placeholder::{ClientCertKey, SanKind};
use x509_parser::asn1_rs::Any;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Name;

/// Characters per line of PEM (RFC 7468, section 2).
const PEM_LINE_CHARS: usize = 64;

/// Appends the value of `key`; nothing if the certificate cannot be parsed.
pub fn describe(der: &[u8], key: ClientCertKey, out: &mut Vec<u8>) {
    match key {
        ClientCertKey::Pem => push_pem(der, out),
        ClientCertKey::DerBase64 => out.extend_from_slice(STANDARD.encode(der).as_bytes()),
        ClientCertKey::Fingerprint => push_hex(out, digest(&SHA256, der).as_ref()),
        ClientCertKey::PublicKey
        | ClientCertKey::PublicKeySha256
        | ClientCertKey::Issuer
        | ClientCertKey::Serial
        | ClientCertKey::Subject => {
            if let Ok((_, cert)) = X509Certificate::from_der(der) {
                describe_parsed(&cert, key, out);
            }
        }
    }
}

fn describe_parsed(cert: &X509Certificate<'_>, key: ClientCertKey, out: &mut Vec<u8>) {
    let public_key = &cert.public_key().subject_public_key.data;
    match key {
        ClientCertKey::PublicKey => push_hex(out, public_key),
        ClientCertKey::PublicKeySha256 => push_hex(out, digest(&SHA256, public_key).as_ref()),
        ClientCertKey::Issuer => out.extend_from_slice(name_text(cert.issuer()).as_bytes()),
        ClientCertKey::Subject => out.extend_from_slice(name_text(cert.subject()).as_bytes()),
        ClientCertKey::Serial => {
            out.extend_from_slice(cert.tbs_certificate.serial.to_string().as_bytes());
        }
        ClientCertKey::Pem | ClientCertKey::DerBase64 | ClientCertKey::Fingerprint => {}
    }
}

/// Appends the subject alternative names of a kind: the one at `index`, or all of them in brackets.
pub fn alternate_names(der: Option<&[u8]>, kind: SanKind, index: Option<usize>, out: &mut Vec<u8>) {
    let names = der.map(|der| names_of(der, kind)).unwrap_or_default();
    match index {
        Some(index) => {
            out.extend_from_slice(names.get(index).map_or(&[], |name| name.as_bytes()));
        }
        None => {
            out.push(b'[');
            out.extend_from_slice(names.join(" ").as_bytes());
            out.push(b']');
        }
    }
}

fn names_of(der: &[u8], kind: SanKind) -> Vec<String> {
    let Ok((_, cert)) = X509Certificate::from_der(der) else {
        return Vec::new();
    };
    let Ok(Some(extension)) = cert.subject_alternative_name() else {
        return Vec::new();
    };
    let names = extension.value.general_names.iter();
    names
        .filter_map(|name| match (kind, name) {
            (SanKind::DnsNames, GeneralName::DNSName(name))
            | (SanKind::Emails, GeneralName::RFC822Name(name))
            | (SanKind::Uris, GeneralName::URI(name)) => Some((*name).to_owned()),
            (SanKind::Ips, GeneralName::IPAddress(bytes)) => ip(bytes).map(|ip| ip.to_string()),
            _ => None,
        })
        .collect()
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}

/// The attributes with short names, in the order in which they are shown.
const SHORT_NAMES: [(&str, &str); 9] = [
    ("2.5.4.5", "SERIALNUMBER"),
    ("2.5.4.3", "CN"),
    ("2.5.4.11", "OU"),
    ("2.5.4.10", "O"),
    ("2.5.4.17", "POSTALCODE"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.6", "C"),
];

/// Formats a distinguished name like Go: RFC 2253, with the known attributes in a fixed order, followed by the others
/// from last to first.
fn name_text(name: &X509Name<'_>) -> String {
    let mut known: [Vec<String>; SHORT_NAMES.len()] = Default::default();
    let mut others = Vec::new();
    for attribute in name.iter_attributes() {
        let oid = attribute.attr_type().to_id_string();
        let text = String::from_utf8_lossy(attribute.attr_value().data);
        match SHORT_NAMES.iter().position(|(known, _)| *known == oid) {
            Some(at) => known[at].push(escaped(&text)),
            None => others.push(format!("{oid}=#{}", hex_value(&text))),
        }
    }
    // A name has only one value of these attributes; the last one wins.
    for single in &mut known[..2] {
        single.drain(..single.len().saturating_sub(1));
    }
    let shown = SHORT_NAMES
        .iter()
        .zip(&known)
        .filter(|(_, values)| !values.is_empty());
    let shown = shown.map(|((_, short), values)| {
        let values: Vec<_> = values
            .iter()
            .map(|value| format!("{short}={value}"))
            .collect();
        values.join("+")
    });
    let all: Vec<_> = shown.chain(others.into_iter().rev()).collect();
    all.join(",")
}

/// Escapes a value (RFC 2253, section 2.4).
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let last = text.chars().count().saturating_sub(1);
    for (at, c) in text.chars().enumerate() {
        let special = match c {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => true,
            '#' => at == 0,
            ' ' => at == 0 || at == last,
            _ => false,
        };
        if special {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The DER encoding of a value, including tag and length.
pub fn der_of(value: &Any<'_>) -> Vec<u8> {
    tagged(u8::try_from(value.tag().0).unwrap_or_default(), value.data)
}

/// The DER encoding of a text in hexadecimal: a PrintableString if possible, otherwise a UTF8String.
fn hex_value(text: &str) -> String {
    let printable = |c: char| c.is_ascii_alphanumeric() || " '()+,-./:=?".contains(c);
    let tag = if text.chars().all(printable) {
        0x13
    } else {
        0x0c
    };
    hex_text(&tagged(tag, text.as_bytes()))
}

fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut der = vec![tag];
    let length = content.len();
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => der.push(short),
        Ok(byte) => der.extend([0x81, byte]),
        Err(_) => {
            let [high, low] = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
            der.extend([0x82, high, low]);
        }
    }
    der.extend_from_slice(content);
    der
}

/// Appends a certificate as PEM.
pub fn push_pem(der: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"-----BEGIN CERTIFICATE-----\n");
    for line in STANDARD.encode(der).as_bytes().chunks(PEM_LINE_CHARS) {
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.extend_from_slice(b"-----END CERTIFICATE-----\n");
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Created with `openssl req -x509`, with names that need escaping; the expected texts are the output of Caddy
    /// 2.11.
    const CERT: &str = "\
     MIIC8zCCApigAwIBAgIJAPHi08S1ppeIMAoGCCqGSM49BAMCMIGpMRowGAYDVQQDDBFhImI8Yz5kO2UjIGY9Z1xoIDEOMAwGA1UE\
     CgwFIGxlYWQxDjAMBgNVBAsMBSNoYXNoMQswCQYDVQQKDAJvMjEUMBIGCgmSJomT8ixkARkWBHRlc3QxFzAVBgkqhkiG9w0BCQEW\
     CGFAYi50ZXN0MQswCQYDVQQGEwJERTEKMAgGA1UEBwwBbDEKMAgGA1UECAwBczEKMAgGA1UEBRMBOTAgFw0yNjExMjIwMDMyMzVa\
     GA8yMTI2MTAyOTAwMzIzNVowgakxGjAYBgNVBAMMEWEiYjxjPmQ7ZSMgZj1nXGggMQ4wDAYDVQQKDAUgbGVhZDEOMAwGA1UECwwF\
     I2hhc2gxCzAJBgNVBAoMAm8yMRQwEgYKCZImiZPyLGQBGRYEdGVzdDEXMBUGCSqGSIb3DQEJARYIYUBiLnRlc3QxCzAJBgNVBAYT\
     AkRFMQowCAYDVQQHDAFsMQowCAYDVQQIDAFzMQowCAYDVQQFEwE5MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEp3xc6o807DmZ\
     Xnua4Jt2xk/pyWqKAlhQSK6ID0czxBw+A33oo1OA/GyAdgq4QeHsLVogs1WotWCAzGWeyiURVqOBpDCBoTAdBgNVHQ4EFgQUJWNN\
     N2lFNSwHxA0zxbj0ESYnUdowHwYDVR0jBBgwFoAUJWNNN2lFNSwHxA0zxbj0ESYnUdowDwYDVR0TAQH/BAUwAwEB/zBOBgNVHREE\
     RzBFggtjbGllbnQudGVzdIIGYi50ZXN0gQhhQGIudGVzdIcEwAACBYcQIAENuAAAAAAAAAAAAAAAAYYMc3BpZmZlOi8veC95MAoG\
     CCqGSM49BAMCA0kAMEYCIQDeZdM/Qt2urZ5E1SRNS4b0nk37cVeXvm20/4s1HsYsAwIhAIa8navzxDP8ZZvtsKpBa5+NBGMmi4DF\
     WjjrDfaoc+HR";
    const NAME: &str = r##"SERIALNUMBER=9,CN=a\"b\<c\>d\;e# f=g\\h\ ,OU=\#hash,O=\ lead+O=o2,L=l,ST=s,C=DE,1.2.840.113549.1.9.1=#0c086140622e74657374,0.9.2342.19200300.100.1.25=#130474657374"##;

    fn der() -> Vec<u8> {
        STANDARD.decode(CERT).unwrap()
    }

    fn text(key: ClientCertKey) -> String {
        let mut out = Vec::new();
        describe(&der(), key, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn certificates_are_described_as_by_caddy() {
        assert_eq!(text(ClientCertKey::Subject), NAME);
        assert_eq!(text(ClientCertKey::Issuer), NAME);
        assert_eq!(text(ClientCertKey::Serial), "17429726349691885448");
        assert_eq!(
            text(ClientCertKey::Fingerprint),
            "19be1787013b629a1921388857601af12f6821d7bc140cc61530bc0e39bac3d4"
        );
        assert_eq!(
            text(ClientCertKey::PublicKeySha256),
            "a3a91aadc983241e51c0b18b44fe1b407f5fa07c0835cf15c48209a9ca4f314d"
        );
        assert!(text(ClientCertKey::PublicKey).starts_with("04a77c5cea8f34ec"));
        assert_eq!(text(ClientCertKey::DerBase64), CERT);
        let pem = text(ClientCertKey::Pem);
        assert!(pem.starts_with("-----BEGIN CERTIFICATE-----\nMIIC8zCC"));
        assert!(pem.lines().all(|line| line.len() <= PEM_LINE_CHARS));
    }

    #[test]
    fn alternate_names_are_listed_or_picked() {
        let names = |kind, index| {
            let mut out = Vec::new();
            alternate_names(Some(&der()), kind, index, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(names(SanKind::DnsNames, None), "[client.test b.test]");
        assert_eq!(names(SanKind::DnsNames, Some(1)), "b.test");
        assert_eq!(names(SanKind::DnsNames, Some(9)), "");
        assert_eq!(names(SanKind::Emails, None), "[a@b.test]");
        assert_eq!(names(SanKind::Ips, None), "[192.0.2.5 2001:db8::1]");
        assert_eq!(names(SanKind::Uris, Some(0)), "spiffe://x/y");
    }

    #[test]
    fn what_is_no_certificate_describes_nothing() {
        let mut out = Vec::new();
        describe(b"\x30\x03abc", ClientCertKey::Subject, &mut out);
        alternate_names(Some(b"\x30\x03abc"), SanKind::Ips, None, &mut out);
        assert_eq!(out, b"[]");
    }
}
