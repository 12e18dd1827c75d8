//! `ngx_http_upstream_module`: groups of upstreams and the choice among them.

use sluice_diag::Diagnostic;
use sluice_model::Duration;
use sluice_model::proxy::{
    HealthChecks, KeepAlive, LoadBalancing, NoPolicySettings, PassiveChecks, SelectionPolicy,
    Upstream, Weighted,
};

use crate::lower::Lowering;
use crate::lower::values;
use crate::registry::Takes::{Block, Nothing, Number, Time, Words};
use crate::registry::Verdict::{Idle, NotYet, Partly};
use crate::registry::Word;
use crate::tree::{Directive, Word as Text};

/// The directives.
pub const WORDS: &[Word] = &[
    Word::once("hash", Words(1, 2)).but(NotYet),
    Word::once("ip_hash", Nothing).but(Partly("by the whole address; nginx takes three bytes of one of IPv4")),
    Word::once("keepalive", Words(1, 2)).but(Partly("connections are kept by each worker and for each location that passes requests to the group")),
    Word::once("keepalive_requests", Number).but(Idle("a connection is not closed for the number of its requests")),
    Word::once("keepalive_time", Time).but(Idle("a connection is not closed for its age")),
    Word::once("keepalive_timeout", Time),
    Word::once("least_conn", Nothing).but(Partly("weights do not count beside it")),
    Word::once("random", Words(0, 2)).but(NotYet),
    Word::many("server", Words(1, 16)).but(Partly(
        "`weight`, `backup`, `down`, `max_conns`, `max_fails` and `fail_timeout`; the last two are those of the first \
         server; failures are counted for each location that passes requests to the group",
    )),
    Word::many("upstream", Block(1, 1)),
    Word::once("zone", Words(1, 2)).but(Partly("workers share what they know of upstreams anyway")),
];

/// A group of upstreams, or one that is named directly.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The upstreams.
    pub upstreams: Vec<Upstream>,
    /// The choice among them.
    pub balancing: Option<LoadBalancing>,
    /// Which of them count as healthy.
    pub health: Option<HealthChecks>,
    /// Connections that are kept.
    pub keep_alive: Option<KeepAlive>,
}

/// nginx keeps so many connections to a group since 1.29.7.
const KEPT: i64 = 32;

impl Group {
    /// One upstream at an address.
    pub fn of(dial: String) -> Group {
        Group {
            upstreams: vec![Upstream {
                dial,
                ..Upstream::default()
            }],
            ..Group::default()
        }
    }
}

/// Lowers an `upstream` block; `port` is that of servers that name none.
pub fn lower(cx: &mut Lowering<'_>, directive: &Directive, port: u16) -> Group {
    let mut group = Group::default();
    let (mut weights, mut health) = (Vec::new(), None);
    for line in directive.body() {
        match line.name() {
            "server" => {
                let server = server(cx, line, port).filter(|server| !server.is_down);
                if let Some(server) = server {
                    group.upstreams.push(server.upstream);
                    weights.push(server.weight);
                    health.get_or_insert((server.max_fails, server.fail_timeout));
                }
            }
            "keepalive" => group.keep_alive = keep_alive(cx, line),
            _ => {}
        }
    }
    if group.upstreams.is_empty() {
        cx.report.push(
            Diagnostic::error("empty-upstream", "an `upstream` without a server")
                .at(directive.span(), "no server in it gets requests")
                .imported(directive.name.import)
                .help("add `server <address>;`"),
        );
    }
    let mut kept = group.keep_alive.take().unwrap_or_else(usual_keep_alive);
    if let Some(timeout) = own(directive, "keepalive_timeout").and_then(|line| line.arg(0)) {
        kept.idle_timeout = values::time(timeout).unwrap_or_default();
    }
    group.keep_alive = Some(kept);
    balance(directive, &mut group, weights, health);
    group
}

/// The connections that are kept where nothing is said.
pub fn usual_keep_alive() -> KeepAlive {
    KeepAlive {
        max_idle_conns_per_host: KEPT,
        idle_timeout: Duration::seconds(60),
        ..KeepAlive::default()
    }
}

fn own<'t>(directive: &'t Directive, name: &str) -> Option<&'t Directive> {
    directive.body().iter().find(|line| line.name() == name)
}

fn keep_alive(cx: &mut Lowering<'_>, line: &Directive) -> Option<KeepAlive> {
    let word = line.args.first()?;
    let Ok(count) = word.text.parse::<i64>() else {
        return cx.invalid(word, "keepalive", "a number of connections");
    };
    Some(match count {
        0 => KeepAlive {
            enabled: Some(false),
            ..KeepAlive::default()
        },
        count => KeepAlive {
            max_idle_conns_per_host: count,
            ..usual_keep_alive()
        },
    })
}

fn balance(
    directive: &Directive,
    group: &mut Group,
    weights: Vec<i64>,
    health: Option<(i64, Duration)>,
) {
    // As in nginx, the failures of the only server of a group do not count.
    if group.upstreams.len() < 2 {
        return;
    }
    let plain = NoPolicySettings::default();
    let policy = if own(directive, "least_conn").is_some() {
        SelectionPolicy::LeastConn(plain)
    } else if own(directive, "ip_hash").is_some() {
        SelectionPolicy::ClientIpHash(plain)
    } else if weights.iter().all(|weight| *weight == weights[0]) {
        SelectionPolicy::RoundRobin(plain)
    } else {
        SelectionPolicy::WeightedRoundRobin(Weighted { weights })
    };
    group.balancing = Some(LoadBalancing {
        selection_policy: Some(policy),
        retries: group.upstreams.len() as i64 - 1,
        ..LoadBalancing::default()
    });
    let (max_fails, fail_duration) = health.unwrap_or((1, Duration::seconds(10)));
    if max_fails > 0 {
        group.health = Some(HealthChecks {
            active: None,
            passive: Some(PassiveChecks {
                fail_duration,
                max_fails,
                ..PassiveChecks::default()
            }),
        });
    }
}

struct Server {
    upstream: Upstream,
    weight: i64,
    max_fails: i64,
    fail_timeout: Duration,
    is_down: bool,
}

fn server(cx: &mut Lowering<'_>, line: &Directive, port: u16) -> Option<Server> {
    let (address, params) = line.args.split_first()?;
    let mut server = Server {
        upstream: Upstream {
            dial: dial(&address.text, port),
            ..Upstream::default()
        },
        weight: 1,
        max_fails: 1,
        fail_timeout: Duration::seconds(10),
        is_down: false,
    };
    for param in params {
        parameter(cx, &mut server, param);
    }
    Some(server)
}

fn parameter(cx: &mut Lowering<'_>, server: &mut Server, param: &Text) {
    let number = |text: &str| text.parse::<i64>().ok().filter(|number| *number >= 0);
    let (name, value) = param.text.split_once('=').unwrap_or((&param.text, ""));
    let taken = match name {
        "weight" => number(value)
            .filter(|weight| *weight > 0)
            .map(|weight| server.weight = weight),
        "max_fails" => number(value).map(|fails| server.max_fails = fails),
        "max_conns" => number(value).map(|max| server.upstream.max_requests = max),
        "fail_timeout" => values::time(value).map(|time| server.fail_timeout = time),
        "backup" => {
            server.upstream.backup = true;
            Some(())
        }
        "down" => {
            server.is_down = true;
            Some(())
        }
        "resolve" | "service" | "route" | "slow_start" | "drain" => {
            cx.report.push(
                Diagnostic::error(
                    "unsupported-directive",
                    format!("`{name}` of a `server` is not built yet"),
                )
                .at(param.span, "known, but not built")
                .imported(param.import)
                .help("remove it"),
            );
            return;
        }
        _ => None,
    };
    if taken.is_none() {
        let _: Option<()> = cx.invalid(
            param,
            "server",
            "`weight=N`, `max_conns=N`, `max_fails=N`, `fail_timeout=TIME`, `backup` or `down`",
        );
    }
}

/// An address as the model dials it.
pub fn dial(address: &str, port: u16) -> String {
    if let Some(path) = address.strip_prefix("unix:") {
        return format!("unix/{path}");
    }
    let after_brackets = address.rfind(']').map_or(address, |at| &address[at..]);
    match after_brackets.contains(':') {
        true => address.to_owned(),
        false => format!("{address}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::dial;

    #[test]
    fn addresses_have_ports() {
        for (address, expected) in [
            ("127.0.0.1", "127.0.0.1:80"),
            ("a.example:8080", "a.example:8080"),
            ("[::1]", "[::1]:80"),
            ("[::1]:81", "[::1]:81"),
            ("unix:/run/x.sock", "unix//run/x.sock"),
        ] {
            assert_eq!(dial(address, 80), expected);
        }
    }
}
