//! The short placeholders of the Caddyfile and their expansions.

/// Short names and the long names they stand for, both without braces.
pub const EXACT: &[(&str, &str)] = &[
    ("host", "http.request.host"),
    ("hostport", "http.request.hostport"),
    ("port", "http.request.port"),
    ("orig_method", "http.request.orig_method"),
    ("orig_uri", "http.request.orig_uri"),
    ("orig_path", "http.request.orig_uri.path"),
    ("orig_dir", "http.request.orig_uri.path.dir"),
    ("orig_file", "http.request.orig_uri.path.file"),
    ("orig_query", "http.request.orig_uri.query"),
    ("orig_?query", "http.request.orig_uri.prefixed_query"),
    ("method", "http.request.method"),
    ("uri", "http.request.uri"),
    ("%uri", "http.request.uri_escaped"),
    ("path", "http.request.uri.path"),
    ("%path", "http.request.uri.path_escaped"),
    ("dir", "http.request.uri.path.dir"),
    ("file", "http.request.uri.path.file"),
    ("query", "http.request.uri.query"),
    ("%query", "http.request.uri.query_escaped"),
    ("?query", "http.request.uri.prefixed_query"),
    ("remote", "http.request.remote"),
    ("remote_host", "http.request.remote.host"),
    ("remote_port", "http.request.remote.port"),
    ("scheme", "http.request.scheme"),
    ("uuid", "http.request.uuid"),
    ("tls_cipher", "http.request.tls.cipher_suite"),
    ("tls_version", "http.request.tls.version"),
    (
        "tls_client_fingerprint",
        "http.request.tls.client.fingerprint",
    ),
    ("tls_client_issuer", "http.request.tls.client.issuer"),
    ("tls_client_serial", "http.request.tls.client.serial"),
    ("tls_client_subject", "http.request.tls.client.subject"),
    (
        "tls_client_certificate_pem",
        "http.request.tls.client.certificate_pem",
    ),
    (
        "tls_client_certificate_der_base64",
        "http.request.tls.client.certificate_der_base64",
    ),
    ("upstream_hostport", "http.reverse_proxy.upstream.hostport"),
    ("client_ip", "http.vars.client_ip"),
];

/// Short placeholders with a name of the author's behind a dot.
pub struct Family {
    /// What stands before the dot.
    pub prefix: &'static str,
    /// What is written instead, dot included.
    pub long: &'static str,
    /// Characters that may follow, beside letters, digits, `_` and `-`.
    pub extra: &'static str,
}

impl Family {
    /// Whether a character may stand behind the dot.
    pub fn takes(&self, c: char) -> bool {
        c.is_ascii_alphanumeric() || c == '_' || c == '-' || self.extra.contains(c)
    }
}

/// All families.
pub const FAMILIES: &[Family] = &[
    Family {
        prefix: "header",
        long: "http.request.header.",
        extra: "",
    },
    Family {
        prefix: "cookie",
        long: "http.request.cookie.",
        extra: "",
    },
    Family {
        prefix: "labels",
        long: "http.request.host.labels.",
        extra: "",
    },
    Family {
        prefix: "path",
        long: "http.request.uri.path.",
        extra: "",
    },
    Family {
        prefix: "file",
        long: "http.request.uri.path.file.",
        extra: "",
    },
    Family {
        prefix: "query",
        long: "http.request.uri.query.",
        extra: "",
    },
    Family {
        prefix: "re",
        long: "http.regexp.",
        extra: ".",
    },
    Family {
        prefix: "vars",
        long: "http.vars.",
        extra: "",
    },
    Family {
        prefix: "rp",
        long: "http.reverse_proxy.",
        extra: ".",
    },
    Family {
        prefix: "resp",
        long: "http.intercept.",
        extra: ".",
    },
    Family {
        prefix: "err",
        long: "http.error.",
        extra: ".",
    },
    Family {
        prefix: "file_match",
        long: "http.matchers.file.",
        extra: "",
    },
];
