//! `ngx_http_memcached_module`: responses from memcached values.

use sluice_diag::Diagnostic;
use sluice_model::Handler;
use sluice_model::proxy::{MemcachedTransport, NginxProxy, ReverseProxy, Transport};

use super::buffering::HEAD;
use super::proxy::{BIND, SIXTY, bound};
use super::upstream;
use crate::definition::Takes::{Flag, Number, Size, Time, Words};
use crate::definition::Verdict::{Always, Partly};
use crate::definition::{Definition, MANY, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::{Facts, has_variables};
use crate::tree::{Directive, Word as Text};

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("memcached_bind", Words(1, 2)).but(BIND),
    once("memcached_buffer_size", Size).but(HEAD),
    once("memcached_connect_timeout", Time),
    once("memcached_gzip_flag", Number),
    once("memcached_next_upstream", Words(1, MANY)).but(Partly("all but `denied`")),
    once("memcached_next_upstream_timeout", Time),
    once("memcached_next_upstream_tries", Number),
    once("memcached_pass", Words(1, 1)),
    once("memcached_read_timeout", Time),
    once("memcached_send_timeout", Time),
    once("memcached_socket_keepalive", Flag).but(Always("connections are probed")),
];

/// The port of memcached; addresses have to name one all the same, as in nginx.
const PORT: u16 = 11211;

/// Lowers `memcached_pass`.
pub fn lower(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    directive: &Directive,
    facts: &Facts,
) -> Option<Handler> {
    let word = directive.args.first()?;
    if has_variables(&word.text) {
        return cx.invalid(word, "memcached_pass", "an address without variables");
    }
    cx.has_port(&word.text, word, "memcached_pass")?;
    if !cx.is_set("memcached_key") {
        cx.report.push(
            Diagnostic::error("unknown-variable", "nothing sets `$memcached_key`")
                .at(directive.span(), "asks for the value of that key")
                .imported(directive.name.import)
                .help("add `set $memcached_key $uri;`, or whatever values are called"),
        );
        return None;
    }
    let key = Text {
        text: "$memcached_key".to_owned(),
        ..word.clone()
    };
    let time = |name: &str| level.time(&format!("memcached_{name}")).unwrap_or(SIXTY);
    let group = upstream::group(cx, &word.text, PORT);
    let gzip_flag = level.word("memcached_gzip_flag");
    let transport = MemcachedTransport {
        key: cx.text(&key, facts),
        gzip_flag: gzip_flag.and_then(|flag| flag.parse().ok()).unwrap_or(0),
        dial_timeout: time("connect_timeout"),
        read_timeout: time("read_timeout"),
        write_timeout: time("send_timeout"),
        keep_alive: group.keep_alive,
        local_address: bound(cx, level, "memcached_bind"),
    };
    Some(Handler::ReverseProxy(Box::new(ReverseProxy {
        transport: Some(Transport::Memcached(Box::new(transport))),
        load_balancing: group.balancing,
        upstreams: group.upstreams,
        nginx: Some(NginxProxy {
            // A value that is not there is an error of ours, with its page.
            intercept: vec![404],
            drop_body: true,
            ..upstream::next(cx, level, facts, "memcached")
        }),
        ..ReverseProxy::default()
    })))
}
