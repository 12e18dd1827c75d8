//! The files, the requests, and the differences that are accepted.

use crate::http::Differs;

/// A file and what is asked of it. `PORT`, `ROOT`, `UPSTREAM` and `DEAD` are filled in.
pub struct Case {
    pub name: &'static str,
    pub caddyfile: &'static str,
    pub requests: &'static [&'static str],
    pub accepted: &'static [Difference],
}

/// A difference from Caddy that is meant.
pub struct Difference {
    /// What the request begins with.
    pub request: &'static str,
    /// `status`, `body`, or a field in lower case.
    pub what: &'static str,
    /// Why it is right. Read by people.
    #[allow(dead_code)]
    pub reason: &'static str,
    /// Only some versions of Caddy differ.
    pub depends_on_version: bool,
}

impl Difference {
    pub fn covers(&self, request: &str, differs: &Differs) -> bool {
        request.starts_with(self.request) && differs.what == self.what
    }
}

pub const CASES: &[Case] = &[
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
        accepted: &[],
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
        accepted: &[],
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
        accepted: &[],
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
		user $2a$10$KTC39oVGUx50UdSJQtG66.ZDnRCNe6rAWpB/eQ4WGjPIGMyQxFOKq
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
