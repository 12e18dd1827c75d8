//! What clients have to show of themselves: `ssl_verify_client`. The handshake takes every certificate; whether it is
//! believed is asked with the first request of a connection, and the answer says why not.

use std::path::Path;
use std::time::SystemTime;

use sluice_certs::{ClientTrust, Doubt};
use sluice_message::Judged;
use sluice_model::nginx::ClientCertificates as Config;

use crate::build::Refusal;
use crate::context::Exchange;
use crate::trust_pool::{from_file, revoked_from_file};

/// nginx's own statuses for clients without a certificate that will do; clients are told 400.
const WRONG_CERTIFICATE: u16 = 495;
const NO_CERTIFICATE: u16 = 496;

/// What is asked of clients.
pub struct Clients {
    trust: ClientTrust,
    /// Whether there has to be a certificate.
    is_demanded: bool,
    /// Whether somebody of ours has to vouch for it.
    needs_issuer: bool,
}

impl Clients {
    /// Reads the files.
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
        let trust = ClientTrust::new(authorities, lists, depth);
        Ok(Clients {
            trust: trust.map_err(|error| Refusal::new(error.to_string()))?,
            is_demanded,
            needs_issuer,
        })
    }

    /// Whether the client of a request will do; if not, a status and why.
    pub fn judge(&self, x: &mut Exchange) -> Result<(), (u16, &'static str)> {
        let Some(tls) = &x.conn.tls else {
            return Ok(());
        };
        if tls.client_certs.is_empty() {
            return match self.is_demanded {
                true => Err((NO_CERTIFICATE, "client sent no required SSL certificate")),
                false => Ok(()),
            };
        }
        let number = match x.conn.facts.judged.get() {
            Some(judged) if judged.by == self.trust.id() => judged.doubt,
            Some(_) | None => {
                let judged = self.trust.judge(&tls.client_certs, SystemTime::now());
                let doubt = judged.err().map_or(0, Doubt::number);
                x.conn.facts.judged.set(Some(Judged {
                    by: self.trust.id(),
                    doubt,
                }));
                doubt
            }
        };
        x.context.nginx.doubt = number;
        match Doubt::from_number(number) {
            None => Ok(()),
            Some(doubt) if !self.needs_issuer && doubt.is_of_issuer() => Ok(()),
            Some(_) => Err((WRONG_CERTIFICATE, "client SSL certificate verify error")),
        }
    }
}

/// Whether the handshake named another host than the request does.
pub fn names_another_host(x: &Exchange) -> bool {
    let tls = x.conn.tls.as_ref();
    tls.is_some_and(|tls| {
        let name = tls.server_name.as_bytes();
        !name.is_empty() && name != &x.req.host[..]
    })
}
