//! Built-in texts for files that every nginx package installs and that configurations include by name. They stand in
//! for an include that is missing, as where a site's file is checked on another machine.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

use sluice_message::media_type;

/// The built-in text for an include of this path, by the name of the file.
pub fn text(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name {
        "mime.types" => Some(&MIME_TYPES),
        "fastcgi_params" => Some(&FASTCGI_PARAMS),
        "fastcgi.conf" => Some(&FASTCGI_CONF),
        "scgi_params" => Some(&SCGI_PARAMS),
        "uwsgi_params" => Some(&UWSGI_PARAMS),
        "proxy_params" => Some(PROXY_PARAMS),
        _ => None,
    }
}

/// The media types of sluice, without charsets: `charset` adds them in nginx.
static MIME_TYPES: LazyLock<String> = LazyLock::new(|| {
    let mut by_type: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (extension, media_type) in media_type::all() {
        let plain = media_type.split(';').next().unwrap_or(media_type);
        let other = AS_NGINX.iter().find(|(known, _)| *known == extension);
        let media_type = other.map_or(plain, |(_, media_type)| *media_type);
        by_type.entry(media_type).or_default().push(extension);
    }
    let mut text = "types {\n".to_owned();
    for (media_type, extensions) in by_type {
        let _ = writeln!(text, "{media_type} {};", extensions.join(" "));
    }
    text.push_str("}\n");
    text
});

/// Extensions whose type is nginx's own, because `gzip_types` and `map $sent_http_content_type` of configurations name
/// it.
const AS_NGINX: [(&str, &str); 3] = [
    ("bmp", "image/x-ms-bmp"),
    ("ico", "image/x-icon"),
    ("js", "application/javascript"),
];

/// Parameters of all three protocols, in the order of RFC 3875, section 4.1, with nginx's additions behind them.
const REQUEST: [(&str, &str); 11] = [
    ("CONTENT_TYPE", "$content_type"),
    ("DOCUMENT_ROOT", "$document_root"),
    ("HTTPS", "$https if_not_empty"),
    ("HTTP_HOST", "$host"),
    ("QUERY_STRING", "$query_string"),
    ("REMOTE_ADDR", "$remote_addr"),
    ("REMOTE_PORT", "$remote_port"),
    ("REQUEST_SCHEME", "$scheme"),
    ("REQUEST_URI", "$request_uri"),
    ("SERVER_NAME", "$server_name"),
    ("SERVER_PORT", "$server_port"),
];

/// Parameters of a method and a protocol. SCGI, FastCGI and uwsgi all have them.
const METHOD: [(&str, &str); 2] = [
    ("REQUEST_METHOD", "$request_method"),
    ("SERVER_PROTOCOL", "$server_protocol"),
];

/// Parameters that only FastCGI responders get.
const FASTCGI: [(&str, &str); 8] = [
    ("CONTENT_LENGTH", "$content_length"),
    ("DOCUMENT_URI", "$document_uri"),
    ("GATEWAY_INTERFACE", "CGI/1.1"),
    // PHP built with --enable-force-cgi-redirect wants it.
    ("REDIRECT_STATUS", "200"),
    ("REMOTE_USER", "$remote_user"),
    ("SCRIPT_NAME", "$fastcgi_script_name"),
    ("SERVER_ADDR", "$server_addr"),
    ("SERVER_SOFTWARE", "nginx/$nginx_version"),
];

static FASTCGI_PARAMS: LazyLock<String> =
    LazyLock::new(|| params("fastcgi_param", &[&METHOD, &REQUEST, &FASTCGI]));

static FASTCGI_CONF: LazyLock<String> = LazyLock::new(|| {
    const SCRIPT: [(&str, &str); 1] = [("SCRIPT_FILENAME", "$document_root$fastcgi_script_name")];
    params("fastcgi_param", &[&SCRIPT, &METHOD, &REQUEST, &FASTCGI])
});

static SCGI_PARAMS: LazyLock<String> = LazyLock::new(|| {
    const SCGI: [(&str, &str); 2] = [("SCGI", "1"), ("DOCUMENT_URI", "$document_uri")];
    params("scgi_param", &[&SCGI, &METHOD, &REQUEST])
});

static UWSGI_PARAMS: LazyLock<String> = LazyLock::new(|| {
    const UWSGI: [(&str, &str); 2] = [
        ("CONTENT_LENGTH", "$content_length"),
        ("PATH_INFO", "$document_uri"),
    ];
    params("uwsgi_param", &[&UWSGI, &METHOD, &REQUEST])
});

/// What Debian's package sets for upstreams.
const PROXY_PARAMS: &str = "\
proxy_set_header X-Forwarded-Proto $scheme;
proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
proxy_set_header X-Real-IP $remote_addr;
proxy_set_header Host $host;
";

/// A line for each parameter.
fn params(directive: &str, tables: &[&[(&str, &str)]]) -> String {
    let mut text = String::new();
    for (name, value) in tables.iter().copied().flatten() {
        let _ = writeln!(text, "{directive} {name} {value};");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryLoader, parse};

    #[test]
    fn every_text_is_read_without_a_mistake() {
        for (path, least) in [
            ("/etc/nginx/mime.types", 1),
            ("fastcgi_params", 20),
            ("a/fastcgi.conf", 21),
            ("scgi_params", 15),
            ("uwsgi_params", 15),
            ("proxy_params", 4),
        ] {
            let text = text(path).unwrap_or_else(|| panic!("{path} is built in"));
            let parsed = parse(path, text, &MemoryLoader::default());
            assert!(parsed.report.is_empty(), "{}", parsed.report.short());
            assert!(parsed.directives.len() >= least, "{path}");
        }
        assert_eq!(text("site_params"), None);
    }

    #[test]
    fn media_types_are_plain_and_those_that_configurations_name() {
        let text = text("mime.types").expect("it is built in");
        assert!(text.contains("\napplication/javascript js;\n"), "{text}");
        assert!(text.contains("\ntext/css css;\n"), "{text}");
        assert!(!text.contains("charset"), "{text}");
    }
}
