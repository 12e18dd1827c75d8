//! Every placeholder compared with Caddy's: a response with a line for each, to requests of many shapes.

use crate::peer::cases::{Case, Seen, always, sometimes};

const GO_CHUNKS: &str = "Go sends more than 2 KiB in chunks; ours has its length";
const ESCAPES: &str =
    "Go escapes what must not stand in a path; ours passes on the target as it was sent";
const MAP_IS_LAZY: &str =
    "Caddy looks into the table when the placeholder is used, ours where `map` stands";
const RETRIES: &str = "known as soon as there are any; Caddy tells it when the proxy is done";
const NETWORK: &str = "Caddy names the network before the address";

pub const PLACEHOLDERS: Case = Case {
    name: "placeholders",
    caddyfile: FILE,
    requests: &[
        "GET /",
        "GET /a/b.html?q=1&r=x | X-A: one | Cookie: c=1",
        "GET /a//b%2Fc%20d.tar.gz?q=a+b&q=%C3%A4 | Host: www.Example.test:80",
        "GET /a/ | X-A: one | X-A: two",
        "GET /.hidden",
        "GET /a/.. | Cookie: c=\"quoted\"; d=2",
        "GET /%25/x?%25",
        "GET /{env.HOME}?q={env.HOME} | X-A: {env.HOME} | Cookie: c={env.HOME}",
        "POST /form?q=2 | Content-Type: application/x-www-form-urlencoded | body=a=1&b={env.HOME}",
        "PUT /data | body=text of a body",
        "GET http://abs.test/x?q=1",
        "GET / | Host: [::1]:8080",
        "GET /rewritten/deep/path?x=1",
        "GET /error/here?q=1",
        "GET /proxied/here?q=1",
        "GET /u/ada?q={http.regexp.named.1}",
        "GET /note.txt",
    ],
    known: Seen::Sometimes,
    accepted: &[
        sometimes("", "transfer-encoding", GO_CHUNKS),
        always("GET /{env.HOME}", "> http.request.uri", ESCAPES),
        always("GET /{env.HOME}", "> http.request.uri_escaped", ESCAPES),
        always("GET /{env.HOME}", "> short uri", ESCAPES),
        always("GET /{env.HOME}", "> short %uri", ESCAPES),
        always(
            "GET /{env.HOME}",
            "> http.request.orig_uri.path.file_escaped",
            ESCAPES,
        ),
        always("GET /rewritten/", "> mapped", MAP_IS_LAZY),
        always("GET /proxied/", "> http.reverse_proxy.retries", RETRIES),
        always("GET /proxied/", "> short rp.retries", RETRIES),
        sometimes(
            "GET /proxied/",
            "> http.reverse_proxy.upstream.address",
            NETWORK,
        ),
    ],
};

const FILE: &str = r#"
(all) {
	respond <<ALL
		all placeholders
		http.request.method: <{http.request.method}>
		http.request.scheme: <{http.request.scheme}>
		http.request.proto_name: <{http.request.proto_name}>
		http.request.orig_uri.path.file_escaped: <{http.request.orig_uri.path.file_escaped}>
		http.request.proto: <{http.request.proto}>
		http.request.host: <{http.request.host}>
		http.request.port: <{http.request.port}>
		http.request.hostport: <{http.request.hostport}>
		http.request.host.labels.0: <{http.request.host.labels.0}>
		http.request.host.labels.1: <{http.request.host.labels.1}>
		http.request.host.labels.9: <{http.request.host.labels.9}>
		http.request.uri: <{http.request.uri}>
		http.request.uri_escaped: <{http.request.uri_escaped}>
		http.request.uri.path: <{http.request.uri.path}>
		http.request.uri.path_escaped: <{http.request.uri.path_escaped}>
		http.request.uri.path.dir: <{http.request.uri.path.dir}>
		http.request.uri.path.file: <{http.request.uri.path.file}>
		http.request.uri.path.file.base: <{http.request.uri.path.file.base}>
		http.request.uri.path.file.ext: <{http.request.uri.path.file.ext}>
		http.request.uri.path.0: <{http.request.uri.path.0}>
		http.request.uri.path.1: <{http.request.uri.path.1}>
		http.request.uri.path.9: <{http.request.uri.path.9}>
		http.request.uri.query: <{http.request.uri.query}>
		http.request.uri.query_escaped: <{http.request.uri.query_escaped}>
		http.request.uri.prefixed_query: <{http.request.uri.prefixed_query}>
		http.request.uri.query.q: <{http.request.uri.query.q}>
		http.request.uri.query.none: <{http.request.uri.query.none}>
		http.request.header.X-A: <{http.request.header.X-A}>
		http.request.header.none: <{http.request.header.none}>
		http.request.header.Host: <{http.request.header.Host}>
		http.request.cookie.c: <{http.request.cookie.c}>
		http.request.cookie.none: <{http.request.cookie.none}>
		http.request.remote.host: <{http.request.remote.host}>
		http.request.local.host: <{http.request.local.host}>
		http.request.orig_method: <{http.request.orig_method}>
		http.request.orig_uri: <{http.request.orig_uri}>
		http.request.orig_uri.path: <{http.request.orig_uri.path}>
		http.request.orig_uri.path.dir: <{http.request.orig_uri.path.dir}>
		http.request.orig_uri.path.file: <{http.request.orig_uri.path.file}>
		http.request.orig_uri.path.0: <{http.request.orig_uri.path.0}>
		http.request.orig_uri.query: <{http.request.orig_uri.query}>
		http.request.orig_uri.prefixed_query: <{http.request.orig_uri.prefixed_query}>
		http.request.body: <{http.request.body}>
		http.request.body_base64: <{http.request.body_base64}>
		http.vars.v: <{http.vars.v}>
		http.vars.num: <{http.vars.num}>
		http.vars.flag: <{http.vars.flag}>
		http.vars.none: <{http.vars.none}>
		http.vars.client_ip: <{http.vars.client_ip}>
		http.vars.trusted_proxy: <{http.vars.trusted_proxy}>
		http.vars.root: <{http.vars.root}>
		http.regexp.x.0: <{http.regexp.x.0}>
		http.regexp.named.1: <{http.regexp.named.1}>
		http.regexp.1: <{http.regexp.1}>
		http.error.status_code: <{http.error.status_code}>
		http.error.status_text: <{http.error.status_text}>
		http.error.message: <{http.error.message}>
		http.matchers.file.relative: <{http.matchers.file.relative}>
		http.matchers.file.type: <{http.matchers.file.type}>
		http.matchers.file.remainder: <{http.matchers.file.remainder}>
		http.reverse_proxy.retries: <{http.reverse_proxy.retries}>
		http.reverse_proxy.upstream.address: <{http.reverse_proxy.upstream.address}>
		http.reverse_proxy.status_code: <{http.reverse_proxy.status_code}>
		http.response.header.X-Set: <{http.response.header.X-Set}>
		http.response.header.none: <{http.response.header.none}>
		http.intercept.status_code: <{http.intercept.status_code}>
		http.shutting_down: <{http.shutting_down}>
		http.time_until_shutdown: <{http.time_until_shutdown}>
		http.request.tls.version: <{http.request.tls.version}>
		http.request.tls.resumed: <{http.request.tls.resumed}>
		http.request.tls.client.subject: <{http.request.tls.client.subject}>
		http.auth.user.id: <{http.auth.user.id}>
		env.NONE: <{env.NONE}>
		system.slash: <{system.slash}>
		system.os: <{system.os}>
		system.arch: <{system.arch}>
		file./none: <{file./none}>
		mapped: <{mapped}>
		nonsense: <{nonsense}>
		http.nonsense: <{http.nonsense}>
		http.request.nonsense: <{http.request.nonsense}>
		short dir: <{dir}>
		short file: <{file}>
		short host: <{host}>
		short hostport: <{hostport}>
		short method: <{method}>
		short path: <{path}>
		short query: <{query}>
		short scheme: <{scheme}>
		short uri: <{uri}>
		short orig_method: <{orig_method}>
		short orig_uri: <{orig_uri}>
		short orig_path: <{orig_path}>
		short orig_dir: <{orig_dir}>
		short orig_file: <{orig_file}>
		short orig_query: <{orig_query}>
		short orig_?query: <{orig_?query}>
		short %path: <{%path}>
		short %uri: <{%uri}>
		short %query: <{%query}>
		short ?query: <{?query}>
		short port: <{port}>
		short remote_host: <{remote_host}>
		short client_ip: <{client_ip}>
		short tls_version: <{tls_version}>
		short tls_client_subject: <{tls_client_subject}>
		short upstream_hostport: <{upstream_hostport}>
		short labels.0: <{labels.0}>
		short path.0: <{path.0}>
		short path.1: <{path.1}>
		short query.q: <{query.q}>
		short header.X-A: <{header.X-A}>
		short cookie.c: <{cookie.c}>
		short file.base: <{file.base}>
		short file.ext: <{file.ext}>
		short re.x.0: <{re.x.0}>
		short vars.v: <{vars.v}>
		short err.message: <{err.message}>
		short err.status_code: <{err.status_code}>
		short file_match.relative: <{file_match.relative}>
		short rp.retries: <{rp.retries}>
		short resp.status_code: <{resp.status_code}>
		ALL
}
:PORT {
	root ROOT
	vars {
		v "value"
		num 5
		flag true
	}
	map {method} {mapped} {
		GET "a get"
		default "other {query.q}"
	}
	header X-Set "set {query.q}"
	header X-Echo yes
	@user path_regexp named ^/u/([a-z]+)
	handle @user {
		import all
	}
	handle /rewritten/* {
		rewrite * /new{path}?y=2&q=new
		method PATCH
		import all
	}
	handle /note.txt {
		@file file
		handle @file {
			import all
		}
	}
	handle /proxied/* {
		reverse_proxy UPSTREAM {
			@any status 2xx
			handle_response @any {
				import all
			}
		}
	}
	error /error/* "went {query.q} wrong" 418
	import all
	handle_errors {
		import all
	}
}
"#;
