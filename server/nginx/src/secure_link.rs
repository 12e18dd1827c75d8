//! `secure_link`: URLs that need the right digest and may expire.

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use md5::{Digest, Md5};
use sluice_route::Template;

use sluice_pipeline::context::Exchange;
use sluice_pipeline::values::expanded;

/// How a link is verified.
#[derive(Debug)]
pub enum SecureLink {
    /// `secure_link_md5`: the digest of this expression.
    Md5(Template),
    /// `secure_link_secret`: the digest of the link and this secret.
    Secret(Box<[u8]>),
}

/// The variable to evaluate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// `$secure_link`: `1`, `0` if expired, empty if invalid; with a secret, the link itself.
    Verdict,
    /// `$secure_link_expires`: the expiration time in the link.
    Expires,
}

/// URL-safe Base64 with optional padding.
const URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Sixteen bytes in padded Base64.
const DIGEST_TEXT_MAX: usize = 24;

impl SecureLink {
    /// Appends a variable for the link `given`: digest and, after a comma, expiration time for `secure_link_md5`.
    pub fn push(&self, exchange: &Exchange, given: &[u8], asked: Asked, out: &mut Vec<u8>) {
        match self {
            SecureLink::Secret(secret) => {
                if asked == Asked::Verdict
                    && let Some(link) = link_of(exchange.req.uri.path(), secret)
                {
                    out.extend_from_slice(link);
                }
            }
            SecureLink::Md5(text) => {
                let (digest, until) = match memchr::memchr(b',', given) {
                    None => (given, None),
                    Some(at) => (&given[..at], Some(&given[at + 1..])),
                };
                let time = until.map(|until| std::str::from_utf8(until).ok()?.parse::<u64>().ok());
                let time = match time {
                    None => None,
                    Some(Some(time)) if time > 0 => Some(time),
                    Some(_) => return,
                };
                if asked == Asked::Expires {
                    return out.extend_from_slice(until.unwrap_or_default());
                }
                let right = Md5::digest(expanded(text, exchange));
                let given = (digest.len() <= DIGEST_TEXT_MAX).then(|| URL.decode(digest).ok());
                let is_right = given
                    .flatten()
                    .is_some_and(|given| is_same(&given, right.as_ref()));
                if is_right {
                    let now = exchange.worker.clock.unix_seconds();
                    let is_over = time.is_some_and(|time| time < now);
                    out.push(if is_over { b'0' } else { b'1' });
                }
            }
        }
    }
}

/// The link in `/prefix/digest/link`, if its digest is valid.
fn link_of<'p>(path: &'p [u8], secret: &[u8]) -> Option<&'p [u8]> {
    let mut parts = path.strip_prefix(b"/")?.splitn(3, |byte| *byte == b'/');
    let (_, digest, link) = (parts.next()?, parts.next()?, parts.next()?);
    let right = Md5::digest([link, secret].concat());
    let mut given = [0; 16];
    if digest.len() != 32 || link.is_empty() {
        return None;
    }
    for (byte, digits) in given.iter_mut().zip(digest.chunks(2)) {
        let digits = std::str::from_utf8(digits).ok()?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    is_same(&given, right.as_ref()).then_some(link)
}

fn is_same(given: &[u8], right: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(given, right).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_with_a_word_are_checked() {
        // md5("linksecret"), computed with md5sum.
        let good = b"/p/5e814704a28d9bc1914ff19fa0c4a00a/link";
        assert_eq!(link_of(good, b"secret"), Some(&b"link"[..]));
        for wrong in [
            &b"/p/5e814704a28d9bc1914ff19fa0c4a00a/other"[..],
            b"/p/5e814704a28d9bc1914ff19fa0c4a00a",
            b"/p/",
            b"",
            b"/p/xyz/link",
        ] {
            assert_eq!(link_of(wrong, b"secret"), None);
        }
        assert_eq!(link_of(good, b"other"), None);
    }
}
