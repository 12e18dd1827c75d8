//! The admin API as a service of `sluice-net`: reads bodies up to their limit and sends responses, which `api`
//! produces.

use sluice_message::{FieldId, Status};
use sluice_net::{
    Body, ClientLimits, Completion, Exchange, Refused, RequestBody, Response, Service, Settings,
    read_whole,
};
use sluice_wire::{h1, h2};

use crate::access::Access;
use crate::api::{Next, Reply, Task, perform};
use crate::denied::Denied;
use crate::limits::{BODY_BYTES_MAX, CLIENT_TIMEOUT, EVENTS_TIMEOUT};
use crate::orders::{Current, Orders};
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
            true => read(&mut exchange.body).await,
            false => Ok(Vec::new()),
        };
        let body = match body {
            Ok(body) => body,
            Err(reply) => {
                exchange.close = true;
                return reply;
            }
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

async fn read(body: &mut RequestBody) -> Result<Vec<u8>, Reply> {
    let RequestBody::Stream(mut stream) = body.take() else {
        return Ok(Vec::new());
    };
    match read_whole(&mut *stream, BODY_BYTES_MAX).await {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => {
            let why = format!("the body is larger than {BODY_BYTES_MAX} bytes");
            Err(Reply::error(Status::CONTENT_TOO_LARGE, why))
        }
        Err(failure) => Err(Reply::error(Status::BAD_REQUEST, failure.to_string())),
    }
}
