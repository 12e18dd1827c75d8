//! Certificates in PEM text, under each label that OpenSSL reads: `CERTIFICATE`, `X509 CERTIFICATE` and `TRUSTED
//! CERTIFICATE`, whose additional data about purposes is ignored, as nginx ignores it.

use std::borrow::Cow;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};

const OTHER_LABELS: [&str; 2] = ["TRUSTED CERTIFICATE", "X509 CERTIFICATE"];

/// Parses the certificates in `text`, in order.
///
/// # Errors
/// The text is not valid PEM.
pub fn certificates_in(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    let text = relabelled(text);
    let found = CertificateDer::pem_slice_iter(&text);
    found
        .map(|found| found.map(|found| alone(&found).to_vec().into()))
        .collect()
}

/// The text with the usual label on all certificates.
fn relabelled(text: &[u8]) -> Cow<'_, [u8]> {
    let mut text = Cow::Borrowed(text);
    for label in OTHER_LABELS {
        for edge in ["BEGIN", "END"] {
            let label = format!("-----{edge} {label}-----");
            let find = |text: &[u8]| {
                let mut windows = text.windows(label.len());
                windows.position(|window| window == label.as_bytes())
            };
            while let Some(at) = find(&text) {
                let usual = format!("-----{edge} CERTIFICATE-----");
                let end = at + label.len();
                text.to_mut().splice(at..end, usual.into_bytes());
            }
        }
    }
    text
}

/// The certificate without what follows it: the first element of DER.
fn alone(der: &[u8]) -> &[u8] {
    let (header, length) = match der {
        [0x30, short @ 0..=0x7f, ..] => (2, usize::from(*short)),
        [0x30, 0x81, a, ..] => (3, usize::from(*a)),
        [0x30, 0x82, a, b, ..] => (4, usize::from(u16::from_be_bytes([*a, *b]))),
        _ => return der,
    };
    der.get(..header + length).unwrap_or(der)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_label_of_openssl_is_read() {
        // A sequence of one byte, alone and with another element behind it, as auxiliary data is.
        let text = "-----BEGIN CERTIFICATE-----\nMAEB\n-----END CERTIFICATE-----\n\
                    -----BEGIN TRUSTED CERTIFICATE-----\nMAECMAEB\n-----END TRUSTED CERTIFICATE-----\n\
                    -----BEGIN X509 CERTIFICATE-----\nMAED\n-----END X509 CERTIFICATE-----\n";
        let found = certificates_in(text.as_bytes()).unwrap();
        let bytes: Vec<&[u8]> = found.iter().map(|one| &**one).collect();
        assert_eq!(bytes, [&[0x30, 1, 1][..], &[0x30, 1, 2], &[0x30, 1, 3]]);
        assert!(certificates_in(b"nothing").unwrap().is_empty());
    }
}
