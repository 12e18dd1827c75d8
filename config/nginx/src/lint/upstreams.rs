//! Lint rules for upstreams.

use super::{File, Found, Spot};
use crate::tree::Directive;

/// Each `proxy_pass` with its block, its scheme taken off.
fn passes<'s, 't>(
    file: &'s File<'t>,
) -> impl Iterator<Item = (&'s Spot<'t>, &'t Directive, &'t str)> + 's {
    file.all("proxy_pass").filter_map(|(spot, line)| {
        let (_, address) = line.arg(0)?.split_once("://")?;
        Some((spot, line, address))
    })
}

fn host(address: &str) -> &str {
    address.split(['/', '?']).next().unwrap_or(address)
}

fn own<'t>(block: &'t Directive, name: &str) -> Option<&'t Directive> {
    block.body().iter().rfind(|line| line.name() == name)
}

pub fn without_keepalive<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for block in file.blocks("upstream").filter_map(Spot::block) {
        let name = block.arg(0).unwrap_or_default();
        let is_asked = passes(file).any(|(_, _, address)| host(address) == name);
        match own(block, "keepalive") {
            None if is_asked => found.at(block, "no `keepalive` in it"),
            Some(line) if line.arg(0) == Some("0") => found.at(line, "keep-alive is off"),
            Some(_) | None => {}
        }
    }
}

pub fn without_http11<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (spot, line, address) in passes(file) {
        let group = file
            .upstream(host(address))
            .and_then(|group| own(group, "keepalive"));
        let Some(keepalive) = group.filter(|line| line.arg(0) != Some("0")) else {
            continue;
        };
        let version = spot.find("proxy_http_version").and_then(|line| line.arg(0));
        let mut fields = spot.nearest("proxy_set_header").into_iter();
        let connection = fields.find(|field| named(field, "connection"));
        if !matches!(version, Some("1.1" | "2")) {
            found.with(
                line,
                "no `proxy_http_version 1.1` holds here",
                keepalive,
                "keep-alive is set here",
            );
        } else if connection.is_none_or(|field| field.arg(1) == Some("close")) {
            let label = "no `proxy_set_header Connection \"\"` applies here";
            found.with(line, label, keepalive, "keep-alive is set here");
        }
    }
}

fn named(field: &Directive, name: &str) -> bool {
    field
        .arg(0)
        .is_some_and(|known| known.eq_ignore_ascii_case(name))
}

pub fn fastcgi_keepalive_unused<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (spot, line) in file.all("fastcgi_pass") {
        let group = line.arg(0).and_then(|name| file.upstream(name));
        let keeps = spot.find("fastcgi_keep_conn").and_then(|line| line.arg(0)) == Some("on");
        if let Some(keepalive) = group.and_then(|group| own(group, "keepalive"))
            && !keeps
        {
            found.with(
                line,
                "connections are closed",
                keepalive,
                "keep-alive is set here",
            );
        }
    }
}

pub fn cache_without_validity<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for kind in ["proxy", "fastcgi", "uwsgi", "scgi"] {
        let (cache, valid) = (format!("{kind}_cache"), format!("{kind}_cache_valid"));
        for (spot, line) in file.all(&cache) {
            // What is set inside of the block counts for the places below it.
            let is_inside = file.all(&valid).any(|(other, _)| is_below(other, spot));
            if line.arg(0) != Some("off") && spot.find(&valid).is_none() && !is_inside {
                found.at(line, format!("no `{valid}` applies here"));
            }
        }
    }
}

fn is_below(inner: &Spot<'_>, outer: &Spot<'_>) -> bool {
    let is_outer = |spot: &Spot<'_>| match (spot.block(), outer.block()) {
        (Some(one), Some(other)) => std::ptr::eq(one, other),
        _ => false,
    };
    inner.around().any(|spot| is_outer(&spot))
}

pub fn resolver_missing<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (spot, line, address) in passes(file) {
        if host(address).contains('$') && spot.find("resolver").is_none() {
            found.at(line, "no `resolver` applies here");
        }
    }
}

/// Variables that say what a client likes.
const OF_CLIENTS: &[&str] = &[
    "$arg_",
    "$http_",
    "$cookie_",
    "$host",
    "$uri",
    "$request_uri",
    "$args",
];

pub fn from_request<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (spot, line, address) in passes(file) {
        let host = host(address);
        let is_group = host.bytes().zip(host.bytes().skip(1));
        let mut pairs = is_group;
        let has_group = pairs.any(|(one, two)| one == b'$' && two.is_ascii_digit());
        let internal = spot.own("internal").next().is_some();
        if !internal && (has_group || OF_CLIENTS.iter().any(|name| host.starts_with(name))) {
            found.at(line, "the address comes from the request");
        }
    }
}

pub fn path_in_regex<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (spot, line, address) in passes(file) {
        let has_path = !address.contains('$') && host(address).len() < address.len();
        let is_without = match spot.location() {
            Some((modifier, word)) => modifier.starts_with('~') || word.starts_with('@'),
            None => spot.kind() == "if" && spot.within("location").is_some(),
        };
        if has_path && is_without && !address.starts_with("unix:") {
            found.at(line, "nginx rejects this");
        }
    }
}

pub fn without_host<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (spot, line, address) in passes(file) {
        // An upstream that is not local is expected to need its own host name.
        let is_near = file.upstream(host(address)).is_some() || is_local(host(address));
        let mut fields = spot.nearest("proxy_set_header").into_iter();
        if is_near && !fields.any(|field| named(field, "host")) {
            found.at(line, format!("it receives `Host: {}`", host(address)));
        }
    }
}

fn is_local(host: &str) -> bool {
    ["127.", "localhost", "[::1]", "unix:", "10.", "192.168."]
        .iter()
        .any(|start| host.starts_with(start))
}

pub fn http_host<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (_, line) in file.all("proxy_set_header") {
        if named(line, "host") && line.arg(1) == Some("$http_host") {
            found.at(line, "may differ from the name of the server");
        }
    }
}
