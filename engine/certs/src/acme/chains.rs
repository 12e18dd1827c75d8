//! Selects a certificate chain if a CA offers several. `order` downloads them.

use pki_types::CertificateDer;
use pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The preferred chain; the CA's default if nothing is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainChoice {
    /// Prefer the chain with the fewest bytes.
    pub smallest: bool,
    /// Prefer the first chain whose root has one of these common names, in order of preference.
    pub root_names: Vec<String>,
    /// Prefer the first chain in which any certificate was issued by one of these common names.
    pub any_names: Vec<String>,
}

impl ChainChoice {
    /// Whether the CA's default is used.
    pub(super) fn is_indifferent(&self) -> bool {
        *self == ChainChoice::default()
    }

    /// The preferred one of `chains`, of which the first is the CA's default.
    pub(super) fn choose(&self, mut chains: Vec<String>) -> Option<String> {
        if self.smallest {
            return chains.into_iter().min_by_key(String::len);
        }
        let names: Vec<Vec<String>> = chains.iter().map(|chain| issuers(chain)).collect();
        let by_root = self.root_names.iter().find_map(|name| {
            let has = |issuers: &Vec<String>| issuers.last() == Some(name);
            names.iter().position(has)
        });
        let by_any = || {
            self.any_names
                .iter()
                .find_map(|name| names.iter().position(|issuers| issuers.contains(name)))
        };
        let best = by_root.or_else(by_any).unwrap_or(0);
        (best < chains.len()).then(|| chains.swap_remove(best))
    }
}

/// The common names of the issuer of each certificate in a chain, starting with the leaf's.
fn issuers(chain: &str) -> Vec<String> {
    CertificateDer::pem_slice_iter(chain.as_bytes())
        .filter_map(|cert| {
            let cert = cert.ok()?;
            let (_, parsed) = X509Certificate::from_der(&cert).ok()?;
            let name = parsed.issuer().iter_common_name().next()?;
            Some(name.as_str().ok()?.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of one self-signed certificate for `name`.
    fn chain(name: &str) -> String {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let key = rcgen::KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem()
    }

    #[test]
    fn the_first_preferred_root_wins_and_without_one_the_authority_chooses() {
        let offered = || {
            vec![
                chain("One"),
                chain("Two"),
                chain("A much longer name of a root"),
            ]
        };
        let choice = |root: &[&str], any: &[&str], smallest| ChainChoice {
            smallest,
            root_names: root.iter().map(ToString::to_string).collect(),
            any_names: any.iter().map(ToString::to_string).collect(),
        };
        let chosen = |choice: ChainChoice| issuers(&choice.choose(offered()).unwrap()).join(",");
        assert_eq!(chosen(choice(&["None", "Two"], &[], false)), "Two");
        assert_eq!(chosen(choice(&[], &["Two", "One"], false)), "Two");
        assert_eq!(chosen(choice(&["None"], &["Neither"], false)), "One");
        assert_ne!(
            chosen(choice(&[], &[], true)),
            "A much longer name of a root"
        );
        assert_eq!(choice(&[], &[], true).choose(Vec::new()), None);
    }
}
