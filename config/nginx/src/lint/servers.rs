//! Lint rules for servers: their names, TLS, and access.

use std::collections::HashMap;

use super::{File, Found};
use crate::tree::Directive;

fn servers<'s, 't>(file: &'s File<'t>) -> impl Iterator<Item = &'s super::Spot<'t>> + 's {
    file.blocks("server")
        .filter(|spot| spot.within("http").is_some() && spot.within("upstream").is_none())
}

fn is_default(listen: &Directive) -> bool {
    listen
        .args
        .iter()
        .any(|word| matches!(&*word.text, "default_server" | "default"))
}

pub fn underscore<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for spot in servers(file) {
        let names: Vec<&'t Directive> = spot.own("server_name").collect();
        let is_only = names
            .iter()
            .flat_map(|line| &line.args)
            .all(|word| word.text == "_");
        if let Some(line) = names
            .first()
            .filter(|_| is_only && !spot.own("listen").any(is_default))
        {
            found.at(line, "none of its `listen` lines has `default_server`");
        }
    }
}

pub fn no_default<'t>(file: &File<'t>, found: &mut Found<'t>) {
    let mut addresses: HashMap<&str, Vec<&'t Directive>> = HashMap::new();
    let mut order = Vec::new();
    for spot in servers(file) {
        for line in spot.own("listen") {
            let address = line.arg(0).unwrap_or_default();
            let known = addresses.entry(address).or_default();
            if known.is_empty() {
                order.push(address);
            }
            known.push(line);
        }
    }
    for address in order {
        let lines = &addresses[address];
        if let [first, second, ..] = lines.as_slice()
            && !lines.iter().any(|line| is_default(line))
        {
            found.with(
                first,
                "the default one for being the first",
                second,
                "another server of this address",
            );
        }
    }
}

pub fn old_tls<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for name in ["ssl_protocols", "proxy_ssl_protocols"] {
        for (_, line) in file.all(name) {
            let old = ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1"];
            let named: Vec<String> = line
                .args
                .iter()
                .filter(|word| old.contains(&&*word.text))
                .map(|word| format!("`{}`", word.text))
                .collect();
            if !named.is_empty() {
                found.at(line, named.join(", "));
            }
        }
    }
}

pub fn listen_http2<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (_, line) in file.all("listen") {
        if line.args.iter().skip(1).any(|word| word.text == "http2") {
            found.at(line, "set for the whole address");
        }
    }
}

pub fn body_without_limit<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (_, line) in file.all("client_max_body_size") {
        if line.arg(0).is_some_and(|size| {
            size.trim_start_matches('0')
                .trim_start_matches(['k', 'm', 'g'])
                .is_empty()
        }) {
            found.at(line, "0 means no limit");
        }
    }
}

pub fn open_status<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (spot, line) in file.all("stub_status") {
        let guarded = ["deny", "auth_basic", "auth_request", "internal"]
            .iter()
            .any(|name| spot.find(name).is_some());
        if !guarded {
            found.at(line, "nobody is denied");
        }
    }
}
