//! Configuration trees in the layout of Debian and Ubuntu, written here with the same directives, and the changes of
//! study 003 in its second round.

use super::setup;
use crate::client::{Client, exchange};
use crate::fastcgi::recording;
use crate::harness::{Setup, run_to_end, text};
use crate::upstream::Upstream;

/// The main file as in the packages; `worker` and `more` are the changes of round 2 of study 003.
fn main_file(worker: &str, events: &str, more: &str, log: &str) -> String {
    format!(
        "user www-data;\nworker_processes auto;\npid {{folder}}/nginx.pid;\nerror_log {{folder}}/error.log;\n\
         include {{folder}}/modules-enabled/*.conf;\n{worker}\nevents {{\n{events}\n}}\n\nhttp {{\n\n\
         sendfile on;\n\ttcp_nopush on;\n\ttypes_hash_max_size 2048;\n\t# server_tokens off;\n{more}\n\
         include {{folder}}/mime.types;\n\tdefault_type application/octet-stream;\n\
         ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3; # Dropping SSLv3, ref: POODLE\n\tssl_prefer_server_ciphers on;\n\
         access_log {log};\n\tgzip on;\n\t# gzip_vary on;\n\
         include {{folder}}/conf.d/*.conf;\n\tinclude {{folder}}/sites-enabled/*;\n}}\n\n#mail {{\n#}}\n"
    )
}

/// Writes the tree around the main file and one site.
fn tree(main: &str, site: &str) -> Setup {
    let setup = setup(main);
    let put = |name: &str, content: &str| setup.folder().write(name, setup.fill(content));
    put(
        "modules-enabled/50-mod-http-geoip.conf",
        "load_module modules/ngx_http_geoip_module.so;\n",
    );
    put("mime.types", include_str!("../../data/nginx/mime.types"));
    put(
        "fastcgi_params",
        include_str!("../../data/nginx/fastcgi_params"),
    );
    put(
        "fastcgi.conf",
        "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;\ninclude fastcgi_params;\n",
    );
    put(
        "proxy_params",
        "proxy_set_header Host $http_host;\nproxy_set_header X-Real-IP $remote_addr;\n\
         proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\nproxy_set_header X-Forwarded-Proto $scheme;\n",
    );
    put(
        "snippets/fastcgi-php.conf",
        "fastcgi_split_path_info ^(.+?\\.php)(/.*)$;\ntry_files $fastcgi_script_name =404;\n\
         set $path_info $fastcgi_path_info;\nfastcgi_param PATH_INFO $path_info;\nfastcgi_index index.php;\ninclude fastcgi.conf;\n",
    );
    put("sites-enabled/default", site);
    put("www/index.nginx-debian.html", "welcome");
    put("www/page.html", "page");
    put("www/app.php", "<?php");
    setup
}

#[test]
fn debians_default_tree() {
    let (application, asked) = recording();
    let upstream = Upstream::echo();
    let site = format!(
        "server {{\n\tlisten {{port}} default_server;\n\tlisten [::1]:{{port}} default_server;\n\troot {{folder}}/www;\n\
         index index.html index.htm index.nginx-debian.html;\n\tserver_name _;\n\
         location / {{\n\t\ttry_files $uri $uri/ =404;\n\t}}\n\
         location ~ \\.php$ {{ include snippets/fastcgi-php.conf; fastcgi_pass 127.0.0.1:{}; }}\n\
         location /app/ {{ include proxy_params; proxy_pass http://127.0.0.1:{}; }}\n\
         location ~ /\\.ht {{ deny all; }}\n}}\n",
        application.port, upstream.port
    );
    let main = main_file(
        "",
        "\tworker_connections 768;\n\t# multi_accept on;",
        "",
        "{folder}/access.log",
    );
    let server = tree(&main, &site).start();
    let mut client = Client::connect(server.port);
    let response = client.get("/");
    assert_eq!(
        (response.status, response.text().as_str()),
        (200, "welcome")
    );
    assert_eq!(response.field("Content-Type"), Some("text/html"));
    assert_eq!(client.get("/page.html").text(), "page");
    assert_eq!(client.get("/none").status, 404);
    assert_eq!(client.get("/.htaccess").status, 403);
    assert_eq!(
        client.get("/app.php/more?x=1").status,
        404,
        "`\\.php$` wants it at the end"
    );
    assert_eq!(client.get("/app.php?x=1").text(), "ok");
    let request = asked.try_recv().expect("the application was asked");
    assert_eq!(request.param("SCRIPT_NAME"), Some("/app.php"));
    assert!(
        request
            .param("SCRIPT_FILENAME")
            .is_some_and(|file| file.ends_with("/www/app.php"))
    );
    let said = client.get("/app/x").text().to_ascii_lowercase();
    assert!(said.contains("\nx-real-ip: 127.0.0.1\n"), "{said}");
    assert!(said.contains("\nx-forwarded-proto: http\n"), "{said}");
}

/// Old TLS versions beside new ones, and loaded modules, are accepted; a note says that they have no effect.
#[test]
fn what_changes_nothing_in_debians_tree_is_said() {
    let main = main_file("", "\tworker_connections 768;", "", "off");
    let setup = tree(&main, "server { listen {port}; return 204; }\n");
    let output = run_to_end(setup.folder(), &["validate", "--config", "nginx.conf"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("`load_module` has no effect"), "{said}");
    assert!(!said.contains("error["), "{said}");
}

/// The two differences that study 003 prints for its second round, applied to the tree of the first.
#[test]
fn round_two_of_study_003() {
    let upstream = Upstream::echo();
    let main = main_file(
        "worker_rlimit_nofile 100000;\n",
        "\tworker_connections 4000;\n\tuse epoll;\n\tmulti_accept on;",
        "open_file_cache max=200000 inactive=20s;\n\topen_file_cache_valid 30s;\n\topen_file_cache_min_uses 2;\n\
         open_file_cache_errors on;\n\ttcp_nodelay on;\n\treset_timedout_connection on;\n\tclient_body_timeout 10;\n\
         send_timeout 2;\n\tkeepalive_timeout 30;",
        "off",
    );
    let main = main.replace(
        "error_log {folder}/error.log;",
        "error_log {folder}/error.log crit;",
    );
    let site = format!(
        "server {{\n\tlisten {{port}} default_server;\n\troot {{folder}}/www;\n\tserver_name _;\n\tlocation / {{\n\
         proxy_redirect off;\n\t\tproxy_http_version 1.1;\n\t\tproxy_set_header Connection \"\";\n\
         proxy_pass http://127.0.0.1:{};\n\t}}\n}}\n",
        upstream.port
    );
    let server = tree(&main, &site).env("SLUICE_WORKERS", "1").start();
    for _ in 0..3 {
        let request = "GET /a HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n";
        let said = exchange(server.port, request).text().to_ascii_lowercase();
        assert!(said.starts_with("get /a http/1.1\n"), "{said}");
        assert!(!said.contains("\nconnection:"), "{said}");
    }
    assert_eq!(upstream.connections(), 1, "it is kept");
}
