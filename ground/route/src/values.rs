//! The placeholders whose values depend only on the request head and the connection. `sluice-serve` queries these
//! first, and provides variables, time, environment, files, bodies and certificates itself.

use alloc::vec::Vec;
use core::fmt::Write;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sluice_message::decimal::push_integer;
use sluice_message::uri::{decode_percent, encode_query};
use sluice_message::{
    ConnInfo, FieldId, Fields, IpText, Method, Remote, RequestHead, TlsInfo, Version,
};

use crate::placeholder::{Found, HeaderKey, Key, Provenance, TlsKey, Values};
use crate::query;
use crate::scratch::Scratch;

/// The values that follow from one request.
#[derive(Clone, Copy, Debug)]
pub struct RequestValues<'a> {
    /// The head as it is now, after rewrites.
    pub head: &'a RequestHead,
    /// The connection it arrived on.
    pub conn: &'a ConnInfo,
    /// The client as trusted proxies name it, for `{http.vars.client_ip}`; `None` where the peer is
    /// meant.
    pub client_ip: Option<IpAddr>,
    /// The method before rewrites; `None` while it has not changed.
    pub original_method: Option<&'a Method>,
    /// The groups of regular expressions that matched.
    pub scratch: &'a Scratch,
}

impl Values for RequestValues<'_> {
    fn value(&self, key: &Key, out: &mut Vec<u8>) -> Found {
        match key {
            Key::Method => push_text(out, self.head.method.as_str()),
            Key::Scheme => push_text(out, self.conn.scheme().as_str()),
            Key::Proto => push_text(out, self.head.version.as_str()),
            Key::ProtoName => push_text(out, version_name(self.head.version)),
            Key::Host => out.extend_from_slice(host_as_sent(self.head)),
            Key::Port => push_port(out, self.head.port),
            Key::HostPort => out.extend_from_slice(&self.head.authority),
            Key::HostLabel(index) => {
                let label = self.head.host.rsplit(|&byte| byte == b'.').nth(*index);
                out.extend_from_slice(label.unwrap_or_default());
            }
            Key::Uri => out.extend_from_slice(self.uri()),
            Key::UriEscaped => encode_query(self.uri(), out),
            Key::Path => out.extend_from_slice(self.head.uri.path()),
            Key::PathEscaped => encode_query(self.head.uri.path(), out),
            Key::PathDir => out.extend_from_slice(split_file(self.head.uri.path()).0),
            Key::PathFile => out.extend_from_slice(split_file(self.head.uri.path()).1),
            Key::PathFileBase => out.extend_from_slice(file_base(self.head.uri.path())),
            Key::PathFileExt => out.extend_from_slice(file_ext(self.head.uri.path())),
            Key::PathSegment(index) => out.extend_from_slice(segment(self.head.uri.path(), *index)),
            Key::Query => out.extend_from_slice(self.query()),
            Key::QueryEscaped => encode_query(self.query(), out),
            Key::PrefixedQuery => push_prefixed(self.query(), out),
            Key::QueryParam(name) => query::join_values(self.query(), name.as_bytes(), out),
            Key::Header(name) => self.header(name, out),
            Key::Cookie(name) => self.cookie(name.as_bytes(), out),
            Key::Remote => push_remote(self.conn.remote, out),
            Key::RemoteHost => push_ip(out, self.remote_ip()),
            Key::RemotePort => {
                if let Remote::Ip(addr) = self.conn.remote {
                    push_port(out, Some(addr.port()));
                }
            }
            Key::RemoteNetwork { v4_bits, v6_bits } => {
                if let Some(ip) = self.remote_ip() {
                    push_network(ip, *v4_bits, *v6_bits, out);
                }
            }
            Key::Local => self.local().iter().for_each(|addr| push(out, addr)),
            Key::LocalHost => push_ip(out, self.local().map(|addr| addr.ip())),
            Key::LocalPort => push_port(out, self.local().map(|addr| addr.port())),
            Key::Tls(key) => return tls_value(self.conn.tls.as_deref(), *key, out),
            Key::Var(name) if name.as_ref() == "client_ip" => {
                push_ip(out, self.client_ip.or(self.remote_ip()));
            }
            Key::Capture { regexp, group } => {
                return self.scratch.captured(regexp.as_deref(), group, out);
            }
            Key::UrlPattern(group) => return self.scratch.group(group, out),
            Key::OrigMethod => push_text(out, self.original_method().as_str()),
            _ => return self.original_value(key, out),
        }
        Found::Known
    }

    fn provenance(&self, key: &Key) -> Provenance {
        match key {
            Key::Capture { regexp, group } => {
                match self.scratch.captured_from_path(regexp.as_deref(), group) {
                    true => Provenance::Path,
                    false => Provenance::Name,
                }
            }
            other => other.provenance(),
        }
    }
}

impl RequestValues<'_> {
    fn original_value(&self, key: &Key, out: &mut Vec<u8>) -> Found {
        let (path, query) = origin_form(&self.head.target);
        let mut decoded = Vec::new();
        decode_percent(path, &mut decoded);
        match key {
            Key::OrigUri => out.extend_from_slice(&self.head.target),
            Key::OrigPath => out.extend_from_slice(&decoded),
            Key::OrigPathDir => out.extend_from_slice(split_file(&decoded).0),
            Key::OrigPathFile => out.extend_from_slice(split_file(&decoded).1),
            Key::OrigPathFileEscaped => out.extend_from_slice(split_file(path).1),
            Key::OrigPathSegment(index) => out.extend_from_slice(segment(&decoded, *index)),
            Key::OrigQuery => out.extend_from_slice(query),
            Key::OrigPrefixedQuery => push_prefixed(query, out),
            _ => return Found::Unknown,
        }
        Found::Known
    }

    /// Nothing stands for a cookie that the client did not send.
    fn cookie(&self, name: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(cookie(&self.head.fields, name).unwrap_or_default());
    }

    fn original_method(&self) -> &Method {
        self.original_method.unwrap_or(&self.head.method)
    }

    /// The path and query as sent; an empty path counts as the root.
    fn uri(&self) -> &[u8] {
        match self.head.uri.as_bytes() {
            b"" => b"/",
            uri => uri,
        }
    }

    fn query(&self) -> &[u8] {
        self.head.uri.query().unwrap_or_default()
    }

    fn local(&self) -> Option<SocketAddr> {
        self.conn.local.address()
    }

    fn remote_ip(&self) -> Option<IpAddr> {
        match self.conn.remote {
            Remote::Ip(addr) => Some(addr.ip()),
            Remote::Unix => None,
        }
    }

    fn header(&self, name: &HeaderKey, out: &mut Vec<u8>) {
        // The host has its own placeholder. As in Caddy it is not among the headers, so that a rewritten or forged
        // `Host` header is never mistaken for the host of the request.
        if name.id() != FieldId::Host {
            join_fields(&self.head.fields, name, out);
        }
    }
}

/// Appends the values of the lines called `name`, joined by commas.
pub fn join_fields(fields: &Fields, name: &HeaderKey, out: &mut Vec<u8>) {
    for (index, value) in fields.find(name.name().as_bytes()).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(value);
    }
}

/// The value of the first cookie called `name`, whatever its case, without quotes around it (RFC
/// 6265, section 4.1.1).
pub fn cookie<'a>(fields: &'a Fields, name: &[u8]) -> Option<&'a [u8]> {
    fields
        .all(FieldId::Cookie)
        .flat_map(|line| line.split(|&byte| byte == b';'))
        .find_map(|pair| {
            let pair = pair.trim_ascii();
            let equals = memchr::memchr(b'=', pair)?;
            let value = pair[equals + 1..].trim_ascii();
            let quoted = value
                .strip_prefix(b"\"")
                .and_then(|rest| rest.strip_suffix(b"\""));
            pair[..equals]
                .trim_ascii()
                .eq_ignore_ascii_case(name)
                .then(|| quoted.unwrap_or(value))
        })
}

/// The path and query of a request target in origin or absolute form (RFC 9112, section 3.2).
pub fn origin_form(target: &[u8]) -> (&[u8], &[u8]) {
    let mut rest = target;
    if target.first() != Some(&b'/')
        && let Some(scheme_end) = memchr::memmem::find(target, b"://")
    {
        let authority = &target[scheme_end + 3..];
        let path_at = authority
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?'));
        rest = &authority[path_at.unwrap_or(authority.len())..];
    }
    match memchr::memchr(b'?', rest) {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, b""),
    }
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn push_ip(out: &mut Vec<u8>, ip: Option<IpAddr>) {
    if let Some(ip) = ip {
        out.extend_from_slice(IpText::new(ip).as_bytes());
    }
}

fn push_port(out: &mut Vec<u8>, port: Option<u16>) {
    if let Some(port) = port {
        push_integer(out, port.into());
    }
}

/// Appends a value by the formatting machinery, which costs more than any of the above.
fn push(out: &mut Vec<u8>, value: impl core::fmt::Display) {
    struct Bytes<'a>(&'a mut Vec<u8>);
    impl Write for Bytes<'_> {
        fn write_str(&mut self, text: &str) -> core::fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    write!(Bytes(out), "{value}").expect("writing to a list of bytes never fails");
}

/// The host of the request as sent, without port; IPv6 without brackets.
fn host_as_sent(head: &RequestHead) -> &[u8] {
    sluice_message::head::split_port(&head.authority).0
}

fn version_name(version: Version) -> &'static str {
    match version {
        Version::Http2 => "HTTP/2",
        Version::Http3 => "HTTP/3",
        Version::Http10 | Version::Http11 => version.as_str(),
    }
}

fn push_prefixed(query: &[u8], out: &mut Vec<u8>) {
    if !query.is_empty() {
        out.push(b'?');
        out.extend_from_slice(query);
    }
}

fn push_remote(remote: Remote, out: &mut Vec<u8>) {
    if let Remote::Ip(addr) = remote {
        push(out, addr);
    }
}

/// Splits after the last slash.
fn split_file(path: &[u8]) -> (&[u8], &[u8]) {
    path.split_at(memchr::memrchr(b'/', path).map_or(0, |at| at + 1))
}

/// From the last dot of the last segment on.
fn file_ext(path: &[u8]) -> &[u8] {
    let file = split_file(path).1;
    &file[memchr::memrchr(b'.', file).unwrap_or(file.len())..]
}

/// The last segment that is not empty, without the extension of the path.
fn file_base(path: &[u8]) -> &[u8] {
    let end = path
        .iter()
        .rposition(|&byte| byte != b'/')
        .map_or(0, |at| at + 1);
    let base = match split_file(&path[..end]).1 {
        b"" if path.is_empty() => b".",
        b"" => b"/",
        base => base,
    };
    base.strip_suffix(file_ext(path)).unwrap_or(base)
}

fn segment(path: &[u8], index: usize) -> &[u8] {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    path.split(|&byte| byte == b'/')
        .nth(index)
        .unwrap_or_default()
}

/// Appends the network of `ip`; more bits than the address has give nothing.
fn push_network(ip: IpAddr, v4_bits: u8, v6_bits: u8, out: &mut Vec<u8>) {
    match ip {
        IpAddr::V4(ip) if v4_bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - u32::from(v4_bits)).unwrap_or(0);
            push(
                out,
                format_args!("{}/{v4_bits}", Ipv4Addr::from_bits(ip.to_bits() & mask)),
            );
        }
        IpAddr::V6(ip) if v6_bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - u32::from(v6_bits)).unwrap_or(0);
            push(
                out,
                format_args!("{}/{v6_bits}", Ipv6Addr::from_bits(ip.to_bits() & mask)),
            );
        }
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
}

fn tls_value(tls: Option<&TlsInfo>, key: TlsKey, out: &mut Vec<u8>) -> Found {
    // As in Caddy, a name that exists is known without TLS, too, and stands for nothing.
    let Some(tls) = tls else {
        return Found::Known;
    };
    match key {
        TlsKey::Version => push_text(out, tls.version),
        TlsKey::CipherSuite => push_text(out, tls.cipher),
        TlsKey::Resumed => push(out, tls.resumed),
        TlsKey::Proto => out.extend_from_slice(&tls.alpn),
        TlsKey::ProtoMutual => push(out, true),
        TlsKey::ServerName => push_text(out, &tls.server_name),
        TlsKey::Ech => push(out, false),
        TlsKey::Client(_) | TlsKey::ClientSan(..) => return Found::Unknown,
    }
    Found::Known
}
