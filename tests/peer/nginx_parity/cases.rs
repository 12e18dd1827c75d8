//! What is compared.

use super::{Case, PLAIN};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "slashes",
        http: "server { listen 127.0.0.1:PORT;\n\
            location /app/ { proxy_pass http://UPSTREAM; }\n\
            location /app- { return 200 dash; }\n\
            location /api { return 200 api; }\n\
            location /api/ { proxy_pass http://UPSTREAM; }\n\
            location ^~ /final/ { proxy_pass http://UPSTREAM; }\n\
            location = /exact/ { proxy_pass http://UPSTREAM; }\n\
            location /ret/ { return 200 ret; }\n\
            location /status/ { stub_status; }\n\
            location /cgi/ { fastcgi_pass UPSTREAM; }\n\
            location /same { return 200 same; }\n\
            location /same/ { proxy_pass http://UPSTREAM; }\n\
            location ~ ^/same$ { return 200 pattern; }\n\
            location /n/ { location /n/app/ { proxy_pass http://UPSTREAM; } location /n/app- { return 200 x; } }\n}",
        requests: &[
            "GET /app?x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /app-x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /api HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /api HTTP/1.0\r\n\r\n",
            "HEAD /final HTTP/1.0\r\nHost: a\r\n\r\n",
            "GET /final HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /exact HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /ret HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /status HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /cgi HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /same HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /n/app HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        ],
        ..PLAIN
    },
    Case {
        name: "alias",
        http: "types { text/css css; }\nserver { listen 127.0.0.1:PORT;\n\
            add_header U \"[$uri]\" always; add_header F \"$request_filename\" always; \n\
            location ~ ^/ca/(.+)$ { alias DIR/files/$1; try_files \"\" =404; }\n\
            location ~ ^/cc/(.+)$ { alias DIR/files; try_files $uri /a.txt =404; }\n\
            location ~ ^/cd/(.+)$ { alias DIR/files/d/; try_files / =404; }\n\
            location /am/ { alias DIR/files/; try_files /am/b.txt /a.txt =404; }\n\
            location /al/ { alias DIR/files/; try_files $uri b.txt =404;\n\
            location ~ ^/al/(.*)\\.txt$ { try_files $uri =404; }\n\
            location /al/d/ { try_files $uri =404; } }\n}",
        files: &[
            ("files/a.txt", "hello"),
            ("files/a.css", "css"),
            ("files/b.txt", "b"),
            ("files/d/x.css", "deep"),
        ],
        requests: &[
            "GET /ca/a.css HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /ca/none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /cc/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /cd/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /am/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /al/a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /al/none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /al/d/x.css HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /al/d/none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        ],
        ..PLAIN
    },
    Case {
        name: "includes_and_transforms",
        http: "types { text/css css; }\ngzip on; gzip_min_length 1; gzip_types text/css;\n\
            fastcgi_split_path_info ^(.+\\.php)(/.*)$;\n\
            include DIR/none/*[.]conf;\n\
            server { listen 127.0.0.1:PORT; include DIR/lines/[a-b]*[.]conf;\n\
            location /split { return 200 \"$fastcgi_script_name $fastcgi_path_info\"; }\n\
            location /up { proxy_pass http://UPSTREAM; }\n}",
        files: &[
            ("lines/a.conf", "location /a { return 200 a; }"),
            ("lines/b.conf", "location /b { return 200 b; }"),
            ("lines/c.conf", "location /c { return 200 c; }"),
            ("lines/axconf", "location /x { return 200 x; }"),
        ],
        upstream: &[(
            "/up",
            "HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nCache-Control: no-transform\r\nContent-Length: 20\r\n\r\naaaaaaaaaaaaaaaaaaaa",
        )],
        requests: &[
            "GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /c HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /split/x.php/info HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /up HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n",
        ],
        ..PLAIN
    },
    Case {
        name: "upstream_headers",
        http: "server { listen 127.0.0.1:PORT;\n\
            location / { proxy_pass http://UPSTREAM; proxy_redirect http://up.test/ /re/;\n\
            proxy_cookie_domain up.test front.test; }\n\
            location /dotted { proxy_pass http://UPSTREAM/cookies; proxy_cookie_domain .up.test .front.test; }\n\
            location /pattern { proxy_pass http://UPSTREAM/cookies; proxy_cookie_domain ~^up\\.test$ front.test; }\n\
            location /page { proxy_pass http://UPSTREAM/401; proxy_intercept_errors on; error_page 401 /denied; }\n\
            location /none { proxy_pass http://UPSTREAM/401; proxy_intercept_errors on; error_page 402 /denied; }\n\
            location = /denied { internal; return 401 denied; }\n}",
        upstream: &[
            (
                "/401",
                "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 2\r\n\r\nno",
            ),
            (
                "/426",
                "HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\nno",
            ),
            (
                "/offer",
                "HTTP/1.1 200 OK\r\nUpgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\nno",
            ),
            (
                "/refresh",
                "HTTP/1.1 200 OK\r\nRefresh: 5; URL=http://up.test/x\r\nContent-Length: 2\r\n\r\nno",
            ),
            (
                "/elsewhere",
                "HTTP/1.1 200 OK\r\nRefresh: 0;url=http://other.test/x\r\nContent-Length: 2\r\n\r\nno",
            ),
            (
                "/cookies",
                "HTTP/1.1 200 OK\r\nSet-Cookie: a=1; domain=.up.test; path=/a\r\nSet-Cookie: b=2; domain=up.test\r\nSet-Cookie: c=2; domain=.Up.Test\r\nSet-Cookie: d=2; domain=x.up.test\r\nContent-Length: 2\r\n\r\nno",
            ),
        ],
        requests: &[
            "GET /401 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /426 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /offer HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /refresh HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /elsewhere HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /cookies HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /dotted HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /pattern HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        ],
        ..PLAIN
    },
];
