//! Which certificates a policy may serve. `store` finds those that match a name.

use x509_parser::prelude::{FromDer, X509Certificate};

use crate::pair::Pair;

/// Conditions that a certificate must meet to be served; all of them apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// One of these tags.
    pub any_tag: Vec<String>,
    /// All of these tags.
    pub all_tags: Vec<String>,
    /// One of these serial numbers, in decimal.
    pub serial_numbers: Vec<String>,
    /// A subject with one of these organizations.
    pub organizations: Vec<String>,
    /// A key of this type.
    pub key_algorithm: Option<KeyAlgorithm>,
    /// Among the certificates with the first tag of `any_tag`, select the one that the client prefers by its signature
    /// schemes, regardless of names.
    pub by_client: bool,
}

/// A key algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAlgorithm {
    /// RSA.
    Rsa,
    /// ECDSA, on any curve.
    Ecdsa,
    /// DSA, which no certificate that can be served uses.
    Dsa,
}

impl KeyAlgorithm {
    /// Parses the name used in configurations, ignoring case as in Caddy.
    pub fn parse(name: &str) -> Option<KeyAlgorithm> {
        match name.to_ascii_lowercase().as_str() {
            "rsa" => Some(KeyAlgorithm::Rsa),
            "ecdsa" => Some(KeyAlgorithm::Ecdsa),
            "dsa" => Some(KeyAlgorithm::Dsa),
            _ => None,
        }
    }

    fn is_of(self, pair: &Pair) -> bool {
        let kind = pair.certified.key.algorithm();
        match self {
            KeyAlgorithm::Rsa => kind == rustls::SignatureAlgorithm::RSA,
            KeyAlgorithm::Ecdsa => kind == rustls::SignatureAlgorithm::ECDSA,
            KeyAlgorithm::Dsa => kind == rustls::SignatureAlgorithm::DSA,
        }
    }
}

/// What a client gets whose name no certificate has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmatched {
    /// No handshake, as in Caddy.
    Refuse,
    /// The first certificate that the client supports, of those that the policy names: a site with certificates in files
    /// serves them whatever their names are, as in Caddy and nginx.
    Any,
}

impl Selection {
    /// What a client gets whose name no certificate has: a policy without conditions serves certificates by their names
    /// only.
    pub(crate) fn unmatched(&self) -> Unmatched {
        match *self == Selection::default() {
            true => Unmatched::Refuse,
            false => Unmatched::Any,
        }
    }

    /// Whether `pair` may be served.
    pub(crate) fn takes(&self, pair: &Pair) -> bool {
        let Selection {
            any_tag,
            all_tags,
            serial_numbers,
            organizations,
            key_algorithm,
            by_client: _,
        } = self;
        (any_tag.is_empty() || pair.tags.iter().any(|tag| any_tag.contains(tag)))
            && all_tags.iter().all(|tag| pair.tags.contains(tag))
            && key_algorithm.is_none_or(|kind| kind.is_of(pair))
            && (serial_numbers.is_empty() && organizations.is_empty() || self.takes_subject(pair))
    }

    /// Parses the certificate each time: this condition is rare, and certificates need not store its fields.
    fn takes_subject(&self, pair: &Pair) -> bool {
        let leaf = pair.certified.cert.first();
        let Some((_, leaf)) = leaf.and_then(|leaf| X509Certificate::from_der(leaf).ok()) else {
            return false;
        };
        let serial = leaf.tbs_certificate.serial.to_string();
        let mut organizations = leaf.subject().iter_organization();
        (self.serial_numbers.is_empty() || self.serial_numbers.contains(&serial))
            && (self.organizations.is_empty()
                || organizations.any(|name| {
                    name.as_str()
                        .is_ok_and(|name| self.organizations.iter().any(|known| known == name))
                }))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::pair::Origin;
    use crate::storage::StoredPair;

    fn made() -> Arc<Pair> {
        let mut params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.serial_number = Some(rcgen::SerialNumber::from(vec![1, 0, 0, 0, 0, 0, 0, 0, 0]));
        let organization = rcgen::DnType::OrganizationName;
        params.distinguished_name.push(organization, "Ours");
        let key = rcgen::KeyPair::generate().unwrap();
        let stored = StoredPair {
            certificate: params.self_signed(&key).unwrap().pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
        };
        let path = Path::new("made.crt");
        let origin = Origin {
            certificate: path,
            key: path,
        };
        let pair = Pair::from_pem(&stored, origin).unwrap();
        Arc::new(Pair {
            tags: vec!["one".to_owned(), "two".to_owned()],
            ..pair
        })
    }

    #[test]
    fn all_that_is_given_has_to_be_there() {
        let pair = made();
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let takes = |change: &dyn Fn(&mut Selection)| {
            let mut selection = Selection::default();
            change(&mut selection);
            selection.takes(&pair)
        };
        assert!(takes(&|_| ()));
        for (tags, any, all) in [
            (&["one"][..], true, true),
            (&["one", "two"], true, true),
            (&["one", "three"], true, false),
            (&["three"], false, false),
        ] {
            assert_eq!(takes(&|s| s.any_tag = texts(tags)), any, "{tags:?}");
            assert_eq!(takes(&|s| s.all_tags = texts(tags)), all, "{tags:?}");
        }
        let serial = 1_u128 << 64;
        assert!(takes(
            &|s| s.serial_numbers = vec!["5".into(), serial.to_string()]
        ));
        assert!(!takes(&|s| s.serial_numbers = texts(&["1"])));
        assert!(takes(&|s| s.organizations = texts(&["Theirs", "Ours"])));
        assert!(!takes(&|s| s.organizations = texts(&["ours"])));
        assert!(takes(&|s| s.key_algorithm = KeyAlgorithm::parse("ECDSA")));
        assert!(!takes(&|s| s.key_algorithm = KeyAlgorithm::parse("rsa")));
        assert!(!takes(&|s| {
            s.organizations = texts(&["Ours"]);
            s.any_tag = texts(&["three"]);
        }));
        assert_eq!(KeyAlgorithm::parse("ed25519"), None);
    }
}
