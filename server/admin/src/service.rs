//! The admin API as a service of `sluice-net`: reads bodies up to their limit and sends responses, which `api`
//! produces.

use sluice_message::{FieldId, Remote, RequestHead, Status};
use sluice_model::DashboardAction;
use sluice_net::{
    Body, ClientLimits, Completion, Exchange, Refused, RequestBody, Response, Service, Settings,
    read_whole,
};
use sluice_wire::{h1, h2};

use crate::access::Access;
use crate::api::{Next, Reply, Task, perform, require_json};
use crate::dashboard::actions::{self, Done, Wanted};
use crate::denied::Denied;
use crate::limits::{ACTION_BYTES_MAX, BODY_BYTES_MAX, CLIENT_TIMEOUT, EVENTS_TIMEOUT};
use crate::orders::{ActionUse, Current, Orders};
use crate::pages::Page;
use crate::remote::RemoteAccess;

/// What decides who may use the API.
#[derive(Clone, Debug)]
pub enum Gate {
    /// Host and Origin, on an address that others cannot reach.
    Local(Access),
    /// The certificate of the client.
    Remote(RemoteAccess),
}

impl Gate {
    /// Checks that a request comes from the dashboard: browsers send an `Origin` with each POST, and name the page's own.
    fn check_page(&self, head: &RequestHead) -> Result<(), Denied> {
        let Some(origin) = head.fields.first(FieldId::Origin) else {
            let why = "an Origin is required: this path is for the dashboard, others use the API";
            return Err(Denied::new(Status::FORBIDDEN, why));
        };
        let is_ours = match self {
            // It was found to be an allowed one.
            Gate::Local(_) => true,
            Gate::Remote(_) => origin
                .strip_prefix(b"https://")
                .is_some_and(|host| host.eq_ignore_ascii_case(&head.authority)),
        };
        match is_ours {
            true => Ok(()),
            false => {
                let origin = String::from_utf8_lossy(origin);
                let why = format!("origin not allowed: {origin}");
                Err(Denied::new(Status::FORBIDDEN, why))
            }
        }
    }
}

/// Serves requests to the admin API.
pub struct AdminService {
    gate: Gate,
    orders: Orders,
    current: Current,
    settings: Settings,
    /// Limits for clients of the event stream.
    subscribers: ClientLimits,
}

impl AdminService {
    /// Creates a service with these access rules.
    pub fn new(gate: Gate, orders: Orders, current: Current) -> Self {
        let settings = Settings {
            h1: h1::Limits::default(),
            h2: h2::Limits::SERVER,
            h3: sluice_net::Http3::default(),
            head_timeout: CLIENT_TIMEOUT,
            first_byte_timeout: CLIENT_TIMEOUT,
            client: ClientLimits::patient(CLIENT_TIMEOUT),
            handshake_timeout: CLIENT_TIMEOUT,
            exact_times: false,
            times_stages: false,
            sockets: Default::default(),
            probes: None,
        };
        AdminService {
            gate,
            orders,
            current,
            subscribers: ClientLimits {
                write_idle_timeout: EVENTS_TIMEOUT,
                ..settings.client.clone()
            },
            settings,
        }
    }

    fn check(&self, exchange: &Exchange<()>) -> Result<(), Denied> {
        match &self.gate {
            Gate::Local(access) => access
                .check(&exchange.req)
                .map_err(|why| Denied::new(Status::FORBIDDEN, why)),
            Gate::Remote(access) => {
                let tls = exchange.conn.tls.as_ref();
                let chain = tls.map_or(&[][..], |tls| &tls.client_certs);
                access.check(&exchange.req, chain)
            }
        }
    }

    async fn act(&self, exchange: &mut Exchange<()>, task: Task) -> Reply {
        let body = match task.wants_body() {
            true => read(exchange, BODY_BYTES_MAX).await,
            false => Ok(Vec::new()),
        };
        let body = match body {
            Ok(body) => body,
            Err(denied) => return Reply::denied(denied),
        };
        match perform(task, &exchange.req, &body, &self.orders, &self.current) {
            Next::Response(reply) => reply,
            Next::Await(waiter, done) => match waiter.await {
                Ok(()) => done,
                Err(denied) => Reply::denied(denied),
            },
        }
    }
}

impl AdminService {
    /// Does what a button of the dashboard stands for, and logs it.
    async fn press(&self, exchange: &mut Exchange<()>, action: DashboardAction) -> Reply {
        let mut object = String::new();
        let outcome = self.carry_out(exchange, action, &mut object).await;
        if let Some(counts) = self.current.counts() {
            counts.note_action(&ActionUse {
                action,
                object: &object,
                remote: match exchange.conn.remote {
                    Remote::Ip(address) => address.to_string(),
                    Remote::Unix => "unix".to_owned(),
                },
                outcome: match &outcome {
                    Ok(done) => Ok(&done.words),
                    Err(denied) => Err(&denied.why),
                },
            });
        }
        outcome.map_or_else(Reply::denied, |done| Reply::json(&done.shown()))
    }

    /// Sets `object` once it is known.
    async fn carry_out(
        &self,
        exchange: &mut Exchange<()>,
        action: DashboardAction,
        object: &mut String,
    ) -> Result<Done, Denied> {
        self.gate.check_page(&exchange.req)?;
        actions::check(action, &self.current.actions())?;
        require_json(&exchange.req)?;
        let body = read(exchange, ACTION_BYTES_MAX).await?;
        let wanted = Wanted::read(action, &body)?;
        wanted.object().clone_into(object);
        wanted.carry_out(&self.orders, &self.current).await
    }
}

impl Service for AdminService {
    type Context = ();
    type Outcome = Reply;

    fn reset(&self, _context: &mut ()) {}

    fn serve<'a>(&'a self, exchange: &'a mut Exchange<()>) -> Response<'a, Reply> {
        if let Err(denied) = self.check(exchange) {
            return Response::Ready(write(exchange, Reply::denied(denied)));
        }
        if let Gate::Local(access) = &self.gate
            && let Some(origin) = access.shared_with(&exchange.req)
        {
            let name = b"Access-Control-Allow-Origin";
            let fields = &mut exchange.res.fields;
            fields.push_raw(FieldId::of(name), name, origin);
        }
        if let Some(page) = Page::of(&exchange.req) {
            let responded = page.respond(exchange, &self.current);
            return Response::Ready(responded.unwrap_or_else(|reply| write(exchange, reply)));
        }
        match actions::of(&exchange.req) {
            None => {}
            Some(Ok(action)) => return Response::Later(Box::pin(self.press(exchange, action))),
            Some(Err(reply)) => return Response::Ready(write(exchange, reply)),
        }
        match Task::of(&exchange.req) {
            Ok(task) => Response::Later(Box::pin(self.act(exchange, task))),
            Err(reply) => Response::Ready(write(exchange, reply)),
        }
    }

    fn resume<'a>(&'a self, exchange: &'a mut Exchange<()>, reply: Reply) -> Response<'a, Reply> {
        Response::Ready(write(exchange, reply))
    }

    fn refuse<'a>(
        &'a self,
        exchange: &'a mut Exchange<()>,
        refused: &Refused<'_>,
    ) -> Response<'a, Reply> {
        let reply = Reply::error(refused.status, refused.why.to_string());
        Response::Ready(write(exchange, reply))
    }

    fn record(&self, exchange: &mut Exchange<()>, _completion: &Completion) {
        if let Some(counts) = self.current.counts() {
            let path = String::from_utf8_lossy(exchange.req.uri.path());
            counts.count(
                exchange.req.method.as_str(),
                &path,
                exchange.res.status.code(),
            );
        }
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn client_limits<'x>(&'x self, exchange: &'x Exchange<()>) -> &'x ClientLimits {
        match Page::of(&exchange.req) {
            Some(Page::Events) => &self.subscribers,
            Some(Page::Status | Page::History | Page::Dashboard) | None => &self.settings.client,
        }
    }
}

fn write(exchange: &mut Exchange<()>, reply: Reply) -> Body {
    exchange.res.status = reply.status;
    if !reply.allow.is_empty() {
        exchange
            .res
            .fields
            .set(FieldId::Allow, reply.allow.as_bytes());
    }
    if !reply.tag.is_empty() {
        let fields = &mut exchange.res.fields;
        fields.set(FieldId::Etag, reply.tag.as_bytes());
    }
    if reply.body.is_empty() {
        return Body::Empty;
    }
    let media_type = reply.media_type.as_bytes();
    exchange.res.fields.set(FieldId::ContentType, media_type);
    exchange.inline.extend_from_slice(&reply.body);
    Body::Inline
}

/// Reads the whole body. If that fails, what is left of it is not awaited.
async fn read(exchange: &mut Exchange<()>, bytes_max: usize) -> Result<Vec<u8>, Denied> {
    let RequestBody::Stream(mut stream) = exchange.body.take() else {
        return Ok(Vec::new());
    };
    let denied = match read_whole(&mut *stream, bytes_max).await {
        Ok(Some(bytes)) => return Ok(bytes),
        Ok(None) => {
            let why = format!("the body is larger than {bytes_max} bytes");
            Denied::new(Status::CONTENT_TOO_LARGE, why)
        }
        Err(failure) => Denied::bad(failure.to_string()),
    };
    exchange.close = true;
    Err(denied)
}
