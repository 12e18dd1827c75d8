//! `ngx_http_scgi_module` and `ngx_http_uwsgi_module`: requests passed on over SCGI and uwsgi. What they share with
//! FastCGI is left to `cgi`.

use sluice_diag::Diagnostic;
use sluice_model::Handler;
use sluice_model::proxy::{CgiTransport, ReverseProxy, Transport};

use super::cgi;
use super::proxy::{BUFFERS, FILES, IGNORED, REPEATED, SIXTY};
use super::upstream::Group;
use crate::lower::Lowering;
use crate::lower::level::Level;
use crate::lower::text::{Facts, has_variables};
use crate::registry::Takes::{Flag, Number, Size, Time, Words};
use crate::registry::Verdict::{Always, OnlyAs, Partly};
use crate::registry::{MANY, Word};
use crate::tree::Directive;

/// The directives of SCGI.
pub const WORDS: &[Word] = &[
    Word::once("scgi_buffer_size", Size).but(BUFFERS),
    Word::once("scgi_buffering", Flag).but(BUFFERS),
    Word::once("scgi_buffers", Words(2, 2)).but(BUFFERS),
    Word::once("scgi_busy_buffers_size", Size).but(BUFFERS),
    Word::once("scgi_connect_timeout", Time),
    Word::many("scgi_hide_header", Words(1, 1)),
    Word::once("scgi_ignore_client_abort", Flag).but(OnlyAs(&["off"])),
    Word::many("scgi_ignore_headers", Words(1, MANY)).but(IGNORED),
    Word::once("scgi_intercept_errors", Flag),
    Word::once("scgi_limit_rate", Words(1, 1)).but(OnlyAs(&["0"])),
    Word::once("scgi_max_temp_file_size", Size).but(FILES),
    Word::once("scgi_next_upstream", Words(1, MANY)).but(REPEATED),
    Word::once("scgi_next_upstream_timeout", Time),
    Word::once("scgi_next_upstream_tries", Number),
    Word::many("scgi_param", Words(2, 3)),
    Word::once("scgi_pass", Words(1, 1)).but(Partly("addresses without variables")),
    Word::many("scgi_pass_header", Words(1, 1)),
    Word::once("scgi_pass_request_body", Flag),
    Word::once("scgi_pass_request_headers", Flag),
    Word::once("scgi_read_timeout", Time),
    Word::once("scgi_request_buffering", Flag).but(BUFFERS),
    Word::once("scgi_send_timeout", Time),
    Word::once("scgi_socket_keepalive", Flag).but(Always("connections are probed")),
    Word::once("scgi_store", Words(1, 1)).but(OnlyAs(&["off"])),
    Word::once("scgi_temp_file_write_size", Size).but(FILES),
    Word::once("scgi_temp_path", Words(1, 4)).but(FILES),
];

/// The directives of uwsgi.
pub const UWSGI: &[Word] = &[
    Word::once("uwsgi_buffer_size", Size).but(BUFFERS),
    Word::once("uwsgi_buffering", Flag).but(BUFFERS),
    Word::once("uwsgi_buffers", Words(2, 2)).but(BUFFERS),
    Word::once("uwsgi_busy_buffers_size", Size).but(BUFFERS),
    Word::once("uwsgi_connect_timeout", Time),
    Word::many("uwsgi_hide_header", Words(1, 1)),
    Word::once("uwsgi_ignore_client_abort", Flag).but(OnlyAs(&["off"])),
    Word::many("uwsgi_ignore_headers", Words(1, MANY)).but(IGNORED),
    Word::once("uwsgi_intercept_errors", Flag),
    Word::once("uwsgi_limit_rate", Words(1, 1)).but(OnlyAs(&["0"])),
    Word::once("uwsgi_max_temp_file_size", Size).but(FILES),
    Word::once("uwsgi_modifier1", Number),
    Word::once("uwsgi_modifier2", Number),
    Word::once("uwsgi_next_upstream", Words(1, MANY)).but(REPEATED),
    Word::once("uwsgi_next_upstream_timeout", Time),
    Word::once("uwsgi_next_upstream_tries", Number),
    Word::many("uwsgi_param", Words(2, 3)),
    Word::once("uwsgi_pass", Words(1, 1)).but(Partly(
        "`uwsgi://` and addresses without variables; `suwsgi://` is not built",
    )),
    Word::many("uwsgi_pass_header", Words(1, 1)),
    Word::once("uwsgi_pass_request_body", Flag),
    Word::once("uwsgi_pass_request_headers", Flag),
    Word::once("uwsgi_read_timeout", Time),
    Word::once("uwsgi_request_buffering", Flag).but(BUFFERS),
    Word::once("uwsgi_send_timeout", Time),
    Word::once("uwsgi_socket_keepalive", Flag).but(Always("connections are probed")),
    Word::once("uwsgi_store", Words(1, 1)).but(OnlyAs(&["off"])),
    Word::once("uwsgi_temp_file_write_size", Size).but(FILES),
    Word::once("uwsgi_temp_path", Words(1, 4)).but(FILES),
];

/// Lowers `scgi_pass`.
pub fn lower(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    directive: &Directive,
    facts: &Facts,
) -> Option<Handler> {
    let (upstream, transport) = transport(cx, level, directive, facts, "scgi")?;
    let transport = Transport::Scgi(Box::new(transport));
    Some(handler(cx, level, upstream, transport, "scgi"))
}

/// Lowers `uwsgi_pass`.
pub fn lower_uwsgi(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    directive: &Directive,
    facts: &Facts,
) -> Option<Handler> {
    let (upstream, mut transport) = transport(cx, level, directive, facts, "uwsgi")?;
    for (name, modifier) in [
        ("uwsgi_modifier1", &mut transport.modifier1),
        ("uwsgi_modifier2", &mut transport.modifier2),
    ] {
        let line = level.find(name).and_then(|line| line.args.first());
        match line.map(|word| (word, word.text.parse())) {
            None => {}
            Some((_, Ok(number))) => *modifier = number,
            Some((word, Err(_))) => return cx.invalid(word, name, "a number from 0 to 255"),
        }
    }
    let transport = Transport::Uwsgi(Box::new(transport));
    Some(handler(cx, level, upstream, transport, "uwsgi"))
}

/// The upstreams, and how they are spoken to.
fn transport(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    directive: &Directive,
    facts: &Facts,
    prefix: &str,
) -> Option<(Group, CgiTransport)> {
    let word = directive.args.first()?;
    let name = format!("{prefix}_pass");
    if has_variables(&word.text) {
        cx.report.push(
            Diagnostic::error(
                "unsupported-directive",
                format!("`{name}` with variables is not built yet"),
            )
            .at(word.span, "known, but not built")
            .imported(word.import)
            .help("name the application"),
        );
        return None;
    }
    let address = match word.text.split_once("://") {
        None => word.text.as_str(),
        Some((scheme, address)) if scheme == prefix => address,
        Some(_) => return cx.invalid(word, &name, "an address without a scheme"),
    };
    let (mut env, env_if_not_empty) = cgi::params(cx, level, facts, &format!("{prefix}_param"))?;
    if prefix == "scgi" {
        // Requests of SCGI begin with them.
        for told in ["CONTENT_LENGTH", "SCGI"] {
            env.remove(told);
        }
    }
    let time = |name: &str| level.time(&format!("{prefix}_{name}")).unwrap_or(SIXTY);
    let transport = CgiTransport {
        env,
        env_if_not_empty,
        only_env: true,
        dial_timeout: time("connect_timeout"),
        read_timeout: time("read_timeout"),
        write_timeout: time("send_timeout"),
        ..CgiTransport::default()
    };
    // Neither has a port of its own.
    Some((cx.group(address, 80), transport))
}

fn handler(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    group: Group,
    transport: Transport,
    prefix: &str,
) -> Handler {
    Handler::ReverseProxy(Box::new(ReverseProxy {
        transport: Some(transport),
        load_balancing: group.balancing,
        upstreams: group.upstreams,
        as_nginx: Some(cgi::as_nginx(cx, level, prefix)),
        ..ReverseProxy::default()
    }))
}
