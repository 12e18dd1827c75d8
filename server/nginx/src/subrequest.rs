//! Subrequests on behalf of another request, with its headers, variables and client address. One that the parent
//! waits for is a GET without a body. The caller handles the response.

use sluice_message::{FieldId, Method};
use sluice_net::{Exchange as Of, RequestBody};

use super::state::{Purpose, State, Taking, Target};
use crate::state::NginxContext;
use sluice_pipeline::context::{Context, Exchange};

/// Headers that describe the parent's body and connection, which subrequests do not inherit.
const OF_BODY: [FieldId; 4] = [
    FieldId::ContentLength,
    FieldId::TransferEncoding,
    FieldId::Expect,
    FieldId::Upgrade,
];

/// Creates a subrequest of `exchange` for `path`. It holds the variables of `exchange` until [`end`] returns them: as in nginx,
/// variables set in the subrequest are visible to the parent.
pub fn begin(exchange: &mut Exchange, path: &[u8]) -> Exchange {
    let mut req = exchange.req.clone();
    let method = std::mem::replace(&mut req.method, Method::Get);
    for id in OF_BODY {
        req.fields.remove(id);
    }
    req.uri.set_path(path);
    req.uri.set_query(None);
    let mut context = Context {
        original_method: exchange.context.original_method.clone(),
        client_ip: exchange.context.client_ip,
        from_trusted_proxy: exchange.context.from_trusted_proxy,
        uuid: exchange.context.uuid.clone(),
        request_id: exchange.context.request_id.clone(),
        ..Context::default()
    };
    context
        .original_method
        .get_or_insert_with(|| Box::new(method));
    std::mem::swap(&mut context.vars, &mut exchange.context.vars);
    context.set_tables(exchange.context.tables());
    *context.nginx_mut() = state_for(exchange.context.nginx());
    if let Some(path) = exchange.context.occasional().body_file.clone() {
        context.occasional_mut().body_file = Some(path);
    }
    Of {
        req,
        body: RequestBody::None,
        res: Default::default(),
        inline: Vec::new(),
        conn: exchange.conn.clone(),
        worker: exchange.worker.clone(),
        started: exchange.started,
        came: Default::default(),
        close: false,
        status_line: Default::default(),
        reasons: sluice_message::Status::reason,
        context,
    }
}

/// Creates a detached copy of `exchange` for `path` with its method and query. It announces a body of `body_bytes`, if
/// any, which the caller has to supply.
pub fn apart(exchange: &Exchange, path: &[u8], body_bytes: Option<usize>) -> Exchange {
    let mut copy = Of::new(exchange.conn.clone(), exchange.worker.clone());
    copy.req = exchange.req.clone();
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
    copy.started = exchange.started;
    copy.context = exchange.context.apart();
    *copy.context.nginx_mut() = state_for(exchange.context.nginx());
    if copy.context.occasional().post_action.is_some() {
        copy.context.occasional_mut().post_action = None;
    }
    if copy.context.occasional().slice.is_some() {
        copy.context.occasional_mut().slice = None;
    }
    copy
}

/// The initial routing state of a subrequest.
fn state_for(state: &State) -> State {
    State {
        server: state.server,
        is_internal: true,
        target: Target::CHANGED,
        purpose: Purpose::Subrequest {
            depth: state.purpose.depth(),
        },
        ranges: Taking::Never,
        real_port: state.real_port,
        // Limits that counted the parent do not count the subrequest.
        limited_requests: state.limited_requests,
        limited_connections: state.limited_connections,
        ..State::default()
    }
}

/// Returns the variables and the client address to the parent: as in nginx, both share them.
pub fn end(exchange: &mut Exchange, mut sub: Exchange) {
    exchange.context.client_ip = sub.context.client_ip;
    exchange.context.from_trusted_proxy = sub.context.from_trusted_proxy;
    exchange.context.nginx_mut().real_port = sub.context.nginx().real_port;
    std::mem::swap(&mut sub.context.vars, &mut exchange.context.vars);
}
