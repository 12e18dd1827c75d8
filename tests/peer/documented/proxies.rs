//! Directives with an upstream: `reverse_proxy` and those that stand on it.

use super::Sheet;
use crate::peer::cases::{Difference, NO_CODING_ADDED, always, sometimes};

const NO_GUESS: &str =
    "Go guesses a type from the first bytes; what the upstream did not say we do not say";

const WHOLE: &str = "a response that has come whole is sent with its length";
const OLD_LENGTH: &str =
    "Caddy keeps the length of the response that it replaces, and then sends no body";
const NO_VERSION: &str = "FastCGI responses have no version of HTTP; Caddy names 0.0";
const RELATIVE: &str =
    "without the root of a site, Caddy rewrites to a path without a slash at its front";

/// What Go's client adds to requests without a coding.
const fn coding(request: &'static str) -> Difference {
    always(request, "> accept-encoding", NO_CODING_ADDED)
}

pub(super) const SHEETS: &[Sheet] = &[
    Sheet {
        directive: "reverse_proxy",
        caddyfile: r#"
http://all.test:PORT {
	reverse_proxy UPSTREAM
}
http://some.test:PORT {
	reverse_proxy /api/* UPSTREAM
	respond / "page"
}
http://balanced.test:PORT {
	reverse_proxy UPSTREAM UPSTREAM {
		lb_policy round_robin
		health_uri /
		health_interval 1h
		fail_duration 1s
	}
}
http://headers.test:PORT {
	reverse_proxy UPSTREAM {
		header_up Host inner.test
		header_up X-Real-IP {remote_host}
		header_up -X-Gone
		header_up X-Change one two
		header_down X-Down "{http.reverse_proxy.status_code}"
		header_down -X-Gone
	}
}
http://rewritten.test:PORT {
	reverse_proxy UPSTREAM {
		method GET
		rewrite /inner{path}?from={query}
	}
}
http://caught.test:PORT {
	reverse_proxy UPSTREAM {
		@error status 500 503
		handle_response @error {
			respond "caught {rp.status_code} of {path}" 502
		}
		@moved status 3xx
		replace_status @moved 200
	}
}
http://dead.test:PORT {
	reverse_proxy DEAD
	handle_errors {
		respond "{err.status_code} {err.status_text}"
	}
}
http://prefix.test:PORT {
	handle_path /prefix/* {
		reverse_proxy UPSTREAM
	}
	respond "none" 404
}
http://to.test:PORT {
	reverse_proxy {
		to UPSTREAM
		transport http {
			dial_timeout 2s
			response_header_timeout 5s
			compression off
		}
		flush_interval -1
	}
}
"#,
        requests: &[
            "GET all.test/a/b?c=d",
            "POST all.test/form | Content-Type: a/b | body=hello",
            "GET all.test/chunked",
            "GET all.test/moved",
            "GET all.test/broken",
            "HEAD all.test/x",
            "GET some.test/api/x",
            "GET some.test/x",
            "GET balanced.test/x",
            "GET headers.test/x | X-Gone: 1 | X-Change: one",
            "GET rewritten.test/x?y=z",
            "GET caught.test/broken",
            "GET caught.test/moved",
            "GET dead.test/",
            "GET prefix.test/prefix/x?y",
            "GET prefix.test/prefix",
            "GET to.test/x",
        ],
        accepted: &[
            coding("GET all.test/a"),
            coding("POST all.test/"),
            always("GET all.test/broken", "content-type", NO_GUESS),
            coding("GET some.test/api"),
            coding("GET balanced.test/"),
            coding("GET headers.test/"),
            sometimes("GET all.test/chunked", "content-length", WHOLE),
            sometimes("GET all.test/chunked", "transfer-encoding", WHOLE),
            coding("GET rewritten.test/"),
            coding("GET prefix.test/prefix/"),
        ],
    },
    Sheet {
        directive: "forward_auth",
        caddyfile: r#"
http://passed.test:PORT {
	forward_auth UPSTREAM {
		uri /auth
		copy_headers X-Echo X-None Content-Type>X-Type
	}
	respond "in as {header.X-Echo} {header.X-Type} {header.X-None}"
}
http://denied.test:PORT {
	forward_auth UPSTREAM {
		uri /moved
		copy_headers X-Echo
	}
	respond "in"
}
http://some.test:PORT {
	forward_auth /admin/* UPSTREAM {
		uri /broken
	}
	respond "page"
}
"#,
        requests: &[
            "GET passed.test/x",
            "GET passed.test/x | X-Echo: forged | X-None: forged",
            "POST passed.test/x | body=hello",
            "GET denied.test/x",
            "GET some.test/",
            "GET some.test/admin/x",
        ],
        accepted: &[always("GET some.test/admin/", "content-type", NO_GUESS)],
    },
    Sheet {
        directive: "intercept",
        caddyfile: r#"
http://caught.test:PORT {
	intercept {
		@error status 4xx 5xx
		handle_response @error {
			respond "{resp.status_code} at {path}" 418
		}
		@old header X-Old *
		replace_status @old 203
	}
	respond /gone "gone" 410
	header /old X-Old yes
	respond "page"
}
http://proxied.test:PORT {
	intercept {
		@error status 500
		handle_response @error {
			respond "was {resp.status_code}"
		}
	}
	reverse_proxy UPSTREAM
}
"#,
        requests: &[
            "GET caught.test/",
            "GET caught.test/gone",
            "GET caught.test/old",
            "GET proxied.test/broken",
            "GET proxied.test/nothing",
        ],
        accepted: &[
            always("GET proxied.test/broken", "content-length", OLD_LENGTH),
            always("GET proxied.test/broken", "body", OLD_LENGTH),
        ],
    },
    Sheet {
        directive: "copy_response",
        caddyfile: r#"
http://copy.test:PORT {
	reverse_proxy UPSTREAM {
		@error status 5xx
		handle_response @error {
			header X-Handled yes
			copy_response 299
		}
		@moved status 302
		handle_response @moved {
			copy_response
		}
	}
}
"#,
        requests: &[
            "GET copy.test/broken",
            "GET copy.test/moved",
            "GET copy.test/hop",
        ],
        accepted: &[
            always("GET copy.test/broken", "content-type", NO_GUESS),
            always("GET copy.test/hop", "content-type", NO_GUESS),
        ],
    },
    Sheet {
        directive: "copy_response_headers",
        caddyfile: r#"
http://include.test:PORT {
	reverse_proxy UPSTREAM {
		@error status 5xx
		handle_response @error {
			copy_response_headers {
				include X-Up
			}
			respond "own"
		}
	}
}
http://exclude.test:PORT {
	reverse_proxy UPSTREAM {
		@error status 5xx
		handle_response @error {
			copy_response_headers {
				exclude X-Up Content-Length
			}
			respond "own"
		}
	}
}
"#,
        requests: &["GET include.test/broken", "GET exclude.test/broken"],
        accepted: &[],
    },
    Sheet {
        directive: "php_fastcgi",
        caddyfile: r#"
http://php.test:PORT {
	root * ROOT/php
	php_fastcgi FASTCGI
	file_server
}
http://options.test:PORT {
	root * ROOT/php
	php_fastcgi FASTCGI {
		env APP_ENV production
		split .php
		index index.php
	}
}
http://some.test:PORT {
	root * ROOT/php
	php_fastcgi /sub/* FASTCGI
	respond "static {path}"
}
http://files.test:PORT {
	root * ROOT/php
	php_fastcgi FASTCGI {
		try_files {path} {path}/index.php =404
	}
	file_server
	handle_errors {
		respond "{err.status_code}"
	}
}
http://remote.test:PORT {
	php_fastcgi FASTCGI {
		root /srv/app
	}
}
"#,
        requests: &[
            "GET php.test/",
            "GET php.test/index.php?x=1",
            "GET php.test/pretty/url",
            "GET php.test/style.css",
            "GET php.test/sub",
            "GET php.test/index.php/info",
            "POST php.test/form | Content-Type: a/b | body=hello",
            "GET options.test/x",
            "GET some.test/sub/",
            "GET some.test/x",
            "GET files.test/sub/",
            "GET files.test/none",
            "GET remote.test/x/y",
            "GET remote.test/a.php",
        ],
        accepted: &[
            always("", "via", NO_VERSION),
            always("GET remote.test/", "> DOCUMENT_URI", RELATIVE),
        ],
    },
];
