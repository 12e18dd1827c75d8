//! The values of nginx's TLS variables, with OpenSSL's names and formats.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use sluice_message::TlsInfo;
use sluice_message::hex::push_hex;
use sluice_message::layout::LocalTime;
use sluice_net::tls::Doubt;
use sluice_route::placeholder::nginx::{ClientKey, TlsKey};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::state::NginxContext;
use sluice_pipeline::client_cert::push_pem;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::openssl_names::{group_name, push_name, push_slashes, suite_name, suite_of};

/// Maps an IANA number to OpenSSL's name.
type NameOf = fn(u16) -> Option<&'static str>;

/// Appends a value; nothing without TLS.
pub fn push(exchange: &Exchange, key: TlsKey, out: &mut Vec<u8>) {
    let Some(tls) = &exchange.conn.tls else {
        return;
    };
    match key {
        TlsKey::Cipher => out.extend_from_slice(suite_of(tls.cipher).as_bytes()),
        TlsKey::Curve => push_number(tls.group, group_name, out),
        TlsKey::Alpn => out.extend_from_slice(&tls.alpn),
        TlsKey::ServerName => out.extend_from_slice(tls.server_name.as_bytes()),
        TlsKey::Early => {
            if tls.is_early() {
                out.push(b'1');
            }
        }
        TlsKey::Ciphers | TlsKey::Curves | TlsKey::Id => push_offered(tls, key, out),
        TlsKey::Client(ClientKey::Verify) => {
            let doubt = Doubt::from_number(exchange.context.nginx().doubt);
            match doubt {
                _ if tls.client_certs.is_empty() => out.extend_from_slice(b"NONE"),
                None => out.extend_from_slice(b"SUCCESS"),
                Some(doubt) => {
                    out.extend_from_slice(b"FAILED:");
                    out.extend_from_slice(doubt.as_str().as_bytes());
                }
            }
        }
        TlsKey::Client(key) => {
            if let Some(der) = tls.client_certs.first() {
                push_client(der, key, out);
            }
        }
    }
}

/// Parameters offered by the client. OpenSSL has them for new sessions only.
fn push_offered(tls: &TlsInfo, key: TlsKey, out: &mut Vec<u8>) {
    let Some(offered) = &tls.offered else {
        return;
    };
    let (numbers, name): (&[u16], NameOf) = match key {
        TlsKey::Id => return push_hex(out, &offered.id),
        TlsKey::Curves => (&offered.groups, group_name),
        _ => (&offered.ciphers, suite_name),
    };
    for (at, number) in numbers.iter().enumerate() {
        if at > 0 {
            out.push(b':');
        }
        push_number(*number, name, out);
    }
}

/// The name of a number, or the number in hexadecimal if OpenSSL has no name for it.
fn push_number(number: u16, name: NameOf, out: &mut Vec<u8>) {
    match name(number) {
        _ if number == 0 => {}
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => show(out, format_args!("0x{number:04x}")),
    }
}

fn push_client(der: &[u8], key: ClientKey, out: &mut Vec<u8>) {
    let mut pem = Vec::new();
    match key {
        ClientKey::Sha1 => {
            return push_hex(out, digest(&SHA1_FOR_LEGACY_USE_ONLY, der).as_ref());
        }
        ClientKey::Pem => return push_pem(der, out),
        ClientKey::PemField => {
            push_pem(der, &mut pem);
            let lines = pem.trim_ascii_end().split(|byte| *byte == b'\n');
            for (at, line) in lines.enumerate() {
                if at > 0 {
                    // RFC 9112, section 5.2: obsolete line folding.
                    out.extend_from_slice(b"\n\t");
                }
                out.extend_from_slice(line);
            }
            return;
        }
        ClientKey::PemEscaped => {
            push_pem(der, &mut pem);
            return escape(&pem, out);
        }
        _ => {}
    }
    let Ok((_, cert)) = X509Certificate::from_der(der) else {
        return;
    };
    let validity = cert.validity();
    match key {
        ClientKey::Subject => push_name(cert.subject(), out),
        ClientKey::Issuer => push_name(cert.issuer(), out),
        ClientKey::SubjectSlashes => push_slashes(cert.subject(), out),
        ClientKey::IssuerSlashes => push_slashes(cert.issuer(), out),
        ClientKey::Serial => {
            for byte in cert.tbs_certificate.serial.to_bytes_be() {
                show(out, format_args!("{byte:02X}"));
            }
        }
        ClientKey::From => push_time(validity.not_before.timestamp(), out),
        ClientKey::Until => push_time(validity.not_after.timestamp(), out),
        ClientKey::Days => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now = i64::try_from(now.unwrap_or_default().as_secs()).unwrap_or(i64::MAX);
            let left = validity.not_after.timestamp().saturating_sub(now).max(0);
            show(out, format_args!("{}", left / (24 * 3600)));
        }
        _ => {}
    }
}

/// Escapes like `encodeURIComponent`: all but unreserved characters (RFC 3986, section 2.3).
fn escape(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte),
            _ => show(out, format_args!("%{byte:02X}")),
        }
    }
}

fn push_time(seconds: i64, out: &mut Vec<u8>) {
    LocalTime::utc(seconds, 0).push("Jan _2 15:04:05 2006 GMT", out);
}

fn show(out: &mut Vec<u8>, value: std::fmt::Arguments<'_>) {
    out.write_fmt(value)
        .expect("writing to memory does not fail");
}
