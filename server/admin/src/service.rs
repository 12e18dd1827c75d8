//! The admin API as a service of `sluice-net`: reads bodies up to their limit and sends responses, which `api`
//! produces.

use sluice_message::{FieldId, Status};
use sluice_net::{
    Answer, Body, ClientLimits, Completion, Exchange, Refused, RequestBody, Service, Settings,
    read_whole,
};
use sluice_wire::{h1, h2};

use crate::access::Access;
use crate::api::{Next, Reply, Task, perform};
use crate::limits::{BODY_BYTES_MAX, CLIENT_PATIENCE};
use crate::orders::{Current, Orders};

/// Serves requests to the admin API.
pub struct AdminService {
    access: Access,
    orders: Orders,
    current: Current,
    settings: Settings,
}

impl AdminService {
    /// Creates a service with these access rules.
    pub fn new(access: Access, orders: Orders, current: Current) -> Self {
        let settings = Settings {
            h1: h1::Limits::default(),
            h2: h2::Limits::SERVER,
            head_timeout: CLIENT_PATIENCE,
            first_byte_timeout: CLIENT_PATIENCE,
            client: ClientLimits::patient(CLIENT_PATIENCE),
            handshake_timeout: CLIENT_PATIENCE,
            exact_times: false,
            sockets: Default::default(),
            probes: None,
        };
        AdminService {
            access,
            orders,
            current,
            settings,
        }
    }

    async fn act(&self, x: &mut Exchange<()>, task: Task) -> Reply {
        let body = match task.wants_body() {
            true => read(&mut x.body).await,
            false => Ok(Vec::new()),
        };
        let body = match body {
            Ok(body) => body,
            Err(reply) => {
                x.close = true;
                return reply;
            }
        };
        match perform(task, &x.req, &body, &self.orders, &self.current) {
            Next::Answer(reply) => reply,
            Next::Await(waiter) => match waiter.await {
                Ok(()) => Reply::done(),
                Err(why) => Reply::error(Status::BAD_REQUEST, why),
            },
        }
    }
}

impl Service for AdminService {
    type Context = ();
    type Outcome = Reply;

    fn reset(&self, _context: &mut ()) {}

    fn serve<'a>(&'a self, x: &'a mut Exchange<()>) -> Answer<'a, Reply> {
        if let Err(why) = self.access.check(&x.req) {
            return Answer::Ready(write(x, Reply::error(Status::FORBIDDEN, why)));
        }
        match Task::of(&x.req) {
            Ok(task) => Answer::Later(Box::pin(self.act(x, task))),
            Err(reply) => Answer::Ready(write(x, reply)),
        }
    }

    fn resume<'a>(&'a self, x: &'a mut Exchange<()>, reply: Reply) -> Answer<'a, Reply> {
        Answer::Ready(write(x, reply))
    }

    fn refuse<'a>(&'a self, x: &'a mut Exchange<()>, refused: &Refused<'_>) -> Answer<'a, Reply> {
        let reply = Reply::error(refused.status, refused.why.to_string());
        Answer::Ready(write(x, reply))
    }

    fn record(&self, x: &mut Exchange<()>, _completion: &Completion) {
        if let Some(counts) = self.current.counts() {
            let path = String::from_utf8_lossy(x.req.uri.path());
            counts.count(x.req.method.as_str(), &path, x.res.status.code());
        }
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }
}

fn write(x: &mut Exchange<()>, reply: Reply) -> Body {
    x.res.status = reply.status;
    if !reply.allow.is_empty() {
        x.res.fields.set(FieldId::Allow, reply.allow.as_bytes());
    }
    if reply.body.is_empty() {
        return Body::Empty;
    }
    let media_type = reply.media_type.as_bytes();
    x.res.fields.set(FieldId::ContentType, media_type);
    x.inline.extend_from_slice(&reply.body);
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
