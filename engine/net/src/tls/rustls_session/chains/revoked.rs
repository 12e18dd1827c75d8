//! Certificate revocation lists (RFC 5280, section 5), including version 1, which `openssl ca` creates by default.

use std::collections::HashSet;

use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use super::Doubt;
use super::certificate_fields::Facts;
use crate::tls::rustls_session::signed::Signed;

/// A revocation list.
#[derive(Debug)]
pub(super) struct RevokedList {
    der: Vec<u8>,
    issuer: Vec<u8>,
    /// When it was issued and when the next one is due, in seconds since the Unix epoch.
    from: i64,
    until: Option<i64>,
    /// The serial numbers of revoked certificates.
    revoked: HashSet<Vec<u8>>,
    /// Whether it covers only some certificates, or is a delta list: then it is not used.
    is_partial: bool,
}

impl RevokedList {
    pub(super) fn parse(der: Vec<u8>) -> Option<RevokedList> {
        let (_, list) = CertificateRevocationList::from_der(&der).ok()?;
        let revoked = list.iter_revoked_certificates();
        let is_known = |extension: &ParsedExtension<'_>| {
            matches!(
                extension,
                ParsedExtension::CRLNumber(_) | ParsedExtension::AuthorityKeyIdentifier(_)
            )
        };
        let mut extensions = list.extensions().iter();
        let read = RevokedList {
            issuer: list.issuer().as_raw().to_vec(),
            from: list.last_update().timestamp(),
            until: list.next_update().map(|until| until.timestamp()),
            revoked: revoked
                .map(|one| one.user_certificate.to_bytes_be())
                .collect(),
            is_partial: extensions.any(|one| one.critical && !is_known(one.parsed_extension())),
            der: Vec::new(),
        };
        Some(RevokedList { der, ..read })
    }

    fn is_signed_by(&self, issuer: &Facts) -> bool {
        issuer.signs_lists
            && Signed::parse(&self.der).is_some_and(|signed| signed.is_by(&issuer.key))
    }
}

/// Checks a certificate issued by `issuer` against the lists.
pub(super) fn doubt(
    lists: &[RevokedList],
    cert: &Facts,
    issuer: &Facts,
    now: i64,
) -> Option<Doubt> {
    let of_issuer = lists.iter();
    let mut of_issuer: Vec<_> = of_issuer
        .filter(|list| list.issuer == cert.issuer && !list.is_partial)
        .collect();
    if of_issuer.is_empty() {
        return Some(Doubt::NoList);
    }
    // The newest list is used; certificates that it does not contain are not revoked.
    of_issuer.sort_by_key(|list| std::cmp::Reverse(list.from));
    let Some(list) = of_issuer.into_iter().find(|list| list.is_signed_by(issuer)) else {
        return Some(Doubt::ListSignature);
    };
    if list.revoked.contains(&cert.serial) {
        return Some(Doubt::Revoked);
    }
    let is_over = list.until.is_some_and(|until| now > until);
    is_over.then_some(Doubt::ListExpired)
}
