use std::sync::Arc;
use std::time::Duration;

use rcgen::ExtendedKeyUsagePurpose as Purpose;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;

use super::*;

macro_rules! fixtures {
    ($($name:literal)*) => {
        /// Certificates and lists; created by `fixtures/make.sh`.
        const FIXTURES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("fixtures/", $name)))),*];
    };
}

fixtures! {
    "ahead.pem" "below1.pem" "below2.pem" "belown.pem" "beloww.pem" "belowy.pem" "ca.pem" "client.pem" "expired.pem"
    "i1.pem" "i2.pem" "n.pem" "other.pem" "revoked.pem" "self.pem" "server.pem" "stranger.pem" "w.pem" "y.pem" "z.pem"
    "ca.crl" "i1.crl" "old.crl"
}

fn pem(name: &str) -> &'static [u8] {
    let found = FIXTURES.iter().find(|(known, _)| *known == name);
    found.expect(name).1.as_bytes()
}

fn cert(name: &str) -> Vec<u8> {
    let der = CertificateDer::from_pem_slice(pem(&format!("{name}.pem")));
    der.unwrap().to_vec()
}

fn list(name: &str) -> Vec<u8> {
    let der = CertificateRevocationListDer::from_pem_slice(pem(&format!("{name}.crl")));
    der.unwrap().to_vec()
}

fn trust(authorities: &[&str], lists: &[&str], depth_max: usize) -> ChainTrust {
    let authorities = authorities.iter().map(|name| cert(name)).collect();
    ChainTrust::new(
        authorities,
        lists.iter().map(|name| list(name)).collect(),
        depth_max,
    )
    .unwrap()
}

/// The end of 2026.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_795_000_000)
}

fn judge(trust: &ChainTrust, chain: &str) -> Option<Doubt> {
    let chain: Vec<Vec<u8>> = chain.split(' ').map(cert).collect();
    trust.judge(&chain, now()).err()
}

#[test]
fn clients_are_judged_as_by_openssl() {
    use Doubt as D;
    let plain = trust(&["ca"], &[], 3);
    let listed = trust(&["ca"], &["ca", "i1"], 3);
    // The results of nginx 1.22 with OpenSSL 3.0 for the same files, except for `belown`: name constraints are not
    // supported here.
    for (chain, expected, with_lists) in [
        ("client", None, None),
        ("revoked", None, Some(D::Revoked)),
        ("stranger", Some(D::Unverified), Some(D::Unverified)),
        ("server", Some(D::Purpose), Some(D::Purpose)),
        ("expired", Some(D::Expired), Some(D::Expired)),
        ("ahead", Some(D::Ahead), Some(D::Ahead)),
        ("below1 i1", None, None),
        ("below2 i2 i1", None, Some(D::NoList)),
        ("below2 i1 i2", None, Some(D::NoList)),
        ("belown n", Some(D::Unhandled), Some(D::NoList)),
        ("belowy y z", Some(D::TooLong), Some(D::NoList)),
        ("beloww w", Some(D::Purpose), Some(D::NoList)),
        ("self", Some(D::SelfSigned), Some(D::NoList)),
        ("below2", Some(D::Unverified), Some(D::Unverified)),
        ("below2 i2", Some(D::NoIssuer), Some(D::NoList)),
    ] {
        assert_eq!(judge(&plain, chain), expected, "{chain}");
        assert_eq!(judge(&listed, chain), with_lists, "{chain} with lists");
    }
}

#[test]
fn roots_have_to_be_ours_and_near_enough() {
    assert_eq!(judge(&trust(&["self"], &[], 1), "self"), None);
    assert_eq!(
        judge(&trust(&["i1"], &[], 1), "below1 i1"),
        Some(Doubt::NoIssuer)
    );
    assert_eq!(
        judge(&trust(&["other"], &[], 1), "below1 i1 ca"),
        Some(Doubt::SelfSignedInChain)
    );
    let both = trust(&["ca", "i1"], &[], 1);
    assert_eq!(
        judge(&both, "below1"),
        None,
        "the authority between is ours"
    );
    let chain = "below2 i2 i1";
    for (depth, expected) in [
        (0, Some(Doubt::NoIssuer)),
        (1, Some(Doubt::NoIssuer)),
        (2, None),
    ] {
        assert_eq!(
            judge(&trust(&["ca"], &[], depth), chain),
            expected,
            "{depth}"
        );
    }
    assert_eq!(
        judge(&trust(&[], &[], 1), "client"),
        Some(Doubt::Unverified)
    );
}

#[test]
fn lists_have_to_be_of_their_time_and_signed_by_their_authority() {
    assert_eq!(
        judge(&trust(&["ca"], &["old"], 1), "client"),
        Some(Doubt::ListExpired)
    );
    assert_eq!(
        judge(&trust(&["ca"], &["old"], 1), "revoked"),
        // The root is checked last.
        Some(Doubt::ListExpired)
    );
    assert_eq!(
        judge(&trust(&["ca"], &["i1"], 1), "client"),
        Some(Doubt::NoList)
    );
    let mut forged = list("ca");
    *forged.last_mut().unwrap() ^= 1;
    let trust = ChainTrust::new(vec![cert("ca")], vec![forged], 1).unwrap();
    assert_eq!(judge(&trust, "client"), Some(Doubt::ListSignature));
}

#[test]
fn damaged_certificates_are_not_believed() {
    let trust = trust(&["ca"], &[], 1);
    let whole = cert("client");
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        assert!(trust.judge(&[damaged], now()).is_err(), "byte {at}");
        assert!(
            trust.judge(&[whole[..at].to_vec()], now()).is_err(),
            "to {at}"
        );
    }
    assert_eq!(trust.judge(&[], now()), Err(Doubt::Unreadable));
    let refused = |authorities: &[&[u8]], lists: &[&[u8]]| {
        let owned = |list: &[&[u8]]| list.iter().map(|der| der.to_vec()).collect::<Vec<_>>();
        ChainTrust::new(owned(authorities), owned(lists), 1).err()
    };
    assert_eq!(refused(&[b"x"], &[]), Some(ChainTrustError::Authority(0)));
    assert_eq!(refused(&[], &[b"x"]), Some(ChainTrustError::List(0)));
}

#[test]
fn long_chains_and_many_authorities_of_one_name_cost_little() {
    let trust = trust(&["ca"], &[], 1000);
    let mut chain = vec![cert("below2")];
    chain.extend((0..1000).map(|_| cert("i2")));
    assert_eq!(trust.judge(&chain, now()), Err(Doubt::NoIssuer));
    let numbers = DOUBTS.map(Doubt::number);
    assert_eq!(numbers.map(Doubt::from_number), DOUBTS.map(Some));
    assert_eq!(Doubt::from_number(0), None);
}

#[test]
fn who_judges_alike_has_one_number() {
    let id = |authorities: &[&str], lists: &[&str], depth| trust(authorities, lists, depth).id();
    assert_eq!(id(&["ca"], &["ca"], 1), id(&["ca"], &["ca"], 1));
    assert_ne!(id(&["ca"], &["ca"], 1), id(&["ca"], &["ca"], 2));
    assert_ne!(id(&["ca"], &["ca"], 1), id(&["ca"], &["old"], 1));
    assert_ne!(id(&["ca"], &[], 1), id(&["other"], &[], 1));
}

/// Whether rustls-webpki accepts a chain (DER).
fn is_accepted_by_webpki(root: &[u8], chain: &[Vec<u8>]) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(root.to_vec().into()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
    let verifier = verifier.build().unwrap();
    let chain: Vec<CertificateDer<'_>> = chain.iter().map(|der| der.clone().into()).collect();
    let now = now().duration_since(UNIX_EPOCH).unwrap();
    let now = UnixTime::since_unix_epoch(now);
    verifier
        .verify_client_cert(&chain[0], &chain[1..], now)
        .is_ok()
}

/// A certificate of version 3 for `name`.
fn params(name: &str, is_ca: IsCa, purposes: &[Purpose]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = is_ca;
    params.extended_key_usages = purposes.to_vec();
    // Without an extension it would be of version 1.
    params.key_usages = match params.is_ca {
        IsCa::Ca(_) => vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign],
        IsCa::NoCa | IsCa::ExplicitNoCa => vec![KeyUsagePurpose::DigitalSignature],
    };
    params
}

/// All combinations of a client's certificate and one or two intermediate CAs, right and wrong: rustls-webpki, which
/// has read none of our code, accepts the same chains.
#[test]
fn chains_of_version_3_are_accepted_exactly_if_webpki_accepts_them() {
    let ca = |constraint| IsCa::Ca(constraint);
    let any = BasicConstraints::Unconstrained;
    let key = || KeyPair::generate().unwrap();
    let (root_key, upper_key, lower_key) = (key(), key(), key());
    let root_params = params("root", ca(any), &[]);
    let root = root_params.self_signed(&root_key).unwrap();
    let root = root.der().to_vec();
    let root_issuer = rcgen::Issuer::new(root_params, root_key);
    let stranger = rcgen::Issuer::new(params("lower", ca(any), &[]), key());
    let trust = ChainTrust::new(vec![root.clone()], Vec::new(), 3).unwrap();

    let (mut accepted, mut refused) = (0, 0);
    let uppers = [ca(any), ca(BasicConstraints::Constrained(0)), IsCa::NoCa];
    let lowers = [ca(any), IsCa::NoCa];
    for (upper, lower) in uppers
        .iter()
        .flat_map(|u| lowers.iter().map(move |l| (u, l)))
    {
        let upper_params = params("upper", *upper, &[]);
        let upper_cert = upper_params.signed_by(&upper_key, &root_issuer).unwrap();
        let upper_issuer = rcgen::Issuer::new(upper_params, &upper_key);
        let lower_params = params("lower", *lower, &[]);
        let lower_cert = lower_params.signed_by(&lower_key, &upper_issuer).unwrap();
        let lower_issuer = rcgen::Issuer::new(lower_params, &lower_key);
        for purposes in [
            &[][..],
            &[Purpose::ClientAuth],
            &[Purpose::ServerAuth],
            &[Purpose::Any],
        ] {
            for (from, until) in [(2020, 2100), (2020, 2021), (2090, 2100)] {
                for (is_own, sends_upper) in [(true, true), (true, false), (false, true)] {
                    let mut leaf = params("client", IsCa::NoCa, purposes);
                    leaf.not_before = rcgen::date_time_ymd(from, 1, 1);
                    leaf.not_after = rcgen::date_time_ymd(until, 1, 1);
                    let leaf = match is_own {
                        true => leaf.signed_by(&key(), &lower_issuer),
                        false => leaf.signed_by(&key(), &stranger),
                    };
                    let mut chain = vec![leaf.unwrap().der().to_vec(), lower_cert.der().to_vec()];
                    chain.extend(sends_upper.then(|| upper_cert.der().to_vec()));
                    let is_ours = trust.judge(&chain, now()).is_ok();
                    assert_eq!(
                        is_ours,
                        is_accepted_by_webpki(&root, &chain),
                        "{upper:?} {lower:?} {purposes:?} {from} {until} {is_own} {sends_upper}"
                    );
                    *(if is_ours { &mut accepted } else { &mut refused }) += 1;
                }
            }
        }
    }
    assert_eq!((accepted, refused), (2, 214));
}

/// Why rustls-webpki does not decide: these OpenSSL, and so nginx, sees otherwise.
#[test]
fn webpki_knows_neither_version_1_nor_roots_as_clients_nor_the_use_of_keys() {
    let chain = |name: &str| vec![cert(name)];
    let root = cert("ca");
    // `openssl ca` makes version 1 unless it is given extensions.
    assert!(
        trust(&["ca"], &[], 1)
            .judge(&chain("client"), now())
            .is_ok()
    );
    assert!(!is_accepted_by_webpki(&root, &chain("client")));
    assert!(
        trust(&["self"], &[], 1)
            .judge(&chain("self"), now())
            .is_ok()
    );
    assert!(!is_accepted_by_webpki(&cert("self"), &chain("self")));

    let root_params = params("root", IsCa::Ca(BasicConstraints::Unconstrained), &[]);
    let root_key = KeyPair::generate().unwrap();
    let root = root_params.self_signed(&root_key).unwrap().der().to_vec();
    let issuer = rcgen::Issuer::new(root_params, root_key);
    let mut leaf = params("client", IsCa::NoCa, &[]);
    leaf.key_usages = vec![KeyUsagePurpose::KeyEncipherment];
    let leaf = leaf.signed_by(&KeyPair::generate().unwrap(), &issuer);
    let chain = [leaf.unwrap().der().to_vec()];
    let trust = ChainTrust::new(vec![root.clone()], Vec::new(), 1).unwrap();
    assert_eq!(trust.judge(&chain, now()), Err(Doubt::Purpose));
    assert!(is_accepted_by_webpki(&root, &chain));
}
