//! Requests that the server makes of itself on behalf of another: with its fields, variables and address, but without its
//! body, and always with GET. What is done with the answer is left to whoever asks.

use std::future::poll_fn;
use std::pin::pin;

use sluice_message::{FieldId, Method};
use sluice_net::{Body, Exchange as Of, RequestBody};

use super::state::State;
use crate::context::{Context, Exchange};
use crate::site::Site;

/// A request for `path` on behalf of `x`. It has the variables of `x` until [`end`] gives them back: what locations set in
/// it holds there, too, as in nginx.
pub fn begin(x: &mut Exchange, path: &[u8]) -> Exchange {
    let mut req = x.req.clone();
    let method = std::mem::replace(&mut req.method, Method::Get);
    // What describes a body that is not sent.
    for id in [
        FieldId::ContentLength,
        FieldId::TransferEncoding,
        FieldId::Expect,
        FieldId::Upgrade,
    ] {
        req.fields.remove(id);
    }
    req.uri.set_path(path);
    req.uri.set_query(None);
    let state = &x.context.nginx;
    let mut context = Context {
        original_method: x.context.original_method.clone(),
        client_ip: x.context.client_ip,
        from_trusted_proxy: x.context.from_trusted_proxy,
        tables: x.context.tables.clone(),
        uuid: x.context.uuid.clone(),
        nginx: State {
            server: state.server,
            internal: true,
            rewritten: true,
            subrequest: true,
            // What counted the request does not count what is asked on its behalf.
            limited_requests: state.limited_requests,
            limited_connections: state.limited_connections,
            ..State::default()
        },
        ..Context::default()
    };
    context
        .original_method
        .get_or_insert_with(|| Box::new(method));
    std::mem::swap(&mut context.vars, &mut x.context.vars);
    Of {
        req,
        body: RequestBody::None,
        res: Default::default(),
        inline: Vec::new(),
        conn: x.conn.clone(),
        worker: x.worker.clone(),
        started: x.started,
        close: false,
        context,
    }
}

/// Has the server answer. What upstreams hint at meanwhile is not for the client.
pub async fn fetch(site: &Site, sub: &mut Exchange) -> Body {
    let worker = sub.worker.clone();
    let mut fetching = pin!(site.fetch(sub));
    poll_fn(|cx| worker.interims.apart(|| fetching.as_mut().poll(cx))).await
}

/// Gives the variables back.
pub fn end(x: &mut Exchange, mut sub: Exchange) {
    std::mem::swap(&mut sub.context.vars, &mut x.context.vars);
}
