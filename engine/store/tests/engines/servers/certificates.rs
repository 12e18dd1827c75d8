//! Certificates of engines and of their clients.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::temp_folder::TempFolder;

/// Writes a CA, and a certificate of it for 127.0.0.1 with its key, as PEM files; returns that of the CA.
pub fn certificates(folder: &TempFolder) -> Vec<u8> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    // OpenSSL takes a certificate whose issuer has its own name for one that is signed by itself.
    params
        .distinguished_name
        .push(DnType::CommonName, "the CA of a test");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&ca_key).unwrap().pem();
    let issuer = Issuer::new(params, ca_key);
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(names).unwrap();
    let leaf = leaf.signed_by(&key, &issuer).unwrap().pem();
    folder.write("ca.pem", &ca);
    folder.write("leaf.pem", &leaf);
    folder.write("leaf.key", key.serialize_pem());
    ca.into_bytes()
}
