//! Converts texts with nginx's variables to texts with Caddy's placeholders.

use crate::lower::text::{Piece, literal, pieces};

/// What is known of the server in which a text stands.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The first name of the server.
    pub server_name: String,
    /// The folder of its files.
    pub root: Option<String>,
    /// The variables that tables give.
    pub tables: Vec<String>,
}

/// A word of a Caddyfile that says `text`.
pub fn word(text: &str) -> String {
    let is_plain = !text.is_empty()
        && !text.starts_with(['"', '`', '#', '@'])
        && !text.contains(char::is_whitespace)
        && !text.contains("{$")
        && !matches!(text, "{" | "}")
        && !text.starts_with("<<")
        && !text.ends_with('\\');
    if is_plain {
        return text.to_owned();
    }
    match text.contains('`') {
        false => format!("`{text}`"),
        // Between quotation marks, too, a backslash stands for itself but in front of one.
        true if !text.ends_with('\\') && !text.contains("\\\"") => {
            format!("\"{}\"", text.replace('"', "\\\""))
        }
        true => {
            let mut marker = "END".to_owned();
            while text.contains(&marker) {
                marker.push('_');
            }
            format!("<<{marker}\n{text}\n{marker}")
        }
    }
}

/// A text with placeholders; none where a variable has no placeholder. `groups` is the name of the pattern that `$1` and its
/// like are groups of.
pub fn expanded(text: &str, facts: &Facts, groups: Option<&str>) -> Option<String> {
    let mut out = String::new();
    for piece in pieces(text).ok()? {
        match piece {
            Piece::Plain(text) => out.push_str(&literal(text)),
            Piece::Variable(name) => out.push_str(&placeholder(name, facts, groups)?),
        }
    }
    // What a query begins with, if there is one.
    Some(out.replace("{is_args}{query}", "{?query}"))
}

fn placeholder(name: &str, facts: &Facts, groups: Option<&str>) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    if lower.bytes().all(|byte| byte.is_ascii_digit()) {
        return groups.map(|pattern| format!("{{re.{pattern}.{lower}}}"));
    }
    if facts.tables.contains(&lower) {
        return Some(format!("{{{lower}}}"));
    }
    Some(match &*lower {
        "host" => "{host}".to_owned(),
        "http_host" => "{hostport}".to_owned(),
        "uri" | "document_uri" => "{path}".to_owned(),
        "request_uri" => "{http.request.orig_uri}".to_owned(),
        "args" | "query_string" => "{query}".to_owned(),
        "is_args" => "{is_args}".to_owned(),
        "scheme" | "request_scheme" => "{scheme}".to_owned(),
        "remote_addr" => "{remote_host}".to_owned(),
        "remote_port" => "{remote_port}".to_owned(),
        "request_method" => "{method}".to_owned(),
        "server_protocol" => "{http.request.proto}".to_owned(),
        "server_name" => literal(&facts.server_name),
        "document_root" => literal(facts.root.as_deref()?),
        "request_filename" => format!("{}{{path}}", literal(facts.root.as_deref()?)),
        other => match other.split_once('_') {
            Some(("http", field)) => format!("{{header.{}}}", field.replace('_', "-")),
            Some(("arg", argument)) => format!("{{query.{argument}}}"),
            Some(("cookie", cookie)) => format!("{{cookie.{cookie}}}"),
            _ => return None,
        },
    })
}
