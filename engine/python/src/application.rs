//! A configured application: the handle of the layer above.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sluice_message::RequestHead;
use sluice_net::body::RequestBody;
use sluice_net::worker::Worker;
use sluice_wire::python::{
    End, Facts, Form, Json, Marshal, ScopeKind, StreamId, write_environ, write_scope,
};

use crate::call::Call;
use crate::failure::{CallFailure, Refusal, StartFailure, Why};
use crate::group::{Group, Order};
use crate::lane::{Local, Mux, Placed};
use crate::limits::PLACES_TRIED_MAX;
use crate::process::Greeting;
use crate::settings::{Interface, Settings};
use crate::snapshot::GroupSnapshot;
use crate::waiting::wait_for_place;
use crate::websocket::WebSocket;

/// A configured application. Clones are the same application; when the last one is dropped, its processes finish their
/// requests and exit. Calls in progress keep the process that they are on, not the application.
#[derive(Clone)]
pub struct Application {
    handle: Arc<Handle>,
}

/// What all clones of an application share.
pub(crate) struct Handle {
    pub group: Arc<Group>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let limit = self.group.settings.drain_timeout;
        self.group.order(Order::Stop(limit));
    }
}

/// A request for an application.
pub struct Request<'a> {
    /// The head; `uri` has the path below [`Facts::root`].
    pub head: &'a RequestHead,
    /// What the head does not say.
    pub facts: Facts<'a>,
    /// The body. WSGI applications block while they read, so theirs should be complete.
    pub body: RequestBody,
}

impl Application {
    pub(crate) fn new(handle: Arc<Handle>) -> Application {
        Application { handle }
    }

    fn group(&self) -> &Arc<Group> {
        &self.handle.group
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.group().settings
    }

    /// Its interface: for [`Interface::Auto`] the one that was detected, once a process is ready.
    pub fn interface(&self) -> Interface {
        self.group().interface()
    }

    /// Waits until all processes are ready; blocks the calling thread. Where a group was running already it returns at
    /// once.
    ///
    /// # Errors
    ///
    /// The first failure of a process to start; the others are stopped.
    pub fn wait_ready(&self) -> Result<(), StartFailure> {
        self.group().wait_started()
    }

    /// Like [`Application::wait_ready`], for tasks.
    ///
    /// # Errors
    ///
    /// As [`Application::wait_ready`].
    pub fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<Result<(), StartFailure>> {
        self.group().poll_started(cx)
    }

    /// Picks a worker and sends it the head of a request; waits in the queue while all are busy. Dropping the future
    /// gives the place in the queue to the next.
    ///
    /// # Errors
    ///
    /// [`Why::Refused`], with the body.
    pub async fn call(
        &self,
        worker: &Rc<Worker>,
        request: Request<'_>,
    ) -> Result<Box<Call>, CallFailure> {
        self.begin(worker, Form::Http, request).await
    }

    /// Like [`Application::call`], for the handshake of a WebSocket (ASGI, ESGI, RSGI). A WSGI application gets the
    /// request as an ordinary one: use [`Application::call`].
    ///
    /// # Errors
    ///
    /// [`Why::Refused`], with the body.
    pub async fn websocket(
        &self,
        worker: &Rc<Worker>,
        request: Request<'_>,
    ) -> Result<Box<WebSocket>, CallFailure> {
        let call = self.begin(worker, Form::WebSocket, request).await?;
        Ok(Box::new(WebSocket::new(call)))
    }

    async fn begin(
        &self,
        worker: &Rc<Worker>,
        form: Form,
        request: Request<'_>,
    ) -> Result<Box<Call>, CallFailure> {
        let local = Local::of(worker, self.group());
        for _ in 0..PLACES_TRIED_MAX {
            let placed = match local.place() {
                Some(placed) => Some(placed),
                None => match wait_for_place(worker, self.group()).await {
                    Ok(grant) => local.placed(grant),
                    Err(refusal) => return Err(refused(refusal, request.body)),
                },
            };
            // Without a lane, the process has ended at this moment.
            if let Some((mux, id)) = placed.and_then(|placed| self.open(placed, form, &request)) {
                let (method, target) = (&request.head.method, &request.head.target);
                let call = Call::new(mux, id, request.body, method, target);
                return Ok(Box::new(call));
            }
        }
        Err(refused(Refusal::Failed, request.body))
    }

    /// Writes the head of a request to a lane.
    fn open(
        &self,
        placed: Placed,
        form: Form,
        request: &Request<'_>,
    ) -> Option<(Rc<Mux>, StreamId)> {
        let mux = placed.mux()?;
        let greeting = mux.process.greeting()?;
        let end = match form {
            Form::Http => End::here_if(request.body.is_empty()),
            Form::WebSocket => End::Later,
        };
        let prefix = self.settings().root_path.as_bytes();
        let id = if prefix.is_empty() {
            mux.open(form, end, |out| {
                write(greeting, form, request.head, &request.facts, out);
            })
        } else {
            let root = [prefix, request.facts.root].concat();
            let facts = Facts {
                root: &root,
                ..request.facts
            };
            mux.open(form, end, |out| {
                write(greeting, form, request.head, &facts, out)
            })
        }?;
        Some((placed.keep()?, id))
    }

    /// After how long a refused client should try again: the value of `Retry-After`.
    pub fn retry_after(&self) -> Duration {
        // By then requests of the usual kind have ended; a client that waits for the queue's timeout gains nothing.
        self.settings()
            .queue_timeout
            .clamp(Duration::from_secs(1), Duration::from_secs(10))
    }

    /// Its state now.
    pub fn snapshot(&self) -> GroupSnapshot {
        self.group().snapshot()
    }
}

fn refused(refusal: Refusal, body: RequestBody) -> CallFailure {
    CallFailure {
        why: Why::Refused(refusal),
        body: Some(body),
    }
}

/// Writes the dictionary of a request as the process reads it.
fn write(
    greeting: &Greeting,
    form: Form,
    head: &RequestHead,
    facts: &Facts<'_>,
    out: &mut Vec<u8>,
) {
    let is_wsgi = greeting.interface == Some(Interface::Wsgi);
    let kind = match form {
        Form::Http => ScopeKind::Http,
        Form::WebSocket => ScopeKind::WebSocket,
    };
    match (is_wsgi, greeting.marshal) {
        (true, true) => write_environ(&mut Marshal::new(out), head, facts),
        (true, false) => write_environ(&mut Json::new(out), head, facts),
        (false, true) => write_scope(&mut Marshal::new(out), kind, head, facts),
        (false, false) => write_scope(&mut Json::new(out), kind, head, facts),
    }
}
