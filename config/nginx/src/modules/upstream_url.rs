//! The addresses of `proxy_pass`, `grpc_pass`, `scgi_pass` and `uwsgi_pass`, cut into their parts.

/// An address with a scheme, in its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Url<'a> {
    /// Whether TLS is spoken.
    pub is_tls: bool,
    /// Host and port, the name of a group, or `unix:` and a path.
    pub host: &'a str,
    /// The path, if there is any.
    pub path: Option<&'a str>,
}

impl<'a> Url<'a> {
    /// Cuts an address.
    pub fn parse(text: &'a str) -> Option<Url<'a>> {
        let (scheme, rest) = text.split_once("://")?;
        let is_tls = match scheme {
            "http" | "grpc" => false,
            "https" | "grpcs" => true,
            _ => return None,
        };
        let (host, path) = match rest.strip_prefix("unix:") {
            // The path of a request follows the second colon.
            Some(socket) => {
                let end = socket.find(':').unwrap_or(socket.len());
                // Nothing behind it replaces nothing.
                let path = socket.get(end + 1..).filter(|path| !path.is_empty());
                (&rest[.."unix:".len() + end], path)
            }
            None => match rest.find(['/', '?']) {
                Some(at) => (&rest[..at], Some(&rest[at..])),
                None => (rest, None),
            },
        };
        (!host.is_empty()).then_some(Url { is_tls, host, path })
    }

    /// The port that its scheme has.
    pub fn port(&self) -> u16 {
        if self.is_tls { 443 } else { 80 }
    }
}

/// The address of a `grpc_pass` as a URL: the scheme may be left out.
pub fn with_grpc_scheme(text: &str) -> String {
    match text.contains("://") {
        true => text.to_owned(),
        false => format!("grpc://{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::Url;

    #[test]
    fn addresses_are_cut() {
        let url = |text| Url::parse(text).map(|url| (url.is_tls, url.host, url.path));
        assert_eq!(url("http://a"), Some((false, "a", None)));
        assert_eq!(url("https://a:81/"), Some((true, "a:81", Some("/"))));
        assert_eq!(
            url("http://[::1]:81/b?c"),
            Some((false, "[::1]:81", Some("/b?c")))
        );
        assert_eq!(
            url("http://unix:/run/x.sock"),
            Some((false, "unix:/run/x.sock", None))
        );
        assert_eq!(
            url("http://unix:/run/x.sock:"),
            Some((false, "unix:/run/x.sock", None))
        );
        assert_eq!(
            url("http://unix:/run/x.sock:/b"),
            Some((false, "unix:/run/x.sock", Some("/b")))
        );
        assert_eq!(url("a:80"), None);
        assert_eq!(url("http://"), None);
    }
}
