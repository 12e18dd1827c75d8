//! A running server of the configuration: the [`Service`] that workers call. `pipeline` runs its routes, `sluice-net`
//! enforces connection limits.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::alt_svc::AltSvc;
use sluice_certs::Challenges;
use sluice_message::{ConnInfo, FieldId, FixedField, Method, Moment, Status, Version};
use sluice_model::Server;
use sluice_net::{Body, ClientLimits, Completion, Ending, Refused, Response, Service, Settings};

use crate::modules;
use sluice_observe::Recorder;
use sluice_observe::log::{AccessLog, write_before_close};
use sluice_observe::metrics::Marks;
use sluice_observe::site_counts::SiteMark;
use sluice_pipeline::build::{Builder, Listed, Serving, Slots};
use sluice_pipeline::client_ip::TrustedProxies;
use sluice_pipeline::context::{Context, Exchange};
use sluice_pipeline::early;
use sluice_pipeline::handler::{Step, Waiting};
use sluice_pipeline::odd_headers::ExpectedNames;
use sluice_pipeline::program::Program;
use sluice_pipeline::record;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::request_id::{self, Form, RequestIds};
use sluice_pipeline::subrequests::Subrequests;

/// The value of the `Server` header. Like Caddy and nginx, sluice names itself; `header -Server` removes it.
static SERVER: LazyLock<FixedField> =
    LazyLock::new(|| FixedField::known(FieldId::Server, b"sluice"));

/// When clients that were refused for lack of memory should come back, in seconds.
const RETRY_SECONDS: &[u8] = b"2";

/// The `Allow` header of the response to CONNECT. Handlers decide which of these methods a resource supports.
const ALLOWED: &[u8] = b"GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH";

/// One server of the configuration.
pub struct Site {
    pub(crate) rules: Rules,
    pub(crate) settings: Settings,
    /// Settings of the virtual servers, where they differ.
    pub(crate) per_server: Option<Vec<Settings>>,
    pub(crate) access: Option<AccessLog>,
    pub(crate) recorder: Arc<Recorder>,
    /// ACME challenges in progress.
    pub(crate) challenges: Arc<Challenges>,
    /// The announcement of HTTP/3.
    pub(crate) alt_svc: AltSvc,
}

/// The rules that produce responses. They do not count or log.
pub(crate) struct Rules {
    pub(crate) program: Program,
    pub(crate) trusted_proxies: Option<TrustedProxies>,
    /// Whether `Host` has to match the name in the TLS handshake (RFC 9110, section 7.4).
    pub(crate) host_check: HostCheck,
    /// `None` for an nginx.conf, where `underscores_in_headers` decides.
    pub(crate) expected_names: Option<ExpectedNames>,
    /// `None` without `request_id`, and for an nginx.conf, where it is a setting of the virtual server.
    pub(crate) request_ids: Option<RequestIds>,
}

/// Whether `Host` has to match the name in the TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostCheck {
    /// It has to: otherwise a client could bypass another site's requirement of client certificates.
    Strict,
    /// It need not.
    Off,
}

impl Site {
    /// Wraps the server and makes it available to its handlers.
    pub(crate) fn share(self) -> Arc<Site> {
        let site = Arc::new(self);
        site.rules.program.itself.set(&site);
        site
    }

    async fn responded(&self, exchange: &mut Exchange) -> Body {
        exchange.context.scratch.set_env(exchange.worker.clone());
        let mut step = match self.rules.program.start(exchange) {
            Response::Ready(body) => return body,
            Response::Later(later) => later.await,
        };
        loop {
            step = match self.rules.program.go_on(exchange, step) {
                Response::Ready(body) => return body,
                Response::Later(later) => later.await,
            };
        }
    }

    fn begin(&self, exchange: &mut Exchange) {
        self.recorder.begin(exchange.worker.index);
        exchange.context.site = SiteMark::COUNTED;
        if self.rules.program.metrics.is_some() {
            exchange.context.metrics = Marks::counted();
        }
        Rules::prepare(exchange);
        self.alt_svc.announce(exchange);
    }

    /// Responds to an ACME HTTP challenge. This comes before everything in the configuration, so that redirects and
    /// authentication do not interfere.
    fn respond_to_challenge(&self, exchange: &mut Exchange) -> Option<Body> {
        if self.challenges.is_idle() {
            return None;
        }
        let response = self.challenges.http_response(exchange.req.uri.path())?;
        exchange.inline.extend_from_slice(response.as_bytes());
        exchange
            .res
            .fields
            .push(FieldId::ContentType, b"text/plain");
        Some(Body::Inline)
    }
}

impl Rules {
    /// The rules of `server`, found at `place` in the configuration, and the model of each list of their program.
    pub(crate) fn build<'m>(
        server: &'m Server,
        place: &str,
        config_files: &'m [String],
        shared: &Slots,
        serving: Option<Serving<'m>>,
    ) -> Result<(Rules, Vec<Listed<'m>>), Vec<Refusal>> {
        let built = Builder::program(server, place, config_files, modules::build, shared, serving);
        let proxies = TrustedProxies::build(server).map_err(|refusal| Refusal {
            place: place.to_owned(),
            ..refusal
        });
        let ((program, listed), trusted_proxies) = match (built, proxies) {
            (Ok(built), Ok(proxies)) => (built, proxies),
            (built, proxies) => {
                let found = built.err().into_iter().flatten().chain(proxies.err());
                return Err(found.collect());
            }
        };
        let strict = server.strict_sni_host.unwrap_or_else(|| {
            let mut policies = server.tls_connection_policies.iter();
            policies.any(|policy| policy.client_authentication.is_some())
        });
        let expected_names = match &program.virtual_servers {
            Some(_) => None,
            None => Some(ExpectedNames::build(server)),
        };
        let request_ids = match (&server.request_id, &program.virtual_servers) {
            (Some(config), None) => {
                Some(RequestIds::build(config, Form::Uuid).map_err(|refusal| {
                    vec![Refusal {
                        place: place.to_owned(),
                        ..refusal
                    }]
                })?)
            }
            (Some(_) | None, _) => None,
        };
        let rules = Rules {
            expected_names,
            request_ids,
            program,
            trusted_proxies,
            host_check: if strict {
                HostCheck::Strict
            } else {
                HostCheck::Off
            },
        };
        Ok((rules, listed))
    }

    /// Prepares a new exchange for the handlers.
    pub(crate) fn prepare(exchange: &mut Exchange) {
        if !exchange.context.scratch.has_env() {
            let worker = exchange.worker.clone();
            exchange.context.scratch.set_env(worker);
        }
        exchange.res.fields.push_fixed(&SERVER);
    }

    /// Determines the client address and checks whether the server accepts the request; the error is the status to
    /// respond with.
    pub(crate) fn admit(&self, exchange: &mut Exchange) -> Result<(), Status> {
        if let Some(trusted) = &self.trusted_proxies {
            exchange.context.client_ip = trusted.client_ip(&exchange.conn, &exchange.req.fields);
            exchange.context.from_trusted_proxy = trusted.trusts(&exchange.conn);
        }
        if let Some(request_ids) = &self.request_ids {
            request_ids.assign(exchange);
        }
        if let Some(expected) = &self.expected_names {
            expected.retain(&mut exchange.req.fields);
            // A 2xx response would open a tunnel without a destination (RFC 9110, section 9.3.6), so the client's next
            // bytes would not be HTTP.
            if exchange.req.method == Method::Connect {
                exchange.res.fields.push(FieldId::Allow, ALLOWED);
                exchange.close |= exchange.req.version < Version::Http2;
                return Err(Status::METHOD_NOT_ALLOWED);
            }
        }
        if self.is_misdirected(exchange) {
            return Err(Status::MISDIRECTED_REQUEST);
        }
        match exchange.conn.tls.as_deref() {
            Some(tls) if tls.is_early() => early::admit(exchange),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether `Host` differs from the server name of the TLS handshake.
    fn is_misdirected(&self, exchange: &Exchange) -> bool {
        let Some(tls) = exchange
            .conn
            .tls
            .as_deref()
            .filter(|_| self.host_check == HostCheck::Strict)
        else {
            return false;
        };
        tls.server_name.as_bytes() != &*exchange.req.host
    }
}

impl Subrequests for Site {
    fn fetch<'a>(&'a self, exchange: &'a mut Exchange) -> Pin<Box<dyn Future<Output = Body> + 'a>> {
        Box::pin(async move {
            let worker = exchange.worker.clone();
            let body = {
                let mut responded = pin!(self.responded(exchange));
                poll_fn(|cx| worker.interims.apart(|| responded.as_mut().poll(cx))).await
            };
            record::end_subrequest(exchange);
            body
        })
    }

    fn rest<'a>(&'a self, exchange: &'a mut Exchange, timeout: Option<Duration>) -> Waiting<'a> {
        Box::pin(self.rules.program.rest(exchange, timeout))
    }
}

impl Service for Site {
    type Context = Context;
    type Outcome = Step;

    fn reset(&self, context: &mut Context) {
        context.reset();
    }

    fn serve<'a>(&'a self, exchange: &'a mut Exchange) -> Response<'a, Step> {
        self.begin(exchange);
        if exchange.worker.refuses() {
            return Response::Ready(refuse_for_memory(exchange));
        }
        if let Some(body) = self.respond_to_challenge(exchange) {
            return Response::Ready(body);
        }
        if let Err(status) = self.rules.admit(exchange) {
            exchange.res.status = status;
            let body = request_id::error_body(exchange);
            request_id::label(exchange);
            return Response::Ready(body);
        }
        self.rules.program.start(exchange)
    }

    fn resume<'a>(&'a self, exchange: &'a mut Exchange, step: Step) -> Response<'a, Step> {
        self.rules.program.go_on(exchange, step)
    }

    fn refuse<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        refused: &Refused<'_>,
    ) -> Response<'a, Step> {
        self.begin(exchange);
        let program = &self.rules.program;
        if let Some(servers) = &program.virtual_servers {
            return match servers.refuse(exchange, refused) {
                Some(fault) => program.refuse(exchange, fault),
                None => {
                    if let Some(list) = servers.notes_of(exchange) {
                        program.note(exchange, list);
                    }
                    exchange.res.status = refused.status;
                    Response::Ready(Body::Abort)
                }
            };
        }
        exchange.res.status = refused.status;
        let why = refused.why;
        if refused.status == Status::REQUEST_TIMEOUT {
            exchange.context.log.error = Some(why.to_string().into());
            return Response::Ready(Body::Empty);
        }
        exchange.context.log.error = Some(format!("malformed request: {why}").into());
        if let Some(request_ids) = &self.rules.request_ids {
            request_ids.assign(exchange);
            let body = request_id::error_body(exchange);
            request_id::label(exchange);
            return Response::Ready(body);
        }
        let text = format!(
            "{} {}\n",
            exchange.res.status.code(),
            exchange.res.status.reason()
        );
        exchange.inline.extend_from_slice(text.as_bytes());
        exchange
            .res
            .fields
            .push(FieldId::ContentType, b"text/plain; charset=utf-8");
        Response::Ready(Body::Inline)
    }

    fn record(&self, exchange: &mut Exchange, completion: &Completion) {
        match &self.rules.program.virtual_servers {
            Some(servers) => servers.ended(exchange, completion),
            None => note_slow_client(exchange, completion),
        }
        let counting = record::Counting {
            recorder: &self.recorder,
            access: self.access.as_ref(),
            metrics: self.rules.program.metrics.as_ref(),
            sites: self.rules.program.sites.as_deref(),
        };
        record::end(&counting, exchange, completion);
        if exchange.close {
            write_before_close();
        }
    }

    fn write_until(&self, exchange: &Exchange) -> Option<Moment> {
        exchange.context.aside.as_ref()?.write_until
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn settings_for(&self, conn: &ConnInfo) -> &Settings {
        let servers = self.rules.program.virtual_servers.as_ref();
        let own = self.per_server.as_ref().zip(servers);
        own.and_then(|(all, servers)| all.get(servers.server_of(conn) as usize))
            .unwrap_or(&self.settings)
    }

    fn client_limits<'x>(&'x self, exchange: &'x Exchange) -> &'x ClientLimits {
        let aside = exchange.context.aside.as_ref();
        if let Some(limits) = aside.and_then(|aside| aside.client_limits.as_deref()) {
            return limits;
        }
        match &self.rules.program.virtual_servers {
            Some(servers) => servers.client_limits(exchange),
            None => &self.settings.client,
        }
    }
}

/// Refuses a request because memory is scarce: its connection is closed as well.
fn refuse_for_memory(exchange: &mut Exchange) -> Body {
    exchange.worker.counters.memory_requests_refused.up();
    exchange.res.status = Status::SERVICE_UNAVAILABLE;
    exchange.res.fields.push(FieldId::RetryAfter, RETRY_SECONDS);
    exchange.close = true;
    exchange.context.log.error = Some("the memory limit is reached".into());
    Body::Empty
}

/// Records why a response was aborted if its client was too slow.
fn note_slow_client(exchange: &mut Exchange, completion: &Completion) {
    if let Ending::Failed(failure) = &completion.ending
        && failure.is_slow_client()
        && exchange.context.log.error.is_none()
    {
        exchange.context.log.error = Some(failure.to_string().into());
    }
}

#[cfg(test)]
mod tests;
