//! Complete PHP sites: pretty URLs, files beside scripts, and files that must never be served.

use super::PLAIN;
use super::fpm::{Listens, Site};
use crate::client::exchange;

const ECHO: &str = "header('Content-Type: text/plain'); \
    echo basename(__DIR__), '/', basename(__FILE__), ' ', $_SERVER['REQUEST_URI'], ' ', $_SERVER['PATH_INFO'] ?? '';";

#[test]
fn pretty_addresses_reach_the_front_controller() {
    let Some(site) = Site::start(PLAIN, Listens::Unix) else {
        return;
    };
    site.script("index.php", ECHO);
    site.script("blog/index.php", ECHO);
    site.script("api.php", ECHO);
    site.file("style.css", "body {}");
    site.file("blog/pic.svg", "<svg/>");
    for (path, expected) in [
        ("/", "www/index.php / "),
        ("/index.php", "www/index.php /index.php "),
        ("/any/thing?x=1", "www/index.php /any/thing?x=1 "),
        ("/blog/", "blog/index.php /blog/ "),
        ("/blog/post", "www/index.php /blog/post "),
        (
            "/api.php/v1/users",
            "www/api.php /api.php/v1/users /v1/users",
        ),
        ("/api.php", "www/api.php /api.php "),
        ("/style.css", "body {}"),
        ("/blog/pic.svg", "<svg/>"),
    ] {
        assert_eq!(site.get(path).text(), expected, "{path}");
    }
    let response = site.get("/blog?x=1");
    assert_eq!(
        (response.status, response.field("Location")),
        (308, Some("./blog/?x=1"))
    );
}

#[test]
fn no_script_is_shown_and_no_upload_runs() {
    let Some(site) = Site::start(PLAIN, Listens::Unix) else {
        return;
    };
    site.script("index.php", "echo 'front';");
    site.script("secret.php", "/* SOURCE */ echo 'secret';");
    site.file("upload/evil.jpg", "<?php echo 'EVIL';");
    site.file("upload/evil.php.jpg", "<?php echo 'EVIL';");
    for (path, expected) in [
        ("/upload/evil.jpg/x.php", "front"),
        ("/upload/evil.jpg/.php", "front"),
        ("/upload/evil.jpg%00.php", "front"),
        ("/upload/evil.jpg", "<?php echo 'EVIL';"),
        ("/upload/evil.php.jpg", "<?php echo 'EVIL';"),
        ("/secret.php/", "secret"),
        ("/secret.php/x.jpg", "secret"),
        ("/SECRET.PHP", "front"),
        ("/secret.php%20", "front"),
        ("/secret.php.", "front"),
        ("/secret%2ephp", "secret"),
        ("//secret.php", "secret"),
        ("/./secret.php", "secret"),
        ("/x/../secret.php", "secret"),
    ] {
        let response = site.get(path);
        assert_eq!(response.text(), expected, "{path}");
        assert!(!response.text().contains("SOURCE"), "{path}");
    }
}

#[test]
fn options_shape_the_site() {
    let lines = "root * {folder}/www\n\troute {\n\t\tphp_fastcgi /app/* {fpm} {\n\t\t\tindex start.php\n\
         \t\t\tenv APP_MODE {http.request.header.X-Mode}-mode\n\t\t}\n\t\tphp_fastcgi /strict/* {fpm} {\n\
         \t\t\ttry_files {path} =404\n\t\t}\n\t\tphp_fastcgi /bare/* {fpm} {\n\t\t\tindex off\n\t\t}\n\
         \t\tphp_fastcgi /own/* {fpm} {\n\t\t\troot {folder}/www/own-root\n\t\t}\n\t\tfile_server\n\t}";
    let Some(site) = Site::start(lines, Listens::Unix) else {
        return;
    };
    site.script("app/start.php", "echo 'start ', $_SERVER['APP_MODE'];");
    site.script("start.php", "echo 'top';");
    site.script("index.php", "echo 'index';");
    site.script("bare/a.php", "echo 'a';");
    site.script("own-root/index.php", "echo 'own';");
    let request = "GET /app/ HTTP/1.1\r\nHost: a\r\nX-Mode: dark\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(site.port(), request).text(), "start dark-mode");
    assert_eq!(site.get("/app/none").text(), "top");
    assert_eq!(site.get("/strict/none").status, 404);
    assert_eq!(site.get("/bare/a.php").text(), "a");
    assert_eq!(site.get("/bare/none").status, 404);
    assert_eq!(site.get("/own/x").text(), "own");
}

#[test]
fn a_blog_like_wordpress_works() {
    let lines = "root * {folder}/www\n\tencode gzip\n\t@forbidden path /xmlrpc.php /wp-content/uploads/*.php /wp-config.php\n\
         \trespond @forbidden 403\n\tphp_fastcgi {fpm}\n\tfile_server";
    let Some(site) = Site::start(lines, Listens::Unix) else {
        return;
    };
    let route = "$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH); \
        if (isset($_GET['p'])) { header('Location: /2026/11/hello/', true, 301); exit; } \
        if ($path === '/2026/11/hello/') { echo '<h1>Hello</h1>', str_repeat('<p>text</p>', 200); } \
        elseif ($path === '/') { echo '<h1>Blog</h1>'; } else { http_response_code(404); echo 'Nothing here'; }";
    site.script("index.php", route);
    site.script(
        "wp-admin/index.php",
        "header('Location: /wp-login.php?redirect_to=' . urlencode('/wp-admin/')); exit;",
    );
    site.script("wp-login.php", "if ($_SERVER['REQUEST_METHOD'] === 'POST' && $_POST['pwd'] === 'pw') { \
        setcookie('wordpress_logged_in', 'x', 0, '/', '', false, true); header('Location: /wp-admin/'); exit; } echo 'login';");
    site.script("xmlrpc.php", "echo 'rpc';");
    site.script("wp-config.php", "echo 'config';");
    site.script("wp-content/uploads/shell.php", "echo 'shell';");
    site.file("wp-content/uploads/pic.svg", "<svg/>");
    assert_eq!(site.get("/").text(), "<h1>Blog</h1>");
    let response = site.get("/2026/11/hello/");
    assert!(response.text().starts_with("<h1>Hello</h1>"));
    assert_eq!(
        response.field("Content-Type"),
        Some("text/html; charset=UTF-8")
    );
    let response = site.get("/?p=1");
    assert_eq!(
        (response.status, response.field("Location")),
        (301, Some("/2026/11/hello/"))
    );
    assert_eq!(site.get("/no/such/post/").status, 404);
    let response = site.get("/wp-admin");
    assert_eq!(response.field("Location"), Some("./wp-admin/"));
    let response = site.get("/wp-admin/");
    assert_eq!(
        response.field("Location"),
        Some("/wp-login.php?redirect_to=%2Fwp-admin%2F")
    );
    let response = site.post(
        "/wp-login.php",
        "application/x-www-form-urlencoded",
        b"log=me&pwd=pw",
    );
    assert_eq!(
        (response.status, response.field("Location")),
        (302, Some("/wp-admin/"))
    );
    assert!(
        response
            .field("Set-Cookie")
            .is_some_and(|cookie| cookie.contains("HttpOnly"))
    );
    for path in [
        "/xmlrpc.php",
        "/wp-content/uploads/shell.php",
        "/wp-config.php",
        "/wp-config.PHP",
    ] {
        assert_eq!(site.get(path).status, 403, "{path}");
    }
    assert_eq!(site.get("/wp-content/uploads/pic.svg").text(), "<svg/>");
    let request = "GET /2026/11/hello/ HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n";
    assert_eq!(
        exchange(site.port(), request).field("Content-Encoding"),
        Some("gzip")
    );
}

#[test]
fn an_application_like_laravel_works() {
    let lines = "root * {folder}/www/public\n\tphp_fastcgi {fpm}\n\tfile_server";
    let Some(site) = Site::start(lines, Listens::Tcp) else {
        return;
    };
    site.script("public/index.php", "header('Content-Type: application/json'); \
        $in = file_get_contents('php://input'); \
        if (str_starts_with($_SERVER['REQUEST_URI'], '/api/') && ($_SERVER['HTTP_AUTHORIZATION'] ?? '') !== 'Bearer t') { \
        http_response_code(401); header('WWW-Authenticate: Bearer'); echo '{}'; exit; } \
        echo json_encode(['uri' => $_SERVER['REQUEST_URI'], 'method' => $_SERVER['REQUEST_METHOD'], \
        'in' => json_decode($in), 'xhr' => $_SERVER['HTTP_X_REQUESTED_WITH'] ?? null, 'script' => $_SERVER['SCRIPT_NAME']], \
        JSON_UNESCAPED_SLASHES);");
    site.file(".env", "APP_KEY=secret");
    site.file("public/build/app.js", "let x;");
    let request = "PUT /api/users/7?full=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\nX-Requested-With: fetch\r\n\
        Content-Type: application/json\r\nContent-Length: 14\r\nConnection: close\r\n\r\n{\"name\":\"J\\\\u\"}";
    let request = request.replace("{\"name\":\"J\\\\u\"}", "{\"name\":\"Jo\"} ");
    let response = exchange(site.port(), request);
    assert_eq!(
        response.text(),
        r#"{"uri":"/api/users/7?full=1","method":"PUT","in":{"name":"Jo"},"xhr":"fetch","script":"/index.php"}"#
    );
    let response = site.get("/api/users");
    assert_eq!(
        (response.status, response.field("WWW-Authenticate")),
        (401, Some("Bearer"))
    );
    assert_eq!(site.get("/build/app.js").text(), "let x;");
    for path in ["/../.env", "/%2e%2e/.env", "/.env"] {
        assert!(!site.get(path).text().contains("secret"), "{path}");
    }
}
