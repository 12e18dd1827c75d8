//! `auth_request`: a subrequest to another location decides whether the request is allowed. The subrequest itself
//! is made by `subrequest`.

use std::sync::Arc;

use sluice_message::{FieldId, Status};
use sluice_model::nginx::AskLocation as Config;
use sluice_route::Template;
use sluice_route::placeholder::nginx::variable_name;

use super::Opinion;
use crate::spelling::WWW_AUTHENTICATE;
use crate::subrequest;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::subrequests::ServerRef;
use sluice_pipeline::values::expanded_traced;

/// The location that receives the authorization subrequest.
pub struct AskLocation {
    uri: Box<[u8]>,
    set: Vec<(Arc<str>, Template)>,
    site: ServerRef,
}

impl AskLocation {
    /// Parses the directive.
    pub fn build(config: &Config, builder: &Builder<'_>) -> Result<AskLocation, Refusal> {
        if !config.uri.starts_with('/') {
            return Err(Refusal::new(format!(
                "auth_request `{}` is not a path",
                config.uri
            )));
        }
        let set = config.set.iter().map(|set| {
            let name: Arc<str> = variable_name(&set.variable).into();
            Ok((name, builder.template(&set.value)?))
        });
        Ok(AskLocation {
            uri: config.uri.as_bytes().into(),
            set: set.collect::<Result<_, Refusal>>()?,
            site: builder.itself.clone(),
        })
    }

    /// The text for `explain`, which does not send the subrequest.
    pub fn account(&self) -> String {
        let uri = String::from_utf8_lossy(&self.uri);
        format!("would ask `{uri}`, which is assumed to let the request in")
    }

    /// Sends the subrequest and turns its status into a decision.
    pub async fn ask(&self, exchange: &mut Exchange) -> Opinion {
        let Some(site) = self.site.get() else {
            let fault = Fault::new(Status::SERVICE_UNAVAILABLE, "the server is ending");
            return Opinion::Failed(fault);
        };
        let mut sub = subrequest::begin(exchange, &self.uri);
        // Only the head of the response matters.
        drop(Box::pin(site.fetch(&mut sub)).await);
        for (name, value) in &self.set {
            let (value, provenance) = expanded_traced(value, &sub);
            *sub.context.vars.slot_from(name, provenance) = value;
        }
        let status = sub.res.status;
        let challenges: Vec<Vec<u8>> = match status {
            Status::UNAUTHORIZED => {
                let fields = sub.res.fields.all(FieldId::WwwAuthenticate);
                fields.map(<[u8]>::to_vec).collect()
            }
            _ => Vec::new(),
        };
        subrequest::end(exchange, sub);
        match status.code() {
            200..=299 => Opinion::Allowed,
            401 => {
                exchange.res.fields.remove(FieldId::WwwAuthenticate);
                for challenge in &challenges {
                    exchange.res.fields.push_raw(
                        FieldId::WwwAuthenticate,
                        WWW_AUTHENTICATE,
                        challenge,
                    );
                }
                Opinion::Refused(Fault::new(status, "`auth_request` wants a login"))
            }
            403 => Opinion::Refused(Fault::new(status, "`auth_request` says no")),
            code => {
                let why = format!("`auth_request` got status {code}, expected 2xx, 401 or 403");
                Opinion::Failed(Fault::new(Status::INTERNAL_SERVER_ERROR, why))
            }
        }
    }
}
