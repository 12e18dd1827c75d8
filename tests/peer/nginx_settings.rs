//! Settings of upstream connections and caches that depend on the request, link secrets, and the built-in parameters:
//! the same requests for sluice and an installed nginx.

use crate::peer::http::differences;
use crate::peer::nginx::run;
use crate::peer::nginx_bodies::{Case, compare};
use crate::peer::peers::{Site, free_port, sluice};
use crate::support::servers;

/// The digests are those of `linkword`, and of `y/s/in/x` in Base64.
const SETTINGS: Case = Case {
    name: "settings",
    lines: "secure_link $arg_md5; secure_link_md5 x$uri; \
            location /s/ { secure_link_secret word; return 200 [$secure_link]; \
            location /s/in/ { secure_link $arg_q; secure_link_md5 y$uri; return 200 [$secure_link]; } } \
            location /m/ { return 200 [$secure_link]; } \
            location /bind { proxy_bind $arg_a; proxy_pass http://127.0.0.1:SECOND/from; } \
            location ~ \"^/lu/(\\p{Lu}+)$\" { return 200 lu; } location ~ \"^/nl/[^\\p{L}]$\" { return 200 nl; } \
            location ~* \"^/ci/\\p{Lu}$\" { return 200 ci; } location ~ \"^/no/\\p{Greek}$\" { return 200 no; } \
            location /off { proxy_bind off; proxy_pass http://127.0.0.1:SECOND/from; } \
            location /zone { proxy_cache $arg_z; proxy_cache_valid 1h; proxy_cache_key k$uri; add_header X-Cache [$upstream_cache_status]; proxy_pass http://127.0.0.1:SECOND/from; }",
    second: "location /from { return 200 $remote_addr; }",
    requests: &[
        "GET /s/29245bdc2d04a9e0e729927ed0f84e2x/link",
        "GET /s/in/x",
        "GET /s/in/x?q=ITD4QVMb85_woOV-QhyaOA",
        "GET /s/29245bdc2d04a9e0e729927ed0f84e26/link",
        "GET /s/in/29245bdc2d04a9e0e729927ed0f84e26/link",
        "GET /m/x",
        "GET /lu/ABC",
        "GET /lu/aB",
        "GET /lu/%C3",
        "GET /lu/%C3%A9",
        "GET /nl/1",
        "GET /nl/%E9",
        "GET /nl/%D7",
        "GET /ci/a",
        "GET /ci/A",
        "GET /no/a",
        "GET /bind?a=127.0.0.5",
        "GET /bind?a=127.0.0.6",
        "GET /bind",
        "GET /bind?a=off",
        "GET /bind?a=nonsense",
        "GET /off",
        "GET /zone?z=kept",
        "GET /zone?z=kept",
        "GET /zone?z=off",
        "GET /zone?z=",
        "GET /zone",
    ],
};

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn settings_by_request_equal_those_of_nginx() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let site = Site::new();
    let requests = SETTINGS.requests.iter();
    let requests: Vec<String> = requests.map(|request| (*request).to_owned()).collect();
    let (count, failures) = compare(&site, &nginx, &SETTINGS, &requests);
    println!("{count} requests compared with {}", nginx.display());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What applications receive with Debian's files, and with the built-in ones.
#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn built_in_parameters_equal_those_of_debian() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let site = Site::new();
    let dir = site.dir().display().to_string();
    let conf = |port: u16, files: &str, own: &str| {
        let pass = "fastcgi_pass FASTCGI;";
        let text = format!(
            "{own}\nworker_processes 1; pid {dir}/pid; error_log {dir}/error.log;\nevents {{}}\nhttp {{\naccess_log off;\n\
             client_body_temp_path {dir}/nginx-temp; proxy_temp_path {dir}/nginx-temp; fastcgi_temp_path {dir}/nginx-temp;\n\
             uwsgi_temp_path {dir}/nginx-temp; scgi_temp_path {dir}/nginx-temp;\n\
             server {{ listen 127.0.0.1:{port}; root {dir}/www; server_name site.test;\n\
             location /params/ {{ include {files}/fastcgi_params; {pass} }}\n\
             location /conf/ {{ include {files}/fastcgi.conf; {pass} }}\n\
             location /proxy/ {{ include {files}/proxy_params; proxy_pass http://UPSTREAM/echo; }}\n}}\n}}\n"
        );
        site.fill(&text)
    };
    let (first, second) = (free_port(), free_port());
    let own = "user root; daemon off; master_process off;";
    let theirs = conf(first, "/etc/nginx", own);
    let theirs = run(&site, &nginx, "built-in", &theirs, first, true);
    let ours = conf(second, "/none", "");
    let ours = run(&site, &sluice(), "built-in", &ours, second, false);
    for request in [
        "GET /params/a.php?x=1",
        "POST /params/a.php/b | Content-Type: text/plain | body=x",
        "GET /conf/a.php",
        "GET /proxy/a | X-Forwarded-For: 192.0.2.1",
    ] {
        let (mut expected, mut found) = (theirs.ask(request), ours.ask(request));
        for (response, port) in [(&mut expected, first), (&mut found, second)] {
            response.fields.clear();
            let text = String::from_utf8_lossy(&response.body).into_owned();
            // The client's `Connection` is not forwarded, its `Content-Length` only as CONTENT_LENGTH, and the version of HTTP to upstreams is that of each server.
            let is_meant = |line: &&str| {
                let line = line.to_ascii_lowercase();
                !line.starts_with("http_connection:")
                    && !line.starts_with("http_content_length:")
                    && !line.starts_with("connection:")
                    && !line.contains(" http/1.")
            };
            let text = text.replace(&port.to_string(), "PORT");
            let mut lines: Vec<String> = text.lines().filter(is_meant).map(str::to_owned).collect();
            // The order of parameters has no meaning.
            lines.sort();
            response.body = lines.join("\n").into_bytes();
        }
        assert!(
            expected.status.contains("200"),
            "{request}: {}",
            expected.status
        );
        let differing: Vec<String> = differences(&expected, &found)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(differing.is_empty(), "{request}: {}", differing.join("\n"));
    }
}
