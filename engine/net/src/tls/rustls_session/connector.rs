//! TLS client sessions, towards upstreams: which servers to trust, which certificate to present. `sluice-upstream` dials
//! the connections.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientSessionStore, ResolvesClientCert, Resumption, WebPkiServerVerifier};
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime,
};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    SupportedCipherSuite, SupportedProtocolVersion,
};

use super::pem_certificates::certificates_in;
use super::second_opinion::{NameRule, SecondOpinion, ServerVerifier, Trusted};
use super::{Live, Signatures, signed};
use crate::limits::TLS_CLIENT_SESSIONS_MAX;
use crate::tls::session::Session;

/// Creates client sessions. Sessions of one connector can be resumed by later ones.
#[derive(Clone)]
pub struct Connector {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
    sessions: Resumes,
}

/// The configuration of a [`Connector`].
pub struct ConnectorOptions {
    /// Which servers are trusted.
    pub trust: ServerTrust,
    /// Which names of a certificate count.
    pub names: NameRule,
    /// The client certificate presented if the server requests one.
    pub identity: Identity,
    /// The name for SNI and certificate verification, if it differs from the dialled host.
    pub server_name: Option<String>,
    /// The ALPN protocols offered, in order of preference.
    pub alpn: Vec<Vec<u8>>,
    /// The key exchange groups offered, in order of preference, by their names in Caddy; the default groups if empty.
    pub curves: Vec<String>,
    /// The TLS 1.2 cipher suites offered, by their IANA names; all if empty.
    pub cipher_suites: Vec<String>,
    /// The TLS 1.3 cipher suites offered, by their IANA names; all if empty.
    pub modern_suites: Vec<String>,
    /// The TLS versions offered.
    pub versions: Versions,
    /// Certificate revocation lists (DER); if there are any, there must be one for each CA.
    pub revoked: Vec<Vec<u8>>,
    /// Whether to send SNI.
    pub name: SendsName,
    /// Whether to resume sessions.
    pub sessions: Resumes,
}

/// TLS versions offered to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versions {
    /// 1.2 and 1.3.
    #[default]
    Both,
    /// 1.2.
    Tls12,
    /// 1.3.
    Tls13,
}

/// Whether to send the server name in the handshake (SNI; RFC 6066, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendsName {
    /// Send it.
    #[default]
    Yes,
    /// Do not send it.
    No,
}

/// Whether to resume sessions with a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resumes {
    /// Resume them.
    #[default]
    Yes,
    /// Always perform a full handshake.
    No,
}

impl Default for ConnectorOptions {
    /// Trusts the system's certificate store and offers HTTP/1.1.
    fn default() -> Self {
        let alpn = vec![b"http/1.1".to_vec()];
        ConnectorOptions {
            trust: ServerTrust::System,
            names: NameRule::default(),
            identity: Identity::None,
            server_name: None,
            alpn,
            curves: Vec::new(),
            cipher_suites: Vec::new(),
            modern_suites: Vec::new(),
            versions: Versions::default(),
            revoked: Vec::new(),
            name: SendsName::default(),
            sessions: Resumes::default(),
        }
    }
}

/// The client certificate presented to a server that requests one.
#[derive(Default)]
pub enum Identity {
    /// None.
    #[default]
    None,
    /// Always this one.
    Fixed(ClientIdentity),
    /// One that is selected when the server requests it.
    Chosen(Arc<dyn ResolvesClientCert>),
}

/// Which servers are trusted.
#[derive(Clone, Debug)]
pub enum ServerTrust {
    /// Those with a certificate signed by a CA in the system's certificate store.
    System,
    /// Those with a certificate signed by one of these CA certificates (DER).
    Pool(Vec<Vec<u8>>),
    /// Any server: the connection is encrypted, but the server is not authenticated.
    Anyone,
}

/// A certificate chain with its key.
pub struct ClientIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl ClientIdentity {
    /// Parses a certificate chain, leaf first, and its private key.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, ConnectorError> {
        let key = PrivateKeyDer::from_pem_slice(key).map_err(ConnectorError::Pem)?;
        Self::with_key(chain, key)
    }

    /// Parses a certificate chain, leaf first, for the given private key.
    pub fn with_key(chain: &[u8], key: PrivateKeyDer<'static>) -> Result<Self, ConnectorError> {
        let chain = certificates_from_pem(chain)?
            .into_iter()
            .map(CertificateDer::from)
            .collect();
        Ok(ClientIdentity { chain, key })
    }
}

/// Parses the certificates (DER) in PEM `text`; at least one.
pub fn certificates_from_pem(text: &[u8]) -> Result<Vec<Vec<u8>>, ConnectorError> {
    let certs = certificates_in(text).map_err(ConnectorError::Pem)?;
    let certs: Vec<Vec<u8>> = certs.iter().map(|cert| cert.to_vec()).collect();
    if certs.is_empty() {
        Err(ConnectorError::Pem(pem::Error::NoItemsFound))
    } else {
        Ok(certs)
    }
}

/// Parses the certificate revocation lists (DER) in PEM `text`; at least one.
///
/// # Errors
/// The text is not valid PEM, or contains no list.
pub fn revoked_from_pem(text: &[u8]) -> Result<Vec<Vec<u8>>, ConnectorError> {
    let lists = CertificateRevocationListDer::pem_slice_iter(text)
        .map(|list| list.map(|list| list.to_vec()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(ConnectorError::Pem)?;
    if lists.is_empty() {
        Err(ConnectorError::Pem(pem::Error::NoItemsFound))
    } else {
        Ok(lists)
    }
}

/// Why a connector or one of its sessions could not be created.
#[derive(Debug)]
pub enum ConnectorError {
    /// The system's certificate store has no certificates; with the errors of loading it.
    NoSystemRoots(Vec<String>),
    /// PEM text could not be parsed.
    Pem(pem::Error),
    /// The name is neither a host name nor an IP address.
    ServerName(String),
    /// A certificate or key cannot be used.
    Unusable(rustls::Error),
    /// An unknown key exchange group.
    Curve(String),
    /// An unknown cipher suite.
    Cipher(String),
}

impl fmt::Display for ConnectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectorError::NoSystemRoots(errors) => {
                f.write_str("no trusted certificate found in the system's store")?;
                errors.iter().try_for_each(|error| write!(f, "; {error}"))
            }
            ConnectorError::Pem(error) => write!(f, "unreadable PEM: {error}"),
            ConnectorError::ServerName(name) => write!(f, "`{name}` is not a valid server name"),
            ConnectorError::Unusable(error) => write!(f, "unusable certificate or key: {error}"),
            ConnectorError::Curve(name) => write!(f, "unknown curve `{name}`"),
            ConnectorError::Cipher(name) => write!(f, "unknown cipher suite `{name}`"),
        }
    }
}

impl std::error::Error for ConnectorError {}

impl Connector {
    /// Loads and validates everything that `options` names.
    pub fn new(options: ConnectorOptions) -> Result<Self, ConnectorError> {
        let mut provider = aws_lc_rs::default_provider();
        if !options.curves.is_empty() {
            let groups = options.curves.iter().map(|name| group(name));
            provider.kx_groups = groups.collect::<Result<_, _>>()?;
        }
        provider.cipher_suites = suites(&provider, &options)?;
        let provider = Arc::new(provider);
        let versions: &[&SupportedProtocolVersion] = match options.versions {
            Versions::Both => &[&TLS13, &TLS12],
            Versions::Tls12 => &[&TLS12],
            Versions::Tls13 => &[&TLS13],
        };
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(ConnectorError::Unusable)?
            .dangerous()
            .with_custom_certificate_verifier(verifier(
                options.trust,
                options.names,
                options.revoked,
                provider,
            )?);
        let mut config = match options.identity {
            Identity::Fixed(identity) => {
                let certified = certified(identity).map_err(ConnectorError::Unusable)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
            }
            Identity::Chosen(chosen) => builder.with_client_cert_resolver(chosen),
            Identity::None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = options.alpn;
        config.enable_sni = options.name == SendsName::Yes;
        config.resumption = resumption(options.sessions);
        let server_name = options.server_name.map(parse_server_name).transpose()?;
        Ok(Connector {
            config: Arc::new(config),
            server_name,
            sessions: options.sessions,
        })
    }

    /// The same connector, offering HTTP/1.1 only.
    #[must_use]
    pub fn for_http1(&self) -> Connector {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Connector {
            config: Arc::new(config),
            ..self.clone()
        }
    }

    /// The same connector with another name for SNI and certificate verification.
    ///
    /// # Errors
    /// It is neither a host name nor an IP address.
    pub fn named(&self, name: String) -> Result<Connector, ConnectorError> {
        Ok(Connector {
            server_name: Some(parse_server_name(name)?),
            ..self.clone()
        })
    }

    /// The same connector with another client certificate. It shares no sessions: a resumed one would keep the former
    /// identity.
    ///
    /// # Errors
    /// Certificate and key do not belong together, or are of an unknown kind.
    pub fn presenting(&self, identity: ClientIdentity) -> Result<Connector, ConnectorError> {
        let mut config = ClientConfig::clone(&self.config);
        let pair = certified(identity).map_err(ConnectorError::Unusable)?;
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(pair));
        config.resumption = resumption(self.sessions);
        Ok(Connector {
            config: Arc::new(config),
            ..self.clone()
        })
    }

    /// What a QUIC session with `host` needs: the settings, and the name for SNI and certificate verification.
    ///
    /// # Errors
    /// The host is neither a host name nor an IP address.
    pub fn for_quic(&self, host: &str) -> Result<(Arc<ClientConfig>, String), ConnectorError> {
        let name = match &self.server_name {
            Some(name) => name.to_str().into_owned(),
            None => parse_server_name(host.to_owned())?.to_str().into_owned(),
        };
        Ok((self.config.clone(), name))
    }

    /// Starts a session with `host`, a name or an IP address without brackets and port.
    pub fn connect(&self, host: &str) -> Result<Box<dyn Session>, ConnectorError> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => parse_server_name(host.to_owned())?,
        };
        let conn =
            ClientConnection::new(self.config.clone(), name).map_err(ConnectorError::Unusable)?;
        Ok(Box::new(Live::new(conn.into())))
    }
}

/// The certificate and key of a client, of any X.509 version.
fn certified(identity: ClientIdentity) -> Result<CertifiedKey, rustls::Error> {
    let key = aws_lc_rs::sign::any_supported_type(&identity.key)?;
    let certified = CertifiedKey::new(identity.chain, key);
    match is_key_of(&certified) {
        true => Ok(certified),
        false => Err(rustls::InconsistentKeys::KeyMismatch.into()),
    }
}

/// Whether the key of a pair belongs to its certificate, of any X.509 version; true if the key cannot be compared.
pub fn is_key_of(certified: &CertifiedKey) -> bool {
    let (Some(own), Some(cert)) = (certified.key.public_key(), certified.cert.first()) else {
        return true;
    };
    signed::public_key_of(cert).is_some_and(|known| known == own.as_ref())
}

fn resumption(sessions: Resumes) -> Resumption {
    match sessions {
        Resumes::No => Resumption::disabled(),
        Resumes::Yes => {
            let sessions: Arc<dyn ClientSessionStore> = Arc::new(
                rustls::client::ClientSessionMemoryCache::new(TLS_CLIENT_SESSIONS_MAX),
            );
            Resumption::store(sessions)
        }
    }
}

fn parse_server_name(name: String) -> Result<ServerName<'static>, ConnectorError> {
    ServerName::try_from(name.clone()).map_err(|_| ConnectorError::ServerName(name))
}

fn group(name: &str) -> Result<&'static dyn SupportedKxGroup, ConnectorError> {
    Ok(match name {
        "x25519mlkem768" => kx_group::X25519MLKEM768,
        "x25519" => kx_group::X25519,
        "secp256r1" => kx_group::SECP256R1,
        "secp384r1" => kx_group::SECP384R1,
        other => return Err(ConnectorError::Curve(other.to_owned())),
    })
}

/// The selected cipher suites; for a TLS version without a selection, all of them.
fn suites(
    provider: &CryptoProvider,
    options: &ConnectorOptions,
) -> Result<Vec<SupportedCipherSuite>, ConnectorError> {
    let mut kept = Vec::new();
    for (names, is_modern) in [
        (&options.modern_suites, true),
        (&options.cipher_suites, false),
    ] {
        let all = provider.cipher_suites.iter().copied();
        let all = all.filter(|suite| suite.tls13().is_some() == is_modern);
        if names.is_empty() {
            kept.extend(all);
            continue;
        }
        for name in names {
            let mut all = all.clone();
            let found = all.find(|suite| suite.suite().as_str() == Some(name));
            kept.push(found.ok_or_else(|| ConnectorError::Cipher(name.clone()))?);
        }
    }
    Ok(kept)
}

/// The certificates (DER) that the system trusts; at least one.
pub fn system_certificates() -> Result<Vec<Vec<u8>>, ConnectorError> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let errors = found.errors.iter().map(ToString::to_string).collect();
        return Err(ConnectorError::NoSystemRoots(errors));
    }
    Ok(found.certs.iter().map(|cert| cert.to_vec()).collect())
}

/// Creates the verifier of servers for connections that are not made by a [`Connector`].
///
/// # Errors
/// No certificate can be read, or a revocation list cannot.
pub fn verifier(
    trust: ServerTrust,
    names: NameRule,
    revoked: Vec<Vec<u8>>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, ConnectorError> {
    let mut roots = RootCertStore::empty();
    let trusted = match trust {
        ServerTrust::Anyone => {
            let signatures = Signatures::new(provider);
            return Ok(Arc::new(BelieveAnyone { signatures }));
        }
        ServerTrust::Pool(certs) => {
            // As in the system's store, certificates that cannot be parsed are ignored.
            let read = certs.iter().map(|cert| CertificateDer::from(&cert[..]));
            let (added, _) = roots.add_parsable_certificates(read);
            if added == 0 && !certs.is_empty() {
                let error = rustls::Error::General("cannot read any CA certificate".into());
                return Err(ConnectorError::Unusable(error));
            }
            Trusted::Pool(certs)
        }
        ServerTrust::System => {
            let found = rustls_native_certs::load_native_certs();
            // Stores may contain certificates that cannot be parsed; these are ignored.
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                let errors = found.errors.iter().map(ToString::to_string).collect();
                return Err(ConnectorError::NoSystemRoots(errors));
            }
            Trusted::System
        }
    };
    let mut verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let lists = revoked.clone();
    if !revoked.is_empty() {
        let revoked = revoked.into_iter().map(CertificateRevocationListDer::from);
        verifier = verifier.with_crls(revoked).enforce_revocation_expiration();
    }
    let verifier = verifier
        .build()
        .map_err(|error| ConnectorError::Unusable(rustls::Error::General(error.to_string())))?;
    Ok(Arc::new(ServerVerifier {
        webpki: verifier,
        opinion: SecondOpinion::of_servers(trusted, lists),
        names,
        signatures: Signatures::new(provider),
    }))
}

/// Accepts any certificate, but still requires that the server holds its private key.
#[derive(Debug)]
struct BelieveAnyone {
    signatures: Signatures,
}

impl ServerCertVerifier for BelieveAnyone {
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
        self.signatures.verify_tls12(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signatures.verify_tls13(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signatures.schemes()
    }
}
