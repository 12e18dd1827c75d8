//! `ngx_http_memcached_module`: responses from memcached values.

use sluice_diag::Diagnostic;
use sluice_model::Handler;
use sluice_model::nginx::NginxProxy;
use sluice_model::proxy::{MemcachedTransport, ReverseProxy, Transport};

use super::{buffering, next_upstream, upstream, upstream_connection};
use crate::arguments;
use crate::definition::Takes::{Number, Words};
use crate::definition::Verdict::Partly;
use crate::definition::{Content, Definition, Keywords, MANY, once};
use crate::lower::lowering::Lowering;
use crate::lower::text::has_variables;
use crate::tree::Word as Text;

/// The directives that are not in the tables of several modules.
pub const DIRECTIVES: &[Definition] = &[
    buffering::HEAD_SIZE,
    once("gzip_flag", Number),
    once("next_upstream", Words(1, MANY))
        .but(Partly("all except `denied`"))
        .of(&FAILURES),
    once("pass", Words(1, 1))
        .checked(arguments::address)
        .content(lower),
];

const FAILURES: Keywords = Keywords {
    from: 0,
    words: &["error", "timeout", "invalid_response", "not_found", "off"],
    wanted: "`error`, `timeout`, `invalid_response`, `not_found` or `off`",
};

/// The port of memcached; addresses have to name one all the same, as in nginx.
const PORT: u16 = 11211;

/// Lowers `memcached_pass`.
fn lower(cx: &mut Lowering<'_>, content: Content<'_>) -> Option<Handler> {
    let Content {
        level,
        directive,
        facts,
        ..
    } = content;
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
    let group = upstream::group(cx, &word.text, PORT);
    let gzip_flag = level.word("memcached_gzip_flag");
    let connection = upstream_connection::lower(cx, level, facts, "memcached");
    let transport = MemcachedTransport {
        key: cx.text(&key, facts),
        gzip_flag: gzip_flag.and_then(|flag| flag.parse().ok()).unwrap_or(0),
        dial_timeout: connection.dial_timeout,
        read_timeout: connection.read_timeout,
        write_timeout: connection.write_timeout,
        keep_alive: group.keep_alive,
        local_address: connection.local_address,
    };
    Some(Handler::ReverseProxy(Box::new(ReverseProxy {
        transport: Some(Transport::Memcached(Box::new(transport))),
        load_balancing: group.balancing,
        upstreams: group.upstreams,
        dialect: Some(NginxProxy {
            // A value that is not there is an error of ours, with its page.
            intercept: vec![404],
            drop_body: true,
            // Values have no validators, and parts of them are served all the same.
            force_ranges: true,
            ..next_upstream::lower(cx, level, facts, "memcached")
        }),
        ..ReverseProxy::default()
    })))
}
