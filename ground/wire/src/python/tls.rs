//! The `tls` extension of ASGI ("TLS Extension", version 0.2).

use alloc::string::String;

use sluice_message::TlsInfo;

use super::base64::push_base64;
use super::value::Values;

/// Writes the facts about a TLS session. The server's own certificate and the client's name in RFC 4514 form are not
/// known here, and are `None`.
pub(super) fn write_tls(values: &mut impl Values, tls: &TlsInfo) {
    values.open_dict();
    values.key("server_cert");
    values.none();
    values.key("client_cert_chain");
    values.open_list(u32::try_from(tls.client_certs.len()).unwrap_or(u32::MAX));
    for der in &tls.client_certs {
        values.text(&pem(der));
    }
    values.close_list();
    values.key("client_cert_name");
    values.none();
    values.key("client_cert_error");
    values.none();
    values.key("tls_version");
    match tls.version {
        "tls1.2" => values.integer(0x0303),
        "tls1.3" => values.integer(0x0304),
        _ => values.none(),
    }
    values.key("cipher_suite");
    match suite(tls.cipher) {
        Some(number) => values.integer(number),
        None => values.none(),
    }
    values.close_dict();
}

/// The number of a cipher suite in the IANA registry, of those that sluice negotiates.
fn suite(name: &str) -> Option<i32> {
    Some(match name {
        "TLS_AES_128_GCM_SHA256" => 0x1301,
        "TLS_AES_256_GCM_SHA384" => 0x1302,
        "TLS_CHACHA20_POLY1305_SHA256" => 0x1303,
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256" => 0xc02b,
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384" => 0xc02c,
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" => 0xc02f,
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384" => 0xc030,
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256" => 0xcca8,
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256" => 0xcca9,
        _ => return None,
    })
}

/// A certificate as PEM (RFC 7468).
fn pem(der: &[u8]) -> String {
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in der.chunks(48) {
        push_base64(&mut text, line);
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_have_lines_of_64_characters() {
        let text = pem(&[0; 50]);
        let lines: alloc::vec::Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "-----BEGIN CERTIFICATE-----");
        assert_eq!(lines[1], "A".repeat(64));
        assert_eq!(lines[2], "AAA=");
        assert_eq!(lines[3], "-----END CERTIFICATE-----");
    }
}
