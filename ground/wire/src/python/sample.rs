//! A scope as an example, which a worker reads in both forms and compares before it is sent others: whether its Python
//! reads our marshal.

use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddr};

use sluice_message::{FieldId, Method, RequestHead, Scheme};

use super::facts::Facts;
use super::frame::{Header, Kind};
use super::json::Json;
use super::marshal::Marshal;
use super::scope::{ScopeKind, write_scope};

/// Appends the SAMPLE frame to `out`.
pub fn encode_sample(out: &mut Vec<u8>) {
    let mut head = RequestHead {
        method: Method::Post,
        ..RequestHead::default()
    };
    head.uri.set(b"/caf%C3%A9?x=%20");
    let host = FieldId::Host;
    head.fields.push(host, b"example.com");
    head.fields.push(FieldId::Cookie, &[b'c'; 300]);
    let name = b"X-Latin";
    head.fields.push_raw(FieldId::Other, name, b"caf\xe9");
    let root = "/é/".repeat(200);
    let facts = Facts {
        client: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 50_000))),
        server: None,
        scheme: Scheme::Https,
        root: root.as_bytes(),
        user: b"",
        content_length: None,
        tls: None,
    };
    let mut payload = Vec::new();
    write_scope(
        &mut Marshal::new(&mut payload),
        ScopeKind::Http,
        &head,
        &facts,
    );
    let split = payload.len();
    write_scope(&mut Json::new(&mut payload), ScopeKind::Http, &head, &facts);
    let mut header = Header::new(Kind::Sample, 0, payload.len());
    header.large = u32::try_from(split).unwrap_or(u32::MAX);
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(&payload);
}
