//! Messages with `Incremental` (RFC 10036) compared with Caddy's, with and without buffers in their way.

use crate::peer::cases::{Case, NO_CODING_ADDED, Seen, always};

const OWN_PAGE: &str = "the error is ours, and names us; Caddy has already removed its name for the upstream's response";

pub const INCREMENTAL: Case = Case {
    name: "incremental",
    caddyfile: ":PORT {
	handle_path /buffered/* {
		reverse_proxy UPSTREAM {
			request_buffers 4KiB
			response_buffers 4KiB
			proxy_status_name edge.test
		}
	}
	handle_path /string/* {
		reverse_proxy UPSTREAM {
			request_buffers 4KiB
			response_buffers 4KiB
			proxy_status_name \"the edge\"
		}
	}
	handle_path /unnamed/* {
		reverse_proxy UPSTREAM {
			request_buffers 4KiB
			response_buffers 4KiB
		}
	}
	handle_path /plain/* {
		reverse_proxy UPSTREAM {
			proxy_status_name edge.test
		}
	}
	handle_path /fastcgi/* {
		reverse_proxy FASTCGI {
			transport fastcgi
			proxy_status_name edge.test
		}
	}
	handle_errors {
		respond \"{err.status_code}\"
	}
}
",
    requests: &[
        "POST /buffered/x | Incremental: ?1 | body=hello",
        "POST /buffered/x | Incremental: ?1;a=b;c=\"d\" | body=hello",
        "POST /buffered/x | Incremental: ?0 | body=hello",
        "POST /buffered/x | Incremental: yes | body=hello",
        "POST /buffered/x | Incremental: 1 | body=hello",
        "POST /buffered/x | Incremental: ?1 | Incremental: ?1 | body=hello",
        "POST /buffered/x | Incremental: ?1, ?1 | body=hello",
        "POST /buffered/x | Incremental: ?1;A | body=hello",
        "POST /buffered/x | Incremental: ?1",
        "GET /buffered/x | Incremental: ?1",
        "POST /string/x | Incremental: ?1 | body=hello",
        "POST /unnamed/x | Incremental: ?1 | body=hello",
        "POST /plain/x | Incremental: ?1 | body=hello",
        "POST /fastcgi/x.php | Incremental: ?1 | Content-Type: a/b | body=hello",
        "GET /buffered/incremental",
        "HEAD /buffered/incremental",
        "HEAD /buffered/x",
        "GET /buffered/incremental/empty",
        "GET /string/incremental",
        "GET /unnamed/incremental",
        "GET /plain/incremental",
    ],
    known: Seen::Sometimes,
    accepted: &[
        always("GET /buffered/incremental", "server", OWN_PAGE),
        always("GET /string/incremental", "server", OWN_PAGE),
        always("GET /unnamed/incremental", "server", OWN_PAGE),
        always("POST /buffered", "> accept-encoding", NO_CODING_ADDED),
        always("GET /buffered/x", "> accept-encoding", NO_CODING_ADDED),
        always("POST /plain", "> accept-encoding", NO_CODING_ADDED),
    ],
};
