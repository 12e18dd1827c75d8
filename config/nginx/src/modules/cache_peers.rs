//! `*_cache_peers` and `*_cache_purge_storage`, which are sluice's own: the nodes that are one cache together, and where
//! their purges are recorded.

use sluice_diag::Diagnostic;
use sluice_model::cache::{CacheNode, CachePeers, CacheStore};
use sluice_model::proxy::{HttpTransport, ReverseProxy, Transport, Upstream, UpstreamTls};
use sluice_model::{Duration, Storage};

use super::acme;
use super::upstream;
use super::upstream_url::Url;
use crate::definition::Takes::Words;
use crate::definition::{Definition, MANY, Wrong, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::has_variables;
use crate::lower::values;
use crate::tree::Directive;

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("cache_peers", Words(1, MANY)).checked(check),
    once("cache_purge_storage", Words(1, MANY)),
];

/// How long the owner of a key may take for the head of its response, unless `timeout` is given. It may have to wait for
/// the upstream itself.
const TIMEOUT: Duration = Duration::seconds(5);

/// How long dialling another node may take at most: they are close to one another.
const DIAL_TIMEOUT: Duration = Duration::seconds(1);

/// How long another node may send or take nothing while a body is under way; nginx's default for upstreams.
const BODY_TIMEOUT: Duration = Duration::seconds(60);

const NODE: &str = "`NAME=http://HOST:PORT` or `NAME=https://HOST:PORT` for each node, `node=`, `secret=`, `timeout=` and \
                    `trusted=`";

fn check(line: &Directive) -> Option<Wrong> {
    let words = &line.args;
    if is_off(line) {
        return None;
    }
    let mut names: Vec<&str> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let Some((name, value)) = word.text.split_once('=') else {
            return Some((at, NODE));
        };
        let wanted = match name {
            _ if has_variables(value) => Some("values without variables"),
            "node" if value.is_empty() => Some("`node=NAME`"),
            "secret" if value.is_empty() => Some("`secret=TEXT`"),
            "trusted" if value.is_empty() => Some("`trusted=FILE`"),
            "timeout" if values::time(value).is_none_or(Duration::is_zero) => {
                Some("`timeout=` and a length of time, as in `timeout=5s`")
            }
            "node" | "secret" | "timeout" | "trusted" => None,
            name if !is_name(name) => {
                Some("names of nodes with up to 63 letters, digits, dots, hyphens and underscores")
            }
            name if names.contains(&name) => Some("a name of its own for each node"),
            name => {
                names.push(name);
                let url = Url::parse(value);
                let fits = url.is_some_and(|url| {
                    url.path.is_none_or(|path| path == "/") && !url.host.starts_with("unix:")
                });
                let is_http = value.starts_with("http");
                (!fits || !is_http).then_some(NODE)
            }
        };
        if let Some(wanted) = wanted {
            return Some((at, wanted));
        }
    }
    let last = words.len().checked_sub(1)?;
    if names.len() < 2 {
        return Some((last, "all nodes, of which there are two at least"));
    }
    let has_secret = value(line, "secret").is_some();
    (!has_secret).then_some((last, "`secret=TEXT` beside it"))
}

fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=63).contains(&text.len()) && text.bytes().all(is_plain)
}

fn is_off(line: &Directive) -> bool {
    line.args.len() == 1 && line.arg(0) == Some("off")
}

/// The last value of a setting.
fn value<'t>(line: &'t Directive, name: &str) -> Option<&'t str> {
    line.args.iter().rev().find_map(|word| {
        let (known, value) = word.text.split_once('=')?;
        (known == name).then_some(value)
    })
}

/// Lowers `*_cache_peers`.
pub fn peers(cx: &Lowering<'_>, level: &Level<'_>, module: &str) -> Option<CachePeers> {
    let line = level.find(&format!("{module}_cache_peers"))?;
    if is_off(line) {
        return None;
    }
    let timeout = value(line, "timeout").and_then(values::time);
    let timeout = timeout.unwrap_or(TIMEOUT);
    let trusted = value(line, "trusted").map(|file| cx.path(file));
    let nodes = line.args.iter().filter_map(|word| {
        let (name, url) = word.text.split_once('=')?;
        let url = Url::parse(url).filter(|_| !is_setting(name))?;
        Some(CacheNode {
            name: name.to_owned(),
            proxy: proxy(url, timeout, trusted.as_deref()),
        })
    });
    Some(CachePeers {
        node: value(line, "node").unwrap_or_default().to_owned(),
        secret: value(line, "secret").unwrap_or_default().to_owned(),
        nodes: nodes.collect(),
    })
}

fn is_setting(name: &str) -> bool {
    matches!(name, "node" | "secret" | "timeout" | "trusted")
}

fn proxy(url: Url<'_>, timeout: Duration, trusted: Option<&str>) -> ReverseProxy {
    let transport = HttpTransport {
        tls: url.is_tls.then(|| UpstreamTls {
            // The certificate is that of the site.
            server_name: "{http.request.host}".to_owned(),
            root_ca_pem_files: trusted.into_iter().map(str::to_owned).collect(),
            ..UpstreamTls::default()
        }),
        compression: Some(false),
        dial_timeout: timeout.min(DIAL_TIMEOUT),
        response_header_timeout: timeout,
        read_timeout: BODY_TIMEOUT.max(timeout),
        write_timeout: BODY_TIMEOUT,
        ..HttpTransport::default()
    };
    ReverseProxy {
        upstreams: vec![Upstream {
            dial: upstream::dial(url.host, url.port()),
            ..Upstream::default()
        }],
        transport: Some(Transport::Http(Box::new(transport))),
        ..ReverseProxy::default()
    }
}

/// Lowers `*_cache_purge_storage`.
pub fn purge_storage(cx: &mut Lowering<'_>, level: &Level<'_>, module: &str) -> Option<Storage> {
    let line = level.own(&format!("{module}_cache_purge_storage")).last()?;
    acme::storage(cx, line)
}

/// Refuses a purge that would reach one of several nodes.
pub fn check_purge(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    module: &str,
    (peers, store): (Option<&CachePeers>, &CacheStore),
) -> Option<()> {
    let purge = format!("{module}_cache_purge");
    let line = level.nearest(&[&purge]).into_iter().next();
    let Some(line) = line.filter(|_| peers.is_some() && store.purges.is_none()) else {
        return Some(());
    };
    let storage = format!("{module}_cache_purge_storage");
    cx.report.push(
        Diagnostic::error(
            "missing-purge-storage",
            format!("`{purge}` among several nodes without `{storage}`"),
        )
        .at(line.span(), "would purge this node only")
        .imported(line.name.import)
        .help(format!(
            "add `{storage} etcd endpoints=HOST:2379;` in `http`, or `redis` or `postgres`"
        )),
    );
    None
}
