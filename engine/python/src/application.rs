//! A configured application: the handle of the layer above.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sluice_message::RequestHead;
use sluice_net::body::RequestBody;
use sluice_net::worker::Worker;

use crate::call::Call;
use crate::failure::{CallFailure, Refusal, StartFailure, Why};
use crate::settings::Settings;
use crate::snapshot::GroupSnapshot;
use crate::websocket::WebSocket;
use sluice_wire::python::Facts;

/// A configured application. Clones are the same application; when the last one is dropped, its processes finish their
/// requests and exit. Calls in progress keep the process that they are on, not the application.
#[derive(Clone)]
pub struct Application {
    settings: Arc<Settings>,
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
    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Waits until all processes are ready; blocks the calling thread. Where a group was running already it returns at
    /// once.
    ///
    /// # Errors
    ///
    /// The first failure of a process to start; the others are stopped.
    pub fn wait_ready(&self) -> Result<(), StartFailure> {
        Ok(())
    }

    /// Like [`Application::wait_ready`], for tasks.
    pub fn poll_ready(&self, _cx: &mut Context<'_>) -> Poll<Result<(), StartFailure>> {
        Poll::Ready(Ok(()))
    }

    /// Picks a worker and sends it the head of a request; waits in the queue while all are busy. Dropping the future
    /// gives the place in the queue to the next.
    ///
    /// # Errors
    ///
    /// [`Why::Refused`], with the body.
    pub async fn call(
        &self,
        _worker: &Rc<Worker>,
        request: Request<'_>,
    ) -> Result<Box<Call>, CallFailure> {
        Err(CallFailure {
            why: Why::Refused(Refusal::Failed),
            body: Some(request.body),
        })
    }

    /// Like [`Application::call`], for the handshake of a WebSocket (ASGI, ESGI, RSGI). A WSGI application gets the
    /// request as an ordinary one: use [`Application::call`].
    ///
    /// # Errors
    ///
    /// [`Why::Refused`], with the body.
    pub async fn websocket(
        &self,
        _worker: &Rc<Worker>,
        request: Request<'_>,
    ) -> Result<Box<WebSocket>, CallFailure> {
        Err(CallFailure {
            why: Why::Refused(Refusal::Failed),
            body: Some(request.body),
        })
    }

    /// After how long a refused client should try again: the value of `Retry-After`.
    pub fn retry_after(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// Its state now.
    pub fn snapshot(&self) -> GroupSnapshot {
        GroupSnapshot {
            name: self.settings.name.clone(),
            fingerprint: self.settings.fingerprint(),
            interface: self.settings.interface,
            module: self.settings.module.clone(),
            state: crate::GroupState::Failed,
            queued: 0,
            requests: 0,
            queue_full: 0,
            queue_timeouts: 0,
            restarts: 0,
            recycled: 0,
            reloads: 0,
            last_failure: None,
            processes: Vec::new(),
        }
    }

    pub(crate) fn new(settings: Arc<Settings>) -> Application {
        Application { settings }
    }
}
