//! `ngx_http_fastcgi_module`: proxying over FastCGI.

use sluice_model::Handler;
use sluice_model::proxy::{FastCgiTransport, ReverseProxy, Transport};
use sluice_route::pcre::{Case, Pattern};

use super::buffering::{BUFFER_SIZE, BUSY, FOLDER, LOWAT, WRITE};
use super::proxy::{BIND, REPEATED, SIXTY, application_by_variable, bound};
use super::upstream::{self, Group};
use super::{cache, cgi};
use crate::definition::Takes::{Flag, Number, Size, Time, Words};
use crate::definition::Verdict::{Always, Partly};
use crate::definition::{Definition, MANY, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::{Lowering, Script};
use crate::lower::text::{Facts, has_variables};
use crate::tree::Directive;

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("fastcgi_bind", Words(1, 2)).but(BIND),
    once("fastcgi_buffer_size", Size).but(BUFFER_SIZE),
    once("fastcgi_buffering", Flag),
    once("fastcgi_buffers", Words(2, 2)),
    once("fastcgi_busy_buffers_size", Size).but(BUSY),
    once("fastcgi_cache", Words(1, 1)).but(cache::ZONE),
    once("fastcgi_cache_background_update", Flag),
    many("fastcgi_cache_bypass", Words(1, MANY)),
    once("fastcgi_cache_key", Words(1, 1)),
    once("fastcgi_cache_lock", Flag),
    once("fastcgi_cache_lock_age", Time),
    once("fastcgi_cache_lock_timeout", Time),
    once("fastcgi_cache_max_range_offset", Words(1, 1)),
    once("fastcgi_cache_methods", Words(1, MANY)),
    once("fastcgi_cache_min_uses", Number),
    many("fastcgi_cache_path", Words(2, MANY)).but(cache::PATH),
    many("fastcgi_cache_purge", Words(1, MANY)),
    once("fastcgi_cache_revalidate", Flag),
    once("fastcgi_cache_use_stale", Words(1, MANY)),
    many("fastcgi_cache_valid", Words(1, MANY)),
    many("fastcgi_catch_stderr", Words(1, 1)),
    once("fastcgi_connect_timeout", Time),
    once("fastcgi_force_ranges", Flag),
    many("fastcgi_hide_header", Words(1, 1)),
    once("fastcgi_ignore_client_abort", Flag),
    once("fastcgi_index", Words(1, 1)),
    many("fastcgi_ignore_headers", Words(1, MANY)),
    once("fastcgi_intercept_errors", Flag),
    once("fastcgi_keep_conn", Flag)
        .but(Partly("`on`; with `off` a connection is kept for a moment")),
    once("fastcgi_limit_rate", Words(1, 1)),
    once("fastcgi_max_temp_file_size", Size),
    once("fastcgi_next_upstream", Words(1, MANY)).but(REPEATED),
    once("fastcgi_next_upstream_timeout", Time),
    once("fastcgi_next_upstream_tries", Number),
    many("fastcgi_no_cache", Words(1, MANY)),
    many("fastcgi_param", Words(2, 3)),
    once("fastcgi_pass", Words(1, 1)),
    many("fastcgi_pass_header", Words(1, 1)),
    once("fastcgi_pass_request_body", Flag),
    once("fastcgi_pass_request_headers", Flag),
    once("fastcgi_read_timeout", Time),
    once("fastcgi_request_buffering", Flag),
    once("fastcgi_send_lowat", Size).but(LOWAT),
    once("fastcgi_send_timeout", Time),
    once("fastcgi_socket_keepalive", Flag).but(Always("connections are probed")),
    once("fastcgi_socket_rcvbuf", Size),
    once("fastcgi_socket_sndbuf", Size),
    once("fastcgi_split_path_info", Words(1, 1)),
    once("fastcgi_store", Words(1, 1)),
    once("fastcgi_store_access", Words(1, 3)),
    once("fastcgi_temp_file_write_size", Size).but(WRITE),
    once("fastcgi_temp_path", Words(1, 4)).but(FOLDER),
];

/// The number of the way in which paths of scripts are split in a place.
pub fn script(cx: &mut Lowering<'_>, level: &Level<'_>) -> usize {
    let split = level.find("fastcgi_split_path_info");
    let split = split.and_then(|line| line.args.first());
    let split = match split {
        Some(word) => {
            let pattern = Pattern::new(&word.text, Case::Kept);
            if pattern.is_ok_and(|pattern| pattern.groups_count() < 2) {
                let wanted = "a pattern with two groups: the script, and what is left of the path";
                let _: Option<()> = cx.invalid(word, "fastcgi_split_path_info", wanted);
            }
            cx.pattern(&word.text, word)
        }
        None => String::new(),
    };
    cx.script_number(Script {
        index: level.word("fastcgi_index").unwrap_or_default().to_owned(),
        split,
        is_used: false,
    })
}

/// The port of applications.
const PORT: u16 = 9000;

/// Lowers `fastcgi_pass`.
pub fn lower(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    directive: &Directive,
    facts: &Facts,
) -> Option<Handler> {
    let word = directive.args.first()?;
    if has_variables(&word.text) {
        let one = |cx: &mut Lowering<'_>, group| pass_to(cx, level, group, facts);
        return application_by_variable(cx, level, word, facts, PORT, &one);
    }
    cx.has_port(&word.text, word, "fastcgi_pass")?;
    let group = upstream::group(cx, &word.text, PORT);
    pass_to(cx, level, group, facts)
}

fn pass_to(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    group: Group,
    facts: &Facts,
) -> Option<Handler> {
    let Group {
        upstreams,
        balancing,
        keep_alive,
    } = group;
    let (env, env_if_not_empty) = cgi::params(cx, level, facts, "fastcgi_param")?;
    let keeps = level.is_on("fastcgi_keep_conn", false);
    let transport = FastCgiTransport {
        env,
        env_if_not_empty,
        only_env: true,
        keep_alive: keep_alive.filter(|_| keeps),
        dial_timeout: level.time("fastcgi_connect_timeout").unwrap_or(SIXTY),
        read_timeout: level.time("fastcgi_read_timeout").unwrap_or(SIXTY),
        write_timeout: level.time("fastcgi_send_timeout").unwrap_or(SIXTY),
        capture_stderr: true,
        local_address: bound(cx, level, "fastcgi_bind"),
        socket_buffers: cgi::socket_buffers(level, "fastcgi"),
        catch_stderr: level
            .nearest(&["fastcgi_catch_stderr"])
            .iter()
            .filter_map(|line| line.arg(0))
            .map(str::to_owned)
            .collect(),
        ..FastCgiTransport::default()
    };
    let proxy = ReverseProxy {
        transport: Some(Transport::FastCgi(Box::new(transport))),
        load_balancing: balancing,
        upstreams,
        nginx: Some(cgi::proxying(cx, level, facts, "fastcgi")),
        ..ReverseProxy::default()
    };
    cache::around(cx, level, "fastcgi", facts, proxy)
}
