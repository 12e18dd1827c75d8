//! Directives that respond: `abort`, `error`, `file_server`, `redir`, `respond`, `templates`, and what surrounds them.

use super::Sheet;
use crate::peer::cases::always;

const OWN_PAGE: &str = "the page is ours, and needs no script";

const NOT_RENDERED: &str = "a page is not rendered for HEAD, so its length is not known";

pub(super) const SHEETS: &[Sheet] = &[
    Sheet {
        directive: "abort",
        caddyfile: r#"
http://all.test:PORT {
	abort
}
http://some.test:PORT {
	abort /private/*
	@bot header User-Agent *bot*
	handle @bot {
		abort
	}
	respond "page"
}
"#,
        requests: &[
            "GET all.test/",
            "POST all.test/x | body=hello",
            "GET some.test/",
            "GET some.test/private/x",
            "GET some.test/private",
            "GET some.test/ | User-Agent: some-bot/1.0",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "error",
        caddyfile: r#"
http://plain.test:PORT {
	error /private* "Unauthorized" 403
	error /gone 410
	error /words "only words"
	error /hidden* 404
	respond "page"
	handle_errors {
		respond "{err.status_code} {err.status_text}: {err.message}"
	}
}
http://bare.test:PORT {
	error /x "not shown" 402
	error /y {http.request.uri.query.code}
	respond "page"
}
http://message.test:PORT {
	error * 500 {
		message "in a block"
	}
	handle_errors 4xx 500 {
		respond "{err.status_code} {err.message}" 418
	}
}
"#,
        requests: &[
            "GET plain.test/",
            "GET plain.test/private/a",
            "POST plain.test/private | body=x",
            "GET plain.test/gone",
            "GET plain.test/words",
            "GET plain.test/hidden.txt",
            "HEAD plain.test/gone",
            "GET bare.test/x",
            "GET bare.test/y?code=409",
            "GET bare.test/z",
            "GET message.test/",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "file_server",
        caddyfile: r#"
http://plain.test:PORT {
	root * ROOT
	file_server
}
http://browse.test:PORT {
	root * ROOT
	file_server browse
}
http://static.test:PORT {
	file_server /sub/* {
		root ROOT
		index a.html index.html
	}
	respond "elsewhere" 404
}
http://hidden.test:PORT {
	root * ROOT
	file_server {
		hide hidden *.bin style.*
	}
}
http://none.test:PORT {
	root * ROOT
	file_server {
		index off.html
		disable_canonical_uris
	}
}
http://through.test:PORT {
	root * ROOT
	file_server {
		pass_thru
		status 203
		etag_file_extensions .etag
	}
	respond "passed" 299
}
http://ready.test:PORT {
	root * ROOT
	file_server {
		precompressed gzip br zstd
	}
}
"#,
        requests: &[
            "GET plain.test/",
            "GET plain.test/note.txt",
            "GET plain.test/none",
            "GET plain.test/sub",
            "GET plain.test/sub/",
            "GET plain.test/sub/index.html",
            "GET plain.test/note.txt | Range: bytes=5-9",
            "GET plain.test/note.txt | If-None-Match: *",
            "GET browse.test/noindex/ | Accept: application/json",
            "GET browse.test/noindex/ | Accept: text/plain",
            "GET browse.test/noindex/?sort=size&order=desc | Accept: application/json",
            "GET browse.test/noindex/?limit=1 | Accept: application/json",
            "GET browse.test/noindex",
            "GET static.test/sub/",
            "GET static.test/note.txt",
            "GET hidden.test/hidden/secret.txt",
            "GET hidden.test/blob.bin",
            "GET hidden.test/style.css",
            "GET hidden.test/note.txt",
            "GET none.test/",
            "GET none.test/sub",
            "GET none.test/note.txt/",
            "GET through.test/none",
            "GET through.test/note.txt",
            "GET ready.test/page.html | Accept-Encoding: gzip",
            "PUT plain.test/note.txt | body=x",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "redir",
        caddyfile: r#"
http://all.test:PORT {
	redir https://example.com{uri}
}
http://www.test:PORT {
	redir https://{labels.1}.example{uri} permanent
}
http://codes.test:PORT {
	redir /a /b
	redir /c /d temporary
	redir /e /f permanent
	redir /g /h 307
	redir /i /j 308
	redir /k /l {query.code}
	redir /login /sign-in 401
	@old path /old/*
	redir @old /new{path} 302
	redir /html /there html
	respond "page"
}
"#,
        requests: &[
            "GET all.test/",
            "GET all.test/a/b?c=d&e",
            "HEAD all.test/a",
            "POST all.test/form | body=x",
            "GET www.test/x",
            "GET codes.test/a",
            "GET codes.test/c",
            "GET codes.test/e",
            "GET codes.test/g",
            "GET codes.test/i",
            "GET codes.test/k?code=301",
            "GET codes.test/login",
            "GET codes.test/old/page?x=1",
            "GET codes.test/html",
            "GET codes.test/",
        ],
        accepted: &[
            always("GET codes.test/html", "content-length", OWN_PAGE),
            always("GET codes.test/html", "body", OWN_PAGE),
        ],
    },
    Sheet {
        directive: "respond",
        caddyfile: r#"
http://plain.test:PORT {
	respond /health-check 200
	respond /hello "Hello, {query.name}!"
	respond /gone "gone" 410
	respond /json `{"a": "{path}"}`
	respond /made 201 {
		body "made"
	}
	respond /code "coded" 202 {
		close
	}
	respond /lines <<TEXT
		first
		second
		TEXT 200
	header /html Content-Type text/html
	respond /html <<HTML
		<h1>{host}</h1>
		HTML 200
	respond 204
}
http://close.test:PORT {
	respond "secret" 403 {
		close
	}
}
"#,
        requests: &[
            "GET plain.test/health-check",
            "HEAD plain.test/health-check",
            "GET plain.test/hello?name=Ada",
            "GET plain.test/hello",
            "GET plain.test/gone",
            "GET plain.test/json",
            "GET plain.test/made",
            "GET plain.test/code",
            "GET plain.test/lines",
            "GET plain.test/html",
            "GET plain.test/",
            "POST plain.test/hello | body=x",
            "GET close.test/",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "templates",
        caddyfile: r#"
http://file.test:PORT {
	root * ROOT
	templates
	file_server
}
http://text.test:PORT {
	templates {
		mime text/plain
	}
	respond "{{`{{.Req.Method}} {{.Host}} {{.Req.URL.Query.Get \"q\"}}`}}"
}
http://between.test:PORT {
	templates {
		between [[ ]]
		mime text/plain
	}
	respond "[[ .Req.URL.Path | upper ]] {{ .Host }}"
}
http://proxied.test:PORT {
	templates {
		mime text/plain
	}
	respond /a "plain {{placeholder `http.request.uri.path`}}"
	respond "other" 404
}
"#,
        requests: &[
            "GET file.test/page.html",
            "GET file.test/note.txt",
            "GET file.test/index.html",
            "GET text.test/?q=1",
            "GET between.test/abc",
            "GET proxied.test/a",
            "GET proxied.test/b",
            "HEAD between.test/abc",
        ],
        accepted: &[
            always("HEAD between.test/", "content-length", NOT_RENDERED),
            always("HEAD between.test/", "transfer-encoding", NOT_RENDERED),
        ],
    },
    Sheet {
        directive: "handle_errors",
        caddyfile: r#"
http://all.test:PORT {
	root * ROOT
	error /x "teapot" 418
	file_server
	handle_errors {
		respond "{err.status_code} {err.status_text}"
	}
}
http://codes.test:PORT {
	root * ROOT
	error /forbidden 403
	error /broken 500
	error /teapot 418
	file_server
	handle_errors 404 410 {
		respond "not here: {path}"
	}
	handle_errors 5xx {
		respond "ours"
	}
	handle_errors {
		respond "any {err.status_code}"
	}
}
http://page.test:PORT {
	root * ROOT
	file_server
	handle_errors 404 {
		rewrite * /note.txt
		file_server
	}
}
http://matcher.test:PORT {
	root * ROOT
	error /a 402
	error /b 502
	file_server
	handle_errors {
		@pay expression `{err.status_code} == 402`
		handle @pay {
			respond "pay"
		}
		handle {
			header X-Failed yes
			respond "failed" 200
		}
	}
}
"#,
        requests: &[
            "GET all.test/none",
            "GET all.test/x",
            "GET all.test/note.txt",
            "GET codes.test/none",
            "GET codes.test/forbidden",
            "GET codes.test/broken",
            "GET codes.test/teapot",
            "GET page.test/none",
            "HEAD page.test/none",
            "GET matcher.test/a",
            "GET matcher.test/b",
            "GET matcher.test/none",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "try_files",
        caddyfile: r#"
http://spa.test:PORT {
	root * ROOT
	try_files {path} /index.html
	file_server
}
http://folder.test:PORT {
	root * ROOT
	try_files {path} {path}/ /note.txt
	file_server
}
http://extension.test:PORT {
	root * ROOT
	try_files {path}.html {path}
	file_server
}
http://query.test:PORT {
	root * ROOT/php
	try_files {path} /index.php?{query}&p={path}
	respond "{uri}"
}
http://code.test:PORT {
	root * ROOT
	try_files {path} =404
	file_server
	handle_errors {
		respond "{err.status_code}"
	}
}
http://policy.test:PORT {
	root * ROOT
	try_files /page.html /note.txt /empty.txt {
		policy smallest_size
	}
	respond "{uri}"
}
"#,
        requests: &[
            "GET spa.test/",
            "GET spa.test/note.txt",
            "GET spa.test/app/route?x=1",
            "GET spa.test/sub/",
            "GET folder.test/sub/",
            "GET folder.test/sub",
            "GET folder.test/none",
            "GET folder.test/note.txt/",
            "GET extension.test/page",
            "GET extension.test/note.txt",
            "GET extension.test/none",
            "GET query.test/none?a=b",
            "GET query.test/style.css?a=b",
            "GET code.test/note.txt",
            "GET code.test/none",
            "GET policy.test/x?y=1",
        ],
        accepted: &[],
    },
];
