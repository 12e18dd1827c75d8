//! What an nginx.conf adds to TLS handshakes: server names with patterns, and lookup tables in the paths of certificates.

use std::sync::Arc;

use sluice_certs::policy::Choice;
use sluice_model::{Handler, Server};
use sluice_route::Provenance;
use sluice_route::placeholder::NginxKey;

use super::servers::Names;
use super::state::{Lookup, Subject};
use super::tables::Tables;
use super::variables::of_handshake;
use sluice_pipeline::refusal::Refusal;
use sluice_tls::handshakes::{Handshake, HandshakeRules, HandshakeVariables};

/// The rules of nginx.
pub struct NginxHandshakes;

impl HandshakeRules for NginxHandshakes {
    fn choice(&self, lists: &[&[String]]) -> Result<Box<Choice>, Refusal> {
        let names = Names::of_handshakes(lists.iter().copied())?;
        Ok(Box::new(move |name| {
            let found = names.find_sni(name.as_bytes())?;
            usize::try_from(found).ok()
        }))
    }

    fn variables(&self, server: &Server) -> Result<Box<dyn HandshakeVariables>, Refusal> {
        let mut handlers = server.routes.iter().flat_map(|route| &route.handle);
        let tables = handlers.find_map(|handler| match handler {
            Handler::Nginx(nginx) => Some(&nginx.tables[..]),
            _ => None,
        });
        let tables = Tables::shared(tables.unwrap_or_default(), Vec::new(), None)?;
        Ok(Box::new(Variables { tables }))
    }
}

/// Variables in the paths of certificates.
struct Variables {
    tables: Option<Arc<dyn Lookup>>,
}

impl HandshakeVariables for Variables {
    fn value(&self, handshake: &Handshake<'_>, key: &NginxKey, out: &mut Vec<u8>) {
        match (key, &self.tables) {
            (NginxKey::Table(name), Some(tables)) => {
                tables.value(Subject::Handshake(handshake), name, out);
            }
            _ => of_handshake(handshake.conn, key, out),
        }
    }

    fn provenance(&self, handshake: &Handshake<'_>, key: &NginxKey) -> Option<Provenance> {
        match (key, &self.tables) {
            (NginxKey::Table(name), Some(tables)) => {
                Some(tables.value(Subject::Handshake(handshake), name, &mut Vec::new()))
            }
            (NginxKey::Capture(_), _) => Some(Provenance::Configured),
            _ => None,
        }
    }
}
