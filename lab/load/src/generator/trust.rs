//! TLS of the load generator: trusted certificates, offered versions and protocols.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pki_types::pem::PemObject;
use pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::link::Tls;
use super::quic;
use super::target::Target;
use super::tickets::Tickets;

/// TLS options of a load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// Accepts any certificate.
    pub insecure: bool,
    /// A file of certificates to trust instead of the system's.
    pub ca: Option<PathBuf>,
    /// Only this version: `1.2` or `1.3`.
    pub version: Option<String>,
    /// Whether sessions are resumed. If not, every connection makes a full handshake.
    pub resume: bool,
}

/// Builds the TLS settings of connections; `None` for targets without TLS.
pub fn prepare(options: &TlsOptions, target: &Target) -> Result<Option<Tls>, String> {
    if !target.protocol.is_tls() {
        return Ok(None);
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let versions: &[_] = match options.version.as_deref() {
        None if target.protocol.is_h3() => &[&rustls::version::TLS13],
        Some("1.2") if target.protocol.is_h3() => {
            return Err("HTTP/3 needs TLS 1.3".into());
        }
        None => rustls::ALL_VERSIONS,
        Some("1.2") => &[&rustls::version::TLS12],
        Some("1.3") => &[&rustls::version::TLS13],
        Some(other) => return Err(format!("TLS {other} is not supported: use 1.2 or 1.3")),
    };
    let verifier = verifier(options, &provider)?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![target.protocol.alpn().to_vec()];
    config.resumption = match options.resume {
        true => Resumption::store(Arc::new(Tickets::default())),
        false => Resumption::disabled(),
    };
    let name = ServerName::try_from(target.name.clone())
        .map_err(|_| format!("`{}` cannot be the host name of a certificate", target.name))?;
    let config = Arc::new(config);
    let quic = match target.protocol.is_h3() {
        true => Some(quic::client(config.clone())?),
        false => None,
    };
    Ok(Some(Tls { config, name, quic }))
}

fn verifier(
    options: &TlsOptions,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    if options.insecure {
        return Ok(Arc::new(Anything(provider.clone())));
    }
    let mut roots = RootCertStore::empty();
    match &options.ca {
        Some(path) => {
            for certificate in read_certificates(path)? {
                roots
                    .add(certificate)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        let text = "no trusted certificates found: use --ca FILE, or accept any certificate with --insecure";
        return Err(text.into());
    }
    let built =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    match built {
        Ok(verifier) => Ok(verifier),
        Err(error) => Err(error.to_string()),
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| format!("{}: {error}", path.display()))?;
    if found.is_empty() {
        return Err(format!("{} contains no certificate", path.display()));
    }
    Ok(found)
}

/// The algorithm of a certificate's key: `RSA`, `ECDSA` or `Ed25519`. `None` for others.
pub(super) fn key_algorithm(certificate: &CertificateDer<'_>) -> Option<&'static str> {
    // Object identifiers in DER (RFC 8017, RFC 5480, RFC 8410). Those of signatures are others, but for Ed25519.
    const KNOWN: [(&[u8], &str); 3] = [
        (b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01", "RSA"),
        (b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01", "ECDSA"),
        (b"\x06\x03\x2b\x65\x70", "Ed25519"),
    ];
    let holds = |id: &[u8]| certificate.windows(id.len()).any(|part| part == id);
    KNOWN
        .iter()
        .find(|(id, _)| holds(id))
        .map(|(_, name)| *name)
}

/// Accepts any certificate, for users who test their own server with a self-signed one.
#[derive(Debug)]
struct Anything(Arc<CryptoProvider>);

impl ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
