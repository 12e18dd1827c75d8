//! The client's end, towards upstreams: whom to trust, what to show. Dialling is left to `upstream`.

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
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    SupportedCipherSuite, SupportedProtocolVersion,
};

use super::{Live, Signatures};
use crate::limits::TLS_CLIENT_SESSIONS_MAX;
use crate::tls::session::Session;

/// Makes client sessions. Sessions of one connector resume one another.
#[derive(Clone)]
pub struct Connector {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

/// What a [`Connector`] is made of.
pub struct ConnectorOptions {
    /// Which servers are believed.
    pub trust: ServerTrust,
    /// The certificate shown to a server that asks.
    pub identity: Identity,
    /// The name asked for and verified, where it is not the host dialled.
    pub server_name: Option<String>,
    /// The protocols offered by ALPN, best first.
    pub alpn: Vec<Vec<u8>>,
    /// The key exchange groups offered, best first, by their names in Caddy; the usual ones where there are none.
    pub curves: Vec<String>,
    /// The suites of TLS 1.2 offered, by their names in the IANA registry; all where there are none.
    pub cipher_suites: Vec<String>,
    /// The suites of TLS 1.3 offered, by the same names; all where there are none.
    pub modern_suites: Vec<String>,
    /// Which versions are spoken.
    pub versions: Versions,
    /// Lists of revoked certificates (DER); where there are any, there has to be one of each authority.
    pub revoked: Vec<Vec<u8>>,
    /// Whether the server is told the name that is asked for.
    pub name: TellsName,
    /// Whether sessions are resumed.
    pub sessions: Resumes,
}

/// Which versions of TLS are spoken to a server.
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

/// Whether a server is told which name is asked for (RFC 6066, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TellsName {
    /// It is.
    #[default]
    Yes,
    /// It is not.
    No,
}

/// Whether sessions with a server are resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resumes {
    /// They are.
    #[default]
    Yes,
    /// Each handshake is a full one.
    No,
}

impl Default for ConnectorOptions {
    /// Believes what the system believes and speaks HTTP/1.1.
    fn default() -> Self {
        let alpn = vec![b"http/1.1".to_vec()];
        ConnectorOptions {
            trust: ServerTrust::System,
            identity: Identity::None,
            server_name: None,
            alpn,
            curves: Vec::new(),
            cipher_suites: Vec::new(),
            modern_suites: Vec::new(),
            versions: Versions::default(),
            revoked: Vec::new(),
            name: TellsName::default(),
            sessions: Resumes::default(),
        }
    }
}

/// The certificate shown to a server that asks who we are.
#[derive(Default)]
pub enum Identity {
    /// None.
    #[default]
    None,
    /// Always this one.
    Fixed(ClientIdentity),
    /// One that is chosen when it is asked for.
    Chosen(Arc<dyn ResolvesClientCert>),
}

/// Which servers are believed.
#[derive(Clone, Debug)]
pub enum ServerTrust {
    /// Those that the system's certificate store vouches for.
    System,
    /// Those that one of these certificates (DER) vouches for.
    Pool(Vec<Vec<u8>>),
    /// Every one: the connection is encrypted, but with whom is unknown.
    Anyone,
}

/// A certificate chain with its key.
pub struct ClientIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl ClientIdentity {
    /// Reads a chain, its own certificate first, and the key to it.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, ConnectorError> {
        let key = PrivateKeyDer::from_pem_slice(key).map_err(ConnectorError::Pem)?;
        Self::with_key(chain, key)
    }

    /// Reads a chain, its own certificate first; `key` is the key to it.
    pub fn with_key(chain: &[u8], key: PrivateKeyDer<'static>) -> Result<Self, ConnectorError> {
        let chain = certificates_from_pem(chain)?
            .into_iter()
            .map(CertificateDer::from)
            .collect();
        Ok(ClientIdentity { chain, key })
    }
}

/// The certificates (DER) in `text`; at least one.
pub fn certificates_from_pem(text: &[u8]) -> Result<Vec<Vec<u8>>, ConnectorError> {
    let certs = CertificateDer::pem_slice_iter(text)
        .map(|cert| cert.map(|cert| cert.to_vec()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(ConnectorError::Pem)?;
    if certs.is_empty() {
        Err(ConnectorError::Pem(pem::Error::NoItemsFound))
    } else {
        Ok(certs)
    }
}

/// The lists of revoked certificates (DER) in `text`; at least one.
///
/// # Errors
/// Text that is no PEM, or has none.
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

/// Why a connector or a session of it could not be made.
#[derive(Debug)]
pub enum ConnectorError {
    /// The system's certificate store has no certificate; what looking for it ran into.
    NoSystemRoots(Vec<String>),
    /// PEM text could not be read.
    Pem(pem::Error),
    /// The name is neither a host name nor an address.
    ServerName(String),
    /// A certificate or key is not usable.
    Unusable(rustls::Error),
    /// A key exchange group that is not known.
    Curve(String),
    /// A cipher suite that is not known.
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
    /// Loads and checks everything that `options` name.
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
            .with_custom_certificate_verifier(verifier(options.trust, options.revoked, provider)?);
        let mut config = match options.identity {
            Identity::Fixed(identity) => builder
                .with_client_auth_cert(identity.chain, identity.key)
                .map_err(ConnectorError::Unusable)?,
            Identity::Chosen(chosen) => builder.with_client_cert_resolver(chosen),
            Identity::None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = options.alpn;
        config.enable_sni = options.name == TellsName::Yes;
        config.resumption = match options.sessions {
            Resumes::No => Resumption::disabled(),
            Resumes::Yes => {
                let sessions: Arc<dyn ClientSessionStore> = Arc::new(
                    rustls::client::ClientSessionMemoryCache::new(TLS_CLIENT_SESSIONS_MAX),
                );
                Resumption::store(sessions)
            }
        };
        let server_name = options.server_name.map(parse_server_name).transpose()?;
        Ok(Connector {
            config: Arc::new(config),
            server_name,
        })
    }

    /// The same, offering HTTP/1.1 only.
    #[must_use]
    pub fn for_http1(&self) -> Connector {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Connector {
            config: Arc::new(config),
            server_name: self.server_name.clone(),
        }
    }

    /// A new session with `host`, a name or an address without brackets and port.
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

/// The suites that are asked for; of the two versions, those where none is asked for.
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

fn verifier(
    trust: ServerTrust,
    revoked: Vec<Vec<u8>>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, ConnectorError> {
    let mut roots = RootCertStore::empty();
    match trust {
        ServerTrust::Anyone => {
            let signatures = Signatures::new(provider);
            return Ok(Arc::new(BelieveAnyone { signatures }));
        }
        ServerTrust::Pool(certs) => {
            // As in the system's store, the odd one that cannot be parsed vouches for nobody.
            let count = certs.len();
            let (added, _) =
                roots.add_parsable_certificates(certs.into_iter().map(CertificateDer::from));
            if added == 0 && count > 0 {
                let error = rustls::Error::General("cannot read any CA certificate".into());
                return Err(ConnectorError::Unusable(error));
            }
        }
        ServerTrust::System => {
            let found = rustls_native_certs::load_native_certs();
            // Stores hold the odd certificate that cannot be parsed; it vouches for nobody.
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                let errors = found.errors.iter().map(ToString::to_string).collect();
                return Err(ConnectorError::NoSystemRoots(errors));
            }
        }
    }
    let mut verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    if !revoked.is_empty() {
        let revoked = revoked.into_iter().map(CertificateRevocationListDer::from);
        verifier = verifier.with_crls(revoked).enforce_revocation_expiration();
    }
    let verifier = verifier
        .build()
        .map_err(|error| ConnectorError::Unusable(rustls::Error::General(error.to_string())))?;
    Ok(verifier)
}

/// Takes every certificate, but still demands that the server holds the key to it.
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
