//! Names of directives in older versions of Caddy and in other servers.

/// What to write instead of a word from another language or an older version.
pub fn old_name(name: &str) -> Option<&'static str> {
    OLD_NAMES
        .iter()
        .find(|(old, _)| *old == name)
        .map(|(_, help)| *help)
}

/// Words of Caddy 0 and 1 and of other servers, with what to write instead.
const OLD_NAMES: &[(&str, &str)] = &[
    ("browse", "write `file_server browse`"),
    (
        "errors",
        "write `handle_errors` for error pages, `log` for a log file",
    ),
    ("ext", "write `try_files {path} {path}.html`"),
    (
        "fastcgi",
        "write `php_fastcgi`, or `reverse_proxy` with `transport fastcgi`",
    ),
    ("gzip", "write `encode gzip`"),
    ("import_once", "write `import`"),
    (
        "listen",
        "write the address before the site block, or `bind`",
    ),
    ("location", "write `handle <path>` or `route <path>`"),
    ("mime", "write `header <matcher> Content-Type <type>`"),
    ("proxy", "write `reverse_proxy`"),
    ("proxy_pass", "write `reverse_proxy`"),
    ("server_name", "write the name before the site block"),
    ("status", "write `respond <status>`"),
    (
        "websocket",
        "write `reverse_proxy`: WebSocket passes through it",
    ),
];
