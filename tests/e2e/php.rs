//! `php_fastcgi` with the real PHP: php-fpm on a socket of the test. If PHP is not installed, these tests are reported
//! as skipped; `.ci/run` installs it.

mod fpm;
mod sites;

use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, exchange};
use crate::wire::Wire;
use fpm::{Listens, Site};

const PLAIN: &str = "root * {folder}/www\n\tphp_fastcgi {fpm}\n\tfile_server";

#[test]
fn scripts_see_the_request() {
    let Some(site) = Site::start(PLAIN, Listens::Unix) else {
        return;
    };
    site.script("vars.php", "header('Content-Type: text/plain'); foreach ($_SERVER as $k => $v) { if (is_string($v)) echo \"$k=$v\\n\"; }");
    let request = "GET /vars.php/extra%20path?x=1&y=%41 HTTP/1.1\r\nHost: example.com:81\r\nX-One: 1\r\n\
        Authorization: Basic Ym9iOnB3\r\nConnection: close\r\n\r\n";
    let response = exchange(site.port(), request);
    let text = response.text();
    let folder = site.www().display().to_string();
    for line in [
        format!("DOCUMENT_ROOT={folder}"),
        format!("SCRIPT_FILENAME={folder}/vars.php"),
        "SCRIPT_NAME=/vars.php".to_owned(),
        "PHP_SELF=/vars.php/extra path".to_owned(),
        "PATH_INFO=/extra path".to_owned(),
        "REQUEST_URI=/vars.php/extra%20path?x=1&y=%41".to_owned(),
        "QUERY_STRING=x=1&y=%41".to_owned(),
        "REQUEST_METHOD=GET".to_owned(),
        "SERVER_NAME=example.com".to_owned(),
        "SERVER_PORT=81".to_owned(),
        "SERVER_PROTOCOL=HTTP/1.1".to_owned(),
        "REMOTE_ADDR=127.0.0.1".to_owned(),
        "HTTP_HOST=example.com:81".to_owned(),
        "HTTP_X_ONE=1".to_owned(),
        "PHP_AUTH_USER=bob".to_owned(),
        "PHP_AUTH_PW=pw".to_owned(),
        "GATEWAY_INTERFACE=CGI/1.1".to_owned(),
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is missing:\n{text}"
        );
    }
    assert_eq!(
        response.field("Content-Type"),
        Some("text/plain;charset=UTF-8")
    );
}

#[test]
fn forms_and_files_are_received() {
    for listens in [Listens::Unix, Listens::Tcp] {
        let Some(site) = Site::start(PLAIN, listens) else {
            return;
        };
        site.script("form.php", "echo $_POST['name'], '/', $_POST['list'][1];");
        let response = site.post(
            "/form.php",
            "application/x-www-form-urlencoded",
            b"name=J%C3%B6rg&list[]=a&list[]=b",
        );
        assert_eq!(response.text(), "J\u{f6}rg/b");
        site.script("upload.php", "$f = $_FILES['f']; echo $f['name'], ' ', $f['size'], ' ', md5_file($f['tmp_name']), ' ', $_POST['x'];");
        let content = vec![b'q'; 100_000];
        let mut body = b"--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\ny\r\n--b\r\n\
            Content-Disposition: form-data; name=\"f\"; filename=\"a.bin\"\r\nContent-Type: application/octet-stream\r\n\r\n".to_vec();
        body.extend_from_slice(&content);
        body.extend_from_slice(b"\r\n--b--\r\n");
        let response = site.post("/upload.php", "multipart/form-data; boundary=b", &body);
        assert_eq!(
            response.text(),
            "a.bin 100000 6126d7345db69dd7335fc154e24ca462 y"
        );
    }
}

#[test]
fn large_bodies_pass_in_both_directions() {
    let Some(site) = Site::start(PLAIN, Listens::Unix) else {
        return;
    };
    site.script(
        "size.php",
        "$b = file_get_contents('php://input'); echo strlen($b), ' ', md5($b);",
    );
    let body: Vec<u8> = (0..10_000_000_u32).map(|at| (at % 251) as u8).collect();
    let response = site.post("/size.php", "application/octet-stream", &body);
    assert_eq!(response.text(), "10000000 841f78c67afc91d37bfa31a5f0131a72");
    site.script(
        "large.php",
        "for ($i = 0; $i < 100; $i++) echo str_repeat(chr(97 + $i % 26), 100000);",
    );
    let response = site.get("/large.php");
    assert_eq!(response.body.len(), 10_000_000);
    assert!((0..100).all(|at| response.body[at * 100_000 + 99_999] == b'a' + (at % 26) as u8));
}

#[test]
fn a_body_in_chunks_has_a_length_for_php() {
    let Some(site) = Site::start(PLAIN, Listens::Unix) else {
        return;
    };
    site.script(
        "size.php",
        "echo strlen(file_get_contents('php://input')), ' ', $_SERVER['CONTENT_LENGTH'];",
    );
    let request = "POST /size.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
        5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
    assert_eq!(exchange(site.port(), request).text(), "11 11");
}

#[test]
fn status_and_headers_of_a_script_are_used() {
    let Some(site) = Site::start(PLAIN, Listens::Unix) else {
        return;
    };
    site.script("away.php", "header('Location: /there?x=1'); echo 'moved';");
    let response = site.get("/away.php");
    assert_eq!(
        (response.status, response.field("Location")),
        (302, Some("/there?x=1"))
    );
    site.script("lost.php", "http_response_code(404); echo 'lost';");
    let response = site.get("/lost.php");
    assert_eq!((response.status, response.text().as_str()), (404, "lost"));
    assert_eq!(response.field("Status"), None);
    site.script(
        "cookies.php",
        "setcookie('a', '1'); setcookie('b', '2'); echo $_COOKIE['c'], $_COOKIE['d'];",
    );
    let request = "GET /cookies.php HTTP/1.1\r\nHost: a\r\nCookie: c=3\r\nCookie: d=4\r\nConnection: close\r\n\r\n";
    let response = exchange(site.port(), request);
    assert_eq!(response.text(), "34");
    assert_eq!(response.head.matches("Set-Cookie: ").count(), 2);
    site.script("fine.php", "header('Content-Length: 5'); echo 'hello';");
    assert_eq!(site.get("/fine.php").field("Content-Length"), Some("5"));
    site.script("fresh.php", "http_response_code(304);");
    assert_eq!(site.get("/fresh.php").status, 304);
}

#[test]
fn head_has_the_fields_and_no_content() {
    let Some(site) = Site::start(PLAIN, Listens::Unix) else {
        return;
    };
    site.script(
        "page.php",
        "header('X-Method: ' . $_SERVER['REQUEST_METHOD']); echo 'content';",
    );
    let mut client = Client::connect(site.port());
    for _ in 0..3 {
        client.send("HEAD /page.php HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = client.head().expect("a head");
        assert!(
            head.starts_with("HTTP/1.1 200") && head.contains("X-Method: HEAD\r\n"),
            "{head}"
        );
    }
    assert_eq!(client.get("/page.php").text(), "content");
}

#[test]
fn sessions_last_from_request_to_request() {
    let Some(site) = Site::start(PLAIN, Listens::Unix) else {
        return;
    };
    site.script(
        "count.php",
        "session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; echo $_SESSION['n'];",
    );
    let first = site.get("/count.php");
    assert_eq!(first.text(), "1");
    let cookie = first.field("Set-Cookie").expect("a cookie");
    let cookie = cookie.split(';').next().expect("a value").to_owned();
    for expected in ["2", "3", "4"] {
        let request = format!(
            "GET /count.php HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(exchange(site.port(), request).text(), expected);
    }
}

#[test]
fn a_fatal_error_is_a_500() {
    let Some(site) = Site::start(PLAIN, Listens::Unix) else {
        return;
    };
    site.script("fatal.php", "no_such_function();");
    let response = site.get("/fatal.php");
    assert_eq!((response.status, response.text().as_str()), (500, ""));
    // A process that is killed in the middle of its response leaves a truncated one.
    site.script(
        "killed.php",
        "echo str_repeat('x', 20000); flush(); exec('kill -9 ' . getmypid()); sleep(5);",
    );
    let mut client = Client::connect(site.port());
    client.send("GET /killed.php HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(
        !client
            .try_response()
            .is_ok_and(|response| response.status == 200)
    );
    site.script("fine.php", "echo 'fine';");
    assert_eq!(site.get("/fine.php").text(), "fine");
}

#[test]
fn php_errors_are_logged_if_configured() {
    let lines = "root * {folder}/www\n\tphp_fastcgi {fpm} {\n\t\tcapture_stderr\n\t}";
    let Some(site) = Site::start(lines, Listens::Unix) else {
        return;
    };
    site.script(
        "odd.php",
        "trigger_error('odd thing', E_USER_WARNING); echo 'done';",
    );
    assert_eq!(site.get("/odd.php").text(), "done");
    site.server().wait_for_words("odd thing");
    site.script("fatal.php", "no_such_function();");
    assert_eq!(site.get("/fatal.php").status, 500);
    site.server().wait_for_words("no_such_function");
}

#[test]
fn a_slow_script_has_its_limit() {
    let lines = "root * {folder}/www\n\tphp_fastcgi {fpm} {\n\t\tread_timeout 300ms\n\t}";
    let Some(site) = Site::start(lines, Listens::Unix) else {
        return;
    };
    site.script("slow.php", "sleep(20); echo 'late';");
    let began = Instant::now();
    assert_eq!(site.get("/slow.php").status, 504);
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn flushed_data_arrives() {
    let Some(site) = Site::start(PLAIN, Listens::Unix) else {
        return;
    };
    site.script(
        "drip.php",
        "for ($i = 0; $i < 3; $i++) { echo \"piece $i\\n\"; flush(); \
         while (!file_exists(\"received-$i\")) { usleep(1000); clearstatcache(); } }",
    );
    let mut wire = Wire::connect(site.port());
    wire.send("GET /drip.php HTTP/1.1\r\nHost: a\r\n\r\n");
    wire.head().expect("a head");
    for number in 0..3 {
        // The script goes on once the client has this piece.
        let piece = wire.chunk().expect("a piece");
        assert_eq!(piece, format!("piece {number}\n").into_bytes());
        site.script(&format!("received-{number}"), "");
    }
}

#[test]
fn applications_that_exit_after_a_few_requests_fail_no_client() {
    let Some(site) = Site::start_with(PLAIN, Listens::Unix, "pm.max_requests = 3") else {
        return;
    };
    site.script("id.php", "echo $_SERVER['REQUEST_METHOD'];");
    let mut client = Client::connect(site.port());
    for _ in 0..40 {
        assert_eq!(client.get("/id.php").text(), "GET");
        assert_eq!(site.post("/id.php", "text/plain", b"x").text(), "POST");
    }
}

#[test]
fn few_processes_serve_many_clients() {
    let Some(site) = Site::start_with(PLAIN, Listens::Unix, "pm.max_children = 1") else {
        return;
    };
    site.script("id.php", "usleep(2000); echo 'ok';");
    let (port, began) = (site.port(), Instant::now());
    let clients: Vec<_> = (0..10)
        .map(|_| {
            thread::spawn(move || {
                let mut client = Client::connect(port);
                (0..10).all(|_| client.get("/id.php").text() == "ok")
            })
        })
        .collect();
    for client in clients {
        assert!(client.join().expect("it does not panic"));
    }
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?} for 100 requests",
        began.elapsed()
    );
}
