//! `ngx_http_scgi_module` and `ngx_http_uwsgi_module`: proxying over SCGI and uwsgi. What they share with FastCGI is in
//! `cgi`.

use sluice_model::Handler;
use sluice_model::proxy::{CgiTransport, ReverseProxy, Transport};

use super::buffering::{BUFFER_SIZE, BUSY, FOLDER, WRITE};
use super::proxy::{BIND, REPEATED, SIXTY, application_by_variable, bound};
use super::upstream::{self, Group};
use super::upstream_url::Url;
use super::{cache, cgi, upstream_tls};
use crate::definition::Takes::{Flag, Number, Size, Time, Words};
use crate::definition::Verdict::{Always, Idle, Partly};
use crate::definition::{Definition, MANY, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::{Facts, has_variables};
use crate::tree::{self, Directive};

/// The directives of SCGI.
pub const DIRECTIVES: &[Definition] = &[
    once("scgi_bind", Words(1, 2)).but(BIND),
    once("scgi_buffer_size", Size).but(BUFFER_SIZE),
    once("scgi_buffering", Flag),
    once("scgi_buffers", Words(2, 2)),
    once("scgi_busy_buffers_size", Size).but(BUSY),
    once("scgi_cache", Words(1, 1)).but(cache::ZONE),
    once("scgi_cache_background_update", Flag),
    many("scgi_cache_bypass", Words(1, MANY)),
    once("scgi_cache_key", Words(1, 1)),
    once("scgi_cache_lock", Flag),
    once("scgi_cache_lock_age", Time),
    once("scgi_cache_lock_timeout", Time),
    once("scgi_cache_max_range_offset", Words(1, 1)),
    once("scgi_cache_methods", Words(1, MANY)),
    once("scgi_cache_min_uses", Number),
    many("scgi_cache_path", Words(2, MANY)).but(cache::PATH),
    many("scgi_cache_purge", Words(1, MANY)),
    once("scgi_cache_revalidate", Flag),
    once("scgi_cache_use_stale", Words(1, MANY)),
    many("scgi_cache_valid", Words(1, MANY)),
    once("scgi_connect_timeout", Time),
    once("scgi_force_ranges", Flag),
    many("scgi_hide_header", Words(1, 1)),
    once("scgi_ignore_client_abort", Flag),
    many("scgi_ignore_headers", Words(1, MANY)),
    once("scgi_intercept_errors", Flag),
    once("scgi_limit_rate", Words(1, 1)),
    once("scgi_max_temp_file_size", Size),
    once("scgi_next_upstream", Words(1, MANY)).but(REPEATED),
    once("scgi_next_upstream_timeout", Time),
    once("scgi_next_upstream_tries", Number),
    many("scgi_no_cache", Words(1, MANY)),
    many("scgi_param", Words(2, 3)),
    once("scgi_pass", Words(1, 1)),
    many("scgi_pass_header", Words(1, 1)),
    once("scgi_pass_request_body", Flag),
    once("scgi_pass_request_headers", Flag),
    once("scgi_read_timeout", Time),
    once("scgi_request_buffering", Flag),
    once("scgi_send_timeout", Time),
    once("scgi_socket_keepalive", Flag).but(Always("connections are probed")),
    once("scgi_socket_rcvbuf", Size),
    once("scgi_socket_sndbuf", Size),
    once("scgi_store", Words(1, 1)),
    once("scgi_store_access", Words(1, 3)),
    once("scgi_temp_file_write_size", Size).but(WRITE),
    once("scgi_temp_path", Words(1, 4)).but(FOLDER),
];

/// The directives of uwsgi.
pub const UWSGI: &[Definition] = &[
    once("uwsgi_bind", Words(1, 2)).but(BIND),
    once("uwsgi_buffer_size", Size).but(BUFFER_SIZE),
    once("uwsgi_buffering", Flag),
    once("uwsgi_buffers", Words(2, 2)),
    once("uwsgi_busy_buffers_size", Size).but(BUSY),
    once("uwsgi_cache", Words(1, 1)).but(cache::ZONE),
    once("uwsgi_cache_background_update", Flag),
    many("uwsgi_cache_bypass", Words(1, MANY)),
    once("uwsgi_cache_key", Words(1, 1)),
    once("uwsgi_cache_lock", Flag),
    once("uwsgi_cache_lock_age", Time),
    once("uwsgi_cache_lock_timeout", Time),
    once("uwsgi_cache_max_range_offset", Words(1, 1)),
    once("uwsgi_cache_methods", Words(1, MANY)),
    once("uwsgi_cache_min_uses", Number),
    many("uwsgi_cache_path", Words(2, MANY)).but(cache::PATH),
    many("uwsgi_cache_purge", Words(1, MANY)),
    once("uwsgi_cache_revalidate", Flag),
    once("uwsgi_cache_use_stale", Words(1, MANY)),
    many("uwsgi_cache_valid", Words(1, MANY)),
    once("uwsgi_connect_timeout", Time),
    once("uwsgi_force_ranges", Flag),
    many("uwsgi_hide_header", Words(1, 1)),
    once("uwsgi_ignore_client_abort", Flag),
    many("uwsgi_ignore_headers", Words(1, MANY)),
    once("uwsgi_intercept_errors", Flag),
    once("uwsgi_limit_rate", Words(1, 1)),
    once("uwsgi_max_temp_file_size", Size),
    once("uwsgi_modifier1", Number),
    once("uwsgi_modifier2", Number),
    once("uwsgi_next_upstream", Words(1, MANY)).but(REPEATED),
    once("uwsgi_next_upstream_timeout", Time),
    once("uwsgi_next_upstream_tries", Number),
    many("uwsgi_no_cache", Words(1, MANY)),
    many("uwsgi_param", Words(2, 3)),
    once("uwsgi_pass", Words(1, 1)).but(Partly(
        "with variables `suwsgi://` has to stand in front of them",
    )),
    many("uwsgi_pass_header", Words(1, 1)),
    once("uwsgi_pass_request_body", Flag),
    once("uwsgi_pass_request_headers", Flag),
    once("uwsgi_read_timeout", Time),
    once("uwsgi_request_buffering", Flag),
    once("uwsgi_send_timeout", Time),
    once("uwsgi_socket_keepalive", Flag).but(Always("connections are probed")),
    once("uwsgi_socket_rcvbuf", Size),
    once("uwsgi_socket_sndbuf", Size),
    once("uwsgi_ssl_certificate", Words(1, 1)),
    once("uwsgi_ssl_certificate_cache", Words(1, 3))
        .but(Always("certificates are read once, with the configuration")),
    once("uwsgi_ssl_certificate_key", Words(1, 1)),
    once("uwsgi_ssl_ciphers", Words(1, 1)).but(upstream_tls::CIPHERS),
    many("uwsgi_ssl_conf_command", Words(2, 2)).but(upstream_tls::COMMANDS),
    once("uwsgi_ssl_crl", Words(1, 1)).but(upstream_tls::REVOKED),
    once("uwsgi_ssl_name", Words(1, 1)).but(upstream_tls::NAME),
    once("uwsgi_ssl_password_file", Words(1, 1)).but(upstream_tls::PASSWORDS),
    once("uwsgi_ssl_protocols", Words(1, MANY)).but(upstream_tls::PROTOCOLS),
    once("uwsgi_ssl_server_name", Flag).but(upstream_tls::TOLD),
    once("uwsgi_ssl_session_reuse", Flag),
    once("uwsgi_ssl_trusted_certificate", Words(1, 1)),
    once("uwsgi_ssl_verify", Flag),
    once("uwsgi_ssl_verify_depth", Number).but(Idle("chains are verified as far as they go")),
    once("uwsgi_store", Words(1, 1)),
    once("uwsgi_store_access", Words(1, 3)),
    once("uwsgi_temp_file_write_size", Size).but(WRITE),
    once("uwsgi_temp_path", Words(1, 4)).but(FOLDER),
];

/// Which of the two is spoken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speech {
    Scgi,
    Uwsgi,
}

impl Speech {
    /// The beginning of its directives.
    const fn prefix(self) -> &'static str {
        match self {
            Speech::Scgi => "scgi",
            Speech::Uwsgi => "uwsgi",
        }
    }
}

/// Neither has a port of its own.
const PORT: u16 = 80;

/// Lowers `scgi_pass`.
pub fn lower(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    directive: &Directive,
    facts: &Facts,
) -> Option<Handler> {
    pass(cx, level, directive, facts, Speech::Scgi)
}

/// Lowers `uwsgi_pass`.
pub fn lower_uwsgi(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    directive: &Directive,
    facts: &Facts,
) -> Option<Handler> {
    pass(cx, level, directive, facts, Speech::Uwsgi)
}

fn pass(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    directive: &Directive,
    facts: &Facts,
    speech: Speech,
) -> Option<Handler> {
    let word = directive.args.first()?;
    let name = format!("{}_pass", speech.prefix());
    let (is_tls, address) = match (word.text.split_once("://"), speech) {
        (None, _) => (false, word.text.as_str()),
        (Some(("uwsgi", address)), Speech::Uwsgi) => (false, address),
        (Some(("suwsgi", address)), Speech::Uwsgi) => (true, address),
        (Some(_), Speech::Scgi) => {
            return cx.invalid(word, &name, "an address without a scheme");
        }
        (Some(_), Speech::Uwsgi) => {
            let wanted = "an address, with or without `uwsgi://` or `suwsgi://`";
            return cx.invalid(word, &name, wanted);
        }
    };
    let url = |host| Url {
        is_tls,
        host,
        path: None,
    };
    if has_variables(&word.text) {
        let word = tree::Word {
            text: address.to_owned(),
            ..word.clone()
        };
        // Which host is asked is known only with the request.
        let url = url("");
        let one = |cx: &mut Lowering<'_>, group| pass_to(cx, level, &url, group, facts, speech);
        return application_by_variable(cx, level, &word, facts, PORT, &one);
    }
    cx.has_port(address, word, &name)?;
    let group = upstream::group(cx, address, PORT);
    pass_to(cx, level, &url(address), group, facts, speech)
}

fn pass_to(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    url: &Url<'_>,
    group: Group,
    facts: &Facts,
    speech: Speech,
) -> Option<Handler> {
    let prefix = speech.prefix();
    let mut transport = transport(cx, level, facts, prefix)?;
    let tls = url
        .is_tls
        .then(|| upstream_tls::lower(cx, level, url, prefix));
    transport.tls = tls;
    let transport = match speech {
        Speech::Scgi => Transport::Scgi(Box::new(transport)),
        Speech::Uwsgi => Transport::Uwsgi(Box::new(transport)),
    };
    let proxy = ReverseProxy {
        transport: Some(transport),
        load_balancing: group.balancing,
        upstreams: group.upstreams,
        nginx: Some(cgi::proxying(cx, level, facts, prefix)),
        ..ReverseProxy::default()
    };
    cache::around(cx, level, prefix, facts, proxy)
}

/// How applications are spoken to.
fn transport(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    facts: &Facts,
    prefix: &str,
) -> Option<CgiTransport> {
    let (mut env, env_if_not_empty) = cgi::params(cx, level, facts, &format!("{prefix}_param"))?;
    let mut modifiers = [0; 2];
    if prefix == "scgi" {
        // Requests of SCGI begin with them.
        for told in ["CONTENT_LENGTH", "SCGI"] {
            env.remove(told);
        }
    } else {
        for (name, modifier) in ["uwsgi_modifier1", "uwsgi_modifier2"]
            .iter()
            .zip(&mut modifiers)
        {
            let line = level.find(name).and_then(|line| line.args.first());
            match line.map(|word| (word, word.text.parse())) {
                None => {}
                Some((_, Ok(number))) => *modifier = number,
                Some((word, Err(_))) => return cx.invalid(word, name, "a number from 0 to 255"),
            }
        }
    }
    let time = |name: &str| level.time(&format!("{prefix}_{name}")).unwrap_or(SIXTY);
    Some(CgiTransport {
        env,
        env_if_not_empty,
        only_env: true,
        dial_timeout: time("connect_timeout"),
        read_timeout: time("read_timeout"),
        write_timeout: time("send_timeout"),
        modifier1: modifiers[0],
        modifier2: modifiers[1],
        local_address: bound(cx, level, &format!("{prefix}_bind")),
        socket_buffers: cgi::socket_buffers(level, prefix),
        ..CgiTransport::default()
    })
}
