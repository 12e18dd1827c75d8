//! `httpInclude`: subrequests of templates, and reading bodies into memory.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use sluice_message::{ConnInfo, FieldId, FieldName, Method, Remote, RequestHead, Status};
use sluice_net::{Body, Exchange as Of, RequestBody, read_whole};
use sluice_template::Text;

use crate::limits::{INCLUDE_DEPTH_MAX, INCLUDES_MAX, TEMPLATE_BYTES_MAX};
use sluice_pipeline::context::{Context, Exchange};
use sluice_pipeline::failure::Fault;
use sluice_pipeline::subrequests::ServerRef;

/// The header with the template nesting depth of a request; Caddy's name for it.
const DEPTH_FIELD: &str = "Caddy-Templates-Include";

/// The number of nested includes that led to `exchange`.
fn depth(exchange: &Exchange) -> usize {
    let depth = exchange.req.fields.find_first(DEPTH_FIELD.as_bytes());
    let depth = depth.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    depth.unwrap_or(0)
}

/// The body of the server's response to `GET uri`. As in Caddy, the subrequest has the client's cookies and
/// credentials, but a loopback address.
pub async fn get(exchange: &Exchange, site: &ServerRef, uri: &Text) -> Result<Vec<u8>, Fault> {
    let uri = uri.as_bytes();
    let refuse = |why: &str| {
        let shown = String::from_utf8_lossy(uri);
        let message = format!("template: httpInclude of `{shown}`: {why}");
        Fault::new(Status::INTERNAL_SERVER_ERROR, message)
    };
    let site = site.get().ok_or_else(|| refuse("the server is ending"))?;
    let used = exchange.context.includes.get() + 1;
    if used > INCLUDES_MAX || depth(exchange) >= INCLUDE_DEPTH_MAX {
        return Err(refuse("too many pages include each other"));
    }
    let head = head(exchange, uri).ok_or_else(|| refuse("it is not a request path"))?;
    let mut sub = subrequest(exchange, head);
    sub.context.includes.set(used);
    let body = site.fetch(&mut sub).await;
    exchange.context.includes.set(sub.context.includes.get());
    if sub.res.status.is_error() {
        return Err(refuse(&format!("status {}", sub.res.status.code())));
    }
    collect(&mut sub, body).await
}

fn head(exchange: &Exchange, uri: &[u8]) -> Option<RequestHead> {
    let visible = |byte: &u8| (0x21..0x7f).contains(byte);
    if uri.is_empty() || !uri.iter().all(visible) {
        return None;
    }
    let mut head = RequestHead {
        method: Method::Get,
        version: exchange.req.version,
        ..RequestHead::default()
    };
    if !uri.starts_with(b"/") {
        head.target.push(b'/');
    }
    head.target.extend_from_slice(uri);
    let target = std::mem::take(&mut head.target);
    let well_formed = head.uri.set(&target);
    head.target = target;
    head.set_authority(&exchange.req.authority);
    head.fields.push(FieldId::Host, &exchange.req.authority);
    for field in exchange
        .req
        .fields
        .iter()
        .filter(|field| is_of_client(field.id))
    {
        head.fields.push_raw(field.id, field.name, field.value);
    }
    head.fields.push(FieldId::AcceptEncoding, b"identity");
    head.fields.remove_name(DEPTH_FIELD.as_bytes());
    let name = FieldName::new(DEPTH_FIELD).expect("it is a token");
    let depth = (depth(exchange) + 1).to_string();
    head.fields.push_name(&name, depth.as_bytes());
    well_formed.then_some(head)
}

/// Whether a header describes the client rather than its request, which may have had a body or been conditional.
fn is_of_client(id: FieldId) -> bool {
    !matches!(
        id,
        FieldId::Host
            | FieldId::AcceptEncoding
            | FieldId::ContentLength
            | FieldId::TransferEncoding
            | FieldId::Expect
            | FieldId::Upgrade
            | FieldId::Range
            | FieldId::IfRange
            | FieldId::IfMatch
            | FieldId::IfNoneMatch
            | FieldId::IfModifiedSince
            | FieldId::IfUnmodifiedSince
    )
}

fn subrequest(exchange: &Exchange, req: RequestHead) -> Exchange {
    // Caddy's address for such requests; it cannot occur as a peer on the network.
    let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 10_000));
    Of {
        req,
        body: RequestBody::None,
        res: Default::default(),
        inline: Vec::new(),
        conn: Rc::new(ConnInfo {
            remote: Remote::Ip(remote),
            local: exchange.conn.local.clone(),
            tls: exchange.conn.tls.clone(),
            facts: Default::default(),
        }),
        worker: exchange.worker.clone(),
        started: exchange.worker.clock.coarse(),
        came: Default::default(),
        close: false,
        status_line: Default::default(),
        reasons: sluice_message::Status::reason,
        context: Context::default(),
    }
}

/// Reads a body into memory, up to the maximum size of a template.
pub async fn collect(exchange: &mut Exchange, body: Body) -> Result<Vec<u8>, Fault> {
    const TOO_LARGE: &str = "template: the page has more bytes than a template may have";
    let too_large = || Fault::new(Status::INTERNAL_SERVER_ERROR, TOO_LARGE);
    let known = body.len(exchange.inline.len());
    if known.is_some_and(|length| length > TEMPLATE_BYTES_MAX as u64) {
        return Err(too_large());
    }
    match body {
        Body::Empty => Ok(Vec::new()),
        Body::Inline => Ok(std::mem::take(&mut exchange.inline)),
        Body::Shared(slice) => Ok(slice.as_bytes().to_vec()),
        Body::File(slice) => {
            let mut bytes = vec![0; slice.len as usize];
            let read = slice.file.read_exact_at(&mut bytes, slice.start);
            read.map(|()| bytes)
                .map_err(|_| Fault::new(Status::INTERNAL_SERVER_ERROR, "reading the file failed"))
        }
        Body::Stream(mut stream) => {
            let read = read_whole(&mut *stream, TEMPLATE_BYTES_MAX).await?;
            read.ok_or_else(too_large)
        }
        Body::Tunnel(_) | Body::Abort => Err(Fault::new(
            Status::INTERNAL_SERVER_ERROR,
            "template: the page has no body",
        )),
    }
}
