//! Which chain is taken where an authority offers several. Fetching them is left to `order`.

use pki_types::CertificateDer;
use pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

/// What is preferred; the authority's own choice where nothing is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainChoice {
    /// The one with the fewest bytes.
    pub smallest: bool,
    /// The first whose root has one of these names, the names in order of preference.
    pub root_names: Vec<String>,
    /// The first in which any certificate was issued by one of these names.
    pub any_names: Vec<String>,
}

impl ChainChoice {
    /// Whether the authority's own choice does.
    pub(super) fn is_indifferent(&self) -> bool {
        *self == ChainChoice::default()
    }

    /// The best of `chains`, the first of which is the authority's choice.
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

/// The common names of who issued each certificate of a chain, the leaf's first.
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

    /// A chain of one certificate that `name` issued to itself.
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
