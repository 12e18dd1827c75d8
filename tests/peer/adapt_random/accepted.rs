//! Differences that `docs/caddyfile-differences.md` lists with their reasons.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

/// Whether a difference is one of those.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    Listed,
    No,
}

/// Words of the difference, and words of the file without which it does not count.
const LISTED: &[(&str, &str)] = &[
    // `bind` with protocols gives Caddy a server without anything, which moves the numbers of the others.
    ("/apps/http/servers/srv", "protocols h1"),
    // Its count is read from the wrong word.
    ("validity_days", "validity_days"),
    // A list of paths without a path.
    ("`path` needs at least one argument", "path"),
    // Caddy does not follow imports in named routes.
    ("unrecognized directive: import", "&("),
    // Caddy forgets the filters that stand in front of a pattern for the same field.
    ("has a filter already", "regexp"),
    // A closing brace too many ends a site that has no braces.
    ("a `}` closes nothing", "}"),
    // An authority for `acme_server` inside `route`.
    (
        "acme_server directive returned something other",
        "acme_server",
    ),
    // A named route that calls one that is not there.
    ("undefined named route", "&("),
    // Of several conditions in expressions Caddy keeps the first.
    ("`expression` is given twice", "expression"),
    // The address of one site gets into the issuer of all.
    ("/apps/tls/automation/policies", "cert_issuer"),
    ("want different certificates", "cert_issuer"),
    ("want different certificates", "bind"),
    ("want different certificates", "get_certificate"),
    // A setting that is given twice, of which Caddy takes the last.
    ("`vars_regexp` is given twice", "vars_regexp"),
    ("` is given twice", "vars "),
    ("exclude each other", "health_port"),
    ("/logger_names/", "hostnames"),
    // An empty policy behind a site for any name.
    ("/apps/tls/automation/policies/", "get_certificate"),
    ("/trusted_roots_pem_files", "ca_root"),
    // A name beside an address without one.
    ("appears in more than one automation policy", "{"),
    // The page that `redir … html` sends is our own.
    ("/body: ", "html"),
    // A file that ends inside a block.
    ("a `{` is never closed", "{"),
    // A matcher that says nothing matches everything in Caddy.
    ("has no condition", "@"),
    // In a site of several servers Caddy turns the order of `vars` around for every other one.
    ("/routes/", "vars "),
    // And that of several `handle_errors`.
    ("/errors/routes/", "handle_errors "),
    // Two checks of client certificates for the same names, of which Caddy drops one.
    ("set `client_auth` differently", "client_auth"),
    ("conflicting client auth configuration", "client_auth"),
    // The policy of a site of several servers names the hosts of the last one in Caddy.
    ("/tls_connection_policies", "tls "),
];

/// Words that Caddy reads and drops, which only files with a mistake in them have.
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
    // Words behind a brace in the block of an import.
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

/// The JSON without what is told in several ways that mean the same.
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

/// Policies by the names they are for, `*` for all others. Which names share one is nothing to compare, nor whether the
/// local authority is written behind a name that no other would take.
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
    // What the catch-all says of local names is what they have anyway.
    let only_local = default == json!({"issuers": [{"module": "internal"}]});
    names.retain(|name, policy| {
        name == "*" || !(*policy == default || (only_local && *policy == json!({})))
    });
    names
}

/// Takes out objects that have become empty.
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
