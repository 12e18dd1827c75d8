//! `ngx_http_fastcgi_module`: proxying over FastCGI.

use sluice_model::Handler;
use sluice_model::proxy::{FastCgiTransport, ReverseProxy, Transport};
use sluice_route::pcre::{Case, Pattern};

use super::health_checks::{self, Via};
use super::proxy::application_by_variable;
use super::upstream::{self, Group};
use super::{buffering, cache, cgi, forwarding, upstream_connection};
use crate::definition::Takes::{Flag, Words};
use crate::definition::Verdict::Partly;
use crate::definition::{Content, Definition, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::{Lowering, Script};
use crate::lower::text::{Facts, has_variables};

/// The directives that are not in the tables of several modules.
pub const DIRECTIVES: &[Definition] = &[
    many("catch_stderr", Words(1, 1)),
    forwarding::IGNORE_HEADERS,
    once("index", Words(1, 1)),
    once("keep_conn", Flag).but(Partly(
        "`on`; with `off` a connection stays open for a moment",
    )),
    cgi::PASS.content(lower),
    buffering::SEND_LOWAT,
    once("split_path_info", Words(1, 1)),
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
fn lower(cx: &mut Lowering<'_>, content: Content<'_>) -> Option<Handler> {
    let Content {
        level,
        directive,
        facts,
        ..
    } = content;
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
    let connection = upstream_connection::lower(cx, level, facts, "fastcgi");
    let transport = FastCgiTransport {
        env,
        env_if_not_empty,
        only_env: true,
        keep_alive: keep_alive.filter(|_| keeps),
        dial_timeout: connection.dial_timeout,
        read_timeout: connection.read_timeout,
        write_timeout: connection.write_timeout,
        capture_stderr: true,
        local_address: connection.local_address,
        socket_buffers: upstream_connection::socket_buffers(level, "fastcgi"),
        catch_stderr: level
            .nearest(&["fastcgi_catch_stderr"])
            .iter()
            .filter_map(|line| line.arg(0))
            .map(str::to_owned)
            .collect(),
        ..FastCgiTransport::default()
    };
    let via = Via {
        host: &facts.server_name,
        headers: None,
        timeout: connection.read_timeout,
    };
    let proxy = ReverseProxy {
        health_checks: health_checks::lower(cx, level, &via),
        transport: Some(Transport::FastCgi(Box::new(transport))),
        load_balancing: balancing,
        upstreams,
        dialect: Some(cgi::proxying(cx, level, facts, "fastcgi")),
        ..ReverseProxy::default()
    };
    cache::around(cx, level, "fastcgi", facts, proxy)
}
