//! The kinds of requests that are measured: for each a site, what is sent, and what has to come back.

/// A kind of request.
pub struct Kind {
    /// Its name in the table.
    pub name: &'static str,
    /// The global options and the block of the site in a Caddyfile: `{upstream}` and `{folder}` are replaced.
    pub options: &'static str,
    /// See `options`.
    pub site: &'static str,
    /// How the client speaks.
    pub protocol: Protocol,
    /// The method, target and fields of the request.
    pub request: &'static str,
    /// The size of its body.
    pub request_body: usize,
    /// The size of the body of the response.
    pub response_body: usize,
    /// How many requests are counted.
    pub requests: u32,
    /// Sites beside the one that is asked.
    pub other_sites: usize,
}

/// How the client speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, all requests on one connection.
    Kept,
    /// HTTP/1.1, each request on a connection of its own.
    Single,
    /// HTTP/1.1 in TLS, all on one connection.
    Tls,
    /// HTTP/2 without TLS, one request at a time.
    H2c,
    /// HTTP/3, one request at a time, by the load generator of the lab. Its handshakes are not counted.
    H3,
}

impl Protocol {
    /// Whether the lab sends the requests.
    pub fn needs_lab(self) -> bool {
        match self {
            Protocol::H3 => true,
            Protocol::Kept | Protocol::Single | Protocol::Tls | Protocol::H2c => false,
        }
    }
}

const FIXED: Kind = Kind {
    name: "fixed",
    options: "",
    site: "respond \"Hello, World!\"",
    protocol: Protocol::Kept,
    request: "GET / HTTP/1.1\r\n",
    request_body: 0,
    response_body: 13,
    requests: 2000,
    other_sites: 0,
};

const PROXIED: Kind = Kind {
    name: "proxied",
    site: "reverse_proxy {upstream}",
    request: "GET /13 HTTP/1.1\r\nUser-Agent: cost\r\nAccept: */*\r\n",
    ..FIXED
};

/// All kinds, in the order of the table.
pub const KINDS: &[Kind] = &[
    FIXED,
    Kind {
        name: "fixed-10000-sites",
        other_sites: 10_000,
        ..FIXED
    },
    Kind {
        name: "fixed-logged",
        site: "log {\n\t\toutput file {folder}/access.log\n\t}\n\trespond \"Hello, World!\"",
        ..FIXED
    },
    Kind {
        name: "fixed-metrics",
        options: "metrics",
        ..FIXED
    },
    Kind {
        name: "connection-each",
        protocol: Protocol::Single,
        request: "GET / HTTP/1.1\r\nConnection: close\r\n",
        requests: 1000,
        ..FIXED
    },
    Kind {
        name: "fixed-tls",
        protocol: Protocol::Tls,
        site: "tls internal\n\trespond \"Hello, World!\"",
        ..FIXED
    },
    Kind {
        name: "fixed-h2c",
        protocol: Protocol::H2c,
        options: "servers {\n\t\tprotocols h1 h2 h2c\n\t}",
        ..FIXED
    },
    Kind {
        name: "fixed-h3",
        protocol: Protocol::H3,
        site: "tls internal\n\trespond \"Hello, World!\"",
        ..FIXED
    },
    Kind {
        name: "file-4k",
        site: "root {folder}\n\tfile_server",
        request: "GET /4608 HTTP/1.1\r\n",
        response_body: 4608,
        ..FIXED
    },
    Kind {
        name: "gzip-4k",
        site: "root {folder}\n\tencode gzip\n\tfile_server",
        request: "GET /page.html HTTP/1.1\r\nAccept-Encoding: gzip\r\n",
        response_body: 0,
        requests: 500,
        ..FIXED
    },
    PROXIED,
    Kind {
        name: "proxied-190k",
        request: "GET /190000 HTTP/1.1\r\n",
        response_body: 190_000,
        requests: 300,
        ..PROXIED
    },
    Kind {
        name: "proxied-upload-64k",
        request: "POST /13 HTTP/1.1\r\n",
        request_body: 65_536,
        requests: 500,
        ..PROXIED
    },
    Kind {
        name: "fastcgi",
        site: "reverse_proxy {upstream} {\n\t\ttransport fastcgi\n\t}",
        requests: 1000,
        ..PROXIED
    },
    Kind {
        name: "scgi",
        site: "reverse_proxy {upstream} {\n\t\ttransport scgi\n\t}",
        requests: 500,
        ..PROXIED
    },
    Kind {
        name: "uwsgi",
        site: "reverse_proxy {upstream} {\n\t\ttransport uwsgi\n\t}",
        requests: 500,
        ..PROXIED
    },
];

/// Kinds that only train an instrumented program.
pub const TAUGHT: &[Kind] = &[
    Kind {
        name: "proxied-tls",
        protocol: Protocol::Tls,
        site: "tls internal\n\treverse_proxy {upstream}",
        ..PROXIED
    },
    Kind {
        name: "file-tls",
        protocol: Protocol::Tls,
        site: "tls internal\n\troot {folder}\n\tfile_server",
        request: "GET /4608 HTTP/1.1\r\n",
        response_body: 4608,
        ..FIXED
    },
];
