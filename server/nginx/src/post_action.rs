//! `nginx_post_action`: a request of the server's own that follows when a request has ended, with its variables. The
//! client does not wait for it, and the response is discarded.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use sluice_model::nginx::PostAction as Config;
use sluice_net::tasks::in_background;
use sluice_net::{Body, Completion, Ending, Worker};

use super::follow_up::FollowUp;
use super::mirror::read_on;
use super::subrequest;
use super::tree::Tree;
use crate::limits::POST_ACTIONS_MAX;
use crate::state::NginxContext;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;

struct Noting(Arc<FollowUp>);

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    if !config.uri.starts_with(['/', '@']) {
        return Err(Refusal::new(format!(
            "`{}` is neither a path nor the name of a location",
            config.uri
        )));
    }
    Ok(Box::new(Noting(Arc::new(FollowUp {
        uri: config.uri.as_str().into(),
        site: builder.itself.clone(),
        log: builder.log.cloned(),
    }))))
}

impl Handler for Noting {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        if !exchange.context.nginx().is_subrequest() {
            let place = exchange.context.nginx().place;
            exchange.context.occasional_mut().post_action = Some((place, self.0.clone()));
        }
        Step::Next
    }
}

/// Requests that follow, in flight on one worker.
#[derive(Default)]
struct Counts(Cell<usize>);

struct Turn(Rc<Counts>);

impl Turn {
    fn enter(worker: &Worker) -> Option<Turn> {
        let counts = worker.local::<Counts>();
        if counts.0.get() >= POST_ACTIONS_MAX {
            return None;
        }
        counts.0.set(counts.0.get() + 1);
        Some(Turn(counts))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.0.set(self.0.0.get() - 1);
    }
}

/// Starts the request that follows `exchange`, if the location that has ended it has one.
pub fn begin(tree: &Tree, exchange: &Exchange, completion: &Completion) {
    let Some((place, action)) = &exchange.context.occasional().post_action else {
        return;
    };
    // As in nginx, the last location of a request decides.
    if *place != exchange.context.nginx().place || exchange.worker.draining.get() {
        return;
    }
    let Some(site) = action.site.get() else {
        return;
    };
    let Some(turn) = Turn::enter(&exchange.worker) else {
        if let Some(log) = &action.log {
            log.warn(
                "http.handlers.nginx_post_action",
                "too many requests that follow others",
            )
            .text("uri", &*action.uri)
            .send();
        }
        return;
    };
    let mut copy = subrequest::apart(exchange, action.uri.as_bytes(), None);
    copy.req.uri.set_query(None);
    if action.uri.starts_with('@') {
        let Some(location) = tree.named(&copy, &action.uri) else {
            return;
        };
        copy.req.uri = exchange.req.uri.clone();
        copy.context.nginx_mut().named = Some(location);
    }
    // Its variables show how the request has ended.
    copy.res.status = exchange.res.status;
    let log = &mut copy.context.log;
    log.body_bytes_sent = completion.body_bytes_sent;
    log.body_bytes_read = completion.body_bytes_read;
    log.bytes_sent = completion.bytes_sent;
    log.head_bytes_sent = completion.head_bytes_sent;
    log.is_complete = matches!(completion.ending, Ending::Complete);
    in_background(async move {
        let response = site.fetch(&mut copy).await;
        if let Body::Stream(mut response) = response {
            read_on(&mut *response).await;
        }
        drop(turn);
    });
}
