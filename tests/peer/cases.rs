//! The files, the requests, and the accepted differences.

use crate::peer::http::Differs;

/// A file and the requests to it. `PORT`, `ROOT`, `UPSTREAM` and `DEAD` are filled in.
pub struct Case {
    pub name: &'static str,
    pub caddyfile: &'static str,
    pub requests: &'static [&'static str],
    /// Caddy before 2.11 may not support the syntax of the file; it is then skipped.
    pub known: Seen,
    pub accepted: &'static [Difference],
}

/// An intentional difference from Caddy.
pub struct Difference {
    /// A prefix of the request.
    pub request: &'static str,
    /// `status`, `body`, a header in lower case, or `> ` and a header that the upstream received.
    pub what: &'static str,
    pub seen: Seen,
    /// Why the difference is right, for readers.
    #[allow(dead_code)]
    pub reason: &'static str,
}

/// When a difference must occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// If it no longer occurs, it has to be removed from the list.
    Always,
    /// Depends on Caddy's version (before 2.11) or on timing, such as the number of packets of a response.
    Sometimes,
}

impl Difference {
    pub fn covers(&self, request: &str, differs: &Differs) -> bool {
        request.starts_with(self.request) && differs.what == self.what
    }
}

pub const fn always(request: &'static str, what: &'static str, reason: &'static str) -> Difference {
    Difference {
        request,
        what,
        seen: Seen::Always,
        reason,
    }
}

pub const fn sometimes(
    request: &'static str,
    what: &'static str,
    reason: &'static str,
) -> Difference {
    Difference {
        request,
        what,
        seen: Seen::Sometimes,
        reason,
    }
}

const OLD_ETAG: &str =
    "Caddy 2.6 takes whole seconds for the tag; ours has nanoseconds, as Caddy 2.11";
const OLD_VARY: &str = "Caddy 2.6 forgets Vary where a sidecar or a coding could have been chosen";
const OLD_VIA: &str = "Caddy 2.6 adds no Via (RFC 9110, section 7.6.3)";
const OLD_SERVER: &str =
    "Caddy 2.6 puts its own Server beside the upstream's; 2.11 leaves that to the upstream";
const OLD_METHOD: &str = "Caddy 2.6 serves files for POST and PUT";

/// Differences that apply to all files.
pub const EVERYWHERE: &[Difference] = &[
    sometimes("GET ", "etag", OLD_ETAG),
    sometimes("HEAD ", "etag", OLD_ETAG),
    sometimes("GET ", "vary", OLD_VARY),
    sometimes("HEAD ", "vary", OLD_VARY),
    sometimes("", "via", OLD_VIA),
    sometimes("", "> via", OLD_VIA),
];

pub const NO_CODING_ADDED: &str =
    "Go's client asks for gzip in the client's name and undoes it; we pass on what was asked";
const NO_GUESS: &str =
    "Go guesses a type from the first bytes; what the upstream did not say we do not say";
const OPTIONS_OF_ALL: &str =
    "Go answers `OPTIONS *` before any route is asked; ours walks the routes like any request";
const RANGE_PROSE: &str = "Go writes a sentence into the body; Content-Range says it all";
const OTHER_UNIT: &str = "an unknown range unit is ignored (RFC 9110, section 14.2)";
const OWN_PAGE: &str = "the page is ours, and needs no script";
const BAD_TARGET: &str = "Go writes a bare line before the server is asked; ours is an ordinary answer that ends its line";
const EMPTY_TYPE: &str = "an empty body has no type";

pub const CASES: &[Case] = &[
    crate::peer::matchers::MATCHERS,
    crate::peer::placeholders::PLACEHOLDERS,
    crate::peer::incremental::INCREMENTAL,
    crate::peer::url_patterns::URL_PATTERNS,
    Case {
        name: "synthetic",
        caddyfile: ":PORT {\nrespond \"Hello, world!\"\n}\n",
        requests: &[
            "GET /",
            "GET /foo?x=1",
            "HEAD /",
            "POST / | body=hello",
            "OPTIONS *",
            "GET http://other.test/path",
            "DELETE /x",
            "GET /%2e%2e/etc",
        ],
        known: Seen::Always,
        accepted: &[
            always("OPTIONS *", "content-length", OPTIONS_OF_ALL),
            always("OPTIONS *", "content-type", OPTIONS_OF_ALL),
            always("OPTIONS *", "server", OPTIONS_OF_ALL),
            always("OPTIONS *", "body", OPTIONS_OF_ALL),
        ],
    },
    Case {
        name: "static",
        caddyfile: ":PORT {\nroot * ROOT\nfile_server\n}\n",
        requests: &[
            "GET /",
            "HEAD /",
            "GET /index.html",
            "GET /sub",
            "GET /sub/",
            "GET /noindex/",
            "GET /none",
            "GET /page.html",
            "GET /style.css",
            "GET /script.js",
            "GET /data.json",
            "GET /pic.svg",
            "GET /note.txt",
            "GET /blob.bin",
            "GET /empty.txt",
            "GET /unknown.qqq",
            "GET /sp%20ace/f.txt",
            "GET /note.txt/",
            "GET /../note.txt",
            "GET /%2e%2e/note.txt",
            "GET //note.txt",
            "GET /note.txt | Range: bytes=0-3",
            "GET /note.txt | Range: bytes=-5",
            "GET /note.txt | Range: bytes=30-",
            "GET /note.txt | Range: bytes=99-",
            "GET /note.txt | Range: lines=1-2",
            "GET /note.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT",
            "GET /note.txt | If-Modified-Since: Mon, 13 Nov 2023 22:13:20 GMT",
            "GET /note.txt | If-None-Match: *",
            "GET /note.txt | If-Match: \"nope\"",
            "GET /note.txt | If-Unmodified-Since: Mon, 13 Nov 2023 22:13:20 GMT",
            "POST /note.txt | body=x",
            "PUT /note.txt | body=x",
        ],
        known: Seen::Always,
        accepted: &[
            always(
                "GET /note.txt | Range: bytes=99-",
                "content-length",
                RANGE_PROSE,
            ),
            always(
                "GET /note.txt | Range: bytes=99-",
                "content-type",
                RANGE_PROSE,
            ),
            always(
                "GET /note.txt | Range: bytes=99-",
                "x-content-type-options",
                RANGE_PROSE,
            ),
            always("GET /note.txt | Range: bytes=99-", "body", RANGE_PROSE),
            sometimes(
                "GET /note.txt | Range: bytes=99-",
                "last-modified",
                "Caddy 2.6 sends it with 416; it describes a content that is not sent",
            ),
            always("GET /note.txt | Range: lines", "status", OTHER_UNIT),
            always("GET /note.txt | Range: lines", "accept-ranges", OTHER_UNIT),
            always("GET /note.txt | Range: lines", "content-length", OTHER_UNIT),
            always("GET /note.txt | Range: lines", "etag", OTHER_UNIT),
            sometimes("GET /note.txt | Range: lines", "last-modified", OTHER_UNIT),
            always(
                "GET /note.txt | Range: lines",
                "x-content-type-options",
                OTHER_UNIT,
            ),
            always("GET /note.txt | Range: lines", "body", OTHER_UNIT),
            always("GET /note.txt | If-Match", "content-type", EMPTY_TYPE),
            always("GET /note.txt | If-Unmodified", "content-type", EMPTY_TYPE),
            sometimes("POST", "status", OLD_METHOD),
            sometimes("POST", "accept-ranges", OLD_METHOD),
            sometimes("POST", "allow", OLD_METHOD),
            sometimes("POST", "content-length", OLD_METHOD),
            sometimes("POST", "content-type", OLD_METHOD),
            sometimes("POST", "etag", OLD_METHOD),
            sometimes("POST", "last-modified", OLD_METHOD),
            sometimes("POST", "vary", OLD_METHOD),
            sometimes("POST", "body", OLD_METHOD),
            sometimes("PUT", "status", OLD_METHOD),
            sometimes("PUT", "accept-ranges", OLD_METHOD),
            sometimes("PUT", "allow", OLD_METHOD),
            sometimes("PUT", "content-length", OLD_METHOD),
            sometimes("PUT", "content-type", OLD_METHOD),
            sometimes("PUT", "etag", OLD_METHOD),
            sometimes("PUT", "last-modified", OLD_METHOD),
            sometimes("PUT", "vary", OLD_METHOD),
            sometimes("PUT", "body", OLD_METHOD),
            sometimes(
                "GET /note.txt/",
                "status",
                "Caddy 2.6 answers 404 where 2.11 redirects",
            ),
            sometimes(
                "GET /note.txt/",
                "content-length",
                "Caddy 2.6 answers 404 where 2.11 redirects",
            ),
            sometimes(
                "GET /note.txt/",
                "content-type",
                "Caddy 2.6 answers 404 where 2.11 redirects",
            ),
            sometimes(
                "GET /note.txt/",
                "location",
                "Caddy 2.6 answers 404 where 2.11 redirects",
            ),
            sometimes(
                "GET /note.txt/",
                "body",
                "Caddy 2.6 answers 404 where 2.11 redirects",
            ),
            sometimes(
                "GET /blob.bin",
                "content-type",
                "Caddy 2.6 leaves out the type of unknown bytes",
            ),
        ],
    },
    Case {
        name: "proxy",
        caddyfile: ":PORT {\nreverse_proxy UPSTREAM\n}\n",
        requests: &[
            "GET /",
            "GET /a/b?c=d&e=%20f",
            "HEAD /",
            "POST /form | Content-Type: text/plain | body=some text",
            "GET / | X-Forwarded-For: 1.2.3.4 | X-Forwarded-Proto: https",
            "GET / | Connection: X-Drop | X-Drop: 1",
            "GET / | Te: trailers",
            "GET / | Accept-Encoding: gzip",
            "GET / | User-Agent: test",
            "GET /chunked",
            "GET /nothing",
            "GET /notmodified",
            "GET /moved",
            "GET /broken",
            "GET /hop",
            "GET /garbage",
        ],
        known: Seen::Always,
        accepted: &[
            sometimes("", "server", OLD_SERVER),
            always("GET /", "> accept-encoding", NO_CODING_ADDED),
            always("POST /form", "> accept-encoding", NO_CODING_ADDED),
            always(
                "GET / | Te",
                "> connection",
                "TE is hop-by-hop and has to be named there (RFC 9110, section 10.1.4)",
            ),
            sometimes(
                "GET /chunked",
                "content-length",
                "an answer that has come whole is sent with its length",
            ),
            sometimes(
                "GET /chunked",
                "transfer-encoding",
                "an answer that has come whole is sent with its length",
            ),
            always("GET /broken", "content-type", NO_GUESS),
            always("GET /hop", "content-type", NO_GUESS),
        ],
    },
    Case {
        name: "rich",
        caddyfile: RICH,
        requests: &[
            "GET /old",
            "GET /perm/x",
            "GET /api/v1/users?q=1",
            "GET /strip/this/path",
            "GET /rewrite-me?a=b",
            "GET /headers",
            "GET /text",
            "GET /json",
            "GET /teapot",
            "GET /gone",
            "GET /secret",
            "GET /private",
            "GET /private | Authorization: Basic dXNlcjpwYXNz",
            "GET /private | Authorization: Basic dXNlcjp3cm9uZw==",
            "GET /query?want=yes",
            "GET /query?want=no",
            "GET /cookie | Cookie: a=1; b=2",
            "GET /placeholders?x=1",
            "GET /files/page.html | Accept-Encoding: gzip",
            "GET /files/note.txt | Accept-Encoding: gzip",
            "GET /files/hidden/secret.txt",
            "GET /files/none",
            "GET /dead",
            "GET /method",
            "POST /method | body=x",
            "GET /UPPER/case",
            "GET /regex/abc-123",
            "GET /mapped/two",
            "GET /nomatch",
            "POST /limit | body=12345678901234567890",
        ],
        known: Seen::Always,
        accepted: &[
            sometimes("GET /api", "server", OLD_SERVER),
            always("GET /api", "> accept-encoding", NO_CODING_ADDED),
        ],
    },
    Case {
        name: "spa",
        caddyfile: ":PORT {\nroot * ROOT\nencode zstd gzip\ntry_files {path} {path}/ /index.html\nfile_server\n}\n",
        requests: &[
            "GET /",
            "GET /app/route?x=1",
            "GET /note.txt",
            "GET /sub",
            "GET /sub/",
            "GET /page.html | Accept-Encoding: gzip",
            "GET /page.html | Accept-Encoding: gzip;q=0",
            "GET /page.html | Accept-Encoding: gzip | Range: bytes=0-9",
            "HEAD /page.html | Accept-Encoding: gzip",
            "GET /pic.svg | Accept-Encoding: gzip",
        ],
        known: Seen::Always,
        accepted: &[always(
            "HEAD /page.html | Accept-Encoding",
            "transfer-encoding",
            "HEAD tells the framing that GET would have (RFC 9112, section 6.1)",
        )],
    },
    Case {
        name: "edits",
        caddyfile: EDITS,
        requests: &[
            "GET /pre/a/b?q=1",
            "GET /suf/a.php",
            "GET /sub/old/x/old",
            "GET /re/2026/11",
            "GET /up",
            "GET /up | X-Client: a | Cookie: secret=1",
            "GET /defaults",
            "GET /set",
            "GET /replace",
            "GET /auto",
            "GET /html",
            "GET /perm",
            "GET /code",
            "GET /except/a",
            "GET /except/b",
            "GET /header-match | X-Kind: blue",
            "GET /header-match | X-Kind: red",
            "GET /header-match",
            "GET /five?n=5",
            "GET /five?n=6",
            "GET /ip",
            "GET /vars",
            "GET /list/ | Accept: application/json",
            "GET /list/sub | Accept: application/json",
            "GET /error/404",
            "GET /error/500",
            "GET /close",
            "POST /big | body=123456789012345678901234567890",
            "PATCH /anything",
            "GET /caf%C3%A9",
            "GET /a%2Fb",
            "GET /%zz",
        ],
        known: Seen::Always,
        accepted: &[
            always("GET /up", "content-type", NO_GUESS),
            always("GET /up", "> accept-encoding", NO_CODING_ADDED),
            sometimes("GET /up", "server", OLD_SERVER),
            sometimes(
                "GET /up",
                "x-down",
                "Caddy 2.6 does not know this placeholder there",
            ),
            sometimes(
                "GET /replace",
                "x-words",
                "Caddy 2.6 replaces only what the client or the upstream sent, before the answer is written",
            ),
            always("GET /html", "content-length", OWN_PAGE),
            always("GET /html", "body", OWN_PAGE),
            sometimes(
                "GET /html",
                "content-type",
                "Caddy 2.6 calls the page plain text",
            ),
            sometimes(
                "POST /big",
                "status",
                "Caddy 2.6 blames the upstream for a body that is too large",
            ),
            sometimes(
                "POST /big",
                "body",
                "Caddy 2.6 blames the upstream for a body that is too large",
            ),
            always("GET /%zz", "content-length", BAD_TARGET),
            always("GET /%zz", "date", BAD_TARGET),
            always("GET /%zz", "server", BAD_TARGET),
            always("GET /%zz", "body", BAD_TARGET),
        ],
    },
    Case {
        name: "newer",
        caddyfile: NEWER,
        requests: &[
            "GET /query?keep=1&drop=2&old=3",
            "GET /invoked",
            "GET /error/404",
            "GET /error/500",
            "GET /error/418",
        ],
        known: Seen::Sometimes,
        accepted: &[],
    },
];

const RICH: &str = r#"
:PORT {
	redir /old /new
	redir /perm/* https://example.com{uri} permanent
	handle /api/* {
		reverse_proxy UPSTREAM
	}
	handle_path /strip/* {
		respond "{uri}"
	}
	rewrite /rewrite-me /rewritten?c=d
	respond /rewritten "{path} {query}"
	header /headers X-One 1
	header /headers +X-One 2
	header /headers X-Host "{host}"
	header /headers -Server
	respond /headers ok
	respond /text "plain"
	respond /json `{"a": [1, 2]}`
	respond /teapot "short" 418
	error /gone "it went" 410
	error /secret 403
	basicauth /private {
		user $2a$04$H/y1VQelJazs9dB4RZ4ANe0/jUZzDYxJupY8Twas3rllq8AosUya6
	}
	respond /private "hello {http.auth.user.id}"
	@want query want=yes
	respond @want "wanted"
	respond /query "unwanted"
	respond /cookie "{http.request.cookie.b}"
	respond /placeholders "{method} {path} {query} {http.request.proto} {http.request.header.Host} {unknown.one}"
	handle_path /files/* {
		root * ROOT
		encode gzip
		file_server {
			hide hidden
		}
	}
	handle /dead {
		reverse_proxy DEAD
	}
	@post method POST
	respond @post "posted"
	respond /method "other"
	respond /upper/* "case"
	@re path_regexp id ^/regex/([a-z]+)-(\d+)$
	respond @re "{re.id.1} {re.id.2}"
	map {path} {mapped} {
		/mapped/one "1"
		~^/mapped/(.*)$ "re ${1}"
		default "none"
	}
	respond /mapped/* "{mapped}"
	handle_errors {
		respond "E {http.error.status_code} {http.error.status_text}"
	}
}
"#;

const EDITS: &str = r#"
:PORT {
	handle_path /pre/* {
		respond "{uri}"
	}
	handle /suf/* {
		uri strip_suffix .php
		respond "{uri}"
	}
	handle /sub/* {
		uri replace old new
		respond "{uri}"
	}
	handle /re/* {
		uri path_regexp /re/(\d+)/(\d+) /$2-$1
		respond "{uri}"
	}
	handle /up {
		request_header X-Added "{host}"
		request_header -Cookie
		reverse_proxy UPSTREAM {
			header_up Host upstream.test
			header_up -X-Client
			header_up X-Real-IP {remote_host}
			header_down X-Down "{http.reverse_proxy.status_code}"
			header_down -Content-Type
		}
	}
	header /defaults ?Cache-Control "max-age=60"
	respond /defaults ok
	header /set {
		X-A one
		+X-A two
		Cache-Control no-store
		defer
	}
	respond /set ok
	header /replace X-Words "old words are old"
	header /replace >X-Words old new
	respond /replace ok
	respond /auto 204
	handle /html {
		redir https://example.com/ html
	}
	redir /perm https://example.com/perm permanent
	redir /code /elsewhere 307
	@except {
		path /except/*
		not path /except/b
	}
	respond @except "not b"
	respond /except/b "b"
	@blue header X-Kind blue
	respond @blue "blue"
	@kind header X-Kind *
	respond @kind "some kind"
	respond /header-match "none"
	@five query n=5
	respond @five "five"
	respond /five "other"
	@local remote_ip 127.0.0.1/8
	respond /ip "{remote_host}"
	handle /vars {
		vars one "1 {method}"
		respond "{vars.one}"
	}
	handle_path /list/* {
		root * ROOT
		file_server browse
	}
	error /error/404 "lost" 404
	error /error/500 500
	handle /close {
		respond "bye" {
			close
		}
	}
	handle /big {
		request_body {
			max_size 10
		}
		reverse_proxy UPSTREAM
	}
	handle {
		respond "{method} {path} {uri}"
	}
	handle_errors {
		respond "failed {err.status_code}"
	}
}
"#;

const NEWER: &str = r#"
&(shared) {
	respond "shared {path}"
}
:PORT {
	handle /query {
		uri query -drop
		uri query old>new
		uri query added yes
		respond "{query}"
	}
	handle /invoked {
		invoke shared
	}
	error /error/404 "lost" 404
	error /error/418 418
	error /error/500 500
	handle_errors 404 {
		respond "lost: {err.message}" 404
	}
	handle_errors 5xx {
		respond "failed {err.status_code}"
	}
}
"#;
