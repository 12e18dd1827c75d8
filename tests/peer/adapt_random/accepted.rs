//! Differences that `docs/reference/caddyfile-differences.md` lists with their reasons.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

/// Whether a difference is listed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    Listed,
    No,
}

/// A part of the difference, and a part of the file that it requires.
const LISTED: &[(&str, &str)] = &[
    // `bind` with protocols gives Caddy an empty server, which shifts the numbers of the others.
    ("/apps/http/servers/srv", "protocols h1"),
    // Caddy reads its number from the wrong argument.
    ("validity_days", "validity_days"),
    // A list of paths without a path.
    ("`path` needs at least one argument", "path"),
    // Caddy does not expand imports in named routes.
    ("unrecognized directive: import", "&("),
    // Caddy drops the filters before a pattern for the same log field.
    ("already has a filter", "regexp"),
    // An extra closing brace ends a site without braces.
    ("unmatched `}`", "}"),
    // A CA for `acme_server` inside `route`.
    (
        "acme_server directive returned something other",
        "acme_server",
    ),
    // A named route that invokes one that does not exist.
    ("undefined named route", "&("),
    // Of several conditions in expressions Caddy keeps only the first.
    ("`expression` is given twice", "expression"),
    // In Caddy the address of one site gets into the issuer of all.
    ("/apps/tls/automation/policies", "cert_issuer"),
    ("need different certificates", "cert_issuer"),
    ("need different certificates", "bind"),
    ("need different certificates", "get_certificate"),
    // A setting that is given twice; Caddy takes the last.
    ("`vars_regexp` is given twice", "vars_regexp"),
    ("` is given twice", "vars "),
    ("exclude each other", "health_port"),
    ("/logger_names/", "hostnames"),
    // An empty policy after a site for any name.
    ("/apps/tls/automation/policies/", "get_certificate"),
    ("/trusted_roots_pem_files", "ca_root"),
    // A name beside an address without one.
    ("appears in more than one automation policy", "{"),
    // The page of `redir … html` is our own.
    ("/body: ", "html"),
    // A file that ends inside a block.
    ("a `{` is never closed", "{"),
    // A matcher without conditions matches everything in Caddy.
    ("has no condition", "@"),
    // In a site with several servers Caddy reverses the order of `vars` for every other one.
    ("/routes/", "vars "),
    // And that of several `handle_errors`.
    ("/errors/routes/", "handle_errors "),
    // Two client certificate requirements for the same names; Caddy drops one.
    ("set `client_auth` differently", "client_auth"),
    ("conflicting client auth configuration", "client_auth"),
    // In Caddy, the policy of a site with several servers names the hosts of the last one.
    ("/tls_connection_policies", "tls "),
];

/// Errors for words that Caddy ignores, which only mutated files have.
const DROPPED: &[&str] = &[
    "error[unexpected-argument]",
    "error[invalid-value]",
    "error[invalid-status]",
    "error[unknown-matcher]",
    "error[missing-argument]",
    "error[unknown-option]",
    "error[unexpected-block]",
    "error[invalid-number]",
    "error[words-behind-brace]",
    // Words after a brace in the block of an import.
    "import chain",
];

pub fn accepted(text: &str, difference: &str, is_mutated: bool) -> Accepted {
    if is_mutated && DROPPED.iter().any(|what| difference.contains(what)) {
        return Accepted::Listed;
    }
    let is_one = |(what, file): &(&str, &str)| difference.contains(what) && text.contains(file);
    match LISTED.iter().any(is_one) {
        true => Accepted::Listed,
        false => Accepted::No,
    }
}

/// Normalizes JSON that has several equivalent forms.
pub fn normal(mut config: Value) -> Value {
    for list in ["load_files", "load_folders"] {
        let found = config.pointer_mut(&format!("/apps/tls/certificates/{list}"));
        if let Some(Value::Array(items)) = found {
            // Caddy loads a certificate once for each server of its site.
            let mut seen = Vec::new();
            items.retain(|item| {
                let is_new = !seen.contains(item);
                seen.push(item.clone());
                is_new
            });
        }
    }
    let Some(Value::Array(policies)) = config.pointer("/apps/tls/automation/policies") else {
        return config;
    };
    let names = by_name(policies);
    match names.is_empty() {
        true => {
            let automation = config.pointer_mut("/apps/tls/automation");
            automation
                .and_then(Value::as_object_mut)
                .map(|map| map.remove("policies"));
            prune(&mut config);
        }
        false => config["apps"]["tls"]["automation"]["policies"] = Value::Object(names),
    }
    config
}

/// Policies by the names they apply to, `*` for all others. Which names share a policy does not matter, nor whether the
/// local CA is listed for a name that no other issuer would handle.
fn by_name(policies: &[Value]) -> Map<String, Value> {
    let mut names = Map::new();
    for policy in policies {
        let mut bare = policy.clone();
        let map = bare.as_object_mut().expect("a policy is an object");
        let subjects = map.remove("subjects").unwrap_or_else(|| json!(["*"]));
        for subject in subjects.as_array().into_iter().flatten() {
            let name = subject.as_str().unwrap_or_default();
            let mut own = bare.clone();
            let is_local = name == "localhost" || name.parse::<IpAddr>().is_ok();
            if is_local && own.get("issuers") == Some(&json!([{"module": "internal"}])) {
                own.as_object_mut().map(|map| map.remove("issuers"));
            }
            names.insert(name.to_owned(), own);
        }
    }
    let default = names.get("*").cloned().unwrap_or_else(|| json!({}));
    // What the catch-all policy says about local names is the default anyway.
    let only_local = default == json!({"issuers": [{"module": "internal"}]});
    names.retain(|name, policy| {
        name == "*" || !(*policy == default || (only_local && *policy == json!({})))
    });
    names
}

/// Removes objects that have become empty.
fn prune(config: &mut Value) {
    for (parent, child) in [("/apps/tls", "automation"), ("/apps", "tls")] {
        let parent = config.pointer_mut(parent).and_then(Value::as_object_mut);
        if let Some(parent) = parent
            && parent.get(child) == Some(&json!({}))
        {
            parent.remove(child);
        }
    }
}
