//! Requests that the server makes of itself on behalf of another: with its fields, variables and address. One that the
//! other waits for is a GET without a body. What is done with the answer is left to whoever asks.

use sluice_message::{FieldId, Method};
use sluice_net::{Exchange as Of, RequestBody};

use super::ranges::Taking;
use super::state::State;
use crate::context::{Context, Exchange};

/// Fields that describe the body and the connection of a request: those of what is asked on its behalf are others.
const OF_BODY: [FieldId; 4] = [
    FieldId::ContentLength,
    FieldId::TransferEncoding,
    FieldId::Expect,
    FieldId::Upgrade,
];

/// A request for `path` on behalf of `x`. It has the variables of `x` until [`end`] gives them back: what locations set in
/// it holds there, too, as in nginx.
pub fn begin(x: &mut Exchange, path: &[u8]) -> Exchange {
    let mut req = x.req.clone();
    let method = std::mem::replace(&mut req.method, Method::Get);
    for id in OF_BODY {
        req.fields.remove(id);
    }
    req.uri.set_path(path);
    req.uri.set_query(None);
    let mut context = Context {
        original_method: x.context.original_method.clone(),
        client_ip: x.context.client_ip,
        from_trusted_proxy: x.context.from_trusted_proxy,
        tables: x.context.tables.clone(),
        uuid: x.context.uuid.clone(),
        nginx: state_for(&x.context.nginx),
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
        came: Default::default(),
        close: false,
        context,
    }
}

/// A copy of `x` for `path` that nobody waits for, with its method and query. It has `body_bytes` of a body, if any, which
/// are still to be given to it.
pub fn apart(x: &Exchange, path: &[u8], body_bytes: Option<usize>) -> Exchange {
    let mut copy = Of::new(x.conn.clone(), x.worker.clone());
    copy.req = x.req.clone();
    for id in OF_BODY {
        copy.req.fields.remove(id);
    }
    if let Some(bytes) = body_bytes {
        let digits = bytes.to_string();
        copy.req
            .fields
            .push(FieldId::ContentLength, digits.as_bytes());
    }
    copy.req.uri.set_path(path);
    copy.started = x.started;
    copy.context = x.context.apart();
    copy.context.nginx = state_for(&x.context.nginx);
    if copy.context.occasional.slice.is_some() {
        copy.context.occasional.slice = None;
    }
    copy
}

/// Where something begins that is asked on behalf of a request.
fn state_for(state: &State) -> State {
    State {
        server: state.server,
        internal: true,
        rewritten: true,
        subrequest: true,
        depth: state.depth,
        ranges: Taking::Never,
        real_port: state.real_port,
        // What counted the request does not count what is asked on its behalf.
        limited_requests: state.limited_requests,
        limited_connections: state.limited_connections,
        ..State::default()
    }
}

/// Gives the variables back, and the address of the client: as in nginx it is one for both.
pub fn end(x: &mut Exchange, mut sub: Exchange) {
    x.context.client_ip = sub.context.client_ip;
    x.context.from_trusted_proxy = sub.context.from_trusted_proxy;
    x.context.nginx.real_port = sub.context.nginx.real_port;
    std::mem::swap(&mut sub.context.vars, &mut x.context.vars);
}
