//! `ngx_http_scgi_module` and `ngx_http_uwsgi_module`: proxying over SCGI and uwsgi. What they share with FastCGI is in
//! `cgi`.

use sluice_model::Handler;
use sluice_model::proxy::{CgiTransport, ReverseProxy, Transport};

use super::health_checks::{self, Via};
use super::proxy::application_by_variable;
use super::upstream::{self, Group};
use super::upstream_url::Url;
use super::{cache, cgi, forwarding, upstream_connection, upstream_tls};
use crate::arguments::each;
use crate::definition::Takes::Number;
use crate::definition::Verdict::Partly;
use crate::definition::{Content, Definition, Wrong, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::{Facts, has_variables};
use crate::tree::{self, Directive};

/// The directives of SCGI that are not in the tables of several modules.
pub const DIRECTIVES: &[Definition] = &[forwarding::IGNORE_HEADERS, cgi::PASS.content(lower)];

/// The directives of uwsgi that are not in the tables of several modules.
pub const UWSGI: &[Definition] = &[
    forwarding::IGNORE_HEADERS,
    once("modifier1", Number).checked(check_modifier),
    once("modifier2", Number).checked(check_modifier),
    cgi::PASS
        .but(Partly(
            "an address with variables must begin with `suwsgi://` for TLS",
        ))
        .content(lower_uwsgi),
];

fn check_modifier(directive: &Directive) -> Option<Wrong> {
    each(directive, "a number from 0 to 255", |word| {
        word.parse::<u8>().is_ok()
    })
}

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
fn lower(cx: &mut Lowering<'_>, content: Content<'_>) -> Option<Handler> {
    pass(cx, content, Speech::Scgi)
}

/// Lowers `uwsgi_pass`.
fn lower_uwsgi(cx: &mut Lowering<'_>, content: Content<'_>) -> Option<Handler> {
    pass(cx, content, Speech::Uwsgi)
}

fn pass(cx: &mut Lowering<'_>, content: Content<'_>, speech: Speech) -> Option<Handler> {
    let Content {
        level,
        directive,
        facts,
        ..
    } = content;
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
        .then(|| upstream_tls::lower(cx, level, url, facts, prefix));
    transport.tls = tls;
    let read_timeout = transport.read_timeout;
    let transport = match speech {
        Speech::Scgi => Transport::Scgi(Box::new(transport)),
        Speech::Uwsgi => Transport::Uwsgi(Box::new(transport)),
    };
    let via = Via {
        host: &facts.server_name,
        headers: None,
        timeout: read_timeout,
    };
    let proxy = ReverseProxy {
        health_checks: health_checks::lower(cx, level, &via),
        transport: Some(transport),
        load_balancing: group.balancing,
        upstreams: group.upstreams,
        dialect: Some(cgi::proxying(cx, level, facts, prefix)),
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
        for name in ["CONTENT_LENGTH", "SCGI"] {
            env.remove(name);
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
    let connection = upstream_connection::lower(cx, level, facts, prefix);
    Some(CgiTransport {
        env,
        env_if_not_empty,
        only_env: true,
        dial_timeout: connection.dial_timeout,
        read_timeout: connection.read_timeout,
        write_timeout: connection.write_timeout,
        modifier1: modifiers[0],
        modifier2: modifiers[1],
        local_address: connection.local_address,
        socket_buffers: upstream_connection::socket_buffers(level, prefix),
        ..CgiTransport::default()
    })
}
