//! An example for each module of nginx's documentation, of our own making: one pair of servers, in which each module has
//! a virtual server of its name, and the requests to it.

use std::path::Path;
use std::sync::Mutex;

use crate::peer::http::{Differs, Response, differences};
use crate::peer::nginx::{EVERYWHERE, Running, run};
use crate::peer::nginx_documented::Apps;
use crate::peer::peers::{Site, free_port, sluice};
use crate::support::{listen, servers};

/// An example.
struct Example {
    /// The module, without `ngx_http_` and `_module`.
    module: &'static str,
    /// Lines in `http`.
    http: &'static str,
    /// Lines in `server`.
    server: &'static str,
    requests: &'static [&'static str],
}

const EXAMPLES: &[Example] = &[
    Example {
        module: "access",
        http: "",
        server: "location /staff/ { alias ROOT/; deny 192.0.2.1; allow 192.0.2.0/24; allow 127.0.0.1; allow 2001:db8::/32; deny all; } \
                 location /public/ { alias ROOT/; deny 127.0.0.0/8; allow all; }",
        requests: &[
            "GET /staff/note.txt",
            "GET /public/note.txt",
            "HEAD /public/note.txt",
            "POST /staff/note.txt | body=x",
        ],
    },
    Example {
        module: "addition",
        http: "",
        server: "location / { add_before_body /top; add_after_body /bottom; } location = /top { return 200 top; } location = /bottom { return 200 bottom; }",
        requests: &[
            "GET /index.html",
            "GET /note.txt",
            "GET /none.html",
            "GET /sub/",
        ],
    },
    Example {
        module: "auth_basic",
        http: "",
        server: "location /closed/ { alias ROOT/; auth_basic \"closed site\"; auth_basic_user_file DIR/users; } location /closed/open/ { auth_basic off; return 200 open; }",
        requests: &[
            "GET /closed/note.txt",
            "GET /closed/note.txt | Authorization: Basic YW5uOnNlY3JldA==",
            "GET /closed/note.txt | Authorization: Basic YW5uOndyb25n",
            "GET /closed/note.txt | Authorization: Bearer x",
            "GET /closed/open/",
        ],
    },
    Example {
        module: "auth_request",
        http: "",
        server: "location /private/ { alias ROOT/; auth_request /auth; auth_request_set $who $upstream_http_x_echo; add_header X-Who $who; } \
                 location = /auth { internal; if ($http_x_key = '') { return 401; } if ($http_x_key = bad) { return 403; } if ($http_x_key = odd) { return 404; } proxy_pass http://UPSTREAM/auth; \
                 proxy_pass_request_body off; proxy_set_header Content-Length \"\"; proxy_set_header X-Original-URI $request_uri; }",
        requests: &[
            "GET /private/note.txt",
            "GET /private/note.txt | X-Key: good",
            "GET /private/note.txt | X-Key: bad",
            "GET /private/note.txt | X-Key: odd",
            "GET /auth",
        ],
    },
    Example {
        module: "autoindex",
        http: "",
        server: "location / { autoindex on; autoindex_exact_size off; autoindex_localtime on; } location /json/ { alias ROOT/noindex/; autoindex on; autoindex_format json; }",
        requests: &[
            "GET /noindex/",
            "GET /json/",
            "GET /noindex/a.txt",
            "GET /noindex",
        ],
    },
    Example {
        module: "browser",
        http: "",
        server: "modern_browser_value modern; modern_browser msie 5.5; modern_browser gecko 1.0.0; modern_browser opera 9.0; modern_browser safari 413; modern_browser konqueror 3.0; \
                 ancient_browser Links Lynx; location / { return 200 \"[$modern_browser][$ancient_browser][$msie]\"; }",
        requests: &[
            "GET / | User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)",
            "GET / | User-Agent: Links (0.96)",
            "GET / | User-Agent: Mozilla/5.0 (X11; rv:109.0) Gecko/20100101 Firefox/115.0",
            "GET / | User-Agent: curl/8",
        ],
    },
    Example {
        module: "charset",
        http: "",
        server: "charset windows-1251; source_charset koi8-r; charset_types text/html text/css; location /utf/ { alias ROOT/; charset utf-8; } location /off/ { alias ROOT/; charset off; }",
        requests: &[
            "GET /koi.html",
            "GET /utf/koi.html",
            "GET /off/koi.html",
            "GET /style.css",
            "GET /note.txt",
        ],
    },
    Example {
        module: "core",
        http: "",
        server: "error_page 404 /missing.txt; error_page 403 =200 /fine; error_page 410 @gone; location = / { return 200 root; } location /docs/ { alias ROOT/sub/; } \
                 location ^~ /images/ { return 200 images; } location ~* \\.(gif|jpg)$ { return 403; } location /only { limit_except GET { deny all; } return 204; } \
                 location /try { try_files /none /sub/$arg_f /note.txt =404; } location = /missing.txt { return 200 missing; } location = /fine { return 200 fine; } \
                 location /types { types { text/odd txt; } default_type text/other; alias ROOT; } location /410 { return 410; } location @gone { return 200 gone; } \
                 location /inner { internal; return 200 inner; }",
        requests: &[
            "GET /",
            "GET /docs/",
            "GET /docs/index.html",
            "GET /images/a.gif",
            "GET /other/A.GIF",
            "GET /only",
            "POST /only | body=x",
            "GET /try?f=index.html",
            "GET /try?f=x",
            "GET /none",
            "GET /types/note.txt",
            "GET /types/unknown.qqq",
            "GET /410",
            "GET /inner",
        ],
    },
    Example {
        module: "empty_gif",
        http: "",
        server: "location = /_.gif { empty_gif; }",
        requests: &["GET /_.gif", "HEAD /_.gif", "POST /_.gif | body=x"],
    },
    Example {
        module: "fastcgi",
        http: "",
        server: "location / { fastcgi_pass FASTCGI; fastcgi_index index.php; fastcgi_param SCRIPT_FILENAME /home/www$fastcgi_script_name; fastcgi_param QUERY_STRING $query_string; \
                 fastcgi_param REQUEST_METHOD $request_method; fastcgi_param CONTENT_TYPE $content_type; fastcgi_param CONTENT_LENGTH $content_length; fastcgi_param REQUEST_URI $request_uri; } \
                 location ~ ^(.+\\.php)(.*)$ { fastcgi_split_path_info ^(.+\\.php)(.*)$; fastcgi_param SCRIPT_FILENAME /srv$fastcgi_script_name; fastcgi_param PATH_INFO $fastcgi_path_info; \
                 fastcgi_param REQUEST_URI $request_uri; fastcgi_pass FASTCGI; }",
        requests: &[
            "GET /?a=b",
            "GET /x/",
            "POST /form | Content-Type: text/plain | body=hello",
            "GET /a.php/b/c?d",
            "GET /as/status",
            "GET /as/away",
        ],
    },
    Example {
        module: "geo",
        http: "geo $area { default 0; 127.0.0.2 2; 192.0.2.0/24 1; 10.1.0.0/16 1; ::1 2; 127.0.0.1 uk; } geo $arg_ip $by_ip { ranges; default de; 127.0.0.0-127.0.0.0 us; 10.1.0.0-10.1.255.255 ru; }",
        server: "location / { return 200 \"$area $by_ip\"; }",
        requests: &[
            "GET /",
            "GET /?ip=10.1.2.3",
            "GET /?ip=127.0.0.0",
            "GET /?ip=192.0.2.1",
            "GET /?ip=junk",
        ],
    },
    Example {
        module: "grpc",
        http: "server { listen 127.0.0.1:SECOND http2; location / { return 200 \"$request_method $uri $http_te\"; } location /gone { return 404; } }",
        server: "location / { grpc_pass 127.0.0.1:SECOND; }",
        requests: &["GET /a", "GET /gone", "HEAD /a"],
    },
    Example {
        module: "gunzip",
        http: "",
        server: "location /storage/ { alias ROOT/; gzip_static always; gunzip on; } location /raw/ { alias ROOT/; gzip_static always; }",
        requests: &[
            "GET /storage/packed.txt",
            "GET /storage/packed.txt | Accept-Encoding: gzip",
            "GET /raw/packed.txt",
        ],
    },
    Example {
        module: "gzip",
        http: "",
        server: "gzip on; gzip_min_length 1000; gzip_proxied expired no-cache no-store private auth; gzip_types text/plain application/xml; gzip_vary on; gzip_disable \"MSIE [1-6]\\.\";",
        requests: &[
            "GET /page.html | Accept-Encoding: gzip",
            "GET /page.html",
            "GET /note.txt | Accept-Encoding: gzip",
            "GET /page.html | Accept-Encoding: gzip | Via: 1.1 a",
            "GET /page.html | Accept-Encoding: gzip | User-Agent: MSIE 5.0",
            "GET /page.html | Accept-Encoding: gzip;q=0",
        ],
    },
    Example {
        module: "gzip_static",
        http: "",
        server: "gzip_static on; gzip_proxied expired no-cache no-store private auth;",
        requests: &[
            "GET /packed.txt | Accept-Encoding: gzip",
            "GET /note.txt | Accept-Encoding: gzip",
            "GET /packed.txt",
        ],
    },
    Example {
        module: "headers",
        http: "map $sent_http_content_type $kept_for { default off; text/css 42d; ~image/ max; }",
        server: "expires $kept_for; add_header Cache-Control private; location /day/ { alias ROOT/; expires 24h; } location /never/ { alias ROOT/; expires -1; } \
                 location /epoch/ { alias ROOT/; expires epoch; } location /changed/ { alias ROOT/; expires modified +24h; add_header X-Always a always; } location /trailer/ { alias ROOT/; add_trailer X-Late b; }",
        requests: &[
            "GET /style.css",
            "GET /pic.svg",
            "GET /note.txt",
            "GET /day/note.txt",
            "GET /never/note.txt",
            "GET /epoch/note.txt",
            "GET /changed/note.txt",
            "GET /changed/none",
            "GET /day/none",
            "GET /trailer/note.txt",
        ],
    },
    Example {
        module: "index",
        http: "",
        server: "index index.$arg_geo.html index.html /note.txt; location /noindex/ { index /sub/index.html; }",
        requests: &["GET /", "GET /sub/?geo=x", "GET /hidden/", "GET /noindex/"],
    },
    Example {
        module: "limit_conn",
        http: "limit_conn_zone $binary_remote_addr zone=addr:10m; limit_conn_zone $server_name zone=per_server:10m;",
        server: "location /download/ { alias ROOT/; limit_conn addr 1; limit_conn per_server 5; limit_conn_status 429; limit_conn_log_level warn; } location /dry/ { alias ROOT/; limit_conn addr 1; limit_conn_dry_run on; }",
        requests: &["GET /download/note.txt", "GET /dry/note.txt"],
    },
    Example {
        module: "limit_req",
        http: "limit_req_zone $arg_key zone=one:10m rate=1r/m;",
        server: "location /search/ { limit_req zone=one burst=1 nodelay; return 200 found; } location /own/ { limit_req zone=one; limit_req_status 429; try_files /note.txt =404; }",
        requests: &[
            "GET /own/x?key=a",
            "GET /own/x?key=a",
            "GET /own/x?key=b",
            "GET /own/x",
            "GET /own/x",
        ],
    },
    Example {
        module: "log",
        http: "log_format compression '$remote_addr - $remote_user \"$request\" $status \"$http_referer\" \"$http_user_agent\" \"$gzip_ratio\"'; log_format json escape=json '{\"uri\":\"$uri\",\"agent\":\"$http_user_agent\"}'; \
               map $status $is_bad { ~^[23] 0; default 1; }",
        server: "access_log DIR/WHICH-compression.log compression; access_log DIR/WHICH-json.log json; access_log DIR/WHICH-bad.log compression if=$is_bad; location /off/ { alias ROOT/; access_log off; }",
        requests: &[
            "GET /note.txt | User-Agent: a\"b",
            "GET /none | Referer: http://a.test/",
            "GET /off/note.txt",
            "GET /note.txt | Authorization: Basic YW5uOnNlY3JldA==",
        ],
    },
    Example {
        module: "map",
        http: "map $arg_host $name { hostnames; default 0; example.com 1; *.example.com 1; example.org 2; *.example.org 2; .example.net 3; wap.* 4; } map $http_user_agent $mobile { default 0; \"~Opera Mini\" 1; ~*phone(?<n>\\d) \"n$n\"; }",
        server: "location / { return 200 \"$name $mobile\"; }",
        requests: &[
            "GET /?host=example.com",
            "GET /?host=www.example.org",
            "GET /?host=example.net",
            "GET /?host=a.b.example.net",
            "GET /?host=wap.test",
            "GET /?host=other",
            "GET / | User-Agent: Opera Mini 5",
            "GET / | User-Agent: Phone7",
        ],
    },
    Example {
        module: "memcached",
        http: "",
        server: "location / { set $memcached_key \"$uri?$args\"; memcached_pass MEMCACHED; error_page 404 502 504 = @fallback; } location @fallback { return 200 \"fallback $uri\"; }",
        requests: &["GET /known?a", "GET /unknown?a", "HEAD /known?a"],
    },
    Example {
        module: "mirror",
        http: "",
        server: "location / { mirror /mirror; proxy_pass http://UPSTREAM; } location = /mirror { internal; proxy_pass http://UPSTREAM/copy$request_uri; }",
        requests: &["GET /a?b", "POST /a | body=hello", "GET /mirror"],
    },
    Example {
        module: "proxy",
        http: "",
        server: "location / { proxy_pass http://UPSTREAM; proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr; } location /name/ { proxy_pass http://UPSTREAM/remote/; proxy_set_header Host $host; } \
                 location /moved/ { proxy_pass http://UPSTREAM/; proxy_redirect /there /here; } location /quiet/ { proxy_pass http://UPSTREAM/; proxy_pass_request_headers off; proxy_method POST; proxy_set_body own; }",
        requests: &[
            "GET /a/b?c",
            "GET /name/x%20y?z",
            "GET /moved/moved",
            "GET /quiet/a | X-A: b",
            "GET /name/broken",
            "GET /name",
        ],
    },
    Example {
        module: "random_index",
        http: "",
        server: "location / { random_index on; }",
        requests: &["GET /one/", "GET /one/only.txt", "GET /noindex"],
    },
    Example {
        module: "realip",
        http: "",
        server: "set_real_ip_from 127.0.0.0/8; set_real_ip_from 192.0.2.0/24; set_real_ip_from 2001:db8::/32; real_ip_header X-Forwarded-For; real_ip_recursive on; location / { return 200 \"$remote_addr $realip_remote_addr\"; }",
        requests: &[
            "GET /",
            "GET / | X-Forwarded-For: 198.51.100.7",
            "GET / | X-Forwarded-For: 198.51.100.7, 192.0.2.1",
            "GET / | X-Forwarded-For: 2001:db8::5",
            "GET / | X-Forwarded-For: junk",
        ],
    },
    Example {
        module: "referer",
        http: "",
        server: "valid_referers none blocked server_names *.example.com example.* www.example.org/galleries/ ~\\.google\\.; if ($invalid_referer) { return 403; } location / { return 200 welcome; }",
        requests: &[
            "GET /",
            "GET / | Referer: junk",
            "GET / | Referer: http://a.example.com/",
            "GET / | Referer: http://www.example.org/galleries/1",
            "GET / | Referer: http://www.example.org/other",
            "GET / | Referer: http://www.google.de/",
            "GET / | Referer: http://evil.test/",
            "GET / | Referer: http://referer.test/x",
        ],
    },
    Example {
        module: "rewrite",
        http: "",
        server: "if ($http_user_agent ~ MSIE) { rewrite ^(.*)$ /msie/$1 break; } if ($http_cookie ~* \"id=([^;]+)(?:;|$)\") { set $id $1; } if ($request_method = POST) { return 405; } \
                 rewrite ^(/download/.*)/media/(.*)\\..*$ $1/mp3/$2.mp3 last; rewrite ^(/download/.*)/audio/(.*)\\..*$ $1/mp3/$2.ra last; rewrite ^/users/(.*)$ /show?user=$1 last; rewrite ^/old/(.*)$ /new/$1 permanent; \
                 rewrite ^/away/ http://a.test/? redirect; location /download/ { return 200 \"$uri $id\"; } location /show { return 200 \"$uri $args\"; } location /msie/ { return 200 msie; } location /code { return 418 teapot; }",
        requests: &[
            "GET /download/a/media/b.flac",
            "GET /download/a/audio/b.flac | Cookie: id=7; x=y",
            "GET /users/ann?x=y",
            "GET /old/a?b=c",
            "GET /away/a?b=c",
            "POST /download/a | body=x",
            "GET /code",
        ],
    },
    Example {
        module: "scgi",
        http: "",
        server: "location / { scgi_param SCGI 1; scgi_param REQUEST_URI $request_uri; scgi_param REQUEST_METHOD $request_method; scgi_pass SCGI_ADDRESS; }",
        requests: &["GET /a?b", "POST /a | body=hello", "GET /b?s=404"],
    },
    Example {
        module: "secure_link",
        http: "",
        server: "location /s/ { secure_link $arg_md5,$arg_expires; secure_link_md5 \"$secure_link_expires$uri$remote_addr secret\"; if ($secure_link = \"\") { return 403; } if ($secure_link = \"0\") { return 410; } return 200 \"open $secure_link_expires\"; } \
                 location /p/ { secure_link_secret word; if ($secure_link = \"\") { return 403; } rewrite ^ /secure/$secure_link; } location /secure/ { internal; return 200 \"$uri\"; }",
        requests: &[
            "GET /s/link",
            "GET /s/link?md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483647",
            "GET /s/link?md5=AAAAAAAAAAAAAAAAAAAAAA&expires=1",
            "GET /p/29245bdc2d04a9e0e729927ed0f84e26/link",
            "GET /p/10d1cd1e46d34ce1166d782addc8d1d4/a/link",
            "GET /p/link",
        ],
    },
    Example {
        module: "slice",
        http: "proxy_cache_path DIR/WHICH-slices keys_zone=slices:1m; server { listen 127.0.0.1:THIRD; root ROOT; }",
        server: "location / { slice 10; proxy_cache slices; proxy_cache_key $uri$is_args$args$slice_range; proxy_set_header Range $slice_range; proxy_cache_valid 200 206 1h; proxy_pass http://127.0.0.1:THIRD/; }",
        requests: &[
            "GET /note.txt",
            "GET /note.txt | Range: bytes=8-25",
            "GET /empty.txt",
            "GET /none",
        ],
    },
    Example {
        module: "split_clients",
        http: "split_clients \"${arg_who}AAA\" $variant { 0.5% .one; 20.0% .two; * \"\"; }",
        server: "location / { return 200 \"[$variant]\"; }",
        requests: &[
            "GET /?who=a",
            "GET /?who=b",
            "GET /?who=c",
            "GET /?who=d",
            "GET /?who=e",
            "GET /?who=f",
            "GET /",
        ],
    },
    Example {
        module: "ssi",
        http: "",
        server: "location / { ssi on; } location /part { return 200 \"part $args\"; }",
        requests: &[
            "GET /page.shtml?a=b",
            "GET /index.html",
            "GET /page.shtml | User-Agent: x",
        ],
    },
    Example {
        module: "stub_status",
        http: "",
        server: "location = /basic_status { stub_status; }",
        requests: &["GET /basic_status", "HEAD /basic_status"],
    },
    Example {
        module: "sub",
        http: "",
        server: "location / { sub_filter '<p>hot' '<p class=\"$arg_c\">hot'; sub_filter 'DOGS' 'cats'; sub_filter_once on; } location /all/ { alias ROOT/; sub_filter dogs cats; sub_filter_once off; sub_filter_types text/css text/plain; sub_filter_last_modified on; }",
        requests: &[
            "GET /page.html?c=a",
            "GET /all/page.html",
            "GET /all/note.txt",
            "GET /note.txt",
        ],
    },
    Example {
        module: "upstream",
        http: "upstream dynamic { zone dynamic 64k; server UPSTREAM weight=5; server DEAD backup; keepalive 16; } upstream retried { server DEAD max_fails=0; server UPSTREAM; } upstream hashed { hash $arg_k consistent; server UPSTREAM; server DEAD down; }",
        server: "location / { proxy_pass http://dynamic; } location /retried { proxy_pass http://retried; } location /hashed { proxy_pass http://hashed; }",
        requests: &["GET /a", "GET /retried", "GET /hashed?k=1"],
    },
    Example {
        module: "userid",
        http: "",
        server: "userid on; userid_name uid; userid_domain userid.test; userid_path /; userid_expires 365d; userid_p3p 'policyref=\"/w3c/p3p.xml\", CP=\"CUR\"'; location / { return 200 \"[$uid_got]\"; } location /log { userid log; return 200 \"[$uid_got][$uid_set]\"; }",
        requests: &[
            "GET /",
            "GET / | Cookie: uid=fwAAAWZ9Q0kAAAAAAwMEAg==",
            "GET /log",
            "GET /log | Cookie: uid=fwAAAWZ9Q0kAAAAAAwMEAg==",
        ],
    },
    Example {
        module: "uwsgi",
        http: "",
        server: "location / { uwsgi_param CONTENT_LENGTH 0; uwsgi_param REQUEST_URI $request_uri; uwsgi_param REQUEST_METHOD $request_method; uwsgi_pass UWSGI_ADDRESS; }",
        requests: &["GET /a?b", "GET /b?s=404"],
    },
];

/// Intentional differences: the module, a prefix of the request, what differs, and why. One that no longer occurs fails
/// the run.
const ACCEPTED: &[(&str, &str, &str, &str)] = &[
    ("fastcgi", "", "> HTTP_CONNECTION", NEIGHBOURS),
    (
        "fastcgi",
        "POST /form",
        "> HTTP_CONTENT_LENGTH",
        "CONTENT_LENGTH says it (RFC 3875, section 4.1.18)",
    ),
    (
        "grpc",
        "HEAD /a",
        "content-length",
        "a response to HEAD has the length of that to GET (RFC 9110, section 9.3.2)",
    ),
    (
        "gunzip",
        "GET /storage/packed.txt | Accept-Encoding: gzip",
        "accept-ranges",
        PACKED,
    ),
    ("gunzip", "GET /raw/packed.txt", "accept-ranges", PACKED),
    (
        "gzip_static",
        "GET /packed.txt | Accept-Encoding: gzip",
        "accept-ranges",
        PACKED,
    ),
    (
        "limit_req",
        "GET /own/x?key=a",
        "retry-after",
        "refusals say when to come back (RFC 6585, section 4)",
    ),
    (
        "proxy",
        "",
        "> connection",
        "connections to upstreams are kept since 1.29.7",
    ),
    (
        "slice",
        "GET /note.txt | Range",
        "age",
        "cached responses have an age (RFC 9111, section 5.1)",
    ),
    (
        "uwsgi",
        "",
        "status",
        "the `Status` header of an application is the status, and not forwarded as well, as with SCGI",
    ),
];

const NEIGHBOURS: &str =
    "whether a connection is kept is between two neighbours (RFC 9110, section 7.6.1)";
const PACKED: &str = "parts are served of compressed files, too (RFC 9110, section 14.2)";

/// The configuration of one program.
fn conf(site: &Site, apps: &Apps, memcached: u16, port: u16, is_nginx: bool) -> String {
    let second = free_port().to_string();
    let (main, own, which) = match is_nginx {
        true => (
            "user root;\ndaemon off;\nmaster_process off;\n",
            "server_tokens off;\nclient_body_temp_path DIR/nginx-temp; proxy_temp_path DIR/nginx-temp; fastcgi_temp_path DIR/nginx-temp; \
             uwsgi_temp_path DIR/nginx-temp; scgi_temp_path DIR/nginx-temp;\nproxy_http_version 1.1;\nproxy_set_header Connection \"\";\n",
            "theirs",
        ),
        false => ("", "server_tokens \"nginx\";\n", "ours"),
    };
    let mut text = format!(
        "{main}worker_processes 1;\npid DIR/{which}.pid;\nerror_log DIR/{which}.log;\nevents {{ worker_connections 512; }}\nhttp {{\n{own}\
         access_log off;\ntypes {{ text/html html shtml; text/plain txt; text/css css; image/svg+xml svg; }}\n\
         include /etc/nginx/koi-win; include /etc/nginx/koi-utf; include /etc/nginx/win-utf;\n"
    );
    for example in EXAMPLES {
        text.push_str(&format!(
            "{}\nserver {{ listen 127.0.0.1:PORT; server_name {}.test; root ROOT;\n{}\n}}\n",
            example.http, example.module, example.server
        ));
    }
    text.push_str("}\n");
    let [_, scgi, uwsgi] = apps.ports;
    let text = text
        .replace("DIR", &site.dir().display().to_string())
        .replace("WHICH", which)
        .replace("SECOND", &second)
        .replace("THIRD", &free_port().to_string())
        .replace("PORT", &port.to_string())
        .replace("MEMCACHED", &format!("127.0.0.1:{memcached}"))
        .replace("UWSGI_ADDRESS", &format!("127.0.0.1:{uwsgi}"))
        .replace("SCGI_ADDRESS", &format!("127.0.0.1:{scgi}"));
    site.fill(&text)
}

/// A memcached with one value.
fn memcached() -> u16 {
    listen(|mut wire| {
        while let Some(line) = wire.line() {
            let bytes = match line.as_str() {
                "get /known?a" => "VALUE /known?a 0 5\r\nvalue\r\nEND\r\n",
                _ => "END\r\n",
            };
            if wire.try_send(bytes).is_err() {
                return;
            }
        }
    })
}

fn write_files(site: &Site) {
    site.write(
        "koi.html",
        [&b"<p>"[..], &[0xf0, 0xd2, 0xc9], b"</p>\n"].concat(),
    );
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut packed, b"packed text").expect("memory takes all");
    site.write("packed.txt.gz", packed.finish().expect("memory takes all"));
    site.write("one/only.txt", "only");
    site.write(
        "page.shtml",
        "<!--#set var=\"a\" value=\"b\" -->[<!--#echo var=\"a\" -->][<!--#echo var=\"none\" default=\"d\" -->]\
         <!--#if expr=\"$args = /a/\" -->yes<!--#else -->no<!--#endif -->[<!--#include virtual=\"/part?x\" -->]\n",
    );
    std::fs::write(site.dir().join("users"), "ann:{PLAIN}secret\n")
        .expect("the folder is writable");
}

/// Masks what is random, or counts connections.
fn masked(module: &str, mut response: Response) -> Response {
    match module {
        "userid" => {
            for value in response.fields.values_mut().flatten() {
                let start = value.find("uid=").map(|at| at + 4);
                let end = value.find(';');
                if let (Some(start), Some(end)) = (start, end) {
                    value.replace_range(start..end, "ID");
                }
                if let Some(at) = value.find("expires=") {
                    value.replace_range(at + 8..(at + 37).min(value.len()), "TIME");
                }
            }
            let text = String::from_utf8_lossy(&response.body).into_owned();
            if let (Some(start), true) = (text.rfind("uid="), text.contains("][uid=")) {
                response.body = format!("{}uid=ID]", &text[..start]).into_bytes();
            }
        }
        "stub_status" => {
            let text = String::from_utf8_lossy(&response.body).into_owned();
            let masked: String = text
                .chars()
                .map(|c| if c.is_ascii_digit() { '9' } else { c })
                .collect();
            response.body = masked.replace("999", "9").replace("99", "9").into_bytes();
            response.fields.remove("content-length");
        }
        _ => {}
    }
    response
}

/// The result for one module.
#[derive(Default)]
struct Counts {
    equal: usize,
    with_reason: usize,
    without: Vec<String>,
}

fn is_framing(difference: &Differs) -> bool {
    // What is here as a whole is sent with its length, and what is not in chunks.
    matches!(&*difference.what, "content-length" | "transfer-encoding")
        && (difference.theirs.is_empty() || difference.theirs.contains("chunked"))
}

fn compare(
    theirs: &Running,
    ours: &Running,
    example: &Example,
    seen: &Mutex<Vec<usize>>,
) -> Counts {
    let mut counts = Counts::default();
    for request in example.requests {
        let host = format!("{request} | Host: {}.test", example.module);
        let (expected, found) = (theirs.ask(&host), ours.ask(&host));
        let (expected, found) = (
            masked(example.module, expected),
            masked(example.module, found),
        );
        let (mut has_reason, mut has_none) = (false, false);
        for difference in differences(&expected, &found) {
            let everywhere = |(what, theirs): &(&str, &str)| {
                difference.what == *what && difference.theirs == *theirs
            };
            if EVERYWHERE.iter().any(everywhere) {
                continue;
            }
            let accepted = ACCEPTED.iter().position(|(module, start, what, _)| {
                *module == example.module
                    && request.starts_with(start)
                    && (what.is_empty() || difference.what == *what)
            });
            if let Some(index) = accepted {
                seen.lock().expect("nobody panics with it").push(index);
            }
            match accepted.is_some() || is_framing(&difference) {
                true => has_reason = true,
                false => {
                    has_none = true;
                    counts
                        .without
                        .push(format!("{}: {request}\n    {difference}", example.module));
                }
            }
        }
        match (has_none, has_reason) {
            (false, false) => counts.equal += 1,
            (false, true) => counts.with_reason += 1,
            (true, _) => {}
        }
    }
    counts
}

/// The files of access logs.
fn logs(dir: &Path, which: &str) -> Vec<String> {
    ["compression", "json", "bad"]
        .map(|name| {
            let path = dir.join(format!("{which}-{name}.log"));
            std::fs::read_to_string(path).unwrap_or_default()
        })
        .into()
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn examples_of_modules_respond_as_in_nginx() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let site = Site::new();
    write_files(&site);
    let memcached = memcached();
    let start = |program: &Path, is_nginx| {
        let (port, apps) = (free_port(), Apps::start());
        let text = conf(&site, &apps, memcached, port, is_nginx);
        (run(&site, program, "examples", &text, port, is_nginx), apps)
    };
    let ((theirs, _), (ours, _)) = (start(&nginx, true), start(&sluice(), false));
    let seen = Mutex::new(Vec::new());
    let (mut equal, mut with_reason, mut failures) = (0, 0, Vec::new());
    for example in EXAMPLES {
        let counts = compare(&theirs, &ours, example, &seen);
        println!(
            "{}: {} equal, {} different with a reason, {} without",
            example.module,
            counts.equal,
            counts.with_reason,
            counts.without.len()
        );
        equal += counts.equal;
        with_reason += counts.with_reason;
        failures.extend(counts.without);
    }
    let of_ours = || logs(site.dir(), "ours");
    let of_theirs = logs(site.dir(), "theirs");
    crate::support::wait::eventually(
        "the same lines in the access logs",
        || of_ours() == of_theirs,
        || format!("{:#?}\n{:#?}", of_theirs, of_ours()),
    );
    let seen = seen.into_inner().expect("nobody panics with it");
    for (index, (module, request, what, _)) in ACCEPTED.iter().enumerate() {
        if !seen.contains(&index) {
            failures.push(format!("{module}: {request}: {what} has gone away"));
        }
    }
    println!(
        "{} modules: {equal} responses equal, {with_reason} different with a reason, {} without",
        EXAMPLES.len(),
        failures.len()
    );
    assert!(equal >= 130, "the yardstick got shorter: {equal}");
    assert!(
        failures.is_empty(),
        "{} differences:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
