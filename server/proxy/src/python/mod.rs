//! `python`: serves requests with a Python application (docs/decisions/0023-python-applications.md). `sluice-python` runs
//! the worker processes and speaks with them; here is what a web server adds: settings, placeholders, buffering, retries,
//! statuses, WebSocket frames.

mod account;
mod attempt;
mod build;
mod dynamic;
mod failure;
mod host;
mod names;
mod recipe;
mod response;
mod root_path;
mod websocket;

use std::sync::Arc;

use sluice_message::Version;
use sluice_net::tunnel::Holding;
use sluice_net::{Body, RequestBody, clock};
use sluice_python::{Application, Interface};
use sluice_wire::websocket as codec;

pub use build::build;
pub use host::{shut_down, wait_until_ready};

use crate::limits::REPLAY_BYTES_MAX;
use crate::reverse_proxy::buffering::Buffering;
use crate::reverse_proxy::replay::Replay;
use dynamic::{Dynamic, Used};
use host::Durations;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Account, Handler, Step, Waiting};

/// The handler.
pub struct Python {
    source: Source,
    /// Requests wait until they are complete and responses are read ahead, for WSGI.
    buffering: Buffering,
    websocket: Messages,
    /// Whether the access log is written: whether its fields are worth their memory.
    is_logged: bool,
    durations: Durations,
}

/// What WebSocket messages may be.
#[derive(Clone, Copy)]
struct Messages {
    limits: codec::Limits,
    /// Whether compression is negotiated.
    compression: bool,
}

/// Where applications come from.
enum Source {
    /// One application, which runs as long as the configuration.
    One(Box<Chosen>),
    /// One for each value of the placeholders.
    Dynamic(Arc<Dynamic>),
    /// None: the configuration is only validated or explained. The interface, and the text of the application.
    Unstarted(Interface, Box<str>),
}

/// An application and what is known about it.
#[derive(Clone)]
pub(super) struct Chosen {
    application: Application,
    /// Its name in the access log.
    name: Arc<str>,
}

impl Chosen {
    fn new(application: Application) -> Chosen {
        Chosen {
            name: application.settings().name.as_str().into(),
            application,
        }
    }

    /// The interface, which is known once a process has imported the application.
    fn interface(&self) -> Interface {
        match self.application.settings().interface {
            Interface::Auto => self.application.interface(),
            known => known,
        }
    }
}

impl Handler for Python {
    fn serve(&self, _x: &mut Exchange) -> Step {
        Step::Later
    }

    fn wait<'a>(&'a self, exchange: &'a mut Exchange) -> Waiting<'a> {
        Box::pin(async move {
            match self.respond(exchange).await {
                Ok(step) => step,
                Err(fault) => Step::Fail(fault),
            }
        })
    }

    fn account(&self, exchange: &mut Exchange) -> Account {
        self.account_of(exchange)
    }
}

impl Python {
    async fn respond(&self, exchange: &mut Exchange) -> Result<Step, Fault> {
        match &self.source {
            Source::One(chosen) => self.respond_with(exchange, chosen).await,
            Source::Dynamic(dynamic) => {
                let used = dynamic.obtain(exchange).await?;
                let step = self.respond_with(exchange, used.chosen()).await?;
                Ok(hold(exchange, step, used))
            }
            Source::Unstarted(..) => Err(failure::not_started()),
        }
    }

    async fn respond_with(&self, exchange: &mut Exchange, chosen: &Chosen) -> Result<Step, Fault> {
        let interface = chosen.interface();
        // HTTP/1.0 has no upgrades (RFC 9110, section 7.8).
        let is_websocket = interface != Interface::Wsgi
            && exchange.req.version != Version::Http10
            && codec::is_requested(&exchange.req.fields);
        if is_websocket {
            return self.open_websocket(exchange, chosen).await;
        }
        let body = self.body(exchange, interface).await?;
        let began = clock::now();
        let (call, response) = self.attempts(exchange, chosen, body).await?;
        self.note(exchange, chosen, call.process().0);
        let step = self.take_response(exchange, interface, call, response);
        let took = clock::now().since(began);
        self.durations.add(exchange.worker.index, took);
        Ok(step)
    }

    /// The request body: for WSGI it is complete, because its reader blocks a thread.
    async fn body(
        &self,
        exchange: &mut Exchange,
        interface: Interface,
    ) -> Result<RequestBody, Fault> {
        let body = exchange.body.take();
        if body.is_none() {
            return Ok(body);
        }
        let body = match interface {
            Interface::Wsgi => self.buffering.spool(&exchange.worker, body).await?,
            Interface::Asgi | Interface::Esgi | Interface::Rsgi | Interface::Auto => body,
        };
        Ok(match exchange.req.method.is_idempotent() {
            true => Replay::body(body, REPLAY_BYTES_MAX),
            false => body,
        })
    }

    /// Adds the application and the process to the access log.
    fn note(&self, exchange: &mut Exchange, chosen: &Chosen, process: usize) {
        if self.is_logged {
            let fields = &mut exchange.context.log.fields;
            fields.push((names::APPLICATION.clone(), (*chosen.name).to_owned()));
            fields.push((names::WORKER.clone(), process.to_string()));
        }
    }
}

/// Keeps an application in use until the response, or the tunnel that it opens, has ended.
fn hold(exchange: &mut Exchange, step: Step, used: Used) -> Step {
    if let Step::Done(Body::Tunnel(mut tunnel)) = step {
        tunnel.peer = Box::new(Holding::new(tunnel.peer, used));
        return Step::Done(Body::Tunnel(tunnel));
    }
    let aside = exchange.context.aside.get_or_insert_default();
    aside.guards.push(Box::new(used));
    step
}

/// `wsgi`, `asgi`, `esgi`, `rsgi`, or `auto` while no process has imported the application.
const fn interface_name(interface: Interface) -> &'static str {
    match interface {
        Interface::Wsgi => "wsgi",
        Interface::Asgi => "asgi",
        Interface::Esgi => "esgi",
        Interface::Rsgi => "rsgi",
        Interface::Auto => "auto",
    }
}
