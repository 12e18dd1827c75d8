//! The directives whose effect a client can see: two values of each, the lines beside it, and the requests.

/// A directive with two values. The second is set in `server` and in a location that overrides the first.
pub struct Row {
    pub name: &'static str,
    pub values: [&'static str; 2],
    /// Additional lines in each location.
    pub beside: &'static str,
    /// Requests to each location: a method and the end of a path, with headers after `|`.
    pub asks: &'static [&'static str],
}

impl Row {
    /// Whether it is allowed in locations only.
    pub fn is_of_locations(&self) -> bool {
        self.values[1].is_empty()
    }
}

const fn row(
    name: &'static str,
    values: [&'static str; 2],
    beside: &'static str,
    asks: &'static [&'static str],
) -> Row {
    Row {
        name,
        values,
        beside,
        asks,
    }
}

const REAL: &str = "set_real_ip_from 127.0.0.0/8; add_header X \"$remote_addr [$remote_port] $realip_remote_addr\" always;";
const FILE: &[&str] = &["GET f.txt"];
const GZIP: &[&str] = &["GET f.txt | Accept-Encoding: gzip"];
const UP: &str = "proxy_pass http://UPSTREAM;";
const SCRIPT: &str = "fastcgi_pass FASTCGI; fastcgi_param REQUEST_URI /x;";
const STORED: &str = "proxy_pass http://UPSTREAM; proxy_cache p; proxy_cache_key $host$request_uri; proxy_cache_valid 1h; \
    add_header X-C $upstream_cache_status;";
const STORED_SCRIPT: &str = "fastcgi_pass FASTCGI; fastcgi_param REQUEST_URI /x; fastcgi_cache f; fastcgi_cache_key $host$request_uri; \
    fastcgi_cache_valid 1h; add_header X-C $upstream_cache_status;";
const TWICE: &[&str] = &["GET f.txt", "GET f.txt"];

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    row("allow", ["10.0.0.1; deny all", "all"], "", FILE),
    row("deny", ["127.0.0.1", "10.0.0.1"], "", FILE),
    row("add_before_body", ["/extra/a.html", "/extra/b.html"], "", &["GET p.html"]),
    row("add_after_body", ["/extra/a.html", "/extra/b.html"], "", &["GET p.html"]),
    row("addition_types", ["text/plain", "text/css"], "add_after_body /extra/a.html;", FILE),
    row("auth_basic", ["a", "off"], "auth_basic_user_file ROOT/users;", &["GET f.txt", "GET f.txt | Authorization: Basic YTpzZWNyZXQ="]),
    row("auth_basic_user_file", ["ROOT/users", "ROOT/others"], "auth_basic x;", &["GET f.txt", "GET f.txt | Authorization: Basic YTpzZWNyZXQ="]),
    row("auth_request", ["/extra/no", "/extra/a.html"], "", FILE),
    row("auth_request_set", ["$v one", "$v two"], "auth_request /extra/a.html; add_header X $v;", FILE),
    row("autoindex", ["on", "off"], "", &["GET list/"]),
    row("autoindex_exact_size", ["off", "on"], "autoindex on;", &["GET list/"]),
    row("autoindex_format", ["json", "html"], "autoindex on;", &["GET list/"]),
    row("autoindex_localtime", ["on", "off"], "autoindex on;", &["GET list/"]),
    row("ancient_browser", ["Links", "Lynx"], "add_header X [$ancient_browser];", &["GET f.txt | User-Agent: Links 1"]),
    row("ancient_browser_value", ["a", "b"], "ancient_browser Links; add_header X [$ancient_browser];", &["GET f.txt | User-Agent: Links 1"]),
    row("modern_browser", ["msie 5.5", "gecko 1.0.0"], "add_header X [$modern_browser];", &["GET f.txt | User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows)"]),
    row("modern_browser_value", ["a", "b"], "modern_browser msie 5.5; add_header X [$modern_browser];", &["GET f.txt | User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows)"]),
    row("charset", ["koi8-r", "utf-8"], "", FILE),
    row("charset_types", ["text/css", "text/plain"], "charset utf-8;", FILE),
    row("source_charset", ["koi8-r", "utf-8"], "charset utf-8;", &["GET k.html"]),
    row("absolute_redirect", ["off", "on"], "", &["GET list"]),
    row("port_in_redirect", ["off", "on"], "", &["GET list"]),
    row("server_name_in_redirect", ["on", "off"], "", &["GET list"]),
    row("client_max_body_size", ["3", "1k"], UP, &["POST x | body=hello"]),
    row("default_type", ["a/b", "c/d"], "", &["GET f.qqq"]),
    row("disable_symlinks", ["on", "off"], "", &["GET link.txt"]),
    row("error_page", ["404 /extra/a.html", "404 /extra/b.html"], "", &["GET none"]),
    row("error_page", ["404 =200 /extra/a.html", "404 @named"], "", &["GET none"]),
    row("etag", ["off", "on"], "", FILE),
    row("if_modified_since", ["before", "off"], "", &["GET f.txt | If-Modified-Since: Tue, 01 Jan 2030 00:00:00 GMT"]),
    row("internal", ["", ""], "", FILE),
    row("max_ranges", ["0", "1"], "", &["GET f.txt | Range: bytes=0-1"]),
    row("root", ["ROOT/extra", "ROOT"], "add_header X $request_filename always;", FILE),
    row("alias", ["ROOT/extra/", ""], "add_header X $request_filename always;", &["GET a.html"]),
    row("satisfy", ["any", "all"], "deny all; auth_basic a; auth_basic_user_file ROOT/users;", &["GET f.txt", "GET f.txt | Authorization: Basic YTpzZWNyZXQ="]),
    row("types", ["{ text/x txt; }", "{ text/y txt; }"], "", FILE),
    row("gunzip", ["on", "off"], "gzip_static always;", &["GET z.txt"]),
    row("gzip", ["on", "off"], "gzip_min_length 1; gzip_types text/plain;", GZIP),
    row("gzip_disable", ["Links", "Lynx"], "gzip on; gzip_min_length 1; gzip_types text/plain;", &["GET f.txt | Accept-Encoding: gzip | User-Agent: Links"]),
    row("gzip_min_length", ["10000", "1"], "gzip on; gzip_types text/plain;", GZIP),
    row("gzip_proxied", ["any", "off"], "gzip on; gzip_min_length 1; gzip_types text/plain;", &["GET f.txt | Accept-Encoding: gzip | Via: x"]),
    row("gzip_types", ["text/css", "text/plain"], "gzip on; gzip_min_length 1;", GZIP),
    row("gzip_vary", ["on", "off"], "gzip on; gzip_min_length 1; gzip_types text/plain;", GZIP),
    row("gzip_static", ["on", "off"], "", &["GET z.txt | Accept-Encoding: gzip"]),
    row("add_header", ["X a", "X b"], "", FILE),
    row("add_header", ["X a always", "Y b"], "", &["GET none", "GET f.txt"]),
    row("expires", ["1h", "epoch"], "", FILE),
    row("index", ["a.txt", "b.txt"], "", &["GET list/"]),
    row("limit_req", ["zone=one nodelay", "zone=two burst=5 nodelay"], "", TWICE),
    row("limit_req_status", ["429", "430"], "limit_req zone=one;", TWICE),
    row("limit_req_dry_run", ["on", "off"], "limit_req zone=one; add_header X $limit_req_status always;", TWICE),
    row("random_index", ["on", ""], "", &["GET one/"]),
    row("real_ip_header", ["X-A", "X-B"], REAL, &["GET f.txt | X-A: 1.2.3.4 | X-B: 5.6.7.8:81", "GET f.txt | X-A: 1.2.3.4:80 | X-B: 5.6.7.8"]),
    row("real_ip_header", ["X-A", ""], "set_real_ip_from 127.0.0.1; deny 1.2.3.4;", &["GET f.txt | X-A: 1.2.3.4", "GET f.txt | X-A: 1.2.3.4:x", "GET f.txt | X-A: 5.6.7.8"]),
    row("real_ip_recursive", ["on", "off"], "real_ip_header X-A; set_real_ip_from 127.0.0.1; set_real_ip_from 10.0.0.0/8; add_header X $remote_addr always;", &["GET f.txt | X-A: 1.2.3.4, 10.0.0.1"]),
    row("set_real_ip_from", ["127.0.0.1", "10.0.0.1"], "real_ip_header X-A; deny 1.2.3.4;", &["GET f.txt | X-A: 1.2.3.4"]),
    row("set_real_ip_from", ["127.0.0.1", ""], "real_ip_header X-A; deny 1.2.3.4; proxy_pass http://UPSTREAM; proxy_set_header X-For $proxy_add_x_forwarded_for;", &["GET f.txt | X-A: 1.2.3.4", "GET f.txt | X-A: 5.6.7.8"]),
    row("valid_referers", ["none x.test", "blocked x.test"], "add_header X [$invalid_referer];", FILE),
    row("secure_link", ["$arg_a", "$arg_b"], "secure_link_md5 x; add_header X [$secure_link];", &["GET f.txt?a=ndTkYSaMgDT1yFZOFVxnpg&b=x", "GET f.txt?a=ndTkYSaMgDT1yFZOFVxnpg,1&b=ndTkYSaMgDT1yFZOFVxnpg"]),
    row("secure_link_md5", ["x", "y"], "secure_link $arg_a; add_header X [$secure_link];", &["GET f.txt?a=ndTkYSaMgDT1yFZOFVxnpg", "GET f.txt?a=QVKQdpWURg4uSFkikE80XQ"]),
    row("secure_link_secret", ["word", ""], "add_header X [$secure_link] always;", &["GET d4ccbd8a4a442d9c39af403e525cae0f/f.txt", "GET f.txt"]),
    row("slice", ["4", "8"], "proxy_pass http://UPSTREAM; proxy_set_header Range $slice_range;", FILE),
    row("ssi", ["on", "off"], "", &["GET s.html"]),
    row("ssi_last_modified", ["on", "off"], "ssi on;", &["GET s.html"]),
    row("ssi_silent_errors", ["on", "off"], "ssi on;", &["GET bad.html"]),
    row("ssi_types", ["text/plain", "text/css"], "ssi on;", &["GET s.txt"]),
    row("ssi_value_length", ["2", "200"], "ssi on;", &["GET s.html"]),
    row("sub_filter", ["o 0", "o 1"], "sub_filter_types *;", FILE),
    row("sub_filter_once", ["off", "on"], "sub_filter o 0; sub_filter_types *;", FILE),
    row("sub_filter_types", ["text/plain", "text/css"], "sub_filter o 0;", FILE),
    row("sub_filter_last_modified", ["on", "off"], "sub_filter o 0; sub_filter_types *;", FILE),
    row("userid", ["on", "off"], "", FILE),
    row("userid_domain", ["a.test", "none"], "userid on;", FILE),
    row("userid_flags", ["secure", "off"], "userid on;", FILE),
    row("userid_name", ["a", "b"], "userid on;", FILE),
    row("userid_p3p", ["a", "none"], "userid on;", FILE),
    row("userid_path", ["/a", "/b"], "userid on;", FILE),
    // Directives that act or respond in the location itself.
    row("break", ["", ""], "set $v 1; add_header X $v;", FILE),
    row("if", ["($host) { return 202 x; }", ""], "", FILE),
    row("return", ["202 x", ""], "", FILE),
    row("return", ["403", ""], "error_page 403 /extra/a.html;", FILE),
    row("rewrite", ["^ /extra/a.html break", ""], "", FILE),
    row("set", ["$v 1", ""], "add_header X [$v];", FILE),
    row("try_files", ["/extra/a.html =404", ""], "", FILE),
    row("empty_gif", ["", ""], "", FILE),
    row("proxy_pass", ["http://UPSTREAM", ""], "", FILE),
    row("fastcgi_pass", ["FASTCGI", ""], "fastcgi_param REQUEST_URI /x;", FILE),
    row("limit_except", ["POST { deny all; }", ""], "", FILE),
    // Proxies.
    row("proxy_force_ranges", ["on", "off"], "proxy_pass http://UPSTREAM/length;", &["GET f.txt | Range: bytes=0-1"]),
    row("proxy_hide_header", ["X-Up", "X-Other"], "proxy_pass http://UPSTREAM/broken;", FILE),
    row("proxy_pass_header", ["X-Up", "X-Other"], "proxy_hide_header X-Up; proxy_pass http://UPSTREAM/broken;", FILE),
    row("proxy_ignore_headers", ["X-Accel-Redirect", "Vary"], "proxy_pass http://UPSTREAM/accel;", &["GET f.txt | X-To: /extra/a.html"]),
    row("proxy_intercept_errors", ["on", "off"], "error_page 500 /extra/a.html; proxy_pass http://UPSTREAM/broken;", FILE),
    row("proxy_pass_request_body", ["off", "on"], "proxy_pass http://UPSTREAM; proxy_set_header Content-Length \"\";", &["POST x | body=hello"]),
    row("proxy_pass_request_headers", ["off", "on"], UP, &["GET x | X-A: b"]),
    row("proxy_method", ["PUT", "PATCH"], UP, FILE),
    row("proxy_http_version", ["1.1", "1.0"], UP, FILE),
    row("proxy_redirect", ["/there /x", "/there /y"], "proxy_pass http://UPSTREAM/moved;", FILE),
    row("proxy_set_body", ["a", "b"], UP, FILE),
    row("proxy_set_header", ["X-A a", "X-A b"], UP, FILE),
    row("proxy_cookie_path", ["/ /x", "/ /y"], "proxy_ignore_headers X-Accel-Redirect; proxy_pass http://UPSTREAM/accel;", FILE),
    row("proxy_cookie_flags", ["a secure", "c secure"], "proxy_ignore_headers X-Accel-Redirect; proxy_pass http://UPSTREAM/accel;", FILE),
    row("proxy_cache", ["p", "off"], "proxy_cache_valid 1h; proxy_cache_key $host$request_uri; add_header X-C [$upstream_cache_status]; proxy_pass http://UPSTREAM;", TWICE),
    row("proxy_cache_bypass", ["$http_a", "$http_b"], STORED, &["GET f.txt", "GET f.txt | A: 1"]),
    row("proxy_no_cache", ["$http_a", "$http_b"], STORED, &["GET f.txt | A: 1", "GET f.txt"]),
    row("proxy_cache_key", ["$host$uri$http_a", "$host$uri$http_b"], "proxy_pass http://UPSTREAM; proxy_cache p; proxy_cache_valid 1h; add_header X-C $upstream_cache_status;", &["GET f.txt | A: 1", "GET f.txt | A: 2"]),
    row("proxy_cache_min_uses", ["2", "1"], STORED, &["GET f.txt", "GET f.txt", "GET f.txt"]),
    row("proxy_cache_methods", ["POST", "GET"], STORED, &["POST f.txt", "POST f.txt"]),
    row("proxy_cache_valid", ["404 1h", "200 1h"], "proxy_pass http://UPSTREAM; proxy_cache p; proxy_cache_key $host$request_uri; add_header X-C $upstream_cache_status;", TWICE),
    row("fastcgi_hide_header", ["X-A", "X-B"], "fastcgi_pass FASTCGI; fastcgi_param REQUEST_URI /as/lines;", FILE),
    row("fastcgi_pass_header", ["X-A", "X-B"], "fastcgi_hide_header X-A; fastcgi_pass FASTCGI; fastcgi_param REQUEST_URI /as/lines;", FILE),
    row("fastcgi_index", ["a.php", "b.php"], "fastcgi_pass FASTCGI; fastcgi_param REQUEST_URI /x; fastcgi_param S $fastcgi_script_name;", &["GET "]),
    row("fastcgi_split_path_info", ["^(.+txt)(/.+)$", ""], "fastcgi_pass FASTCGI; fastcgi_param REQUEST_URI /x; fastcgi_param S $fastcgi_script_name|$fastcgi_path_info;", &["GET f.txt/more"]),
    row("fastcgi_intercept_errors", ["on", "off"], "error_page 404 /extra/a.html; fastcgi_pass FASTCGI; fastcgi_param REQUEST_URI /as/status;", FILE),
    row("fastcgi_param", ["A a", "A b"], "fastcgi_pass FASTCGI;", FILE),
    row("fastcgi_pass_request_body", ["off", "on"], SCRIPT, &["POST x | body=hello"]),
    row("fastcgi_pass_request_headers", ["off", "on"], SCRIPT, &["GET x | X-A: b"]),
    row("fastcgi_cache", ["f", "off"], "fastcgi_cache_valid 1h; fastcgi_cache_key $host$request_uri; add_header X-C [$upstream_cache_status]; fastcgi_pass FASTCGI; fastcgi_param REQUEST_URI /x;", TWICE),
    row("fastcgi_cache_bypass", ["$http_a", "$http_b"], STORED_SCRIPT, &["GET f.txt", "GET f.txt | A: 1"]),
    row("fastcgi_no_cache", ["$http_a", "$http_b"], STORED_SCRIPT, &["GET f.txt | A: 1", "GET f.txt"]),
    row("fastcgi_cache_min_uses", ["2", "1"], STORED_SCRIPT, &["GET f.txt", "GET f.txt", "GET f.txt"]),
];
