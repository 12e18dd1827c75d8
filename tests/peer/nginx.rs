//! Compares sluice with an installed nginx: the same nginx.conf, the same requests, header by header.

use std::path::Path;
use std::process::Command;

use crate::peer::http::{Differs, Response, ask, differences};
use crate::peer::peers::{Site, free_port, sluice};
use crate::support::abilities::skipped;
use crate::support::program::Program;
use crate::support::servers;

/// Lines of a `server` block, and the requests to it.
struct Case {
    name: &'static str,
    lines: &'static str,
    requests: &'static [&'static str],
}

/// Intentional differences: the request, what differs, and why.
const ACCEPTED: &[(&str, &str, &str)] = &[
    (
        "GET /chunked",
        "content-length",
        "what is here as a whole is sent with its length",
    ),
    ("GET /chunked", "transfer-encoding", "see above"),
    (
        "GET /noindex/",
        "content-length",
        "a list is here as a whole, too",
    ),
    ("GET /noindex/", "transfer-encoding", "see above"),
    ("HEAD /noindex/", "content-length", "see above"),
    ("GET /rounded/", "content-length", "see above"),
    ("GET /rounded/", "transfer-encoding", "see above"),
    (
        "GET /hop",
        "x-secret",
        "a field that Connection names is for us only (RFC 9110, section 7.6.1)",
    ),
    (
        "GET /method",
        "> content-length",
        "a PUT without content says so (RFC 9110, section 8.6)",
    ),
    (
        "POST /none | body=x",
        "> connection",
        "content that is not passed on is read, and the connection stays",
    ),
    (
        "GET /?sub",
        "content-length",
        "what is at hand is replaced as a whole",
    ),
    ("GET /?sub", "transfer-encoding", "see above"),
    (
        "GET /page.html?sub",
        "content-length",
        "what is at hand is replaced as a whole",
    ),
    ("GET /page.html?sub", "transfer-encoding", "see above"),
    (
        "GET /style.css?sub",
        "content-length",
        "what is at hand is replaced as a whole",
    ),
    ("GET /style.css?sub", "transfer-encoding", "see above"),
    (
        "GET /note.txt?sub",
        "content-length",
        "what is at hand is replaced as a whole",
    ),
    ("GET /note.txt?sub", "transfer-encoding", "see above"),
    (
        "GET /none?sub",
        "content-length",
        "what is at hand is replaced as a whole",
    ),
    ("GET /none?sub", "transfer-encoding", "see above"),
    (
        "GET /note.txt?key=a",
        "retry-after",
        "refusals tell when to come back (RFC 6585, section 4)",
    ),
    ("GET /status?key=b", "retry-after", "see above"),
    ("GET /burst?key=c", "retry-after", "see above"),
    (
        "GET /garbage",
        "",
        "an response without a head is not HTTP/0.9 but broken, so 502",
    ),
    (
        "GET /x | Range: bytes=9999-",
        "",
        "a refusal of a range has no fields of the answer that it refuses",
    ),
    (
        "GET /chunked | Range: bytes=0-1",
        "",
        "what is here as a whole has a length, and so parts",
    ),
];

/// Differences in every response, with their reasons.
pub const EVERYWHERE: &[(&str, &str)] = &[
    // nginx sends this in each HTTP/1.1 response; RFC 9112, section 9.3 makes it the default.
    ("connection", "keep-alive"),
];

const CASES: &[Case] = &[
    Case {
        name: "files",
        lines: "index index.html; types { text/html html; text/css css; image/svg+xml svg; }",
        requests: &[
            "GET /",
            "HEAD /",
            "GET /page.html",
            "GET /style.css?x=y",
            "GET /pic.svg",
            "GET /unknown.qqq",
            "GET /note.txt",
            "GET /empty.txt",
            "GET /none",
            "GET /none/",
            "GET /sub",
            "GET /sub?a=b",
            "GET /sub/",
            "GET /noindex/",
            "GET /noindex",
            "GET /sp%20ace/f.txt",
            "GET /sp%20ace",
            "GET //sub///index.html",
            "GET /sub/../note.txt",
            "GET /../note.txt",
            "GET /sub/%2e%2e/%2e%2e/x",
            "POST /note.txt | body=x",
            "PUT /note.txt | body=x",
            "DELETE /note.txt",
            "OPTIONS /note.txt",
            "GET /note.txt | Range: bytes=2-5",
            "GET /note.txt | Range: bytes=-3",
            "GET /note.txt | Range: bytes=100-",
            "GET /note.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT",
            "GET /note.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:21 GMT",
            "GET /note.txt | If-None-Match: \"6553f100-24\"",
            "GET /note.txt | If-None-Match: W/\"6553f100-24\", \"x\"",
            "GET /note.txt | If-None-Match: \"x\"",
            "GET /note.txt | If-Match: \"x\"",
            "GET /note.txt | If-Match: \"6553f100-24\"",
            "GET /note.txt | If-Unmodified-Since: Tue, 14 Nov 2023 22:13:19 GMT",
            "GET /note.txt | Range: bytes=0-1 | If-Range: \"6553f100-24\"",
            "GET /note.txt | Range: bytes=0-1 | If-Range: \"x\"",
        ],
    },
    Case {
        name: "alias",
        lines: "location /files/ { alias ROOT/; } location /one { alias ROOT/note.txt; } \
                location ~ ^/re/(.+)$ { alias ROOT/$1; } location /f { root ROOT; try_files $uri =404; }",
        requests: &[
            "GET /files/note.txt",
            "GET /files/",
            "GET /files/sub",
            "GET /files",
            "GET /one",
            "GET /re/style.css",
            "GET /re/none",
            "GET /f",
        ],
    },
    Case {
        name: "locations",
        lines: "location = / { return 200 exact; } location / { return 200 root; } \
                location /documents/ { return 200 documents; } location ^~ /images/ { return 200 images; } \
                location ~* \\.(gif|jpg)$ { return 200 \"re $1\"; } location ~ ^/w(?<rest>.*)$ { return 200 \"w $rest\"; } \
                location /a/ { location /a/b/ { return 200 ab; } location ~ z$ { return 200 az; } return 200 a; }",
        requests: &[
            "GET /",
            "GET /index",
            "GET /documents/x",
            "GET /documents",
            "GET /images/x.gif",
            "GET /documents/x.GIF",
            "GET /word",
            "GET /a/x",
            "GET /a/b/x",
            "GET /a/xz",
            "GET /a/b/z",
            "GET /a/b/z.jpg",
            "GET /%77ord",
            "GET /documents/./../images/x.gif",
            "POST / | body=x",
        ],
    },
    Case {
        name: "returns",
        lines: "location /ok { return 200 \"$request_method $uri $args\\n\"; } location /r { return 301 /else$is_args$args; } \
                location /abs { return 302 http://a.example/; } location /see { return 303 /x; } \
                location /url { return http://b.example/$uri; } location /c404 { return 404; } \
                location /c204 { return 204; } location /c403 { return 403 \"no\"; } location /c500 { return 500; } \
                location /c307 { return 307 /y; } location /c308 { return 308 /z; } location /c410 { return 410; } \
                location /t.html { return 200 \"<p>\"; } location /rel { absolute_redirect off; return 301 /rel2; } \
                location /port { port_in_redirect off; return 301 /p; } location /c503 { return 503; }",
        requests: &[
            "GET /ok?a=b",
            "HEAD /ok",
            "POST /ok | body=x",
            "GET /r?x=y",
            "HEAD /r",
            "GET /abs",
            "GET /see",
            "GET /url",
            "GET /c404",
            "GET /c204",
            "GET /c403",
            "GET /c500",
            "GET /c307",
            "GET /c308",
            "GET /c410",
            "GET /c503",
            "GET /t.html",
            "GET /rel",
            "GET /port",
        ],
    },
    Case {
        name: "rewrites",
        lines: "rewrite ^/server/(.*)$ /loc/$1; rewrite ^/old/(.*)$ /new/$1 permanent; rewrite ^/tmp$ http://c.example/? redirect; \
                location /loc/ { rewrite ^/loc/last/(.*)$ /last/$1?added=1 last; rewrite ^/loc/q/(.*)$ /last/$1? last; return 200 \"loc $uri $args\"; } \
                location /last/ { return 200 \"last $uri $args\"; } location /brk/ { rewrite ^/brk/(.*)$ /$1 break; root ROOT; } \
                location /circle { rewrite ^ /circle last; } location /in { internal; return 200 in; } \
                location /toin { rewrite ^ /in last; } location /set { set $a x$arg_b; set $a \"$a-$a\"; return 200 $a; } \
                location /if { if ($arg_a = 1) { return 200 one; } if ($arg_a ~ ^(2+)$) { return 200 \"two $1\"; } \
                if ($arg_a) { return 200 some; } if ($request_method != GET) { return 405; } return 200 none; } \
                location /ifname { if ($http_host ~* (?<first>[a-z]+)\\.test) { return 200 $first; } return 404; } \
                location /break { if ($arg_x) { break; } return 200 \"not broken\"; } \
                location /file { if (-f ROOT/note.txt) { return 200 file; } } location /nofile { if (!-e ROOT/nothing) { return 200 missing; } }",
        requests: &[
            "GET /server/a?q=1",
            "GET /old/a?q=1",
            "GET /tmp?q",
            "GET /loc/last/z?q=1",
            "GET /loc/q/z?q=1",
            "GET /brk/note.txt",
            "GET /brk/none",
            "GET /circle",
            "GET /in",
            "GET /toin",
            "GET /set?b=7",
            "GET /if?a=1",
            "GET /if?a=222",
            "GET /if?a=x",
            "GET /if?a=0",
            "GET /if",
            "POST /if | body=x",
            "GET /ifname",
            "GET /ifname | Host: OTHER.test:80",
            "GET /break?x=1",
            "GET /break",
            "GET /file",
            "GET /nofile",
        ],
    },
    Case {
        name: "try_files",
        lines: "location / { try_files $uri $uri/ /fall.html; } location /named/ { try_files $uri @n; } \
                location @n { return 200 \"named $uri $args\"; } location /code/ { try_files $uri =410; } \
                location /q/ { try_files /none /target?x=$uri; } location /target { return 200 \"target $args\"; } \
                location /al/ { alias ROOT/sub/; try_files $uri /fall.html; }",
        requests: &[
            "GET /note.txt",
            "GET /sub/",
            "GET /sub",
            "GET /nothing",
            "GET /named/x?y",
            "GET /code/x",
            "GET /q/r",
            "GET /al/index.html",
            "GET /al/none",
            "POST /note.txt | body=x",
        ],
    },
    Case {
        name: "error_pages",
        lines: "error_page 404 /style.css; error_page 403 =200 /note.txt; error_page 410 = @gone; error_page 402 http://pay.example/; \
                error_page 500 /nowhere; error_page 405 =418 /note.txt; location /deny { deny all; } location /gone { return 410; } location /pay { return 402; } \
                location /broken { return 500; } location @gone { return 202 \"gone $uri\"; } location /404text { return 404 text; } \
                location /lower { error_page 404 =301 /elsewhere; return 404; } location /up { error_page 502 /note.txt; proxy_pass http://DEAD; }",
        requests: &[
            "GET /none",
            "HEAD /none",
            "GET /none?x",
            "GET /deny",
            "GET /gone",
            "GET /pay",
            "GET /broken",
            "POST /note.txt | body=x",
            "GET /404text",
            "GET /lower",
            "GET /up",
            "POST /up | body=x",
        ],
    },
    Case {
        name: "fields",
        lines: "add_header X-All \"$uri\" always; add_header X-Good $request_method; location /inner { add_header X-Inner 1; return 200 x; } \
                location /bad { return 404; } location /moved { return 301 /x; } location /same { return 200 \"$sent_http_content_type|$http_x_a|$cookie_c|$arg_d\"; } \
                location /vars { return 200 \"$scheme $host $http_host $request_uri $server_protocol $server_name $remote_addr $is_args $https|$content_length|$remote_user\"; }",
        requests: &[
            "GET /note.txt",
            "GET /inner",
            "GET /bad",
            "GET /moved",
            "GET /same?d=4 | X-A: one | Cookie: b=1; c=2",
            "GET /same?D=4&d=5 | X_A: hidden | Cookie: C=3",
            "GET /vars?x=%20y | Host: Some.Where:81",
            "GET /vars | Authorization: Basic dXNlcjpwYXNz",
            "POST /vars | body=abc",
        ],
    },
    Case {
        name: "access",
        lines: "location /a { allow 127.0.0.1; deny all; return 200 x; } location /files { allow 127.0.0.0/8; deny all; alias ROOT; } \
                location /no/ { deny 127.0.0.1; allow all; alias ROOT/; } location /other/ { allow 10.0.0.0/8; alias ROOT/; } \
                location /big { client_max_body_size 5; alias ROOT/note.txt; }",
        requests: &[
            "GET /a",
            "GET /files/note.txt",
            "GET /no/note.txt",
            "GET /other/note.txt",
            "POST /big | body=123456",
            "POST /big | body=123",
        ],
    },
    Case {
        name: "proxy",
        lines: "proxy_http_version 1.1; location / { proxy_pass http://UPSTREAM; } location /cut/ { proxy_pass http://UPSTREAM/; } \
                location /to { proxy_pass http://UPSTREAM/new; } location /set { proxy_pass http://UPSTREAM; proxy_set_header Host $host; \
                proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header Accept \"\"; proxy_set_header Connection \"\"; } \
                location /hide/ { proxy_pass http://UPSTREAM/; proxy_hide_header X-Echo; } \
                location /re { rewrite ^/re/(.*)$ \"/got $1\" break; proxy_pass http://UPSTREAM; }",
        requests: &[
            "GET /x",
            "GET /x?y=z",
            "GET /a%20b//c/../d?e",
            "POST /x | body=hello | Content-Type: text/x",
            "HEAD /x",
            "GET /cut/a%20b?c",
            "GET /cut/a/../b",
            "GET /to/x",
            "GET /to",
            "GET /set/x | Accept: a/b | X-Forwarded-For: 1.2.3.4",
            "GET /set | X-Custom: 1 | User-Agent: me",
            "GET /hide/x",
            "GET /re/x%3Fy?z",
            "GET /chunked",
            "GET /nothing",
            "GET /notmodified",
            "GET /moved",
            "GET /broken",
            "GET /hop",
            "GET /garbage",
            "PATCH /x | body=p",
            "GET /x | Via: 1.1 other | X-Forwarded-Proto: https",
            "GET /x | TE: trailers | Keep-Alive: 5",
        ],
    },
    Case {
        name: "lists",
        lines: "location /noindex/ { autoindex on; } location /rounded/ { alias ROOT/; index none; autoindex on; autoindex_exact_size off; } \
                location /sp%20ace/ { autoindex on; charset utf-8; } location /charset { charset koi8-r; return 200 x; } \
                location /charset.css { charset utf-8; return 200 x; } location /fresh { expires 1h; return 200 x; } \
                location /stale { expires -1; return 200 x; } location /max { expires max; return 404; } \
                location /epoch { expires epoch; return 301 /x; } location = /note.txt { expires modified +10d; }",
        requests: &[
            "GET /noindex/",
            "HEAD /noindex/",
            "POST /noindex/ | body=x",
            "GET /rounded/",
            "GET /sp%20ace/",
            "GET /charset",
            "GET /charset.css",
            "GET /fresh",
            "GET /stale",
            "GET /max",
            "GET /epoch",
            "GET /note.txt",
        ],
    },
    Case {
        name: "intercepted",
        lines: "proxy_http_version 1.1; location / { proxy_pass http://UPSTREAM; proxy_intercept_errors on; error_page 500 =502 /page; } location /page { return 200 page; } \
                location /kept/ { proxy_pass http://UPSTREAM/; error_page 500 /page; }",
        requests: &["GET /broken", "GET /kept/broken", "GET /x"],
    },
    Case {
        name: "proxy_changes",
        lines: "proxy_http_version 1.1; location /method { proxy_pass http://UPSTREAM; proxy_method PUT; } \
                location /body { proxy_pass http://UPSTREAM; proxy_set_body \"x$request_method\"; } \
                location /bare { proxy_pass http://UPSTREAM; proxy_pass_request_headers off; } \
                location /none { proxy_pass http://UPSTREAM; proxy_pass_request_body off; proxy_method GET; proxy_set_header Content-Length \"\"; } \
                location /old { proxy_pass http://UPSTREAM; proxy_http_version 1.0; } \
                location /moved { proxy_pass http://UPSTREAM; proxy_redirect ~^(.*)$ /to$1; proxy_cookie_path / /p/; proxy_cookie_domain ~. b; } \
                location / { proxy_pass http://UPSTREAM; proxy_cookie_path / /p/; proxy_redirect ~*^http://[^/]+/(.*)$ /all/$1; }",
        requests: &[
            "GET /method",
            "POST /method | body=x",
            "GET /body",
            "POST /body | body=long",
            "GET /bare | X-One: 1",
            "POST /none | body=x",
            "GET /old",
            "POST /old | body=x",
            "GET /moved",
            "GET /redirect",
            "GET /cookies",
        ],
    },
    Case {
        name: "replaced",
        lines: "types { text/html html; text/css css; } sub_filter e <E>; \
                location /note.txt { sub_filter_types *; sub_filter_once off; sub_filter a '$request_method '; sub_filter t ''; } \
                location /none { sub_filter not 'perhaps not'; } location /style.css { sub_filter_types text/css; sub_filter_last_modified on; }",
        requests: &[
            "GET /?sub",
            "GET /page.html?sub",
            "GET /style.css?sub",
            "GET /note.txt?sub",
            "GET /none?sub",
        ],
    },
    Case {
        name: "tries",
        lines: "proxy_http_version 1.1; location / { proxy_pass http://pair; add_header X-Status \"$upstream_status\" always; } \
                location /next/ { proxy_pass http://pair/; proxy_next_upstream error http_500; add_header X-Status \"$upstream_status\" always; }",
        requests: &["GET /none", "GET /next/broken", "GET /next/x"],
    },
    Case {
        name: "groups",
        lines: "proxy_http_version 1.1; location / { proxy_pass http://pair; } location /none { proxy_pass http://none; } \
                location /next/ { proxy_pass http://pair/; proxy_next_upstream error http_500; } \
                location /once { proxy_pass http://pair; proxy_next_upstream off; } \
                location /keyed { proxy_pass http://keyed; } location /near { proxy_pass http://near; }",
        requests: &[
            "GET /",
            "GET /x?y",
            "POST / | body=x",
            "GET /broken",
            "GET /none",
            "POST /none | body=x",
            "GET /next/broken",
            "GET /next/x",
            "GET /keyed?k=1",
            "GET /keyed?k=2",
            "GET /keyed",
            "GET /near",
        ],
    },
    Case {
        name: "tables",
        lines: "location / { return 200 \"$mapped|$named|$near|$variant\"; }",
        requests: &[
            "GET /?x=one",
            "GET /?x=TWO",
            "GET /?x=333",
            "GET /?x=",
            "GET / | Host: a.wild.test",
            "GET / | Host: wild.test",
            "GET / | Host: www.any",
            "GET /?key=a",
            "GET /?key=bb",
            "GET /?key=ccc",
            "GET /?key=dddd",
            "GET /?key=eeeee",
            "GET /?key=ffffff",
            "GET /?key=ggggggg",
            "GET /?key=hhhhhhhh",
        ],
    },
    Case {
        name: "passwords",
        lines: "location / { auth_basic \"the $arg_x\"; auth_basic_user_file ROOT/users; } \
                location /sub/ { auth_basic x; auth_basic_user_file ROOT/users; satisfy any; allow 10.0.0.0/8; deny all; } \
                location /hidden/ { auth_basic x; auth_basic_user_file ROOT/users; satisfy any; allow 127.0.0.0/8; deny all; } \
                location /php/ { auth_basic x; auth_basic_user_file ROOT/users; allow 10.0.0.0/8; deny all; } \
                location /nofile { auth_basic x; auth_basic_user_file ROOT/none; } \
                location /methods { limit_except GET { deny all; } return 200 got; } \
                location /login { limit_except GET { auth_basic x; auth_basic_user_file ROOT/users; } }",
        requests: &[
            "GET /note.txt?x=y",
            "GET /note.txt | Authorization: Basic YTpzZWNyZXQ=",
            "HEAD /note.txt | Authorization: Basic YTpzZWNyZXQ=",
            "GET /note.txt | Authorization: basic YjpzZWNyZXQ=",
            "GET /note.txt | Authorization: Basic YzpzZWNyZXQ=",
            "GET /note.txt | Authorization: Basic YTp3cm9uZw==",
            "GET /note.txt | Authorization: Basic bjpzZWNyZXQ=",
            "GET /note.txt | Authorization: Bearer x",
            "GET /sub/index.html",
            "GET /sub/index.html | Authorization: Basic YTpzZWNyZXQ=",
            "GET /hidden/secret.txt",
            "GET /php/index.php | Authorization: Basic YTpzZWNyZXQ=",
            "GET /nofile | Authorization: Basic YTpzZWNyZXQ=",
            "GET /methods",
            "HEAD /methods",
            "POST /methods | body=x",
            "GET /login",
            "POST /login | body=x",
        ],
    },
    Case {
        name: "auth_request",
        lines: "proxy_http_version 1.1; location / { auth_request /ask; auth_request_set $kept \"$set_there for $http_x_go\"; add_header X-Kept $kept always; } \
                location = /ask { internal; set $set_there \"there $request_uri $uri $args\"; \
                if ($http_x_go = in) { return 204; } if ($http_x_go = out) { return 403; } if ($http_x_go = odd) { return 404; } return 401; } \
                location /up { auth_request /echo; proxy_pass http://UPSTREAM; } location = /echo { proxy_pass http://UPSTREAM/x; } \
                location /down { auth_request /broken; } location = /broken { proxy_pass http://UPSTREAM/broken; } \
                location /sub/ { auth_request /ask; satisfy any; allow all; }",
        requests: &[
            "GET /note.txt?a=b",
            "GET /note.txt?a=b | X-Go: in",
            "POST /page.html?a=b | body=x",
            "GET /note.txt | X-Go: out",
            "GET /note.txt | X-Go: odd",
            "GET /ask | X-Go: in",
            "GET /sub/index.html",
            "GET /up",
            "GET /down",
        ],
    },
    Case {
        name: "pass_by_variable",
        lines: "proxy_http_version 1.1; set $to UPSTREAM; location / { proxy_pass http://$to; } location /uri/ { proxy_pass http://$to/new$request_uri; } \
                location ~ ^/re/(.*)$ { proxy_pass http://$to/got/$1?q; } location /whole { set $url http://UPSTREAM; proxy_pass $url; } \
                location /host { proxy_pass http://$to; proxy_set_header Connection \"\"; proxy_set_header X-To \"$proxy_host\"; } \
                location /unknown { proxy_pass http://nobody$arg_x; } location /wrong { proxy_pass $arg_x; }",
        requests: &[
            "GET /a%20b?x=%2f",
            "GET /uri/x?y",
            "GET /re/abc?y",
            "GET /whole?y",
            "GET /host",
            "POST /whole | body=x",
            "GET /unknown",
            "GET /wrong?x=ftp:",
        ],
    },
    Case {
        name: "origins",
        lines: "set_real_ip_from 127.0.0.0/8; server_name www.site.test; location / { return 200 \"$remote_addr $realip_remote_addr\"; } \
                location /x { set_real_ip_from 127.0.0.1; set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For; real_ip_recursive on; add_header X $remote_addr always; } \
                location /ref { valid_referers none server_names *.good.test www.deep.test/path/ ~\\.match\\.; return 200 \"[$invalid_referer]\"; } \
                location /blocked { valid_referers blocked other.test; return 200 \"[$invalid_referer]\"; } \
                location /s/ { secure_link $arg_md5,$arg_e; secure_link_md5 \"$secure_link_expires$uri secret\"; return 200 \"[$secure_link][$secure_link_expires]\"; } \
                location /p/ { secure_link_secret word; return 200 \"[$secure_link]\"; } location = /dot.gif { empty_gif; } \
                location /ok { return 200; } location /created { return 201; } location /port { return 200 \"$request_method $remote_user $connection_requests $http2\"; }",
        requests: &[
            "GET /",
            "GET / | X-Real-IP: 1.2.3.4",
            "GET / | X-Real-IP: 1.2.3.4, 5.6.7.8",
            "GET / | X-Real-IP: 2001:db8::1",
            "GET / | X-Real-IP: junk",
            "GET / | X-Real-IP: 1.2.3.4:80",
            "GET /x | X-Forwarded-For: 9.9.9.9, 10.0.0.1",
            "GET /x | X-Forwarded-For: 10.0.0.3, 10.0.0.1",
            "GET /x | X-Forwarded-For: 9.9.9.9, junk, 10.0.0.1",
            "GET /ref",
            "GET /ref | Referer: http://site.test/a",
            "GET /ref | Referer: https://x.good.test:81/",
            "GET /ref | Referer: http://www.deep.test/path/x",
            "GET /ref | Referer: http://www.deep.test/other",
            "GET /ref | Referer: http://a.match.test/",
            "GET /ref | Referer: http://evil.test/",
            "GET /ref | Referer: junk",
            "GET /blocked",
            "GET /blocked | Referer: junk",
            "GET /s/a?md5=x&e=1",
            "GET /s/a?md5=AAAAAAAAAAAAAAAAAAAAAA&e=0",
            "GET /s/link?md5=MyZGLp2TIndvCLTg6zzeKw&e=4102444800",
            "GET /s/link?md5=f932onB0EioER9ZMjJAvSg&e=1000000000",
            "GET /p/10d1cd1e46d34ce1166d782addc8d1d4/a/link",
            "GET /p/00000000000000000000000000000000/a/link",
            "GET /p/x",
            "GET /dot.gif",
            "HEAD /dot.gif",
            "POST /dot.gif | body=x",
            "GET /ok",
            "GET /created",
            "GET /port",
        ],
    },
    Case {
        name: "limits",
        lines: "location / { limit_req zone=slow; } location /status { limit_req zone=slow2; limit_req_status 429; } \
                location /burst { limit_req zone=slow3 burst=2 nodelay; } location /dry { limit_req zone=slow; limit_req_dry_run on; } \
                location /conn { limit_conn conn 1; } location /ranges { max_ranges 1; try_files /note.txt =404; } location /noranges { max_ranges 0; try_files /note.txt =404; } \
                location /before { if_modified_since before; try_files /note.txt =404; } location /off { if_modified_since off; try_files /note.txt =404; }",
        requests: &[
            "GET /note.txt?key=a",
            "GET /note.txt?key=a",
            "GET /note.txt",
            "GET /note.txt",
            "GET /dry?key=a",
            "GET /status?key=b",
            "GET /status?key=b",
            "GET /burst?key=c",
            "GET /burst?key=c",
            "GET /burst?key=c",
            "GET /burst?key=c",
            "GET /conn?key=d",
            "GET /ranges | Range: bytes=1-2",
            "GET /ranges | Range: bytes=1-2,5-6",
            "GET /noranges | Range: bytes=1-2",
            "GET /before | If-Modified-Since: Tue, 14 Nov 2033 22:13:20 GMT",
            "GET /before | If-Modified-Since: Tue, 14 Nov 2013 22:13:20 GMT",
            "GET /off | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT",
        ],
    },
    Case {
        name: "sent_on",
        lines: "proxy_http_version 1.1; location / { proxy_pass http://UPSTREAM/accel; proxy_hide_header Expires; proxy_cookie_path / /p/; add_header X-Here here; } \
                location /kept/ { internal; alias ROOT/; } location /int { internal; return 200 \"int $uri $args $request_method\"; } \
                location /ignored { proxy_pass http://UPSTREAM/accel; proxy_ignore_headers X-Accel-Redirect; } \
                location /pass { internal; proxy_pass http://UPSTREAM; } \
                location @named { return 200 \"named $uri $args $request_method\"; } location @passed { proxy_pass http://UPSTREAM; }",
        requests: &[
            "GET /a?b=c | X-To: /kept/note.txt",
            "HEAD /a?b=c | X-To: /kept/note.txt",
            "GET /a?b=c | X-To: /kept/note.txt | Range: bytes=1-3",
            "GET /a?b=c | X-To: /int/a%20b%3Fc?x=y",
            "GET /a?b=c | X-To: /int/plain",
            "GET /a?b=c | X-To: /int//a/./b",
            "POST /a?b=c | X-To: /int/x | body=hello",
            "POST /a?b=c | X-To: @named | body=hello",
            "POST /a?b=c | X-To: @passed | body=hello",
            "HEAD /a?b=c | X-To: @named",
            "GET /a | X-To: @nobody",
            "GET /a | X-To: int",
            "GET /a | X-To: /../x",
            "GET /a | X-To: /int/%2e%2e/x",
            "GET /a | X-To: /kept/none",
            "GET /a?b=c | X-To: /pass/x%20y?z",
            "GET /ignored | X-To: /int",
        ],
    },
    Case {
        name: "answers",
        lines: "proxy_http_version 1.1; location / { proxy_pass http://UPSTREAM; proxy_force_ranges on; } location /not/ { proxy_pass http://UPSTREAM/; } \
                location /rate/ { proxy_pass http://UPSTREAM/; proxy_limit_rate 10k; } location /bound/ { proxy_pass http://UPSTREAM/; proxy_bind 127.0.0.2; }",
        requests: &[
            "GET /x | Range: bytes=0-3",
            "GET /x | Range: bytes=0-3,5-6",
            "GET /x | Range: bytes=9999-",
            "GET /x",
            "GET /chunked | Range: bytes=0-1",
            "GET /broken | Range: bytes=0-1",
            "GET /not/x | Range: bytes=0-3",
            "GET /rate/x",
            "GET /bound/x",
        ],
    },
    Case {
        name: "queries",
        lines: "location / { try_files /none /t; } location /e { error_page 404 /t; return 404; } location /e2 { error_page 404 /t?own; return 404; } \
                location /i/ { index /t; alias ROOT/noindex/; } location = /t { return 200 \"$uri $args $request_uri\"; }",
        requests: &["GET /x?a=1", "GET /e?a=1", "GET /e2?a=1", "GET /i/?a=1"],
    },
    Case {
        name: "proxy_to_nobody",
        lines: "location / { proxy_pass http://DEAD; }",
        requests: &["GET /", "HEAD /", "POST / | body=x"],
    },
];

/// One password, `secret`, in several hash formats.
const USERS: &str = "a:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0\nb:{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0\n\
    c:$6$0123456789abcdef$8CGkKDSyVpVlVNcs5PssRw/Tb8EgfecuA6D/zsRQFumJaU.s8KgTWWc2HfgkB7h2n1qIKiJFeSyUFrwvhILXy.\n";

/// A running program, stopped on drop.
pub struct Running {
    _program: Program,
    pub port: u16,
}

impl Running {
    /// Sends a request, and masks the port in the response, which differs.
    pub fn ask(&self, request: &str) -> Response {
        without_port(ask(self.port, request), self.port)
    }
}

const TABLES: &str = "map $arg_x $mapped { default none; one 1; two \"$request_method 2\"; ~^(3+)$ \"threes $1\"; '' empty; }\n\
    map $host $named { hostnames; default -; .wild.test wild; www.* www; }\n\
    geo $near { default far; 127.0.0.0/8 near; }\n\
    limit_req_zone $arg_key zone=slow:1m rate=1r/m;\n limit_req_zone $arg_key zone=slow2:1m rate=1r/m;\n\
    limit_req_zone $arg_key zone=slow3:1m rate=1r/m;\n limit_conn_zone $arg_key zone=conn:1m;\n\
    split_clients $arg_key $variant { 20% a; 30.5% b; * c; }\n";

/// Upstream groups, of which one server responds.
const GROUPS: &str = "upstream pair { server DEAD max_fails=0; server UPSTREAM weight=2; }\n\
    upstream none { server DEAD; server DEAD down; }\n\
    upstream keyed { hash $arg_k consistent; server DEAD; server UPSTREAM; }\n\
    upstream near { ip_hash; server UPSTREAM; server DEAD max_fails=2 fail_timeout=1m; }\n";

/// The configuration of each program: nginx must not write to Debian's default paths, and an nginx of that age has
/// other defaults than the version we follow.
fn conf(site: &Site, case: &Case, port: u16, is_nginx: bool) -> String {
    let dir = site.dir().display().to_string();
    let own = match is_nginx {
        true => ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {dir}/nginx-temp;\n"))
            .concat(),
        false => String::new(),
    };
    let tokens = match is_nginx {
        true => "server_tokens off;",
        false => "server_tokens \"nginx\";",
    };
    let (user, keep) = match is_nginx {
        true => (
            "user root;\ndaemon off;\nmaster_process off;\n",
            "proxy_set_header Connection \"\";\n",
        ),
        false => ("", ""),
    };
    let groups = site.fill(GROUPS);
    format!(
        "{user}worker_processes 1;\npid {dir}/nginx.pid;\nerror_log {dir}/nginx-error.log;\nevents {{}}\nhttp {{\n{TABLES}{groups}access_log off;\n{own}{tokens}\n{keep}\
         server {{\nlisten 127.0.0.1:{port};\nroot {dir}/www;\nserver_name site.test;\n{}\n}}\n}}\n",
        site.fill(case.lines)
    )
}

fn start(site: &Site, program: &Path, case: &Case, is_nginx: bool) -> Running {
    let port = free_port();
    let text = conf(site, case, port, is_nginx);
    run(site, program, case.name, &text, port, is_nginx)
}

/// Starts a program with this file, and waits until it responds on the port.
pub fn run(
    site: &Site,
    program: &Path,
    case: &str,
    text: &str,
    port: u16,
    is_nginx: bool,
) -> Running {
    let name = if is_nginx { "theirs" } else { "ours" };
    let file = site.dir().join(format!("{case}-{name}.nginx.conf"));
    let _ = std::fs::create_dir_all(site.dir().join("nginx-temp"));
    std::fs::write(&file, text).expect("the folder is writable");
    let log = site.dir().join(format!("{case}-{name}.log"));
    let mut command = Command::new(program);
    match is_nginx {
        true => command.arg("-p").arg(site.dir()).arg("-c").arg(&file),
        false => command.args(["run", "--config"]).arg(&file),
    };
    command
        .env("HOME", site.dir())
        .env("SLUICE_ADMIN", format!("localhost:{}", free_port()));
    Running {
        _program: Program::start(&mut command, log).listening(port),
        port,
    }
}

/// Masks the port in a response, which differs.
fn without_port(mut response: Response, port: u16) -> Response {
    for values in response.fields.values_mut() {
        for value in values {
            *value = value.replace(&format!(":{port}"), ":PORT");
        }
    }
    response
}

fn is_accepted(request: &str, difference: &Differs) -> bool {
    let everywhere =
        |(what, theirs): &(&str, &str)| difference.what == *what && difference.theirs == *theirs;
    let here = |(asked, what, _): &(&str, &str, &str)| {
        *asked == request && (what.is_empty() || difference.what == *what)
    };
    EVERYWHERE.iter().any(everywhere) || ACCEPTED.iter().any(here)
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn responses_equal_those_of_nginx() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let site = Site::new();
    site.write("users", USERS);
    let (mut requests, mut failures) = (0, Vec::new());
    for case in CASES {
        let theirs = start(&site, &nginx, case, true);
        let ours = start(&site, &sluice(), case, false);
        for request in case.requests {
            requests += 1;
            let expected = theirs.ask(request);
            let found = ours.ask(request);
            for difference in differences(&expected, &found) {
                if !is_accepted(request, &difference) {
                    failures.push(format!("{}: {request}\n    {difference}", case.name));
                }
            }
        }
    }
    println!(
        "{requests} requests in {} files compared with {}",
        CASES.len(),
        nginx.display()
    );
    assert!(requests >= 220, "the yardstick got shorter");
    assert!(
        failures.is_empty(),
        "{} differences:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// The files of Debian's package are accepted unchanged.
#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn debians_own_files_are_taken() {
    let main = Path::new("/etc/nginx/nginx.conf");
    if !main.is_file() {
        skipped(format_args!("there is no {}", main.display()));
        return;
    }
    let output = Command::new(sluice())
        .args(["adapt", "--config"])
        .arg(main)
        .output();
    let output = output.expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("error["), "{said}");
}
