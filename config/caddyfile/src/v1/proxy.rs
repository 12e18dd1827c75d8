//! `proxy`: paths, upstreams and changes to requests.

use super::pieces::{block, escape_regexp, line, prefix, renamed, word};
use super::translation::Translation;
use crate::tree::{Directive, Token};

/// What a proxy of Caddy 2 sends by itself: header fields whose old lines say the same.
const SENT_ANYWAY: &[(&str, &str)] = &[
    ("host", "{host}"),
    ("x-forwarded-proto", "{scheme}"),
    ("x-forwarded-for", "{remote}"),
    ("x-forwarded-host", "{host}"),
    ("connection", "{>connection}"),
    ("upgrade", "{>upgrade}"),
];

/// How long a failed upstream was passed over, unless it is written.
const FAIL_TIMEOUT: &str = "10s";

/// The parts of a proxy under way.
#[derive(Default)]
struct Proxy {
    upstreams: Vec<Token>,
    /// The path that all upstreams have in their address.
    base: String,
    options: Vec<Directive>,
    transport: Vec<Directive>,
    /// Prefixes that are not proxied.
    except: Vec<Token>,
    without: Option<Token>,
    /// Whether the host name of the request goes on to the upstream.
    keeps_host: bool,
    /// Whether failed upstreams are passed over for a time that is written.
    fails: bool,
}

impl Translation<'_> {
    /// All of a site: the one with the longest path takes a request.
    pub(super) fn proxies(&mut self, lines: &[&Directive]) {
        let mut ordered: Vec<&Directive> = lines.to_vec();
        ordered.sort_by_key(|line| {
            std::cmp::Reverse(line.args.first().map_or(0, |from| from.text.len()))
        });
        let read: Vec<(&Directive, Option<Proxy>)> = ordered
            .into_iter()
            .map(|line| (line, self.proxy(line)))
            .collect();
        // One that changes the path needs a block of its own, and then all of them do: they exclude
        // each other.
        let in_blocks = read.iter().any(|(_, proxy)| {
            let changes = |proxy: &Proxy| proxy.without.is_some() || !proxy.base.is_empty();
            proxy.as_ref().is_some_and(changes)
        });
        for (old, proxy) in read {
            if let Some(proxy) = proxy {
                self.put_proxy(old, proxy, in_blocks);
            }
        }
    }

    fn proxy(&mut self, old: &Directive) -> Option<Proxy> {
        let Some((from, upstreams)) = old.args.split_first() else {
            self.malformed(old, "proxy <path> <upstreams...>");
            return None;
        };
        let mut proxy = Proxy::default();
        for upstream in upstreams {
            self.upstream(upstream, &mut proxy);
        }
        for inner in old.lines() {
            self.proxy_option(inner, &mut proxy);
        }
        if proxy.upstreams.is_empty() && proxy.options.is_empty() {
            self.malformed(old, "proxy <path> <upstreams...>");
            return None;
        }
        if !proxy.keeps_host {
            // Caddy 1 sends the name of the upstream.
            let words = ["Host", "{upstream_hostport}"];
            proxy.options.push(line(from, "header_up", words));
        }
        if proxy.upstreams.len() > 1 && !proxy.fails {
            let duration = line(from, "fail_duration", [FAIL_TIMEOUT]);
            proxy.options.push(duration);
        }
        if !proxy.transport.is_empty() {
            let lines = std::mem::take(&mut proxy.transport);
            proxy
                .options
                .push(block(from, "transport", ["http"], lines));
        }
        Some(proxy)
    }

    fn put_proxy(&mut self, old: &Directive, proxy: Proxy, in_block: bool) {
        let from = old
            .args
            .first()
            .expect("a proxy without a path was refused");
        let mut conditions: Vec<Directive> = Vec::new();
        let path = prefix(from.as_str());
        conditions.extend(path.clone().map(|path| line(from, "path", [path])));
        if let Some(first) = proxy.except.first() {
            let paths = proxy.except.iter().map(|except| {
                let below = prefix(&format!(
                    "{}{}",
                    from.text.trim_end_matches('/'),
                    slashed(except)
                ));
                below.unwrap_or_else(|| "/*".to_owned())
            });
            let words = std::iter::once("path".to_owned()).chain(paths);
            conditions.push(line(first, "not", words));
        }
        let (words, matchers) = match proxy.except.is_empty() {
            true => (path.into_iter().collect::<Vec<String>>(), Vec::new()),
            false => {
                let (name, matcher) = self.matcher(&old.name, "proxied", conditions);
                (vec![name], vec![matcher])
            }
        };
        let upstreams = proxy.upstreams.iter().map(|upstream| upstream.text.clone());
        let to: Vec<String> = match in_block {
            true => upstreams.collect(),
            false => words.iter().cloned().chain(upstreams).collect(),
        };
        let mut reverse_proxy = match proxy.options.is_empty() {
            true => line(&old.name, "reverse_proxy", to),
            false => block(&old.name, "reverse_proxy", to, proxy.options),
        };
        // Messages about an upstream point at it.
        let count = reverse_proxy.args.len() - proxy.upstreams.len();
        for (arg, upstream) in reverse_proxy.args[count..].iter_mut().zip(&proxy.upstreams) {
            arg.span = upstream.span;
        }
        if !in_block {
            return self.step(matchers, reverse_proxy);
        }
        let mut lines = Vec::new();
        if let Some(without) = &proxy.without {
            lines.push(line(without, "uri", ["strip_prefix", without.as_str()]));
        }
        if !proxy.base.is_empty() {
            let target = format!("{}{{uri}}", proxy.base);
            lines.push(line(from, "rewrite", ["*".to_owned(), target]));
        }
        lines.push(reverse_proxy);
        self.step(matchers, block(&old.name, "handle", words, lines));
    }

    /// One upstream in the form of Caddy 2.
    fn upstream(&mut self, old: &Token, proxy: &mut Proxy) {
        let text = self.text(old);
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.trim_start_matches("//");
            proxy.upstreams.push(word(format!("unix/{path}"), old));
            return;
        }
        if let Some(name) = text.strip_prefix("srv://") {
            let source = line(old, "dynamic", ["srv", name]);
            return proxy.options.push(source);
        }
        if text.starts_with("quic://") || text.starts_with("srv+https://") {
            let title = format!("upstream `{text}` has no equivalent");
            return self.cannot(old, title, "use `https://`");
        }
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (format!("{scheme}://"), rest),
            None => (String::new(), text.as_str()),
        };
        let (host, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let base = base.trim_end_matches('/');
        if !proxy.upstreams.is_empty() && base != proxy.base {
            let help = "write a proxy for each of the paths";
            return self.cannot(old, "upstreams of a proxy have different paths", help);
        }
        base.clone_into(&mut proxy.base);
        proxy.upstreams.push(word(format!("{scheme}{host}"), old));
    }

    fn proxy_option(&mut self, old: &Directive, proxy: &mut Proxy) {
        let at = &old.name;
        let same = |name: &str| renamed(old, name);
        match (old.name.as_str(), old.args.as_slice()) {
            ("policy", [_, ..]) => proxy.options.push(same("lb_policy")),
            ("fail_timeout", [_]) => {
                proxy.fails = true;
                proxy.options.push(same("fail_duration"));
            }
            ("max_fails", [count]) => {
                // Zero has Caddy 1 never pass one over.
                if count.text == "0" {
                    proxy.fails = true;
                } else {
                    proxy.options.push(same("max_fails"));
                }
            }
            ("max_conns", [_]) => proxy.options.push(same("unhealthy_request_count")),
            ("try_duration", [_]) => proxy.options.push(same("lb_try_duration")),
            ("try_interval", [_]) => proxy.options.push(same("lb_try_interval")),
            ("health_check", [_]) => proxy.options.push(same("health_uri")),
            ("health_check_port", [_]) => proxy.options.push(same("health_port")),
            ("health_check_interval", [_]) => {
                proxy.options.push(same("health_interval"));
            }
            ("health_check_timeout", [_]) => proxy.options.push(same("health_timeout")),
            ("health_check_contains", [text]) => {
                let body = line(at, "health_body", [escape_regexp(&text.text)]);
                proxy.options.push(body);
            }
            ("upstream", [only]) => self.upstream(only, proxy),
            ("except", paths @ [_, ..]) => proxy.except.extend_from_slice(paths),
            ("without", [only]) => proxy.without = Some(only.clone()),
            ("websocket", []) => {}
            ("transparent", []) => {
                proxy.keeps_host = true;
                proxy
                    .options
                    .push(line(at, "header_up", ["X-Real-IP", "{remote_host}"]));
            }
            ("header_upstream" | "proxy_header", words @ [_, ..]) => {
                self.header_upstream(at, words, proxy);
            }
            ("header_downstream", words @ [_, ..]) => {
                let words: Vec<String> = words.iter().map(|word| self.text(word)).collect();
                proxy.options.push(line(at, "header_down", words));
            }
            _ => self.transport_option(old, proxy),
        }
    }

    fn transport_option(&mut self, old: &Directive, proxy: &mut Proxy) {
        let at = &old.name;
        let same = |name: &str| renamed(old, name);
        match (old.name.as_str(), old.args.as_slice()) {
            ("keepalive", [count]) if count.text == "0" => {
                proxy.transport.push(line(at, "keepalive", ["off"]));
            }
            ("keepalive", [_]) => proxy.transport.push(same("keepalive_idle_conns_per_host")),
            ("timeout", [_]) => proxy.transport.push(same("dial_timeout")),
            ("fallback_delay", [_]) => proxy.transport.push(same("dial_fallback_delay")),
            ("insecure_skip_verify", []) => proxy.transport.push(same("tls_insecure_skip_verify")),
            ("ca_certificates", files @ [_, ..]) => {
                let words = std::iter::once("file").chain(files.iter().map(Token::as_str));
                proxy.transport.push(line(at, "tls_trust_pool", words));
            }
            ("tls_client", [_, _]) => proxy.transport.push(same("tls_client_auth")),
            _ => {
                let title = format!("option `{}` of `proxy` has no equivalent", at.text);
                self.cannot(at, title, "remove it");
            }
        }
    }

    /// `header_upstream [+|-]<name> [<value> [<replacement>]]`.
    fn header_upstream(&mut self, at: &Token, words: &[Token], proxy: &mut Proxy) {
        let name = words[0].text.to_ascii_lowercase();
        let value = words.get(1).map(|value| value.text.to_ascii_lowercase());
        if name == "host" {
            proxy.keeps_host = true;
        }
        let says_nothing = |(known, same): &(&str, &str)| {
            name == *known && words.len() == 2 && value.as_deref() == Some(same)
        };
        if SENT_ANYWAY.iter().any(says_nothing) {
            return;
        }
        let words: Vec<String> = words.iter().map(|word| self.text(word)).collect();
        proxy.options.push(line(at, "header_up", words));
    }
}

/// A path with its first slash.
fn slashed(path: &Token) -> String {
    format!("/{}", path.text.trim_start_matches('/'))
}
