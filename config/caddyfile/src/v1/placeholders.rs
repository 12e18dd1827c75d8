//! Translates placeholders of Caddy 1 to those of Caddy 2.

/// Old names and new ones, both without braces.
const NAMES: &[(&str, &str)] = &[
    ("host", "hostport"),
    ("hostonly", "host"),
    ("hostname", "system.hostname"),
    ("remote", "remote_host"),
    ("port", "remote_port"),
    ("server_port", "http.request.local.port"),
    ("scheme", "scheme"),
    ("method", "method"),
    ("proto", "http.request.proto"),
    ("uri", "uri"),
    ("uri_escaped", "%uri"),
    ("path", "path"),
    ("path_escaped", "%path"),
    ("query", "query"),
    ("query_escaped", "%query"),
    ("rewrite_uri", "uri"),
    ("rewrite_path", "path"),
    ("file", "file"),
    ("dir", "dir"),
    ("user", "http.auth.user.id"),
    ("when", "time.now.common_log"),
    ("when_unix", "time.now.unix"),
    ("when_unix_ms", "time.now.unix_ms"),
    ("latency", "http.request.duration"),
    ("latency_ms", "http.request.duration_ms"),
    ("status", "http.response.status"),
    ("size", "http.response.size"),
    ("request_id", "uuid"),
    ("request_body", "http.request.body"),
    ("tls_protocol", "tls_version"),
    ("tls_version", "tls_version"),
    ("tls_cipher", "tls_cipher"),
    ("tls_client_fingerprint", "tls_client_fingerprint"),
    ("tls_client_serial", "tls_client_serial"),
    ("tls_client_i_cn", "tls_client_issuer"),
    ("tls_client_s_dn", "tls_client_subject"),
    ("upstream", "upstream_hostport"),
];

/// Names that stand for the request as it came, once paths are rewritten.
const AS_IT_CAME: &[(&str, &str)] = &[
    ("uri", "orig_uri"),
    ("path", "orig_path"),
    ("query", "orig_query"),
    ("file", "orig_file"),
    ("dir", "orig_dir"),
];

/// What the words around a placeholder show about it.
#[derive(Clone, Copy, Default)]
pub(super) struct Setting<'a> {
    /// Whether `{uri}` and its parts stand for what came rather than for what it was rewritten to.
    pub is_rewritten: bool,
    /// The regular expression whose groups `{1}`, `{2}` … are, by name.
    pub groups: Option<&'a str>,
    /// Labels in the host name of the site.
    pub labels: usize,
}

/// A text with its placeholders in the new language, and those that have no equal there.
pub(super) fn translate(text: &str, setting: Setting<'_>) -> (String, Vec<String>) {
    let mut out = String::with_capacity(text.len());
    let mut unknown = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        let behind = &rest[open + 1..];
        let name = behind.find('}').map(|close| &behind[..close]);
        let is_name = |name: &&str| !name.is_empty() && !name.contains(['{', ' ', '\n']);
        let Some(name) = name.filter(is_name) else {
            out.push('{');
            rest = behind;
            continue;
        };
        rest = &behind[name.len() + 1..];
        match one(name, setting) {
            Some(new) => out.push_str(&format!("{{{new}}}")),
            None => {
                // Repetition counts, as in `[0-9]{3}`, are not placeholders.
                if !name.starts_with(|c: char| c.is_ascii_digit() || c == '$') {
                    unknown.push(name.to_owned());
                }
                out.push_str(&format!("{{{name}}}"));
            }
        }
    }
    out.push_str(rest);
    (out, unknown)
}

fn one(name: &str, setting: Setting<'_>) -> Option<String> {
    if let Some(field) = name.strip_prefix('>') {
        return Some(format!("header.{field}"));
    }
    if let Some(field) = name.strip_prefix('<') {
        return Some(format!("http.response.header.{field}"));
    }
    if let Some(cookie) = name.strip_prefix('~') {
        return Some(format!("cookie.{cookie}"));
    }
    if let Some(key) = name.strip_prefix('?') {
        return Some(format!("query.{key}"));
    }
    if let Some(groups) = setting.groups
        && name.chars().all(|c| c.is_ascii_digit())
    {
        return Some(format!("re.{groups}.{name}"));
    }
    if let Some(label) = name.strip_prefix("label")
        && let Ok(number @ 1..) = label.parse::<usize>()
        && number <= setting.labels
    {
        // Counted from the right now.
        return Some(format!("labels.{}", setting.labels - number));
    }
    let of = |names: &[(&str, &str)]| {
        let found = names.iter().find(|(old, _)| *old == name);
        found.map(|(_, new)| (*new).to_owned())
    };
    let as_it_came = setting.is_rewritten.then(|| of(AS_IT_CAME)).flatten();
    as_it_came.or_else(|| of(NAMES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_get_their_new_names() {
        let plain = Setting::default();
        let of = |text: &str, setting| translate(text, setting).0;
        assert_eq!(of("{host}:{remote}{x", plain), "{hostport}:{remote_host}{x");
        assert_eq!(
            of("{>A-B}{?q}{~c}", plain),
            "{header.A-B}{query.q}{cookie.c}"
        );
        assert_eq!(of("[0-9]{3}{$HOME}", plain), "[0-9]{3}{$HOME}");
        let rewritten = Setting {
            is_rewritten: true,
            ..plain
        };
        assert_eq!(of("{uri}{rewrite_uri}", rewritten), "{orig_uri}{uri}");
        let groups = Setting {
            groups: Some("r"),
            labels: 3,
            ..plain
        };
        assert_eq!(of("/{1}/{label1}", groups), "/{re.r.1}/{labels.2}");
    }

    #[test]
    fn unknown_ones_are_reported() {
        let (text, unknown) = translate("{mitm} {a} {3}", Setting::default());
        assert_eq!(text, "{mitm} {a} {3}");
        assert_eq!(unknown, ["mitm", "a"]);
    }
}
