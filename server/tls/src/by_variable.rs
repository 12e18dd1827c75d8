//! Certificate paths with variables: evaluates them for a handshake, and logs certificates that cannot be loaded.
//! `sluice-certs` reads the files.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use sluice_certs::named::DATA;
use sluice_certs::{CertsError, Keep, NamedPairs, NamesPairs, PairName, Passwords, Unusable};
use sluice_message::{ConnFacts, ConnInfo, Remote, TlsInfo};
use sluice_model::Server;
use sluice_model::tls::{ConnectionPolicy, NamedCertificates};
use sluice_net::tls::Ends;
use sluice_route::Template;
use sluice_route::placeholder::Unknown;

use super::around::Around;
use super::handshakes::{Handshake, HandshakeVariables};
use sluice_observe::log::Log;
use sluice_pipeline::build::template;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;

/// A path that cannot exist: a handshake whose name does not fit into a path fails.
const NO_FILE: &[u8] = b"\0";

/// The certificate paths of a policy.
struct Names {
    pairs: Vec<(Template, Template)>,
    /// The base of relative paths; empty, or with a trailing slash.
    folder: Vec<u8>,
    variables: Box<dyn HandshakeVariables>,
    log: Log,
}

/// The key pairs of a policy with variables in their paths; `None` if there are none.
pub(super) fn build(
    config: &ConnectionPolicy,
    server: &Server,
    around: &Around<'_>,
) -> Result<Option<NamedPairs>, Refusal> {
    let Some(config) = &config.named_certificates else {
        return Ok(None);
    };
    let NamedCertificates {
        pairs,
        folder,
        password_file,
        kept_max,
        kept_inactive,
        kept_valid,
        origin,
    } = config;
    let written = origin.route();
    let pairs = pairs
        .iter()
        .map(|pair| Ok((template(&pair.certificate)?, template(&pair.key)?)))
        .collect::<Result<Vec<_>, Refusal>>()?;
    let passwords = match password_file.as_str() {
        "" => Passwords::default(),
        file => Passwords::read(Path::new(file)).map_err(|error| Refusal {
            written,
            ..Refusal::new(error.to_string())
        })?,
    };
    let names = Names {
        pairs,
        folder: match folder.as_str() {
            "" => Vec::new(),
            folder => format!("{folder}/").into_bytes(),
        },
        variables: around.rules.variables(server)?,
        log: around.log.clone(),
    };
    let keep = Keep {
        max: *kept_max as usize,
        inactive: given(*kept_inactive).unwrap_or_default(),
        valid: given(*kept_valid).unwrap_or_default(),
    };
    Ok(Some(NamedPairs::new(
        Arc::new(names),
        Arc::new(passwords),
        keep,
    )))
}

impl NamesPairs for Names {
    fn names(&self, server_name: Option<&str>, ends: Ends) -> Vec<PairName> {
        let conn = connection(server_name, ends);
        let handshake = Handshake::new(&conn, &*self.variables);
        let named = |text: &Template| {
            let mut name = Vec::new();
            text.expand(&handshake, Unknown::Empty, &mut name);
            let is_path = !name.starts_with(DATA);
            if is_path && text.expand_path(&handshake, &mut Vec::new()).is_err() {
                return NO_FILE.to_vec();
            }
            match name.first() {
                Some(b'/') | None => name,
                Some(_) if name.starts_with(DATA) => name,
                Some(_) => [self.folder.as_slice(), &name].concat(),
            }
        };
        let pairs = self.pairs.iter();
        pairs
            .map(|(certificate, key)| PairName {
                certificate: named(certificate),
                key: named(key),
            })
            .collect()
    }

    fn log_failure(&self, failed: &Unusable, ends: Ends) {
        let message = format!("{} while SSL handshaking", failure_message(failed));
        let shown = |ip: Option<IpAddr>| ip.map_or(String::new(), |ip| ip.to_string());
        self.log
            .error("http.log.error.error", &message)
            .text("client", shown(ends.remote))
            .text("server", shown(ends.local))
            .send();
    }
}

/// nginx's log message, which log analyzers search for.
fn failure_message(failed: &Unusable) -> String {
    let Unusable::Pair { name, error } = failed else {
        return "cannot load certificate: too many handshakes wait for theirs".to_owned();
    };
    let shown = |name: &[u8]| match name.strip_prefix(DATA) {
        Some(_) => "data:".to_owned(),
        None => sluice_diag::shown(&String::from_utf8_lossy(name)).to_string(),
    };
    let key = String::from_utf8_lossy(&name.key);
    let (what, name) = match error.is_about_key(Path::new(&*key)) {
        true => ("certificate key", shown(&name.key)),
        false => ("certificate", shown(&name.certificate)),
    };
    let why = match &**error {
        CertsError::Io { source, .. } => {
            let number = source.raw_os_error().unwrap_or(2);
            let text = std::io::Error::from_raw_os_error(number).to_string();
            let text = text.split(" (os error").next().unwrap_or_default();
            format!("BIO_new_file() failed ({number}: {text})")
        }
        other => other.to_string(),
    };
    format!("cannot load {what} \"{name}\": {why}")
}

/// The connection of a handshake, as far as it is known.
fn connection(server_name: Option<&str>, ends: Ends) -> ConnInfo {
    ConnInfo {
        remote: match ends.remote {
            Some(ip) => Remote::Ip(SocketAddr::new(ip, 0)),
            None => Remote::Unix,
        },
        local: ends.local.map(|ip| SocketAddr::new(ip, 0)).into(),
        tls: Some(Box::new(TlsInfo {
            server_name: server_name.unwrap_or_default().to_ascii_lowercase(),
            ..TlsInfo::default()
        })),
        facts: ConnFacts::default(),
    }
}
