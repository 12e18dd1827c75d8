//! TLS server sessions: wait for the ClientHello, select the configuration by it, and continue the handshake.

use std::future::Future;
use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::ServerConfig;
use rustls::server::{Accepted, AcceptedAlert, ClientHello, ProducesTickets};
use sluice_message::{Offered, TlsInfo};

use super::{Live, tls_error};
use crate::limits::{TLS_HANDSHAKE_READ_BYTES, TLS_OFFERS_MAX};
use crate::tls::session::{Acceptor, Ends, Session, SessionError};

/// A future that a handshake waits for, such as the issuance of a certificate. It may return the configuration to
/// continue with, which skips [`ConfigChoice::choose`].
pub type Preparation = Pin<Box<dyn Future<Output = Option<Arc<ServerConfig>>> + Send>>;

/// Selects the configuration for a client by its ClientHello. Runs on a worker's thread and must not block.
pub trait ConfigChoice: Send + Sync {
    /// Returns a future to wait for before [`ConfigChoice::choose`], which gets the same arguments. Called once per
    /// handshake.
    fn prepare(&self, _hello: &ClientHello<'_>, _ends: Ends) -> Option<Preparation> {
        None
    }

    /// Whether the cipher suites and groups that clients offer are to be recorded.
    fn keeps_offers(&self) -> bool {
        false
    }

    /// Whether there is a certificate for this server name, whatever else the client offers. Called only after a
    /// handshake has failed for lack of a certificate.
    fn has_certificate(&self, _server_name: Option<&str>, _ends: Ends) -> bool {
        true
    }

    /// Selects the configuration for a connection between these addresses.
    fn choose(&self, hello: &ClientHello<'_>, ends: Ends) -> Arc<ServerConfig>;
}

/// Creates server sessions.
pub struct RustlsAcceptor {
    choice: Arc<dyn ConfigChoice>,
}

impl RustlsAcceptor {
    /// An acceptor whose sessions are configured by `choice`.
    pub fn new(choice: Arc<dyn ConfigChoice>) -> Self {
        RustlsAcceptor { choice }
    }
}

impl Acceptor for RustlsAcceptor {
    fn accept(&self) -> Box<dyn Session> {
        self.accept_at(Ends::default())
    }

    fn accept_at(&self, ends: Ends) -> Box<dyn Session> {
        Box::new(ServerSession {
            choice: self.choice.clone(),
            ends,
            stage: Stage::Sniff { held: Vec::new() },
        })
    }

    fn config_choice(&self) -> Option<Arc<dyn ConfigChoice>> {
        Some(self.choice.clone())
    }
}

struct ServerSession {
    choice: Arc<dyn ConfigChoice>,
    ends: Ends,
    stage: Stage,
}

enum Stage {
    /// The first bytes may still turn out to be plain HTTP.
    Sniff {
        held: Vec<u8>,
    },
    AwaitHello(rustls::server::Acceptor),
    /// Waits for a [`Preparation`]; what the client sends meanwhile is buffered.
    Prepare(Box<Preparing>),
    Live(Live),
    /// Refused; the rest of the alert to send.
    Refused(Vec<u8>),
}

/// A handshake that waits for a [`Preparation`].
struct Preparing {
    accepted: Accepted,
    preparation: Preparation,
    held: Vec<u8>,
}

impl ServerSession {
    fn accept(&mut self, mut acceptor: rustls::server::Acceptor) -> Result<Stage, SessionError> {
        match acceptor.accept() {
            Ok(None) => Ok(Stage::AwaitHello(acceptor)),
            Ok(Some(accepted)) => match self.prepare(&accepted) {
                None => self.go_on(accepted, None),
                Some(preparation) => Ok(Stage::Prepare(Box::new(Preparing {
                    accepted,
                    preparation,
                    held: Vec::new(),
                }))),
            },
            Err((error, alert)) => Err(self.refuse(error, alert, HANDSHAKE_FAILURE)),
        }
    }

    fn prepare(&self, accepted: &Accepted) -> Option<Preparation> {
        self.choice.prepare(&accepted.client_hello(), self.ends)
    }

    fn go_on(
        &mut self,
        accepted: Accepted,
        prepared: Option<Arc<ServerConfig>>,
    ) -> Result<Stage, SessionError> {
        let hello = accepted.client_hello();
        let config = prepared.unwrap_or_else(|| self.choice.choose(&hello, self.ends));
        let keeps = self.choice.keeps_offers();
        let offered = keeps.then(|| Box::new(offered(&hello)));
        let is_probe = config.alpn_protocols == [CHALLENGE_ALPN];
        let name = hello.server_name().map(str::to_owned);
        match accepted.into_connection(config) {
            Ok(conn) => {
                let mut live = Live::new(conn.into());
                live.is_probe = is_probe;
                live.offered = offered;
                let processed = live.process();
                // The stage is stored even after an error: it holds the alert to send.
                self.stage = Stage::Live(live);
                processed?;
                Ok(std::mem::replace(
                    &mut self.stage,
                    Stage::Refused(Vec::new()),
                ))
            }
            Err((error, alert)) => {
                let why = match self.choice.has_certificate(name.as_deref(), self.ends) {
                    true => HANDSHAKE_FAILURE,
                    false => UNRECOGNIZED_NAME,
                };
                Err(self.refuse(error, alert, why))
            }
        }
    }

    /// Stores the alert to send. Without a matching certificate rustls sends `access_denied`, which is about client
    /// authorization (RFC 8446, section 6.2); it is replaced by the alert `no_certificate`.
    fn refuse(
        &mut self,
        error: rustls::Error,
        mut alert: AcceptedAlert,
        no_certificate: u8,
    ) -> SessionError {
        let mut bytes = Vec::new();
        // Writing to memory does not fail, and a missing alert changes nothing.
        let _ = alert.write_all(&mut bytes);
        if let [ALERT_RECORD, _, _, 0, 2, _, what] = &mut bytes[..]
            && *what == ACCESS_DENIED
        {
            *what = no_certificate;
        }
        self.stage = Stage::Refused(bytes);
        tls_error(error)
    }

    /// Collects bytes until it is certain whether they are HTTP.
    fn sniff(&mut self, mut held: Vec<u8>, input: &[u8]) -> Result<usize, SessionError> {
        let taken = input.len().min(HTTP_START_BYTES - held.len());
        held.extend_from_slice(&input[..taken]);
        match looks_like_http(&held) {
            Likeness::Http => Err(SessionError::PlainHttp),
            Likeness::Unclear => {
                self.stage = Stage::Sniff { held };
                Ok(taken)
            }
            Likeness::Other => {
                let mut acceptor = rustls::server::Acceptor::default();
                // At most five bytes, which the empty buffer of a new acceptor accepts at once.
                acceptor.read_tls(&mut &held[..]).map_err(tls_error)?;
                self.stage = self.accept(acceptor)?;
                Ok(taken)
            }
        }
    }
}

impl Session for ServerSession {
    fn is_preparing(&self) -> bool {
        matches!(self.stage, Stage::Prepare(_))
    }

    fn poll_prepared(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SessionError>> {
        let Stage::Prepare(preparing) = &mut self.stage else {
            return Poll::Ready(Ok(()));
        };
        let prepared = ready!(preparing.preparation.as_mut().poll(cx));
        let stage = std::mem::replace(&mut self.stage, Stage::Refused(Vec::new()));
        let Stage::Prepare(preparing) = stage else {
            return Poll::Ready(Ok(()));
        };
        let Preparing { accepted, held, .. } = *preparing;
        self.stage = match self.go_on(accepted, prepared) {
            Ok(stage) => stage,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let mut rest = &held[..];
        while !rest.is_empty() {
            match self.receive(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn receive(&mut self, input: &[u8]) -> Result<usize, SessionError> {
        if let Stage::Live(live) = &mut self.stage {
            return live.receive(input);
        }
        match std::mem::replace(&mut self.stage, Stage::Refused(Vec::new())) {
            Stage::Sniff { held } => self.sniff(held, input),
            Stage::AwaitHello(mut acceptor) => {
                let mut rest = input;
                let taken = acceptor.read_tls(&mut rest).map_err(tls_error)?;
                if taken == 0 && !input.is_empty() {
                    return Err(SessionError::Tls(
                        "TLS session accepts no more input".into(),
                    ));
                }
                self.stage = self.accept(acceptor)?;
                Ok(taken)
            }
            Stage::Prepare(mut preparing) => {
                if preparing.held.len() + input.len() > TLS_HANDSHAKE_READ_BYTES {
                    return Err(SessionError::Tls(
                        "too many bytes before the handshake".into(),
                    ));
                }
                preparing.held.extend_from_slice(input);
                self.stage = Stage::Prepare(preparing);
                Ok(input.len())
            }
            Stage::Live(mut live) => {
                let received = live.receive(input);
                self.stage = Stage::Live(live);
                received
            }
            Stage::Refused(alert) => {
                self.stage = Stage::Refused(alert);
                Err(SessionError::Tls("TLS session was refused".into()))
            }
        }
    }

    fn read(&mut self, out: &mut [u8]) -> usize {
        self.live_mut().map_or(0, |live| live.read(out))
    }

    fn has_plaintext(&self) -> bool {
        self.live().is_some_and(Live::has_plaintext)
    }

    fn has_peer_closed(&self) -> bool {
        self.live().is_some_and(Live::has_peer_closed)
    }

    fn write(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, SessionError> {
        match self.live_mut() {
            Some(live) => live.write(slices),
            None => Err(SessionError::Tls("TLS session is not open".into())),
        }
    }

    fn has_output(&self) -> bool {
        match &self.stage {
            Stage::Sniff { .. } | Stage::AwaitHello(_) | Stage::Prepare(_) => false,
            Stage::Live(live) => live.has_output(),
            Stage::Refused(alert) => !alert.is_empty(),
        }
    }

    fn transmit(&mut self, sink: &mut dyn Write) -> io::Result<usize> {
        match &mut self.stage {
            Stage::Sniff { .. } | Stage::AwaitHello(_) | Stage::Prepare(_) => Ok(0),
            Stage::Live(live) => live.transmit(sink),
            Stage::Refused(alert) => {
                let count = sink.write(alert)?;
                alert.drain(..count);
                Ok(count)
            }
        }
    }

    fn is_handshaking(&self) -> bool {
        self.live().is_none_or(Live::is_handshaking)
    }

    fn is_early(&self) -> bool {
        self.live().is_some_and(Live::is_early)
    }

    fn may_output_wait(&self) -> bool {
        self.live().is_some_and(Live::may_output_wait)
    }

    fn info(&self) -> TlsInfo {
        self.live().map_or_else(TlsInfo::default, Live::info)
    }

    fn close(&mut self) {
        if let Some(live) = self.live_mut() {
            live.close();
        }
    }

    fn trim(&mut self) {
        if let Some(live) = self.live_mut() {
            live.trim();
        }
    }
}

impl ServerSession {
    fn live(&self) -> Option<&Live> {
        match &self.stage {
            Stage::Live(live) => Some(live),
            Stage::Sniff { .. } | Stage::AwaitHello(_) | Stage::Prepare(_) | Stage::Refused(_) => {
                None
            }
        }
    }

    fn live_mut(&mut self) -> Option<&mut Live> {
        match &mut self.stage {
            Stage::Live(live) => Some(live),
            Stage::Sniff { .. } | Stage::AwaitHello(_) | Stage::Prepare(_) | Stage::Refused(_) => {
                None
            }
        }
    }
}

/// Makes no tickets, so that sessions are kept in the storage of the configuration, or nowhere.
#[derive(Debug)]
pub struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _plain: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _cipher: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// What a client offers, as far as it is recorded.
pub fn offered(hello: &ClientHello<'_>) -> Offered {
    fn numbers<T: Copy + Into<u16>>(list: &[T]) -> Vec<u16> {
        let kept = list.iter().take(TLS_OFFERS_MAX);
        kept.map(|one| (*one).into()).collect()
    }
    Offered {
        ciphers: numbers(hello.cipher_suites()),
        groups: numbers(hello.named_groups().unwrap_or_default()),
        id: [0; 32],
    }
}

/// The record type of an alert, and the alerts used here (RFC 8446, sections 5.1 and 6; RFC 6066, section 3).
const ALERT_RECORD: u8 = 21;
const HANDSHAKE_FAILURE: u8 = 40;
const ACCESS_DENIED: u8 = 49;
const UNRECOGNIZED_NAME: u8 = 112;

/// The ALPN protocol with which CAs validate control of a name. RFC 8737, section 4: nothing may follow the handshake;
/// and no client certificate is requested, even if the site requires one.
const CHALLENGE_ALPN: &[u8] = b"acme-tls/1";

const HTTP_START_BYTES: usize = 5;

/// The first bytes of plain HTTP requests. A TLS record begins with a byte below 32.
const HTTP_STARTS: [&[u8; HTTP_START_BYTES]; 10] = [
    b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO", b"DELET", b"PATCH", b"CONNE", b"TRACE",
    b"PRI *",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Likeness {
    Http,
    Unclear,
    Other,
}

fn looks_like_http(start: &[u8]) -> Likeness {
    match HTTP_STARTS.iter().any(|known| known.starts_with(start)) {
        true if start.len() == HTTP_START_BYTES => Likeness::Http,
        true => Likeness::Unclear,
        false => Likeness::Other,
    }
}
