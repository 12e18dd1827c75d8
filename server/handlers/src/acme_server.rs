//! `acme_server`: an ACME server for a local CA. `acme_protocol` implements the protocol; this module translates HTTP
//! requests and responses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::acme_protocol::{AcmeDesk, AcmeRules, AcmeServer};
use crate::acme_protocol::{AcmeMethod, AcmeRequest, AcmeResponse, ChallengeKind, Names};
use crate::limits::ACME_BODY_BYTES_MAX;
use sluice_certs::Storage;
use sluice_message::{FieldId, FieldName, Method, Status};
use sluice_model::handler::{AcmeRules as NamesModel, AcmeServer as Config};
use sluice_net::body::SharedSlice;
use sluice_net::{Body, RequestBody};

use sluice_observe::Recorder;
use sluice_pipeline::build::Builder;
use sluice_pipeline::collect::collect;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Account, Assumed, Handler, Step, Waiting};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use sluice_tls::resolver;

const LOGGER: &str = "http.handlers.acme_server";

/// The CA to use if the configuration does not name one.
const LOCAL: &str = "local";

/// The default path prefix of all resources, as in Caddy.
const PREFIX: &str = "/acme/";

/// The state of ACME servers in use, by the ID of the CA. Their accounts and orders survive a reload.
#[derive(Default)]
struct Desks(Mutex<HashMap<String, Weak<AcmeDesk>>>);

impl Desks {
    /// The state for the CA `id`.
    fn desk(&self, storage: Storage, id: &str) -> Arc<AcmeDesk> {
        let mut desks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(desk) = desks.get(id).and_then(Weak::upgrade) {
            return desk;
        }
        let desk = Arc::new(AcmeDesk::new(storage, id));
        desks.retain(|_, desk| desk.strong_count() > 0);
        desks.insert(id.to_owned(), Arc::downgrade(&desk));
        desk
    }
}

/// An ACME server at a path.
struct AcmeHandler {
    /// The ACME server; `None` if the configuration is only validated or explained.
    server: Option<Arc<AcmeServer>>,
    rules: Arc<AcmeRules>,
    /// The path of its resources, including the CA's ID: `/acme/local/`.
    path: String,
    /// The path prefix that later handlers do not see, with a trailing slash: `/acme/`.
    prefix: String,
    /// The host name in resource URLs; empty to use the one of the request.
    host: String,
    replay_nonce: FieldName,
    recorder: Option<Arc<Recorder>>,
}

impl AcmeHandler {
    fn request(&self, exchange: &Exchange, path: &str, body: Option<Vec<u8>>) -> AcmeRequest {
        let host = match self.host.as_str() {
            "" => String::from_utf8_lossy(&exchange.req.authority).into_owned(),
            host => host.to_owned(),
        };
        let media_type = exchange
            .req
            .fields
            .first(FieldId::ContentType)
            .unwrap_or_default();
        AcmeRequest {
            method: match exchange.req.method {
                Method::Get => AcmeMethod::Get,
                Method::Head => AcmeMethod::Head,
                Method::Post => AcmeMethod::Post,
                _ => AcmeMethod::Other,
            },
            // Like Caddy, always use https: a proxy in front may terminate TLS.
            base: format!("https://{host}{}", self.path.trim_end_matches('/')),
            resource: path.strip_prefix(&self.path).unwrap_or_default().to_owned(),
            is_jose: media_type.eq_ignore_ascii_case(b"application/jose+json"),
            body,
        }
    }

    async fn response(&self, exchange: &mut Exchange) -> Step {
        let body = match exchange.body.take() {
            RequestBody::Stream(stream) => match collect(stream, ACME_BODY_BYTES_MAX + 1).await {
                Ok(collected) => {
                    let bytes = collected.bytes();
                    (bytes.len() <= ACME_BODY_BYTES_MAX).then(|| bytes.to_vec())
                }
                Err(failure) => return Step::Fail(failure.into()),
            },
            RequestBody::None => Some(Vec::new()),
        };
        let path = String::from_utf8_lossy(exchange.req.uri.path()).into_owned();
        let request = self.request(exchange, &path, body);
        let Some(server) = &self.server else {
            let reason = "the CA is not ready";
            return Step::Fail(Fault::new(Status::SERVICE_UNAVAILABLE, reason));
        };
        let response = match server.response_aside(&self.rules, request) {
            Ok(responding) => responding.await,
            Err(_) => AcmeResponse::busy(),
        };
        self.send(exchange, response)
    }

    fn send(&self, exchange: &mut Exchange, response: AcmeResponse) -> Step {
        if let (Some(cause), Some(recorder)) = (&response.cause, &self.recorder) {
            let entry = recorder.log().error(LOGGER, "cannot respond to a request");
            entry.shown("error", cause).send();
        }
        exchange.res.status = Status::new(response.status).unwrap_or(Status::INTERNAL_SERVER_ERROR);
        let fields = &mut exchange.res.fields;
        // RFC 8555, section 6.5: intermediaries must not cache a nonce.
        fields.set(FieldId::CacheControl, b"no-store");
        if !response.media_type.is_empty() {
            fields.set(FieldId::ContentType, response.media_type.as_bytes());
        }
        for link in &response.links {
            fields.push(FieldId::Link, link.as_bytes());
        }
        if let Some(at) = &response.location {
            fields.set(FieldId::Location, at.as_bytes());
        }
        if let Some(nonce) = &response.nonce {
            fields.set_name(&self.replay_nonce, nonce.as_bytes());
        }
        if let Some(after) = response.retry_after {
            fields.set(FieldId::RetryAfter, after.to_string().as_bytes());
        }
        if response.status == 405 {
            fields.set(FieldId::Allow, b"POST");
        }
        if response.body.is_empty() {
            return Step::Done(Body::Empty);
        }
        Step::Done(Body::Shared(SharedSlice::new(response.body.into())))
    }
}

impl Handler for AcmeHandler {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        if exchange.req.uri.path().starts_with(self.prefix.as_bytes()) {
            Step::Later
        } else {
            Step::Next
        }
    }

    fn wait<'a>(&'a self, exchange: &'a mut Exchange) -> Waiting<'a> {
        Box::pin(self.response(exchange))
    }

    fn account(&self, exchange: &mut Exchange) -> Account {
        if !exchange.req.uri.path().starts_with(self.prefix.as_bytes()) {
            return Account::default();
        }
        Account {
            says: vec![format!("serves ACME clients at `{}`", self.path)],
            assumed: Some(Assumed::Elsewhere),
        }
    }
}

/// Builds `acme_server`.
pub fn build(config: &Config, builder: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let or = |text: &str, usual: &str| {
        if text.is_empty() {
            usual.to_owned()
        } else {
            text.to_owned()
        }
    };
    let id = or(&config.ca, LOCAL);
    let mut prefix = or(&config.path_prefix, PREFIX);
    if !prefix.starts_with('/') {
        return Err(Refusal::new(format!(
            "the path `{prefix}` does not begin with a slash"
        )));
    }
    if !prefix.ends_with('/') {
        prefix.push('/');
    }
    let rules = Arc::new(rules(config)?);
    let server = match builder.authorities {
        Some(authorities) => {
            let (ca, storage) = authorities.local_ca(&id)?;
            let desk = match builder.recorder {
                Some(recorder) => recorder.shared::<Desks>().desk(storage, &id),
                None => Arc::new(AcmeDesk::new(storage, &id)),
            };
            Some(Arc::new(AcmeServer::new(ca, desk)))
        }
        None => None,
    };
    Ok(Box::new(AcmeHandler {
        server,
        rules,
        path: format!("{prefix}{id}/"),
        prefix,
        host: config.host.clone(),
        replay_nonce: FieldName::new("Replay-Nonce")
            .ok_or_else(|| Refusal::new("a field name is refused"))?,
        recorder: builder.recorder.cloned(),
    }))
}

fn rules(config: &Config) -> Result<AcmeRules, Refusal> {
    let usual = AcmeRules::default();
    let mut challenges = Vec::new();
    for name in &config.challenges {
        challenges.push(ChallengeKind::parse(name).ok_or_else(|| {
            Refusal::new(format!("unknown challenge `{name}`"))
                .with_help("there are http-01, dns-01 and tls-alpn-01")
        })?);
    }
    let policy = config.policy.clone().unwrap_or_default();
    let port = |port: u16, usual: u16| if port == 0 { usual } else { port };
    Ok(AcmeRules {
        lifetime: given(config.lifetime).unwrap_or(usual.lifetime),
        sign_with_root: config.sign_with_root,
        challenges: if challenges.is_empty() {
            usual.challenges
        } else {
            challenges
        },
        resolvers: config
            .resolvers
            .iter()
            .map(|text| resolver(text))
            .collect::<Result<_, _>>()?,
        allow: policy.allow.as_ref().map(names).transpose()?,
        deny: policy.deny.as_ref().map(names).transpose()?,
        allows_wildcards: policy.allow_wildcard_names,
        http_port: port(config.validation_http_port, usual.http_port),
        tls_port: port(config.validation_tls_port, usual.tls_port),
    })
}

fn names(model: &NamesModel) -> Result<Names, Refusal> {
    Names::parse(&model.domains, &model.ip_ranges).map_err(|text| {
        Refusal::new(format!("`{text}` is neither a name nor an address range")).with_help(
            "write names such as `a.test` and `*.b.test`, and ranges such as `10.0.0.0/8`",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_rules_or_are_refused_by_name() {
        let read = |text: &str| {
            let config: Config = serde_json::from_str(text).expect("a model");
            rules(&config).map_err(|refusal| refusal.to_string())
        };
        assert_eq!(read("{}").expect("the usual"), AcmeRules::default());
        let some = read(
            r#"{"lifetime":"1h","challenges":["dns-01"],"resolvers":["udp/127.0.0.1:5353"],"sign_with_root":true,
            "validation_http_port":8080,"policy":{"allow_wildcard_names":true}}"#,
        )
        .expect("rules");
        assert_eq!(some.lifetime.as_secs(), 3600);
        assert_eq!(some.challenges, [ChallengeKind::Dns01]);
        assert_eq!(some.resolvers[0].to_string(), "127.0.0.1:5353");
        assert!(some.sign_with_root && some.allows_wildcards);
        assert_eq!((some.http_port, some.tls_port), (8080, 443));
        for (bad, named) in [
            (r#"{"challenges":["x"]}"#, "`x`"),
            (r#"{"resolvers":["x"]}"#, "`x`"),
            (r#"{"policy":{"deny":{"domains":["a b"]}}}"#, "`a b`"),
            (
                r#"{"policy":{"allow":{"ip_ranges":["10.0.0.0/99"]}}}"#,
                "10.0.0.0/99",
            ),
        ] {
            let said = read(bad).expect_err(bad);
            assert!(said.contains(named), "{said}");
        }
    }
}
