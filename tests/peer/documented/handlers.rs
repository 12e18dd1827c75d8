//! Directives that change requests and responses, and those that group others.

use super::Sheet;
use crate::peer::cases::always;

const NO_GUESS: &str = "the type was removed; Go then guesses one from the first bytes";
const WHOLE_ROUTE: &str = "Caddy keeps only the first line of a named route";

pub(super) const SHEETS: &[Sheet] = &[
    Sheet {
        directive: "basic_auth",
        caddyfile: r#"
http://all.test:PORT {
	basic_auth {
		user $2a$04$H/y1VQelJazs9dB4RZ4ANe0/jUZzDYxJupY8Twas3rllq8AosUya6
	}
	respond "hello {http.auth.user.id}"
}
http://some.test:PORT {
	basic_auth /secret/* bcrypt "The Realm" {
		user $2a$04$H/y1VQelJazs9dB4RZ4ANe0/jUZzDYxJupY8Twas3rllq8AosUya6
	}
	respond "page {http.auth.user.id}"
}
"#,
        requests: &[
            "GET all.test/",
            "GET all.test/ | Authorization: Basic dXNlcjpwYXNz",
            "GET all.test/ | Authorization: Basic dXNlcjp3cm9uZw==",
            "GET all.test/ | Authorization: Bearer x",
            "GET all.test/ | Authorization: Basic !!",
            "GET some.test/",
            "GET some.test/secret/x",
            "GET some.test/secret/x | Authorization: Basic dXNlcjpwYXNz",
            "HEAD some.test/secret/x",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "bind",
        caddyfile: r#"
http://one.test:PORT {
	bind 127.0.0.1
	respond "one"
}
http://two.test:PORT {
	bind 127.0.0.1
	respond "two"
}
"#,
        requests: &["GET one.test/", "GET two.test/", "GET three.test/"],
        accepted: &[],
    },
    Sheet {
        directive: "encode",
        caddyfile: r#"
http://plain.test:PORT {
	root * ROOT
	encode
	file_server
}
http://gzip.test:PORT {
	root * ROOT
	encode gzip
	file_server
}
http://block.test:PORT {
	root * ROOT
	encode {
		gzip 5
		minimum_length 1024
		match {
			header Content-Type text/html*
		}
	}
	file_server
}
http://matched.test:PORT {
	encode /big gzip
	header Content-Type text/plain
	respond "small"
}
"#,
        requests: &[
            "GET gzip.test/page.html | Accept-Encoding: gzip",
            "GET gzip.test/page.html",
            "GET gzip.test/page.html | Accept-Encoding: br",
            "GET gzip.test/note.txt | Accept-Encoding: gzip",
            "GET gzip.test/page.html | Accept-Encoding: gzip;q=0, identity",
            "GET plain.test/note.txt | Accept-Encoding: zstd, gzip",
            "GET block.test/page.html | Accept-Encoding: gzip",
            "GET block.test/style.css | Accept-Encoding: gzip",
            "GET matched.test/big | Accept-Encoding: gzip",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "handle",
        caddyfile: r#"
http://groups.test:PORT {
	handle /foo/* {
		header X-Group foo
		respond "foo {path}"
	}
	handle /foo {
		respond "the folder"
	}
	@post method POST
	handle @post {
		respond "posted"
	}
	handle {
		respond "rest" 404
	}
}
http://nested.test:PORT {
	handle /a/* {
		handle /a/b {
			respond "ab"
		}
		handle_path /a/c/* {
			respond "c {path}"
		}
		respond "a"
	}
	respond "outside"
}
"#,
        requests: &[
            "GET groups.test/foo/bar",
            "GET groups.test/foo",
            "POST groups.test/x | body=y",
            "GET groups.test/x",
            "GET nested.test/a/b",
            "GET nested.test/a/c/d",
            "GET nested.test/a/x",
            "GET nested.test/",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "handle_path",
        caddyfile: r#"
http://path.test:PORT {
	handle_path /prefix/* {
		root * ROOT
		file_server
	}
	handle_path /show/* {
		respond "{uri} {http.request.orig_uri}"
	}
	respond "none" 404
}
"#,
        requests: &[
            "GET path.test/prefix/note.txt",
            "GET path.test/prefix/sub",
            "GET path.test/prefix/",
            "GET path.test/prefix",
            "GET path.test/show/a/b?c=d",
            "GET path.test/show/",
            "GET path.test/SHOW/a",
            "GET path.test/show/a%2Fb",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "header",
        caddyfile: r#"
http://set.test:PORT {
	header X-Custom "my value"
	header -Server
	header {
		Strict-Transport-Security max-age=31536000
		X-Content-Type-Options nosniff
		?Cache-Control "max-age=60"
		+Link "</a>"
		+Link "</b>"
		-X-Gone
	}
	header /cached Cache-Control "max-age=3600"
	respond "page"
}
http://defer.test:PORT {
	header {
		X-Status "{http.response.header.Content-Length}"
		-Content-Type
		defer
	}
	header >X-Late late
	respond "page"
}
http://replace.test:PORT {
	header X-Path "one two one"
	header >X-Path one three
	header Set-Cookie "a=b; Path=/"
	header >Set-Cookie (.*) "$1; SameSite=Lax"
	respond "page"
}
http://match.test:PORT {
	header {
		X-Missing yes
		match status 404
	}
	error /none 404
	respond /gone "gone" 404
	respond "page"
}
"#,
        requests: &[
            "GET set.test/",
            "GET set.test/cached",
            "HEAD set.test/",
            "GET defer.test/",
            "GET replace.test/",
            "GET match.test/",
            "GET match.test/gone",
            "GET match.test/none",
        ],
        accepted: &[always("GET defer.test/", "content-type", NO_GUESS)],
    },
    Sheet {
        directive: "invoke",
        caddyfile: r#"
&(app) {
	respond "app at {path}"
}
&(routed) {
	route {
		header X-App "{host}"
		respond "routed at {path}"
	}
}
&(lines) {
	header X-App "{host}"
	respond "both"
}
http://one.test:PORT {
	invoke app
}
http://two.test:PORT {
	invoke /app/* app
	respond "none" 404
}
http://three.test:PORT {
	invoke routed
}
http://four.test:PORT {
	invoke lines
}
"#,
        requests: &[
            "GET one.test/x",
            "GET two.test/app/x",
            "GET two.test/",
            "GET three.test/x",
            "GET four.test/x",
        ],
        accepted: &[
            always("GET four.test/x", "content-length", WHOLE_ROUTE),
            always("GET four.test/x", "content-type", WHOLE_ROUTE),
            always("GET four.test/x", "body", WHOLE_ROUTE),
        ],
    },
    Sheet {
        directive: "map",
        caddyfile: r#"
http://map.test:PORT {
	map {path} {section} {status} {
		/ home 200
		~^/docs/([a-z]+) "docs of ${1}" 200
		~(?i)^/old - 410
		/single only
		default other 404
	}
	respond "{section}|{status}"
}
http://host.test:PORT {
	map {query.a} {b} {
		1 "one {host}"
		default "{query.c}"
	}
	respond "{b}"
}
"#,
        requests: &[
            "GET map.test/",
            "GET map.test/docs/map",
            "GET map.test/OLD/x",
            "GET map.test/single",
            "GET map.test/none",
            "GET host.test/?a=1",
            "GET host.test/?a=2&c=3",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "method",
        caddyfile: r#"
http://all.test:PORT {
	method POST
	respond "{method} {http.request.orig_method}"
}
http://some.test:PORT {
	method /head HEAD
	method /lower put
	respond "{method}"
}
"#,
        requests: &[
            "GET all.test/",
            "PUT all.test/ | body=x",
            "GET some.test/lower",
            "GET some.test/",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "request_body",
        caddyfile: r#"
http://limit.test:PORT {
	request_body {
		max_size 10
	}
	respond "{http.request.body}"
}
http://some.test:PORT {
	request_body /small {
		max_size 5B
	}
	respond "{http.request.body}"
}
http://set.test:PORT {
	request_body {
		set "replaced {path}"
	}
	respond "{http.request.body}"
}
"#,
        requests: &[
            "POST limit.test/ | body=12345",
            "POST limit.test/ | body=1234567890",
            "POST some.test/small | body=12345",
            "POST some.test/large | body=1234567890",
            "POST set.test/x | body=original",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "request_header",
        caddyfile: r#"
http://set.test:PORT {
	request_header X-Set "value {path}"
	request_header +X-Many more
	request_header -X-Gone
	request_header -X-Prefix-*
	request_header X-Change one two
	respond "{header.X-Set}|{header.X-Many}|{header.X-Gone}|{header.X-Prefix-A}|{header.X-Change}"
}
http://some.test:PORT {
	request_header /a X-Set yes
	respond "{header.X-Set}"
}
"#,
        requests: &[
            "GET set.test/p",
            "GET set.test/p | X-Set: client | X-Many: first | X-Gone: x | X-Prefix-A: y | X-Change: one one",
            "GET some.test/a",
            "GET some.test/b | X-Set: client",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "rewrite",
        caddyfile: r#"
http://all.test:PORT {
	rewrite * /foo{path}?x=1
	respond "{uri}"
}
http://some.test:PORT {
	rewrite /old /new
	rewrite /query ?a=b
	rewrite /keep /kept?{query}
	rewrite /both /c?d=e&{query}&f
	rewrite /fragment /x?y={path}
	respond "{uri} {http.request.orig_uri}"
}
"#,
        requests: &[
            "GET all.test/a/b",
            "GET all.test/a?z=2",
            "GET all.test/sp%20ace",
            "GET some.test/old?q=1",
            "GET some.test/query?q=1",
            "GET some.test/keep?q=1&r",
            "GET some.test/keep",
            "GET some.test/both?q=%20",
            "GET some.test/fragment",
            "GET some.test/none?q",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "root",
        caddyfile: r#"
http://all.test:PORT {
	root * ROOT
	file_server
}
http://short.test:PORT {
	root ROOT
	file_server
}
http://some.test:PORT {
	root ROOT
	root /index.html ROOT/sub
	file_server
}
http://vars.test:PORT {
	root * ROOT
	respond "{http.vars.root}"
}
"#,
        requests: &[
            "GET all.test/note.txt",
            "GET short.test/note.txt",
            "GET some.test/index.html",
            "GET some.test/note.txt",
            "GET vars.test/",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "route",
        caddyfile: r#"
http://order.test:PORT {
	route {
		header X-First yes
		rewrite /a /b
		respond /b "rewritten"
		respond "written order"
	}
}
http://some.test:PORT {
	route /api/* {
		uri strip_prefix /api
		respond "api {path}"
	}
	respond "page"
}
http://late.test:PORT {
	route {
		respond /x "first"
		request_header X-A b
		respond "{header.X-A}"
	}
}
"#,
        requests: &[
            "GET order.test/a",
            "GET order.test/c",
            "GET some.test/api/v1?x",
            "GET some.test/",
            "GET late.test/x",
            "GET late.test/y",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "uri",
        caddyfile: r#"
http://strip.test:PORT {
	uri /api/* strip_prefix /api
	uri strip_suffix .php
	respond "{uri}"
}
http://replace.test:PORT {
	uri replace /docs/ /v1/docs/
	uri replace x y 1
	respond "{uri}"
}
http://regexp.test:PORT {
	uri path_regexp /{2,} /
	uri path_regexp ^/user/(\d+) /u/$1
	respond "{uri}"
}
http://query.test:PORT {
	uri query {
		-drop
		+add 1
		set 2
		old>new
		mixed (\d+) n$1
	}
	respond "{query}"
}
http://one.test:PORT {
	uri query a b
	uri query -c
	uri query +d e
	respond "{uri}"
}
"#,
        requests: &[
            "GET strip.test/api/a.php?x=1",
            "GET strip.test/api",
            "GET strip.test/api/",
            "GET strip.test/other",
            "GET replace.test/docs/docs/xx?q=/docs/",
            "GET regexp.test/a//b///c",
            "GET regexp.test/user/42/x",
            "GET query.test/?drop=1&old=2&mixed=5&keep=a",
            "GET query.test/",
            "GET one.test/?a=1&c=2&d=3",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "vars",
        caddyfile: r#"
http://one.test:PORT {
	vars name "value of {path}"
	respond "{vars.name}"
}
http://block.test:PORT {
	vars {
		a 1
		b true
		c "text"
	}
	vars /x a 2
	@is vars a 2
	respond @is "two {vars.b}"
	respond "{vars.a} {vars.b} {vars.c}"
}
"#,
        requests: &["GET one.test/p", "GET block.test/", "GET block.test/x"],
        accepted: &[],
    },
];
