//! `proxy_pass` with variables: the selected upstream, and the request it receives.

use super::{setup, start};
use crate::client::{Response, exchange};
use crate::fastcgi::recording;
use crate::harness::{Server, free_port};
use crate::support::cgi::{read_scgi, read_uwsgi};
use crate::support::dns::{Dns, Record};
use crate::upstream::{Upstream, unix_echo};

fn get(server: &Server, path: &str) -> Response {
    exchange(
        server.port,
        format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"),
    )
}

/// The request line that the upstream received.
fn line(response: &Response) -> String {
    response
        .text()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Locations that proxy to one of two upstreams.
fn conf(echo: u16, other: u16) -> String {
    format!(
        r#"
events {{}}
http {{
upstream Grouped {{ server 127.0.0.1:{echo}; }}
map $arg_to $chosen {{ default 127.0.0.1:{other}; group grouped; }}
server {{
listen 127.0.0.1:{{port}};
location / {{ proxy_pass http://$chosen; }}
location /uri/ {{ proxy_pass http://$chosen/new$request_uri; }}
location /decoded/ {{ proxy_pass http://$chosen$uri; }}
location ~ ^/re/(.*)$ {{ proxy_pass http://$chosen/$1?fixed; }}
location /whole {{ set $url http://127.0.0.1:{echo}; proxy_pass $url; proxy_set_header X-Host "$proxy_host $proxy_port"; }}
location /rewritten {{ rewrite ^ /b%20c break; proxy_pass http://$chosen; }}
location /unix {{ proxy_pass http://unix:{{folder}}/$arg_name.sock:/x$is_args$args; }}
location /unknown {{ proxy_pass http://nobody.$arg_x; }}
location /scheme {{ proxy_pass $arg_x; }}
}}
}}
"#
    )
}

#[test]
fn groups_are_looked_for_first_and_addresses_dialled_as_they_stand() {
    let (echo, other) = (
        Upstream::echo(),
        Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother"),
    );
    let setup = setup(&conf(echo.port, other.port));
    unix_echo(&setup.folder().path().join("s.sock"));
    let server = setup.start();
    for (path, asked) in [
        (
            "/a%20b?to=group&x=%2f",
            "GET /a%20b?to=group&x=%2f HTTP/1.1",
        ),
        ("/uri/%61?to=group", "GET /new/uri/%61?to=group HTTP/1.1"),
        // As in nginx: the value is forwarded as it is, without the query.
        ("/decoded/a?to=group", "GET /decoded/a HTTP/1.1"),
        // A client cannot inject a line into the request.
        (
            "/decoded/a%0d%0aX:%20y?to=group",
            "GET /decoded/a%0D%0AX:%20y HTTP/1.1",
        ),
        ("/re/abc?to=group", "GET /abc?fixed HTTP/1.1"),
        ("/whole?q", "GET /whole?q HTTP/1.1"),
        ("/rewritten?to=group", "GET /b%2520c?to=group HTTP/1.1"),
        ("/unix?name=s", "GET /x?name=s HTTP/1.1"),
    ] {
        let response = get(&server, path);
        assert_eq!((response.status, &*line(&response)), (200, asked), "{path}");
    }
    let whole = get(&server, "/whole").text();
    let port = echo.port;
    assert!(
        whole.contains(&format!("Host: 127.0.0.1:{port}\n")),
        "{whole}"
    );
    assert!(
        whole.contains(&format!("X-Host: 127.0.0.1:{port} {port}\n")),
        "{whole}"
    );
    let grouped = get(&server, "/?to=group").text();
    assert!(grouped.contains("Host: grouped\n"), "{grouped}");
    assert_eq!(get(&server, "/").text(), "other");
    for (path, status) in [
        ("/unknown?x=test", 502),
        ("/scheme?x=ftp:", 500),
        ("/scheme?x=http://169.254.169.254/", 502),
        ("/scheme", 500),
    ] {
        assert_eq!(get(&server, path).status, status, "{path}");
    }
    server.wait_for_words("without a `resolver` names are not looked up");
}

#[test]
fn names_are_looked_up_where_there_is_a_resolver() {
    let echo = Upstream::echo();
    let near = Record::Address(std::net::Ipv4Addr::LOCALHOST);
    let far = Record::Address(std::net::Ipv4Addr::new(169, 254, 169, 254));
    let dns = Dns::knowing(vec![("up.test.", near), ("metadata.test.", far)]);
    let lines = format!(
        "resolver {} valid=1s; location / {{ proxy_pass http://$arg_name:{}; }}",
        dns.address, echo.port
    );
    let server = start(&lines, &[]);
    assert_eq!(
        line(&get(&server, "/?name=up.test")),
        "GET /?name=up.test HTTP/1.1"
    );
    assert_eq!(get(&server, "/?name=none.test").status, 502);
    assert_eq!(get(&server, "/?name=metadata.test").status, 502);
    assert!(dns.asked() >= 3);
}

#[test]
fn servers_of_groups_are_looked_up_by_the_resolver_that_is_named() {
    let echo = Upstream::echo();
    let record = |name| (name, Record::Address(std::net::Ipv4Addr::LOCALHOST));
    let [of_group, of_http] =
        ["up.test.", "other.test."].map(|name| Dns::knowing(vec![record(name)]));
    let conf = format!(
        "events {{}} http {{ resolver {http};\n\
         upstream own {{ zone a 64k; resolver {group} valid=1s; resolver_timeout 5s; server up.test:{port} resolve; }}\n\
         upstream usual {{ zone b 64k; server other.test:{port} resolve; }}\n\
         upstream plain {{ server localhost:{port}; }}\n\
         server {{ listen 127.0.0.1:{{port}}; location /own {{ proxy_pass http://own; }} location /usual {{ proxy_pass http://usual; }} \
         location /plain {{ proxy_pass http://plain; }} }} }}",
        http = of_http.address,
        group = of_group.address,
        port = echo.port
    );
    let server = setup(&conf).start();
    for path in ["/own", "/usual", "/plain"] {
        assert_eq!(line(&get(&server, path)), format!("GET {path} HTTP/1.1"));
    }
    assert!(of_group.asked() > 0 && of_http.asked() > 0);
}

#[test]
fn applications_can_be_named_by_variables() {
    let (application, asked) = recording();
    let lines = format!(
        "location / {{ fastcgi_pass $arg_to; fastcgi_param SCRIPT_FILENAME /x; fastcgi_param QUERY_STRING $query_string; }} \
         location /fixed {{ set $app 127.0.0.1:{port}; fastcgi_pass $app; fastcgi_param SCRIPT_FILENAME /y; }}",
        port = application.port
    );
    let server = start(&lines, &[]);
    let response = get(&server, &format!("/?to=127.0.0.1:{}", application.port));
    assert_eq!(response.text(), "ok");
    let script = || {
        asked
            .recv()
            .expect("it was asked")
            .param("SCRIPT_FILENAME")
            .map(str::to_owned)
    };
    assert_eq!(script().as_deref(), Some("/x"));
    assert_eq!(get(&server, "/fixed").text(), "ok");
    assert_eq!(script().as_deref(), Some("/y"));
    assert_eq!(get(&server, "/?to=nobody").status, 502);
    assert_eq!(get(&server, "/").status, 500);
}

#[test]
fn applications_of_scgi_and_uwsgi_and_calls_of_grpc_can_be_named_by_variables() {
    let body_of = |kind: &str| format!("Status: 200 OK\r\nContent-Type: text/plain\r\n\r\n{kind}");
    let scgi = Upstream::start(move |mut wire| {
        if read_scgi(&mut wire).is_some() {
            wire.send(body_of("scgi"));
        }
    });
    let uwsgi = Upstream::start(move |mut wire| {
        if read_uwsgi(&mut wire).is_some() {
            wire.send(body_of("uwsgi"));
        }
    });
    let inner = free_port();
    let conf = format!(
        "events {{}} http {{ http2 on; upstream app {{ server 127.0.0.1:{scgi}; }} upstream wsgi {{ server 127.0.0.1:{uwsgi}; }} \
         upstream calls {{ server 127.0.0.1:{inner}; }}\n\
         server {{ listen 127.0.0.1:{{port}}; location /s {{ scgi_pass $arg_to; scgi_param CONTENT_LENGTH 0; }} \
         location /u {{ uwsgi_pass $arg_to; uwsgi_param CONTENT_LENGTH 0; }} \
         location /g {{ grpc_pass $arg_to; }} location /full {{ grpc_pass grpc://$arg_to; }} }}\n\
         server {{ listen 127.0.0.1:{inner}; return 200 \"$server_protocol $http_host $request_uri\"; }} }}",
        scgi = scgi.port,
        uwsgi = uwsgi.port
    );
    let server = setup(&conf).start();
    for (path, expected) in [
        ("/s?to=app", "scgi".to_owned()),
        (&format!("/s?to=127.0.0.1:{}", scgi.port), "scgi".to_owned()),
        ("/u?to=WSGI", "uwsgi".to_owned()),
        ("/u?to=uwsgi://wsgi", "uwsgi".to_owned()),
        (
            &format!("/u?to=127.0.0.1:{}", uwsgi.port),
            "uwsgi".to_owned(),
        ),
        ("/g?to=calls", "HTTP/2.0 calls /g?to=calls".to_owned()),
        (
            "/g?to=grpc://calls",
            "HTTP/2.0 calls /g?to=grpc://calls".to_owned(),
        ),
        (
            &format!("/full?to=127.0.0.1:{inner}"),
            format!("HTTP/2.0 127.0.0.1:{inner} /full?to=127.0.0.1:{inner}"),
        ),
    ] {
        assert_eq!(get(&server, path).text(), expected, "{path}");
    }
    for (path, status) in [
        ("/s?to=nobody", 502),
        ("/u?to=", 500),
        ("/g?to=http://calls", 500),
        ("/g?to=grpc://calls/path", 500),
    ] {
        assert_eq!(get(&server, path).status, status, "{path}");
    }
}
