//! Verification of certificate chains by the rules of OpenSSL and with its error messages. nginx serves requests with an
//! invalid client certificate and shows them the reason: there the handshake accepts any certificate, and this module
//! judges it. `second_opinion` uses it for the chains that rustls-webpki cannot judge. Whether the peer holds its key is
//! verified by the handshake.

mod certificate_fields;
mod revoked;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{Context, SHA256};

use crate::limits::{ISSUERS_TRIED_MAX, PEER_CHAIN_MAX, PEER_DEPTH_MAX};
use certificate_fields::Facts;
use revoked::RevokedList;

/// Why a certificate is not trusted. The numbers are those of OpenSSL (`X509_V_ERR_…`), which its users look for
/// in logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// There is no revocation list for a CA.
    NoList = 3,
    /// The revocation list of a CA is not signed by it.
    ListSignature = 8,
    /// The certificate is not valid yet.
    Ahead = 9,
    /// The certificate has expired.
    Expired = 10,
    /// A revocation list has expired.
    ListExpired = 12,
    /// The certificate is self-signed and not trusted.
    SelfSigned = 18,
    /// The chain ends with an untrusted root.
    SelfSignedInChain = 19,
    /// The issuer of a CA in the chain is missing.
    NoIssuer = 20,
    /// The issuer of the certificate is missing.
    Unverified = 21,
    /// The certificate was revoked.
    Revoked = 23,
    /// The chain exceeds the path length of one of its CAs.
    TooLong = 25,
    /// The certificate is not for this kind of peer, or its issuer is not a CA.
    Purpose = 26,
    /// The certificate has a critical extension that is not supported.
    Unhandled = 34,
    /// The certificate cannot be parsed.
    Unreadable = 1,
}

/// All variants.
const DOUBTS: [Doubt; 14] = [
    Doubt::Unreadable,
    Doubt::NoList,
    Doubt::ListSignature,
    Doubt::Ahead,
    Doubt::Expired,
    Doubt::ListExpired,
    Doubt::SelfSigned,
    Doubt::SelfSignedInChain,
    Doubt::NoIssuer,
    Doubt::Unverified,
    Doubt::Revoked,
    Doubt::TooLong,
    Doubt::Purpose,
    Doubt::Unhandled,
];

impl Doubt {
    /// Its OpenSSL error number.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The variant with this number.
    pub fn from_number(number: u8) -> Option<Doubt> {
        DOUBTS.into_iter().find(|doubt| doubt.number() == number)
    }

    /// The message of OpenSSL.
    pub fn as_str(self) -> &'static str {
        match self {
            Doubt::NoList => "unable to get certificate CRL",
            Doubt::ListSignature => "CRL signature failure",
            Doubt::Ahead => "certificate is not yet valid",
            Doubt::Expired => "certificate has expired",
            Doubt::ListExpired => "CRL has expired",
            Doubt::SelfSigned => "self-signed certificate",
            Doubt::SelfSignedInChain => "self-signed certificate in certificate chain",
            Doubt::NoIssuer => "unable to get local issuer certificate",
            Doubt::Unverified => "unable to verify the first certificate",
            Doubt::Revoked => "certificate revoked",
            Doubt::TooLong => "path length constraint exceeded",
            Doubt::Purpose => "unsuitable certificate purpose",
            Doubt::Unhandled => "unhandled critical extension",
            Doubt::Unreadable => "unspecified certificate verification error",
        }
    }

    /// Whether the only problem is an untrusted or missing issuer.
    pub fn is_of_issuer(self) -> bool {
        matches!(
            self,
            Doubt::SelfSigned | Doubt::SelfSignedInChain | Doubt::NoIssuer | Doubt::Unverified
        )
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for Doubt {}

/// The kind of peer that shows a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerKind {
    Client,
    Server,
}

/// Where a chain may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// At a trusted certificate that is self-signed, as in OpenSSL.
    Roots,
    /// At any trusted certificate, as in Go and webpki.
    Anywhere,
}

/// Why a [`ChainTrust`] cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainTrustError {
    /// A CA certificate cannot be parsed; its index.
    Authority(usize),
    /// A revocation list cannot be parsed; its index.
    List(usize),
}

impl fmt::Display for ChainTrustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChainTrustError::Authority(at) => {
                write!(f, "cannot read CA certificate {}", at + 1)
            }
            ChainTrustError::List(at) => {
                write!(f, "list {} of revoked certificates cannot be read", at + 1)
            }
        }
    }
}

impl std::error::Error for ChainTrustError {}

/// The certificates trusted to end the chains of peers.
#[derive(Debug)]
pub struct ChainTrust {
    kind: PeerKind,
    ends: Ends,
    authorities: Vec<Facts>,
    by_subject: HashMap<Vec<u8>, Vec<usize>>,
    lists: Vec<RevokedList>,
    /// Maximum number of intermediate CAs between a peer and a root.
    depth_max: usize,
    id: u64,
}

impl ChainTrust {
    /// Trusts `authorities` (DER) to issue client certificates; intermediate CAs among them still need their issuers. If
    /// there are any revocation `lists` (DER), there must be one for each CA of a chain. At most `depth_max`, and no more than
    /// [`PEER_DEPTH_MAX`], intermediate CAs are allowed between a client and a root.
    ///
    /// # Errors
    /// A certificate or a list that cannot be parsed.
    pub fn new(
        authorities: Vec<Vec<u8>>,
        lists: Vec<Vec<u8>>,
        depth_max: usize,
    ) -> Result<ChainTrust, ChainTrustError> {
        let id = id_of(&authorities, &lists, depth_max);
        let authority =
            |(at, der): (usize, Vec<u8>)| Facts::parse(&der).ok_or(ChainTrustError::Authority(at));
        let known = authorities.into_iter().enumerate().map(authority);
        let known = known.collect::<Result<Vec<Facts>, _>>()?;
        let list =
            |(at, der): (usize, Vec<u8>)| RevokedList::parse(der).ok_or(ChainTrustError::List(at));
        let lists = lists.into_iter().enumerate().map(list);
        Ok(ChainTrust {
            kind: PeerKind::Client,
            ends: Ends::Roots,
            by_subject: by_subject(&known),
            authorities: known,
            lists: lists.collect::<Result<_, _>>()?,
            depth_max: depth_max.min(PEER_DEPTH_MAX),
            id,
        })
    }

    /// Trusts each of `pool` (DER) to end the chains of peers of this kind, whether or not it is self-signed or a CA.
    /// Certificates and revocation `lists` that cannot be parsed are ignored: rustls has reported those that matter.
    pub(super) fn anchored(kind: PeerKind, pool: &[Vec<u8>], lists: &[Vec<u8>]) -> ChainTrust {
        let known: Vec<Facts> = pool.iter().filter_map(|der| Facts::parse(der)).collect();
        let lists = lists.iter().cloned().filter_map(RevokedList::parse);
        ChainTrust {
            kind,
            ends: Ends::Anywhere,
            by_subject: by_subject(&known),
            authorities: known,
            lists: lists.collect(),
            depth_max: PEER_DEPTH_MAX,
            id: 0,
        }
    }

    /// An identifier, equal exactly for instances with the same settings.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Verifies the certificate chain (DER) presented by a peer, leaf first, at the time `now`.
    ///
    /// # Errors
    /// Why the certificate is not trusted; if there are several reasons, the one that OpenSSL reports.
    pub fn judge(&self, chain: &[Vec<u8>], now: SystemTime) -> Result<(), Doubt> {
        let shown = chain.iter().take(PEER_CHAIN_MAX);
        let shown: Option<Vec<Facts>> = shown.map(|der| Facts::parse(der)).collect();
        let shown = shown.ok_or(Doubt::Unreadable)?;
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let Some(path) = self.path(&shown, now) else {
            return Err(Doubt::Unreadable);
        };
        // The last reason is reported, as in OpenSSL, which checks all of them.
        let doubts = [
            self.of_trust(&path),
            self.of_extensions(&path),
            self.of_lists(&path, now),
            self.of_times(&path, now),
        ];
        match doubts.into_iter().flatten().last() {
            Some(doubt) => Err(doubt),
            None => Ok(()),
        }
    }

    /// Builds the chain from the peer's certificate up to its end. Each certificate but the first has signed the one
    /// before it.
    fn path<'a>(&'a self, shown: &'a [Facts], now: i64) -> Option<Vec<&'a Facts>> {
        let mut path = vec![shown.first()?];
        while path.len() < self.depth_max + 2 {
            let last = path[path.len() - 1];
            if last.is_self_issued() || self.is_end(last) {
                break;
            }
            match self.issuer(last, &path, shown, now) {
                Some(issuer) => path.push(issuer),
                None => break,
            }
        }
        Some(path)
    }

    /// Finds the issuer of `cert`: prefers our own CAs over certificates sent by the peer, and certificates that are
    /// currently valid.
    fn issuer<'a>(
        &'a self,
        cert: &Facts,
        path: &[&Facts],
        shown: &'a [Facts],
        now: i64,
    ) -> Option<&'a Facts> {
        let known = self.by_subject.get(&cert.issuer);
        let known = known.into_iter().flatten().map(|at| &self.authorities[*at]);
        let of_peer = shown.iter().filter(|one| one.subject == cert.issuer);
        let fits = |one: &&Facts| {
            cert.may_be_signed_by(one) && !path.iter().any(|other| other.der == one.der)
        };
        let all: Vec<&Facts> = known.chain(of_peer).filter(fits).collect();
        let in_time = all.iter().filter(|one| one.is_in_time(now));
        let others = all.iter().filter(|one| !one.is_in_time(now));
        let mut tried = in_time.chain(others).take(ISSUERS_TRIED_MAX);
        tried.find(|one| cert.is_signed_by(one)).copied()
    }

    /// Whether a chain ends with one of our certificates that may end it.
    fn is_trusted(&self, path: &[&Facts]) -> bool {
        path.last().is_some_and(|top| self.is_end(top))
    }

    fn is_end(&self, cert: &Facts) -> bool {
        let known = self.by_subject.get(&cert.subject);
        let mut known = known.into_iter().flatten();
        (cert.is_self_issued() || self.ends == Ends::Anywhere)
            && known.any(|at| self.authorities[*at].der == cert.der)
    }

    fn of_trust(&self, path: &[&Facts]) -> Option<Doubt> {
        if self.is_trusted(path) {
            return None;
        }
        let is_own = path.last().is_some_and(|top| top.is_self_issued());
        Some(match (is_own, path.len()) {
            (true, 1) => Doubt::SelfSigned,
            (true, _) => Doubt::SelfSignedInChain,
            (false, _) => Doubt::NoIssuer,
        })
    }

    /// Checks whether each certificate may be used at its position in the chain.
    fn of_extensions(&self, path: &[&Facts]) -> Option<Doubt> {
        let mut doubt = None;
        for (at, cert) in path.iter().enumerate() {
            if cert.is_odd {
                doubt = Some(Doubt::Unhandled);
            }
            // Self-issued intermediate certificates do not count (RFC 5280, section 6.1.4 (l)).
            let between = path[1..at.max(1)]
                .iter()
                .filter(|one| !one.is_self_issued());
            let between = between.count();
            if cert
                .path_length
                .is_some_and(|most| at > 0 && between > most as usize)
            {
                doubt = Some(Doubt::TooLong);
            }
            let may_stand_there = match at {
                0 => cert.may_shake_hands(self.kind),
                _ => cert.is_authority(),
            };
            if !cert.is_for(self.kind, at) || !may_stand_there {
                doubt = Some(Doubt::Purpose);
            }
        }
        doubt
    }

    /// Checks whether the peer's certificate has an issuer, and the validity periods from the root down.
    fn of_times(&self, path: &[&Facts], now: i64) -> Option<Doubt> {
        let unsigned = match path {
            [alone] if !alone.is_self_issued() && !self.is_end(alone) => Some(Doubt::Unverified),
            _ => None,
        };
        let times = path.iter().rev().filter_map(|cert| {
            if now < cert.from {
                Some(Doubt::Ahead)
            } else {
                (now > cert.until).then_some(Doubt::Expired)
            }
        });
        unsigned.into_iter().chain(times).last()
    }

    /// Checks the revocation lists for each certificate of a chain, including the root. Without one of our roots, no
    /// list is checked, so that clients cannot make us verify lists at will.
    fn of_lists(&self, path: &[&Facts], now: i64) -> Option<Doubt> {
        if self.lists.is_empty() {
            return None;
        }
        if !self.is_trusted(path) {
            return Some(Doubt::NoList);
        }
        // From the root down: the last problem is reported, as everywhere here.
        path.iter().enumerate().rev().find_map(|(at, cert)| {
            let issuer = path.get(at + 1).unwrap_or(cert);
            revoked::doubt(&self.lists, cert, issuer, now)
        })
    }
}

/// The indices of certificates by their subjects.
fn by_subject(known: &[Facts]) -> HashMap<Vec<u8>, Vec<usize>> {
    let mut found: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    for (at, facts) in known.iter().enumerate() {
        let same = found.entry(facts.subject.clone());
        same.or_default().push(at);
    }
    found
}

/// A digest of everything that determines the result of the verification.
fn id_of(authorities: &[Vec<u8>], lists: &[Vec<u8>], depth_max: usize) -> u64 {
    let mut context = Context::new(&SHA256);
    for (kind, list) in [(b'a', authorities), (b'l', lists)] {
        for der in list {
            context.update(&[kind]);
            context.update(&(der.len() as u64).to_be_bytes());
            context.update(der);
        }
    }
    context.update(&(depth_max as u64).to_be_bytes());
    let digest = context.finish();
    let first = digest.as_ref().first_chunk::<8>();
    first.map_or(0, |bytes| u64::from_be_bytes(*bytes))
}
