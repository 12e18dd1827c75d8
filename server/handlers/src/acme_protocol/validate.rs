//! Validates challenges over the network. `orders` decides which ones.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs as provider;
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};
use sluice_dns::fetch::{FetchKind, FetchOptions, Fetcher};
use sluice_net::tls::Signatures;
use sluice_upstream::Resolver;
use ureq::http::Request;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::problem::Problem;
use super::rules::{AcmeRules, ChallengeKind};
use crate::limits::{ACME_LOOK_PAUSE, ACME_LOOK_TIMEOUT, ACME_LOOKS, ACME_PROOF_BYTES_MAX};
use sluice_certs::acme::run;
use sluice_certs::challenges::{ALPN, HTTP_PREFIX};
use sluice_certs::subject::Subject;

/// The extension that tls-alpn-01 looks for, `id-pe-acmeIdentifier` (RFC 8737, section 3).
const ACME_IDENTIFIER: &str = "1.3.6.1.5.5.7.1.31";

/// A challenge to validate.
pub(super) struct Look {
    pub(super) kind: ChallengeKind,
    pub(super) subject: Subject,
    pub(super) token: String,
    /// The key authorization: the token with the thumbprint of the account's key (RFC 8555, section 8.1).
    pub(super) authorization: String,
}

impl Look {
    /// Validates the challenge, retrying a few times: the client's network may be slow to update. Blocks for at most
    /// [`ACME_LOOKS`] times [`ACME_LOOK_TIMEOUT`] plus the pauses.
    pub(super) fn run(&self, rules: &AcmeRules) -> Result<(), Problem> {
        let mut looks = 1;
        loop {
            let found = match self.kind {
                ChallengeKind::Http01 => self.http(rules),
                ChallengeKind::TlsAlpn01 => self.tls_alpn(rules),
                ChallengeKind::Dns01 => self.dns(rules),
            };
            match found {
                Err(problem) if looks >= ACME_LOOKS => return Err(problem),
                Err(_) => std::thread::sleep(ACME_LOOK_PAUSE),
                Ok(()) => return Ok(()),
            }
            looks += 1;
        }
    }

    /// RFC 8555, section 8.3.
    fn http(&self, rules: &AcmeRules) -> Result<(), Problem> {
        let host = match self.subject.ip() {
            Some(ip) if ip.is_ipv6() => format!("[{ip}]"),
            Some(_) | None => self.subject.to_string(),
        };
        let port = match rules.http_port {
            80 => String::new(),
            port => format!(":{port}"),
        };
        let url = format!("http://{host}{port}{HTTP_PREFIX}{}", self.token);
        let fetcher = Fetcher::new(&FetchOptions {
            kind: FetchKind::Probe,
            timeout: ACME_LOOK_TIMEOUT,
            redirects: 10,
            ..FetchOptions::default()
        });
        let request = Request::get(&url)
            .body(Vec::new())
            .map_err(|error| connection(error.to_string()))?;
        let response = fetcher.send(request).map_err(connection)?;
        let body = response.body();
        let found = body.get(..body.len().min(ACME_PROOF_BYTES_MAX));
        let found = found.unwrap_or_default().trim_ascii_end();
        if response.status() == 200 && found == self.authorization.as_bytes() {
            return Ok(());
        }
        let status = response.status().as_u16();
        Err(Problem::of(
            "incorrectResponse",
            403,
            format!("`{url}` responded with status {status} instead of the key authorization"),
        ))
    }

    /// RFC 8555, section 8.4.
    fn dns(&self, rules: &AcmeRules) -> Result<(), Problem> {
        let name = self.subject.to_string();
        let name = name.strip_prefix("*.").unwrap_or(&name);
        let name = format!("_acme-challenge.{name}.");
        let resolver = Resolver {
            servers: rules.resolvers.clone(),
            timeout: Some(ACME_LOOK_TIMEOUT),
            ..Resolver::default()
        };
        let wanted = URL_SAFE_NO_PAD.encode(self.digest());
        let found = run(resolver.texts(&name))?
            .map_err(|error| Problem::of("dns", 400, format!("`{name}`: {error}")))?;
        if found.records.iter().any(|text| text == wanted.as_bytes()) {
            return Ok(());
        }
        Err(Problem::of(
            "incorrectResponse",
            403,
            format!("no record at `{name}` has the digest of the key authorization"),
        ))
    }

    /// RFC 8737, section 3.
    fn tls_alpn(&self, rules: &AcmeRules) -> Result<(), Problem> {
        let host = match self.subject.ip() {
            Some(ip) => ip.to_string(),
            None => self.subject.to_string(),
        };
        let socket = dial(&host, rules.tls_port).map_err(|error| connection(error.to_string()))?;
        let (chain, protocol) = self
            .handshake(socket)
            .map_err(|error| Problem::of("tls", 400, error.to_string()))?;
        if protocol.as_deref() != Some(ALPN) {
            return Err(Problem::of(
                "tls",
                400,
                "the server does not speak `acme-tls/1`",
            ));
        }
        match chain.first().map(|cert| self.is_proof(cert)) {
            Some(Ok(())) => Ok(()),
            Some(Err(why)) => Err(Problem::of("incorrectResponse", 403, why)),
            None => Err(Problem::of("tls", 400, "the server shows no certificate")),
        }
    }

    /// The server's certificate and the negotiated protocol.
    fn handshake(&self, mut socket: TcpStream) -> io::Result<Shown> {
        let crypto = Arc::new(provider::default_provider());
        let verifier = Arc::new(BelieveAnyone(Signatures::new(crypto.clone())));
        let mut config = ClientConfig::builder_with_provider(crypto)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        let name = ServerName::try_from(self.subject.handshake_name()).map_err(io::Error::other)?;
        let mut session =
            ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        let until = Instant::now() + ACME_LOOK_TIMEOUT;
        while session.is_handshaking() {
            // Each read may block; together they must not exceed the timeout.
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            socket.set_read_timeout(Some(left))?;
            socket.set_write_timeout(Some(left))?;
            session.complete_io(&mut socket)?;
        }
        let chain = session.peer_certificates().unwrap_or_default();
        let chain = chain.iter().map(|cert| cert.clone().into_owned()).collect();
        Ok((chain, session.alpn_protocol().map(<[u8]>::to_vec)))
    }

    /// Checks a certificate: it must be for this name alone, with the digest in its extension.
    fn is_proof(&self, cert: &CertificateDer<'_>) -> Result<(), String> {
        let Ok((_, cert)) = X509Certificate::from_der(cert) else {
            return Err("the certificate is damaged".to_owned());
        };
        let mut names = Vec::new();
        let mut digest = None;
        for extension in cert.extensions() {
            if let ParsedExtension::SubjectAlternativeName(found) = extension.parsed_extension() {
                names.extend(found.general_names.iter().map(|name| self.is_named(name)));
            }
            if extension.oid.to_id_string() == ACME_IDENTIFIER && extension.critical {
                digest = Some(extension.value);
            }
        }
        if names != [true] {
            return Err("the certificate is not for this name alone".to_owned());
        }
        // An OCTET STRING of 32 bytes.
        match digest.and_then(|value| value.strip_prefix(&[4, 32])) {
            Some(found) if found == self.digest() => Ok(()),
            Some(_) => Err("the certificate has another digest".to_owned()),
            None => Err("the certificate has no digest in a critical extension".to_owned()),
        }
    }

    fn is_named(&self, name: &GeneralName<'_>) -> bool {
        match (name, self.subject.ip()) {
            (GeneralName::DNSName(name), None) => self
                .subject
                .name()
                .is_some_and(|own| own.eq_ignore_ascii_case(name)),
            (GeneralName::IPAddress(bytes), Some(std::net::IpAddr::V4(ip))) => {
                *bytes == ip.octets()
            }
            (GeneralName::IPAddress(bytes), Some(std::net::IpAddr::V6(ip))) => {
                *bytes == ip.octets()
            }
            _ => false,
        }
    }

    fn digest(&self) -> Vec<u8> {
        let digest = digest::digest(&digest::SHA256, self.authorization.as_bytes());
        digest.as_ref().to_vec()
    }
}

type Shown = (Vec<CertificateDer<'static>>, Option<Vec<u8>>);

/// Connects to the first of a name's addresses that accepts.
fn dial(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    let until = Instant::now() + ACME_LOOK_TIMEOUT;
    for addr in (host, port).to_socket_addrs()? {
        let left = until.saturating_duration_since(Instant::now());
        match TcpStream::connect_timeout(&addr, left.max(Duration::from_millis(1))) {
            Ok(socket) => return Ok(socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn connection(what: String) -> Problem {
    Problem::of("connection", 400, what)
}

/// Accepts any certificate: the proof is in the certificate itself.
#[derive(Debug)]
struct BelieveAnyone(Signatures);

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
        self.0.verify_tls12(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CustomExtension, KeyPair};

    use super::*;

    fn look(name: &str) -> Look {
        Look {
            kind: ChallengeKind::TlsAlpn01,
            subject: Subject::parse(name).unwrap(),
            token: "t".to_owned(),
            authorization: "t.thumb".to_owned(),
        }
    }

    fn cert(names: &[&str], digest: &[u8], critical: bool) -> CertificateDer<'static> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        let mut extension = CustomExtension::new_acme_identifier(digest);
        extension.set_criticality(critical);
        params.custom_extensions = vec![extension];
        params
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap()
            .der()
            .clone()
    }

    #[test]
    fn a_proof_is_for_one_name_and_has_the_digest() {
        let look_at = look("a.test");
        let digest = look_at.digest();
        let other = look("b.test");
        assert_eq!(look_at.is_proof(&cert(&["a.test"], &digest, true)), Ok(()));
        for (bad, why) in [
            (cert(&["b.test"], &digest, true), "another name"),
            (cert(&["a.test", "b.test"], &digest, true), "two names"),
            (cert(&["a.test"], &[7; 32], true), "another digest"),
            (cert(&["a.test"], &digest, false), "not critical"),
        ] {
            assert!(look_at.is_proof(&bad).is_err(), "{why}");
        }
        assert!(other.is_proof(&cert(&["a.test"], &digest, true)).is_err());
        let ip = look("127.0.0.1");
        assert_eq!(
            ip.is_proof(&cert(&["127.0.0.1"], &ip.digest(), true)),
            Ok(())
        );
        assert!(
            ip.is_proof(&cert(&["127.0.0.2"], &ip.digest(), true))
                .is_err()
        );
    }
}
