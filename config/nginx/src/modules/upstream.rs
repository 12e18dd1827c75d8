//! `ngx_http_upstream_module`: upstream groups and load balancing.

use sluice_diag::Diagnostic;
use sluice_model::Duration;
use sluice_model::proxy::{
    GroupQueue, GroupServer, KeepAlive, LoadBalancing, Resolver, SelectionPolicy, Sticky,
    StickyCookie, StickyLearn, Upstream, UpstreamGroup,
};

use super::resolver;
use crate::arguments::{ADDRESS, ZONE_BYTES_MIN, has_good_port};
use crate::context::Context;
use crate::definition::Repeats::OncePerName;
use crate::definition::Takes::{Block, Nothing, Number, Time, Words};
use crate::definition::Verdict::{Always, Partly};
use crate::definition::Wrong;
use crate::definition::{Definition, MANY, many, once};
use crate::lower::lowering::Lowering;
use crate::lower::text::Facts;
use crate::lower::values;
use crate::tree::{Directive, Word as Text};

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("hash", Words(1, 2)),
    once("ip_hash", Nothing),
    once("keepalive", Words(1, 2)).but(Partly(
        "the number applies to each server and worker; all locations share the connections, also with `local`",
    )),
    once("keepalive_requests", Number),
    once("keepalive_time", Time),
    once("keepalive_timeout", Time),
    once("least_conn", Nothing),
    once("least_time", Words(1, 2)),
    once("queue", Words(1, 2)).checked(queue_words),
    once("random", Words(0, 2)),
    once("resolver", Words(1, MANY))
        .but(resolver::VERDICT)
        .checked(resolver::check),
    once("resolver_timeout", Time),
    many("server", Words(1, 16))
        .but(Partly(
            "the system resolves names without `resolve`, again every ten seconds; a name without an address is skipped and does not prevent the start; `localhost` is one server, at the address that accepts connections",
        ))
        .checked(address),
    once("sticky", Words(2, 16)).but(Partly("all except `sync`, which is only in nginx Plus")),
    many("upstream", Block(1, 1))
        .repeated(OncePerName)
        .holding(|_| Context::Upstream),
    once("zone", Words(1, 2))
        .but(Always("workers share the state of servers"))
        .checked(upstream_zone),
];

/// A group of upstreams, or one that is named directly.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The upstreams.
    pub upstreams: Vec<Upstream>,
    /// The choice among them.
    pub balancing: Option<LoadBalancing>,
    /// Connections that are kept.
    pub keep_alive: Option<KeepAlive>,
}

/// nginx keeps so many connections to a group since 1.29.7.
const KEPT: i64 = 32;

/// The port of servers in a group that name none.
const PORT: u16 = 80;

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

    /// The group for an address that does not name one: one server, or all addresses of a name.
    pub fn at(address: &str, port: u16) -> Group {
        let dial = dial(address, port);
        let balancing = is_name(&dial).then(|| {
            balancing(UpstreamGroup {
                name: dial.clone(),
                method: "round_robin".to_owned(),
                servers: vec![GroupServer {
                    name: dial.clone(),
                    ..usual_server()
                }],
                ..UpstreamGroup::default()
            })
        });
        Group {
            balancing,
            keep_alive: Some(usual_keep_alive()),
            ..Group::of(dial)
        }
    }
}

/// The upstreams that an address names: those of the group of this name, or the one at this address.
pub fn group(cx: &mut Lowering<'_>, name: &str, port: u16) -> Group {
    match cx.upstream_block(name) {
        Some(block) => lower(cx, block),
        None => Group::at(name, port),
    }
}

/// Lowers an `upstream` block.
pub fn lower(cx: &mut Lowering<'_>, directive: &Directive) -> Group {
    let method = method(cx, directive);
    let (mut upstreams, mut servers) = (Vec::new(), Vec::new());
    let mut kept = usual_keep_alive();
    for line in directive.body() {
        match line.name() {
            "server" => {
                if let Some((upstream, server)) = server(cx, line, &method) {
                    upstreams.push(upstream);
                    servers.push(server);
                }
            }
            "keepalive" => kept = keep_alive(cx, line).unwrap_or(kept),
            _ => {}
        }
    }
    if upstreams.iter().all(|upstream| upstream.backup) {
        cx.report.push(
            Diagnostic::error("empty-upstream", "an `upstream` without a server")
                .at(directive.span(), "no server in it gets requests")
                .imported(directive.name.import)
                .help("add `server <address>;`"),
        );
    }
    let time = |name: &str| own(directive, name).and_then(|line| values::time(line.arg(0)?));
    if let Some(timeout) = time("keepalive_timeout") {
        kept.idle_timeout = timeout;
    }
    kept.max_age = time("keepalive_time").unwrap_or(Duration::seconds(3600));
    let requests = own(directive, "keepalive_requests").and_then(|line| line.arg(0)?.parse().ok());
    kept.max_requests = requests.unwrap_or(1000);
    let queue = own(directive, "queue").and_then(queue);
    let is_plain = |(upstream, server): (&Upstream, &GroupServer)| {
        !server.down && !server.drain && upstream.max_requests == 0 && !is_name(&upstream.dial)
    };
    // The only server of a group is asked in any case, so nothing is to be remembered of it.
    let sticky = sticky(cx, directive);
    let is_one = sticky.is_none()
        && queue.is_none()
        && !cx.has_health_checks
        && upstreams.len() == 1
        && upstreams.iter().zip(&servers).all(is_plain);
    let (method, key) = method;
    let group = UpstreamGroup {
        name: directive.arg(0).unwrap_or_default().to_owned(),
        method: method.to_owned(),
        key,
        resolver: servers
            .iter()
            .any(|server| server.resolve)
            .then(|| resolver(cx, directive))
            .flatten(),
        servers,
        sticky,
        queue,
    };
    Group {
        upstreams,
        balancing: (!is_one).then(|| balancing(group)),
        keep_alive: Some(kept),
    }
}

fn balancing(group: UpstreamGroup) -> LoadBalancing {
    LoadBalancing {
        selection_policy: Some(SelectionPolicy::Group(Box::new(group))),
        ..LoadBalancing::default()
    }
}

/// The DNS servers for server names with `resolve`: those of the group, or those of `http`.
fn resolver(cx: &Lowering<'_>, directive: &Directive) -> Option<Resolver> {
    let line = |name: &str| own(directive, name).or_else(|| cx.of_http(name));
    let timeout = line("resolver_timeout").and_then(|line| values::time(line.arg(0)?));
    resolver::of_line(line("resolver")?, timeout)
}

/// Whether an address to dial is a name, all addresses of which are servers. `localhost` is not: few listen at both of
/// its addresses, and every second request would fail once.
fn is_name(dial: &str) -> bool {
    let Some((host, _)) = dial.rsplit_once(':').filter(|_| !dial.starts_with("unix/")) else {
        return false;
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    !host.contains('{')
        && host.parse::<std::net::IpAddr>().is_err()
        && !host.eq_ignore_ascii_case("localhost")
}

fn usual_server() -> GroupServer {
    GroupServer {
        weight: 1,
        max_fails: 1,
        fail_timeout: Duration::seconds(10),
        ..GroupServer::default()
    }
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

/// `queue`: how many requests may wait, and for how long.
fn queue(line: &Directive) -> Option<GroupQueue> {
    let timeout = line.arg(1).and_then(|word| word.strip_prefix("timeout="));
    Some(GroupQueue {
        max: line.arg(0)?.parse().ok()?,
        timeout: timeout
            .and_then(values::time)
            .unwrap_or(Duration::seconds(60)),
    })
}

fn queue_words(line: &Directive) -> Option<Wrong> {
    if line.arg(0)?.parse::<u32>().is_err() {
        return Some((0, "a number of requests"));
    }
    let timeout = line.arg(1)?.strip_prefix("timeout=");
    let fits = timeout.and_then(values::time).is_some();
    (!fits).then_some((1, "`timeout=` and a length of time behind the number"))
}

fn keep_alive(cx: &mut Lowering<'_>, line: &Directive) -> Option<KeepAlive> {
    let word = line.args.first()?;
    if let Some(word) = line.args.get(1).filter(|word| word.text != "local") {
        return cx.invalid(
            word,
            "keepalive",
            "a number of connections, and `local` behind it",
        );
    }
    let Ok(count) = word.text.parse::<u32>() else {
        return cx.invalid(word, "keepalive", "a number of connections");
    };
    Some(match count {
        0 => KeepAlive {
            enabled: Some(false),
            ..KeepAlive::default()
        },
        count => KeepAlive {
            max_idle_conns_per_host: i64::from(count),
            ..usual_keep_alive()
        },
    })
}

/// How a group chooses, and what by. As in nginx the last line that says so counts.
fn method(cx: &mut Lowering<'_>, directive: &Directive) -> (&'static str, String) {
    let names = ["hash", "ip_hash", "least_conn", "least_time", "random"];
    let mut lines = directive.body().iter();
    let Some(line) = lines.rfind(|line| names.contains(&line.name())) else {
        return ("round_robin", String::new());
    };
    let words: Vec<&str> = line.args.iter().map(|word| word.text.as_str()).collect();
    match (line.name(), words.as_slice()) {
        ("ip_hash", _) => ("ip_hash", String::new()),
        ("least_conn", _) => ("least_conn", String::new()),
        ("random", []) => ("random", String::new()),
        ("random", ["two"] | ["two", "least_conn"]) => ("random_two", String::new()),
        ("random", ["two", "least_time=header"]) => ("random_two_least_time_header", String::new()),
        ("random", ["two", "least_time=last_byte"]) => {
            ("random_two_least_time_last_byte", String::new())
        }
        ("least_time", ["header"]) => ("least_time_header", String::new()),
        ("least_time", ["header", "inflight"]) => ("least_time_header_inflight", String::new()),
        ("least_time", ["last_byte"]) => ("least_time_last_byte", String::new()),
        ("least_time", ["last_byte", "inflight"]) => {
            ("least_time_last_byte_inflight", String::new())
        }
        ("least_time", _) => {
            let _: Option<()> = cx.invalid(
                line.args.last().unwrap_or(&line.name),
                "least_time",
                "`header` or `last_byte`, and `inflight` behind it",
            );
            ("least_time_header", String::new())
        }
        ("random", _) => {
            let _: Option<()> = cx.invalid(
                line.args.last().unwrap_or(&line.name),
                "random",
                "nothing, or `two` and perhaps `least_conn`, `least_time=header` or `least_time=last_byte`",
            );
            ("random", String::new())
        }
        (_, [_, "consistent"]) => ("consistent_hash", key(cx, line)),
        (_, [_]) => ("hash", key(cx, line)),
        _ => {
            let _: Option<()> = cx.invalid(
                line.args.last().unwrap_or(&line.name),
                "hash",
                "a key, and `consistent` behind it",
            );
            ("hash", String::new())
        }
    }
}

/// What keeps clients with their servers.
fn sticky(cx: &mut Lowering<'_>, directive: &Directive) -> Option<Sticky> {
    let line = own(directive, "sticky")?;
    let (kind, rest) = line.args.split_first()?;
    match kind.text.as_str() {
        "cookie" => {
            let (name, params) = rest.split_first()?;
            let is_name =
                |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.text.is_empty() || !name.text.bytes().all(is_name) || name.text.contains('$') {
                return cx.invalid(name, "sticky cookie", "the name of a cookie");
            }
            let mut cookie = StickyCookie {
                name: name.text.clone(),
                ..StickyCookie::default()
            };
            for param in params {
                cookie_parameter(cx, &mut cookie, param)?;
            }
            Some(Sticky {
                names: vec![format!("{{http.request.cookie.{}}}", name.text)],
                cookie: Some(cookie),
                learn: None,
            })
        }
        "route" => {
            if let Some(word) = rest.iter().find(|word| !word.text.starts_with('$')) {
                return cx.invalid(
                    word,
                    "sticky route",
                    "variables, such as `$cookie_route $arg_route`",
                );
            }
            let names = rest.iter().map(|word| cx.text(word, &Facts::of_every_place()));
            Some(Sticky {
                names: names.collect(),
                cookie: None,
                learn: None,
            })
        }
        "learn" => learn(cx, line, rest),
        _ => cx.invalid(
            kind,
            "sticky",
            "`cookie` and a name, `route` and variables, or `learn` with `create=`, `lookup=` and `zone=`",
        ),
    }
}

/// nginx keeps about so many sessions in a megabyte.
const SESSIONS_OF_MEGABYTE: u64 = 4000;

/// `sticky learn`: sessions that servers begin.
fn learn(cx: &mut Lowering<'_>, line: &Directive, params: &[Text]) -> Option<Sticky> {
    const WANTED: &str = "`create=$VARIABLE`, `lookup=$VARIABLE`, `zone=NAME:SIZE`, and perhaps `timeout=TIME` and `header`";
    let mut sticky = Sticky::default();
    let mut learn = StickyLearn::default();
    for param in params {
        let (name, value) = param.text.split_once('=').unwrap_or((&param.text, ""));
        let taken = match name {
            "create" | "lookup" if value.starts_with('$') => {
                let text = Text {
                    text: value.to_owned(),
                    ..param.clone()
                };
                let text = cx.text(&text, &Facts::of_every_place());
                match name {
                    "create" => learn.create.push(text),
                    _ => sticky.names.push(text),
                }
                Some(())
            }
            "zone" => {
                let size = value
                    .split_once(':')
                    .and_then(|(_, size)| values::size(size));
                let size = size.filter(|bytes| *bytes >= ZONE_BYTES_MIN);
                size.map(|bytes| {
                    let sessions = bytes / 1024 * SESSIONS_OF_MEGABYTE / 1024;
                    learn.sessions_max = u32::try_from(sessions).unwrap_or(u32::MAX);
                })
            }
            "timeout" => values::time(value).map(|time| learn.timeout = time),
            "header" if value.is_empty() => {
                learn.at_header = true;
                Some(())
            }
            "sync" => {
                cx.report.push(
                    Diagnostic::error("unsupported-directive", "`sticky learn` with `sync`")
                        .at(param.span, "only in nginx Plus")
                        .imported(param.import)
                        .help("remove it: each server learns its own sessions"),
                );
                Some(())
            }
            _ => None,
        };
        if taken.is_none() {
            return cx.invalid(param, "sticky learn", WANTED);
        }
    }
    if learn.create.is_empty() || sticky.names.is_empty() || learn.sessions_max == 0 {
        let word = line.args.first()?;
        return cx.invalid(word, "sticky", WANTED);
    }
    sticky.learn = Some(learn);
    Some(sticky)
}

fn cookie_parameter(cx: &mut Lowering<'_>, cookie: &mut StickyCookie, param: &Text) -> Option<()> {
    let (name, value) = param.text.split_once('=').unwrap_or((&param.text, ""));
    let with = |cx: &mut Lowering<'_>, value: &str| {
        let word = Text {
            text: value.to_owned(),
            ..param.clone()
        };
        cx.text(&word, &Facts::of_every_place())
    };
    match (name, value) {
        ("httponly", "") => cookie.http_only = true,
        ("secure", "") => cookie.secure = true,
        ("expires", "max") => cookie.expires_never = true,
        ("expires", text) if values::time(text).is_some() => cookie.expires = values::time(text),
        ("domain", text) if !text.is_empty() => cookie.domain = with(cx, text),
        ("path", text) if !text.is_empty() => cookie.path = with(cx, text),
        ("samesite", "strict" | "lax" | "none") => cookie.same_site = value.to_owned(),
        ("samesite", text) if text.starts_with('$') => cookie.same_site = with(cx, text),
        _ => {
            let wanted = "`expires=TIME`, `expires=max`, `domain=NAME`, `path=PATH`, `httponly`, `secure` or \
                          `samesite=` with `strict`, `lax`, `none` or a variable";
            return cx.invalid(param, "sticky cookie", wanted);
        }
    }
    Some(())
}

fn key(cx: &mut Lowering<'_>, line: &Directive) -> String {
    cx.text(&line.args[0], &Facts::of_every_place())
}

fn server(
    cx: &mut Lowering<'_>,
    line: &Directive,
    method: &(&'static str, String),
) -> Option<(Upstream, GroupServer)> {
    let (address, params) = line.args.split_first()?;
    let mut upstream = Upstream {
        dial: dial(&address.text, PORT),
        ..Upstream::default()
    };
    let mut server = GroupServer {
        name: address.text.clone(),
        ..usual_server()
    };
    for param in params {
        parameter(cx, (&mut upstream, &mut server), param);
        let is_by_time = method.0.starts_with("least_time");
        let stands_by = is_by_time || matches!(method.0, "round_robin" | "least_conn");
        if param.text == "backup" && !stands_by {
            cx.report.push(
                Diagnostic::error(
                    "invalid-value",
                    "`backup` beside a method that goes by keys or chance",
                )
                .at(param.span, "nobody stands by for such servers")
                .imported(param.import)
                .help("remove `backup`, or choose by turns or by `least_conn`"),
            );
        }
        if param.text.starts_with("slow_start=") && !stands_by {
            cx.report.push(
                Diagnostic::error(
                    "invalid-value",
                    "`slow_start` beside a method that goes by keys or chance",
                )
                .at(param.span, "such methods do not go by weights that change")
                .imported(param.import)
                .help("remove `slow_start`, or choose by turns or by `least_conn`"),
            );
        }
    }
    service_stands_right(cx, line, &upstream, &server)?;
    Some((upstream, server))
}

/// `service` needs `resolve` and a name without a port, as services tell their ports.
fn service_stands_right(
    cx: &mut Lowering<'_>,
    line: &Directive,
    upstream: &Upstream,
    server: &GroupServer,
) -> Option<()> {
    let mut words = line.args.iter();
    let Some(word) = words.find(|word| word.text.starts_with("service=")) else {
        return Some(());
    };
    let (label, help) = match () {
        () if !is_name(&upstream.dial) => ("only names have services", "write the name of a host"),
        () if server.name.contains(':') => (
            "a service tells its port itself",
            "leave the port of the server out",
        ),
        () if !server.resolve => (
            "nobody looks it up",
            "add `resolve`, and a `resolver` to the group or to `http`",
        ),
        () => return Some(()),
    };
    cx.report.push(
        Diagnostic::error("invalid-value", "`service` does not stand right")
            .at(word.span, label)
            .imported(word.import)
            .help(help),
    );
    None
}

fn parameter(
    cx: &mut Lowering<'_>,
    (upstream, server): (&mut Upstream, &mut GroupServer),
    param: &Text,
) {
    let number = |text: &str| text.parse::<u32>().ok();
    let (name, value) = param.text.split_once('=').unwrap_or((&param.text, ""));
    let taken = match name {
        "weight" => number(value)
            .filter(|weight| *weight > 0)
            .map(|weight| server.weight = weight),
        "max_fails" => number(value).map(|fails| server.max_fails = fails),
        "max_conns" => number(value).map(|max| upstream.max_requests = i64::from(max)),
        "fail_timeout" => values::time(value).map(|time| server.fail_timeout = time),
        "backup" => {
            upstream.backup = true;
            Some(())
        }
        "down" => {
            server.down = true;
            Some(())
        }
        "route" => (!value.is_empty()).then(|| server.route = value.to_owned()),
        "resolve" if value.is_empty() => {
            server.resolve = true;
            Some(())
        }
        "service" => (!value.is_empty()).then(|| server.service = value.to_owned()),
        "drain" if value.is_empty() => {
            server.drain = true;
            Some(())
        }
        "slow_start" => values::time(value).map(|time| server.slow_start = time),
        _ => None,
    };
    if taken.is_none() {
        let _: Option<()> = cx.invalid(
            param,
            "server",
            "`weight=N`, `max_conns=N`, `max_fails=N`, `fail_timeout=TIME`, `route=NAME`, `service=NAME`, \
             `slow_start=TIME`, `backup`, `down`, `drain` or `resolve`",
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

fn address(directive: &Directive) -> Option<Wrong> {
    let first = directive.arg(0)?;
    let fits = match first.strip_prefix("unix:") {
        _ if first.contains('$') => !first.starts_with('/'),
        Some(path) => !path.is_empty(),
        None => !first.contains('/') && (has_good_port(first) || first.matches(':').count() > 1),
    };
    (!fits).then_some((0, ADDRESS))
}

fn upstream_zone(directive: &Directive) -> Option<Wrong> {
    if directive.arg(0)?.is_empty() {
        return Some((0, "a name, and a size such as `64k`"));
    }
    let fits = values::size(directive.arg(1)?).is_some_and(|bytes| bytes >= ZONE_BYTES_MIN);
    (!fits).then_some((1, "a size of 32k or more behind the name"))
}

#[cfg(test)]
mod tests {
    use super::{dial, is_name};

    #[test]
    fn names_are_distinguished_from_addresses() {
        for name in ["a.example:80", "app:8080"] {
            assert!(is_name(name), "{name}");
        }
        for address in [
            "127.0.0.1:80",
            "[::1]:80",
            "unix//run/x:80",
            "LocalHost:80",
            "{nginx.pass.dial}:80",
        ] {
            assert!(!is_name(address), "{address}");
        }
    }

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
