//! The path that an application is mounted at (`SCRIPT_NAME` of WSGI, `root_path` of ASGI): what earlier directives, such
//! as `handle_path`, took off the beginning of the path.

use sluice_message::uri::decode_percent;
use sluice_route::values::origin_form;

use sluice_pipeline::context::Exchange;

/// A mount path, decoded; empty at the root, otherwise with a slash at its beginning and none at its end.
pub(super) struct RootPath(Vec<u8>);

impl RootPath {
    /// The mount path of a request.
    pub(super) fn of(exchange: &Exchange) -> RootPath {
        let (original, _) = origin_form(&exchange.req.target);
        RootPath(prefix(original, exchange.req.uri.path()))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What `path` lacks of `original`, which is percent-encoded, if it is the end of it. A path that was replaced by another
/// one has no prefix.
fn prefix(original: &[u8], path: &[u8]) -> Vec<u8> {
    if original == path {
        return Vec::new();
    }
    let mut decoded = Vec::with_capacity(original.len());
    if !decode_percent(original, &mut decoded) {
        return Vec::new();
    }
    // `handle_path /app*` leaves nothing of `/app`, which is a slash where a path has to be.
    let left = match path {
        b"/" if !decoded.ends_with(b"/") => b"",
        path => path,
    };
    let Some(prefix) = decoded.strip_suffix(left) else {
        return Vec::new();
    };
    match prefix.strip_suffix(b"/").unwrap_or(prefix) {
        whole @ [b'/', ..] => whole.to_vec(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        for (original, path, expected) in [
            ("/a/b", "/a/b", ""),
            ("/app/a/b", "/a/b", "/app"),
            ("/app/", "/", "/app"),
            ("/app", "/", "/app"),
            ("/a%20b/c", "/c", "/a b"),
            ("/x/y", "/other", ""),
            ("/a", "/index.html", ""),
            ("/", "/", ""),
            ("*", "*", ""),
        ] {
            let found = prefix(original.as_bytes(), path.as_bytes());
            assert_eq!(
                String::from_utf8_lossy(&found),
                expected,
                "{original} {path}"
            );
        }
    }
}
