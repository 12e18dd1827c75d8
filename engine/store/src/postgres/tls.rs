//! TLS to PostgreSQL, by rustls with the settings of our other clients.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pki_types::pem::PemObject;
use pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use sluice_net::tls::{NameRule, ServerTrust, certificates_from_pem, server_verifier};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as Encrypted;

use crate::tls::{TlsOptions, TlsVerification};

/// Makes connections encrypted.
#[derive(Clone)]
pub(super) struct MakeTls(Arc<ClientConfig>);

/// The same for one server.
pub(super) struct Named {
    config: Arc<ClientConfig>,
    name: String,
}

/// An encrypted connection.
pub(super) struct Stream<S>(Encrypted<S>);

impl MakeTls {
    pub(super) fn new(options: &TlsOptions) -> Result<MakeTls, String> {
        let trust = match (options.verification, &options.ca) {
            (TlsVerification::None, _) => ServerTrust::Anyone,
            (TlsVerification::Full, None) => ServerTrust::System,
            (TlsVerification::Full, Some(pem)) => {
                let roots = certificates_from_pem(pem);
                ServerTrust::Pool(roots.map_err(|error| format!("the CA certificates: {error}"))?)
            }
        };
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = server_verifier(trust, NameRule::Alternative, Vec::new(), provider.clone());
        let verifier = verifier.map_err(|error| error.to_string())?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(rustls::ALL_VERSIONS)
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match &options.identity {
            None => config.with_no_client_auth(),
            Some((chain, key)) => {
                let unusable = |what: String| format!("the client certificate: {what}");
                let chain = certificates_from_pem(chain).map_err(|e| unusable(e.to_string()))?;
                let chain = chain.into_iter().map(CertificateDer::from).collect();
                let key = PrivateKeyDer::from_pem_slice(key);
                let key = key.map_err(|e| unusable(e.to_string()))?;
                let config = config.with_client_auth_cert(chain, key);
                config.map_err(|e| unusable(e.to_string()))?
            }
        };
        Ok(MakeTls(Arc::new(config)))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for MakeTls {
    type Stream = Stream<S>;
    type TlsConnect = Named;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Named> {
        Ok(Named {
            config: Arc::clone(&self.0),
            name: domain.to_owned(),
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Named {
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let name = ServerName::try_from(self.name).map_err(io::Error::other)?;
            let connector = TlsConnector::from(self.config);
            connector.connect(name, stream).await.map(Stream)
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    /// None: the server is authenticated by its certificate.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
