//! The values of nginx's variables that no placeholder of Caddy's has.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sluice_message::layout::LocalTime;
use sluice_message::{FieldId, Fields, IpText};
use sluice_net::clock;
use sluice_route::Found;
use sluice_route::placeholder::nginx::{NginxKey, PassKey};
use sluice_route::values::origin_form;

use crate::context::Exchange;
use crate::handlers::cache::CacheStatus;
use crate::values::{client_ip, remote_ip};

/// Appends the value of a variable.
pub fn value(x: &Exchange, key: &NginxKey, out: &mut Vec<u8>) -> Found {
    match key {
        NginxKey::Host(fallback) => host(x, fallback, out),
        NginxKey::RequestUri => out.extend_from_slice(sent(x)),
        NginxKey::Request => request_line(x, out),
        NginxKey::IsArgs => {
            if x.req.uri.query().is_some_and(|query| !query.is_empty()) {
                out.push(b'?');
            }
        }
        NginxKey::Argument(name) => argument(x, name.as_bytes(), out),
        NginxKey::Field(name) if name.eq_ignore_ascii_case("host") => {
            out.extend_from_slice(&x.req.authority);
        }
        NginxKey::Field(name) => join(&x.req.fields, name.as_bytes(), out),
        NginxKey::SentField(name) => join(&x.res.fields, name.as_bytes(), out),
        NginxKey::Cookie(name) => cookie(x, name.as_bytes(), out),
        NginxKey::Capture(index) => x.context.captures.write(*index, out),
        NginxKey::UriFrom(cut) => {
            let rest = x.req.uri.path().get(*cut..).unwrap_or_default();
            // `location /a { alias /b/; }` would let `/a../c` out of the folder. No file has NUL in its name.
            if rest == b".." || rest.starts_with(b"../") {
                out.push(0);
            }
            out.extend_from_slice(rest);
        }
        NginxKey::Pass(key) => passed(x, *key, out),
        NginxKey::Table(name) => {
            if let Some(tables) = &x.context.tables {
                tables.value(x, name, out);
            }
        }
        NginxKey::AddForwardedFor => {
            join(&x.req.fields, b"X-Forwarded-For", out);
            if let Some(ip) = client_ip(x).or_else(|| remote_ip(&x.conn)) {
                if !out.is_empty() && x.req.fields.has(FieldId::XForwardedFor) {
                    out.extend_from_slice(b", ");
                }
                out.extend_from_slice(IpText::new(ip).as_bytes());
            }
        }
        NginxKey::Https => {
            if x.conn.tls.is_some() {
                out.extend_from_slice(b"on");
            }
        }
        NginxKey::RemoteUser => remote_user(x, out),
        NginxKey::Status => show(out, format_args!("{:03}", x.res.status.code())),
        NginxKey::BodyBytesSent => show(out, format_args!("{}", x.context.log.body_bytes_sent)),
        NginxKey::RequestCompletion => out.extend_from_slice(b"OK"),
        NginxKey::RequestTime => {
            let elapsed = clock::now().since(x.started);
            show(
                out,
                format_args!("{}.{:03}", elapsed.as_secs(), elapsed.subsec_millis()),
            );
        }
        NginxKey::TimeLocal => time(x, "02/Jan/2006:15:04:05 -0700", out),
        NginxKey::TimeIso => time(x, "2006-01-02T15:04:05-07:00", out),
        NginxKey::Msec => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let now = now.unwrap_or_default();
            show(
                out,
                format_args!("{}.{:03}", now.as_secs(), now.subsec_millis()),
            );
        }
        _ => return of_process_and_session(x, key, out),
    }
    Found::Known
}

/// The values that follow from the process, or from the connection.
fn of_process_and_session(x: &Exchange, key: &NginxKey, out: &mut Vec<u8>) -> Found {
    match key {
        NginxKey::Upstream(key) => super::tries::push(x, *key, out),
        NginxKey::Pid => show(out, format_args!("{}", std::process::id())),
        NginxKey::TlsProtocol => {
            if let Some(tls) = &x.conn.tls {
                out.extend_from_slice(match tls.version {
                    "tls1.2" => b"TLSv1.2",
                    "tls1.3" => b"TLSv1.3",
                    other => other.as_bytes(),
                });
            }
        }
        NginxKey::TlsReused => {
            if let Some(tls) = &x.conn.tls {
                out.push(if tls.resumed { b'r' } else { b'.' });
            }
        }
        NginxKey::RequestId => request_id(x, out),
        NginxKey::CacheStatus => {
            let status = x.context.upstream.cache;
            out.extend_from_slice(status.map_or("", CacheStatus::as_str).as_bytes());
        }
        _ => return Found::Unknown,
    }
    Found::Known
}

/// A part of the address that the request is passed on to.
fn passed(x: &Exchange, key: PassKey, out: &mut Vec<u8>) {
    let pass = &x.context.occasional.pass;
    match key {
        PassKey::Dial => out.extend_from_slice(&pass.dial),
        PassKey::Host => out.extend_from_slice(&pass.host),
        PassKey::Port => show(out, format_args!("{}", pass.port)),
        PassKey::Uri => out.extend_from_slice(&pass.uri),
    }
}

fn show(out: &mut Vec<u8>, value: std::fmt::Arguments<'_>) {
    out.write_fmt(value)
        .expect("writing to memory does not fail");
}

fn host(x: &Exchange, fallback: &str, out: &mut Vec<u8>) {
    // A dot at the end says that a name is whole, which all of these are.
    let host = &x.req.host[..];
    match host.strip_suffix(b".").unwrap_or(host) {
        b"" => out.extend_from_slice(fallback.as_bytes()),
        host if host.contains(&b':') => {
            out.push(b'[');
            out.extend_from_slice(host);
            out.push(b']');
        }
        host => out.extend_from_slice(host),
    }
}

/// Path and query as they were sent.
pub fn sent(x: &Exchange) -> &[u8] {
    let target = &x.req.target[..];
    if target.starts_with(b"/") {
        return target;
    }
    let (path, query) = origin_form(target);
    let behind = if query.is_empty() { 0 } else { query.len() + 1 };
    match target.len().checked_sub(path.len() + behind) {
        Some(start) if !path.is_empty() => &target[start..],
        _ => b"/",
    }
}

fn request_line(x: &Exchange, out: &mut Vec<u8>) {
    let method = x
        .context
        .original_method
        .as_deref()
        .unwrap_or(&x.req.method);
    out.extend_from_slice(method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(&x.req.target);
    out.push(b' ');
    out.extend_from_slice(x.req.version.as_str().as_bytes());
}

/// The value of an argument as it was sent; names compare without case.
fn argument(x: &Exchange, name: &[u8], out: &mut Vec<u8>) {
    let query = x.req.uri.query().unwrap_or_default();
    let mut pairs = query.split(|byte| *byte == b'&');
    let found = pairs.find_map(|pair| {
        let (known, value) = (pair.get(..name.len())?, pair.get(name.len() + 1..)?);
        (pair[name.len()] == b'=' && known.eq_ignore_ascii_case(name)).then_some(value)
    });
    out.extend_from_slice(found.unwrap_or_default());
}

fn join(fields: &Fields, name: &[u8], out: &mut Vec<u8>) {
    for (index, value) in fields.find(name).enumerate() {
        if index > 0 {
            let is_cookie = name.eq_ignore_ascii_case(b"cookie");
            out.extend_from_slice(if is_cookie { b"; " } else { b", " });
        }
        out.extend_from_slice(value);
    }
}

fn cookie(x: &Exchange, name: &[u8], out: &mut Vec<u8>) {
    let mut pairs = x
        .req
        .fields
        .all(FieldId::Cookie)
        .flat_map(|line| line.split(|byte| *byte == b';'));
    let found = pairs.find_map(|pair| {
        let pair = pair.trim_ascii();
        let equals = memchr::memchr(b'=', pair)?;
        pair[..equals]
            .eq_ignore_ascii_case(name)
            .then(|| &pair[equals + 1..])
    });
    out.extend_from_slice(found.unwrap_or_default());
}

/// The name in the credentials of a request, as far as it can be read.
fn remote_user(x: &Exchange, out: &mut Vec<u8>) {
    let Some(field) = x.req.fields.first(FieldId::Authorization) else {
        return;
    };
    let scheme = field
        .get(..6)
        .filter(|scheme| scheme.eq_ignore_ascii_case(b"basic "));
    if scheme.is_none() {
        return;
    }
    let Ok(text) = STANDARD.decode(field[6..].trim_ascii()) else {
        return;
    };
    if let Some(colon) = memchr::memchr(b':', &text) {
        out.extend_from_slice(&text[..colon]);
    }
}

fn time(x: &Exchange, layout: &str, out: &mut Vec<u8>) {
    let seconds = i64::try_from(x.worker.clock.unix_seconds()).unwrap_or(i64::MAX);
    LocalTime::utc(seconds, 0).push(layout, out);
}

/// The number that `{http.request.uuid}` shows as well, in hexadecimal digits.
fn request_id(x: &Exchange, out: &mut Vec<u8>) {
    let [mut high, mut low] = x.context.uuid.get();
    if high == 0 && low == 0 {
        let bits = crate::random::bits();
        (high, low) = ((bits >> 64) as u64, bits as u64);
        x.context.uuid.set([high, low]);
    }
    show(out, format_args!("{high:016x}{low:016x}"));
}
