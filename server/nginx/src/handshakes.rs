//! What an nginx.conf adds to TLS handshakes: server names with patterns, and lookup tables in the paths of certificates.

use sluice_certs::policy::Choice;
use sluice_model::{Handler, Server};

use super::servers::Names;
use super::state::NginxContext;
use super::tables::Tables;
use sluice_pipeline::context::Context;
use sluice_pipeline::refusal::Refusal;
use sluice_tls::handshakes::{HandshakeRules, Prepare};

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

    fn variables(&self, server: &Server) -> Result<Option<Prepare>, Refusal> {
        let mut handlers = server.routes.iter().flat_map(|route| &route.handle);
        let nginx = handlers.find_map(|handler| match handler {
            Handler::Nginx(nginx) => Some(nginx),
            _ => None,
        });
        let Some(nginx) = nginx else { return Ok(None) };
        let Some(tables) = Tables::shared(&nginx.tables, None)? else {
            return Ok(None);
        };
        Ok(Some(Box::new(move |context: &mut Context| {
            context.set_tables(Some(&tables));
        })))
    }
}
