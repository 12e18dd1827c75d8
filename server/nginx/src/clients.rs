//! `ssl_verify_client`: client certificates. The handshake accepts every certificate; it is verified with the first
//! request of the connection, so that the response can state the reason.

use std::path::Path;
use std::time::SystemTime;

use sluice_message::Judged;
use sluice_model::nginx::ClientCertificates as Config;
use sluice_net::tls::{ChainTrust, Doubt};

use crate::state::NginxContext;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use sluice_tls::trust_pool::{from_file, revoked_from_file};

/// nginx's statuses for unacceptable and missing client certificates; clients receive 400.
const WRONG_CERTIFICATE: u16 = 495;
const NO_CERTIFICATE: u16 = 496;

/// Client certificate requirements of a server.
pub struct Clients {
    trust: ChainTrust,
    /// Whether a certificate is required.
    is_demanded: bool,
    /// Whether a certificate has to be issued by one of the configured CAs.
    needs_issuer: bool,
}

impl Clients {
    /// Parses the directives and reads the certificate files.
    pub fn build(config: &Config) -> Result<Clients, Refusal> {
        let (is_demanded, needs_issuer) = match config.verify.as_str() {
            "on" => (true, true),
            "optional" => (false, true),
            "optional_no_ca" => (false, false),
            other => return Err(Refusal::new(format!("`verify` of clients is `{other}`"))),
        };
        let mut authorities = Vec::new();
        for file in &config.authorities {
            authorities.extend(from_file(file)?);
        }
        let mut lists = Vec::new();
        for file in &config.revoked {
            lists.extend(revoked_from_file(Path::new(file))?);
        }
        let depth = usize::try_from(config.depth).unwrap_or(usize::MAX);
        let trust = ChainTrust::new(authorities, lists, depth);
        Ok(Clients {
            trust: trust.map_err(|error| Refusal::new(error.to_string()))?,
            is_demanded,
            needs_issuer,
        })
    }

    /// Checks the client certificate of a request; the error holds a status and the reason.
    pub fn judge(&self, exchange: &mut Exchange) -> Result<(), (u16, &'static str)> {
        let Some(tls) = &exchange.conn.tls else {
            return Ok(());
        };
        if tls.client_certs.is_empty() {
            return match self.is_demanded {
                true => Err((NO_CERTIFICATE, "client sent no required SSL certificate")),
                false => Ok(()),
            };
        }
        let number = match exchange.conn.facts.judged.get() {
            Some(judged) if judged.by == self.trust.id() => judged.doubt,
            Some(_) | None => {
                let judged = self.trust.judge(&tls.client_certs, SystemTime::now());
                let doubt = judged.err().map_or(0, Doubt::number);
                exchange.conn.facts.judged.set(Some(Judged {
                    by: self.trust.id(),
                    doubt,
                }));
                doubt
            }
        };
        exchange.context.nginx_mut().doubt = number;
        match Doubt::from_number(number) {
            None => Ok(()),
            Some(doubt) if !self.needs_issuer && doubt.is_of_issuer() => Ok(()),
            Some(_) => Err((WRONG_CERTIFICATE, "client SSL certificate verify error")),
        }
    }
}

/// Whether the SNI name of the handshake differs from the host of the request.
pub fn names_another_host(exchange: &Exchange) -> bool {
    let tls = exchange.conn.tls.as_ref();
    tls.is_some_and(|tls| {
        let name = tls.server_name.as_bytes();
        !name.is_empty() && name != &exchange.req.host[..]
    })
}
