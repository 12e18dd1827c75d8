//! The scope of an ASGI application ("HTTP & WebSocket ASGI Message Format", version 2.5): what differs from request to
//! request. The worker adds `asgi`, `state` and the extensions that every request has. ESGI and RSGI derive their scopes
//! from it.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::net::SocketAddr;

use sluice_message::uri::encode_path;
use sluice_message::{FieldId, IpText, RequestHead, Scheme, Version};

use super::environ::is_passed;
use super::facts::Facts;
use super::tls::write_tls;
use super::value::{Values, one};

/// The type of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeKind {
    /// `http`
    Http,
    /// `websocket`
    WebSocket,
}

/// Writes the scope of a request. `path` is the root and the path after it, decoded as UTF-8; invalid bytes become
/// U+FFFD. Headers with an underscore in their name and `Proxy` are left out, as in [`super::write_environ`]: Django
/// makes a WSGI environment of them.
pub fn write_scope(
    values: &mut impl Values,
    kind: ScopeKind,
    head: &RequestHead,
    facts: &Facts<'_>,
) {
    values.open_dict();
    values.key("type");
    values.text(match kind {
        ScopeKind::Http => "http",
        ScopeKind::WebSocket => "websocket",
    });
    values.key("http_version");
    values.text(match head.version {
        Version::Http10 => "1.0",
        Version::Http11 => "1.1",
        Version::Http2 => "2",
        Version::Http3 => "3",
    });
    if kind == ScopeKind::Http {
        values.key("method");
        values.text(head.method.as_str());
    }
    values.key("scheme");
    values.text(match (kind, facts.scheme) {
        (ScopeKind::Http, scheme) => scheme.as_str(),
        (ScopeKind::WebSocket, Scheme::Http) => "ws",
        (ScopeKind::WebSocket, Scheme::Https) => "wss",
    });
    write_path(values, head, facts);
    values.key("query_string");
    values.bytes(head.uri.query().unwrap_or_default());
    write_headers(values, head);
    values.key("client");
    write_address(values, facts.client);
    values.key("server");
    write_address(values, facts.server);
    if kind == ScopeKind::WebSocket {
        write_subprotocols(values, head);
    }
    if let Some(tls) = facts.tls {
        values.key("extensions");
        values.open_dict();
        values.key("tls");
        write_tls(values, tls);
        values.close_dict();
    }
    values.close_dict();
}

fn write_path(values: &mut impl Values, head: &RequestHead, facts: &Facts<'_>) {
    let root = alloc::string::String::from_utf8_lossy(facts.root);
    values.key("root_path");
    values.text(&root);
    values.key("path");
    let path = alloc::string::String::from_utf8_lossy(head.uri.path());
    let raw = head.uri.path_raw();
    let (path, raw) = match facts.root {
        [] => (path, Cow::Borrowed(raw)),
        root_bytes => {
            let mut whole = Vec::with_capacity(root_bytes.len() + raw.len());
            encode_path(root_bytes, &mut whole);
            whole.extend_from_slice(raw);
            let path = alloc::format!("{root}{path}");
            (Cow::Owned(path), Cow::Owned(whole))
        }
    };
    values.text(&path);
    values.key("raw_path");
    values.bytes(&raw);
}

fn write_headers(values: &mut impl Values, head: &RequestHead) {
    let passed = |field: &sluice_message::Field<'_>| match field.id {
        FieldId::TransferEncoding => false,
        FieldId::Other => is_passed(field.name),
        _ => true,
    };
    let count = head.fields.iter().filter(passed).count();
    values.key("headers");
    values.open_list(u32::try_from(count).unwrap_or(u32::MAX));
    for field in head.fields.iter().filter(passed) {
        values.open_tuple(2);
        values.header_name(field.id, field.name);
        values.bytes(field.value);
        values.close_tuple();
    }
    values.close_list();
}

fn write_address(values: &mut impl Values, address: Option<SocketAddr>) {
    let Some(address) = address else {
        return values.none();
    };
    values.open_tuple(2);
    values.latin1(one(IpText::new(address.ip()).as_bytes()));
    values.integer(i32::from(address.port()));
    values.close_tuple();
}

/// The subprotocols that a client offers (RFC 6455, section 4.1), in its order.
fn write_subprotocols(values: &mut impl Values, head: &RequestHead) {
    let offered = || {
        let lines = head.fields.all(FieldId::SecWebsocketProtocol);
        let names = lines.flat_map(|line| line.split(|byte| *byte == b','));
        names
            .map(<[u8]>::trim_ascii)
            .filter(|name| !name.is_empty())
    };
    values.key("subprotocols");
    values.open_list(u32::try_from(offered().count()).unwrap_or(u32::MAX));
    offered().for_each(|name| values.latin1(one(name)));
    values.close_list();
}
