//! What a Caddyfile does in Caddy 2.11.9 and once did differently here.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::client::{Client, exchange};
use crate::harness::{Folder, Server, Setup, eventually, free_port, run_to_end, sluice, text};
use crate::support::abilities::has_openssl;
use crate::support::fastcgi::{read_request, said};
use crate::upstream::Upstream;

const TO_PIPES: &str =
    "{\n\tadmin off\n}\n:{port} {\n\tlog {\n\t\toutput file /dev/fd/3\n\t}\n\trespond hello\n}\n";

#[test]
fn an_inherited_pipe_is_a_log_file() {
    let (reader, writer) = std::io::pipe().expect("descriptors are left");
    let server = Setup::new(TO_PIPES).inherits(writer).start();
    assert_eq!(server.ask("/through-a-pipe").status, 200);
    let mut line = String::new();
    BufReader::new(reader)
        .read_line(&mut line)
        .expect("it is text");
    assert!(line.contains("/through-a-pipe"), "{line}");
}

#[test]
fn a_piped_standard_output_is_a_log_file_by_every_name() {
    for name in ["/dev/stdout", "/proc/self/fd/1", "link.log"] {
        let folder = Folder::new();
        std::os::unix::fs::symlink("/dev/stdout", folder.path().join("link.log"))
            .expect("the folder is writable");
        let port = free_port();
        folder.write(
            "Caddyfile",
            format!(
                "{{\n\tadmin off\n}}\n:{port} {{\n\tlog {{\n\t\toutput file {name}\n\t}}\n\trespond hello\n}}\n"
            ),
        );
        let mut command = sluice(&folder);
        command
            .arg("run")
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary starts");
        let connects = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        eventually("it to listen", connects, || name.to_owned());
        assert_eq!(crate::client::ask(port, "/page").status, 200);
        let stdout = child.stdout.take().expect("it is piped");
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        child.kill().expect("it is a child of ours");
        child.wait().expect("it is a child of ours");
        read.expect("it is text");
        assert!(line.contains("/page"), "{name}: {line}");
    }
}

#[test]
fn files_that_are_missing_name_their_line() {
    let folder = Folder::new();
    folder.write(
        "Caddyfile",
        ":8443 {\n\ttls missing.pem missing.key\n}\n:8444 {\n\ttls {\n\t\tload /missing\n\t}\n}\n\
         :8445 {\n\treverse_proxy https://localhost:1 {\n\t\ttransport http {\n\
         \t\t\ttls_trust_pool file missing.pem\n\t\t}\n\t}\n}\n",
    );
    let output = run_to_end(&folder, &["validate"]);
    let shown = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    for place in ["Caddyfile:2:6", "Caddyfile:6:8", "Caddyfile:10:2"] {
        assert!(shown.contains(place), "{place}: {shown}");
    }
    assert!(shown.contains("no such file or directory"), "{shown}");
}

#[test]
fn every_module_with_a_type_is_listed_once() {
    let output = run_to_end(&Folder::new(), &["list-modules"]);
    let shown = text(&output.stdout);
    let names: Vec<&str> = shown.lines().take_while(|line| !line.is_empty()).collect();
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{shown}");
    assert!(shown.ends_with(&format!("Standard modules: {}\n", names.len())));
    for name in [
        "http.handlers.timeouts",
        "tls.issuance.acme",
        "tls.permission.python_dir",
        "tls",
    ] {
        assert!(names.contains(&name), "{name}: {shown}");
    }
}

#[test]
fn log_level_sets_the_level_of_an_entry() {
    let server = Server::start(
        "{\n\tadmin off\n}\n:{port} {\n\tlog {\n\t\toutput file {folder}/access.log\n\t}\n\
         \tlog_level /quiet debug\n\tlog_level /bad* warn\n\trespond /bad 503\n\trespond ok\n}\n",
    );
    for path in ["/quiet", "/bad", "/plain"] {
        server.ask(path);
    }
    let read = || server.folder.read("access.log");
    eventually("two lines", || read().lines().count() == 2, read);
    // Connections are handled by several threads, so the order of their entries is open.
    let mut levels: Vec<String> = read()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("it is JSON"))
        .map(|line| format!("{} {}", line["level"], line["request"]["uri"]))
        .collect();
    levels.sort();
    assert_eq!(levels, ["\"info\" \"/plain\"", "\"warn\" \"/bad\""]);
}

#[test]
fn plain_listings_have_the_given_layout_of_times() {
    let setup = Setup::new(
        ":{port} {\n\tfile_server {\n\t\troot {folder}/files\n\t\tbrowse {\n\
         \t\t\tplain_time_format \"at 2006\"\n\t\t}\n\t}\n}\n",
    );
    std::fs::create_dir(setup.folder().path().join("files")).expect("writable");
    setup.folder().write("files/a.txt", "a");
    let server = setup.start();
    let request =
        "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\nConnection: close\r\n\r\n";
    let listing = exchange(server.port, request).text();
    let row = listing.lines().find(|line| line.starts_with("a.txt"));
    let time = row.and_then(|row| row.rsplit('\t').next());
    let time = time.and_then(|time| time.strip_prefix("at "));
    let is_year = time.is_some_and(|year| year.len() == 4 && year.parse::<u16>().is_ok());
    assert!(is_year, "{listing}");
}

#[test]
fn the_redirect_to_a_folder_of_php_stays_on_the_host() {
    let setup = Setup::new(":{port} {\n\troot {folder}/www\n\tphp_fastcgi localhost:1\n}\n");
    let app = setup.folder().path().join("www/an app");
    std::fs::create_dir_all(&app).expect("writable");
    std::fs::write(app.join("index.php"), "").expect("writable");
    let server = setup.start();
    for (path, location) in [
        ("/an%20app?x=1", "./an%20app/?x=1"),
        ("//an%20app", "./an%20app/"),
        ("/other/../an%20app", "./an%20app/"),
    ] {
        let response = server.ask(path);
        assert_eq!(response.status, 308, "{path}");
        assert_eq!(response.field("Location"), Some(location), "{path}");
    }
}

#[test]
fn scripts_may_be_where_only_the_application_sees_them() {
    let application = Upstream::start(|mut wire| {
        while let Some(asked) = read_request(&mut wire) {
            let script = asked
                .param("SCRIPT_FILENAME")
                .unwrap_or_default()
                .to_owned();
            wire.send(said(
                format!("Content-Type: text/plain\r\n\r\n{script}").as_bytes(),
            ));
            if !asked.keeps {
                return;
            }
        }
    });
    let server = Server::start(&format!(
        ":{{port}} {{\n\troot /nowhere/html\n\tphp_fastcgi localhost:{}\n\tfile_server\n}}\n",
        application.port
    ));
    for (path, script) in [
        ("/", "/nowhere/html/index.php"),
        ("/any/page", "/nowhere/html/index.php"),
        ("/other.php", "/nowhere/html/index.php"),
    ] {
        let response = server.ask(path);
        assert_eq!(response.status, 200, "{path}: {}", server.stderr());
        assert_eq!(response.text(), script, "{path}");
    }
}

#[test]
fn ports_behind_a_placeholder_are_a_range() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    let server = Server::start(&format!(
        ":{{port}} {{\n\treverse_proxy {{host}}:{0}-{0}\n}}\n",
        upstream.port
    ));
    let request = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(server.port, request).text(), "hi");
}

#[test]
fn nothing_on_the_plain_http_port_uses_tls() {
    let setup = Setup::bare();
    let https = free_port();
    setup.folder().write(
        "two.json",
        setup.fill(&format!(
            r#"{{"admin":{{"disabled":true}},"apps":{{"http":{{"http_port":{{port}},"https_port":{https},
            "servers":{{"a":{{"listen":["127.0.0.1:{{port}}","127.0.0.1:{https}"],"routes":[
            {{"match":[{{"host":["localhost"],"path":["/x"]}}],
              "handle":[{{"handler":"static_response","body":"hi"}}]}}]}}}}}},
            "tls":{{"automation":{{"policies":[{{"issuers":[{{"module":"internal"}}]}}]}}}}}}}}"#
        )),
    );
    let server = setup.args(&["--config", "{folder}/two.json"]).start();
    let mut client = Client::connect(server.port);
    let response = client.get("/x");
    assert_eq!((response.status, response.text()), (200, "hi".to_owned()));
    let response = server.ask("/other");
    assert_eq!(response.status, 308);
    assert_eq!(response.field("Location"), Some("https://localhost/other"));
}

/// Makes certificates that are CA and leaf at once, of X.509 version 1, or have a common name only.
fn certificates(folder: &Folder) {
    let script = "set -e\n\
        new='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost'\n\
        openssl req -x509 $new -keyout both.key -out both.pem -addext subjectAltName=DNS:localhost\n\
        openssl req -x509 $new -keyout other.key -out other.pem -addext subjectAltName=DNS:localhost\n\
        openssl req -x509 $new -keyout common.key -out common.pem\n\
        openssl req $new -keyout old.key -out old.csr\n\
        openssl x509 -req -in old.csr -signkey old.key -out old.pem -days 2\n\
        openssl x509 -in old.pem -noout -text | grep -q 'Version: 1'\n";
    let output = Command::new("sh")
        .args(["-c", script])
        .current_dir(folder.path())
        .output()
        .expect("there is a shell");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_pinned_certificate_is_trusted_also_if_it_is_a_ca() {
    if !has_openssl() {
        return;
    }
    let mut sites = String::from("{\n\tadmin off\n\tauto_https off\n}\n");
    let (pinned, common, old, client) = (free_port(), free_port(), free_port(), free_port());
    for (port, name) in [(pinned, "both"), (common, "common"), (old, "old")] {
        sites += &format!(
            "https://:{port} {{\n\ttls {{folder}}/{name}.pem {{folder}}/{name}.key\n\trespond {name}\n}}\n"
        );
    }
    sites += &format!(
        "https://:{client} {{\n\ttls {{folder}}/both.pem {{folder}}/both.key {{\n\t\tclient_auth {{\n\
         \t\t\tmode require_and_verify\n\t\t\ttrust_pool file {{folder}}/both.pem\n\t\t}}\n\t}}\n\trespond client\n}}\n"
    );
    let route = |path: &str, port: u16, trusted: &str, name: &str, more: &str| {
        format!(
            "\treverse_proxy /{path} https://127.0.0.1:{port} {{\n\t\ttransport http {{\n\
             \t\t\ttls_trust_pool file {{folder}}/{trusted}.pem\n\t\t\ttls_server_name {name}\n{more}\t\t}}\n\t}}\n"
        )
    };
    let own =
        |name: &str| format!("\t\t\ttls_client_auth {{folder}}/{name}.pem {{folder}}/{name}.key\n");
    sites += ":{port} {\n";
    for (path, port, trusted, name, more) in [
        ("pinned", pinned, "both", "localhost", String::new()),
        ("other", pinned, "other", "localhost", String::new()),
        ("name", pinned, "both", "a.test", String::new()),
        ("common", common, "common", "localhost", String::new()),
        ("old", old, "old", "localhost", String::new()),
        ("client", client, "both", "localhost", own("both")),
        ("stranger", client, "both", "localhost", own("other")),
    ] {
        sites += &route(path, port, trusted, name, &more);
    }
    sites += "}\n";
    let setup = Setup::new(&sites);
    certificates(setup.folder());
    let server = setup.start();
    for (path, status) in [
        ("/pinned", 200),
        ("/other", 502),
        ("/name", 502),
        // Caddy takes no common name for a host name.
        ("/common", 502),
        ("/old", 502),
        ("/client", 200),
        ("/stranger", 502),
    ] {
        assert_eq!(
            server.ask(path).status,
            status,
            "{path}: {}",
            server.stderr()
        );
    }
    nginx_trusts_common_names(&server, pinned, common, old);
}

/// The upstreams of the other test, behind an nginx.conf.
fn nginx_trusts_common_names(upstreams: &Server, pinned: u16, common: u16, old: u16) {
    let setup = Setup::bare();
    let mut locations = String::new();
    for (path, port, trusted, name) in [
        ("pinned", pinned, "both", "localhost"),
        ("other", pinned, "other", "localhost"),
        ("common", common, "common", "localhost"),
        ("name", common, "common", "a.test"),
        ("old", old, "old", "localhost"),
    ] {
        locations += &format!(
            "location /{path} {{\nproxy_pass https://127.0.0.1:{port};\nproxy_ssl_verify on;\n\
             proxy_ssl_name {name};\nproxy_ssl_server_name on;\n\
             proxy_ssl_trusted_certificate {}/{trusted}.pem;\n}}\n",
            upstreams.folder.path().display()
        );
    }
    setup.folder().write(
        "nginx.conf",
        setup.fill(&format!(
            "events {{\n}}\nhttp {{\nserver {{\nlisten 127.0.0.1:{{port}};\n{locations}}}\n}}\n"
        )),
    );
    let server = setup.args(&["--config", "{folder}/nginx.conf"]).start();
    for (path, status) in [
        ("/pinned", 200),
        ("/other", 502),
        ("/common", 200),
        ("/name", 502),
        ("/old", 200),
    ] {
        assert_eq!(
            server.ask(path).status,
            status,
            "{path}: {}",
            server.stderr()
        );
    }
}

#[test]
fn what_asks_to_be_forwarded_as_it_arrives_is_not_collected() {
    let upstream = Upstream::responding(
        "HTTP/1.1 200 OK\r\nIncremental: ?1\r\nProxy-Status: inner\r\nContent-Length: 4\r\n\r\nlive",
    );
    let server = Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\thandle /in {{\n\t\treverse_proxy 127.0.0.1:{0} {{\n\t\t\t\
         request_buffers 4KiB\n\t\t\tproxy_status_name edge\n\t\t}}\n\t}}\n\thandle /out {{\n\t\t\
         reverse_proxy 127.0.0.1:{0} {{\n\t\t\tresponse_buffers 4KiB\n\t\t\tproxy_status_name edge\n\t\t}}\n\t}}\n\t\
         handle {{\n\t\treverse_proxy 127.0.0.1:{0}\n\t}}\n}}\n",
        upstream.port
    ));
    for (head, status, reported) in [
        (
            "POST /in HTTP/1.1\r\nIncremental: ?1",
            501,
            Some("edge;error=incremental_refused"),
        ),
        ("POST /in HTTP/1.1\r\nIncremental: ?0", 200, Some("inner")),
        (
            "POST /out HTTP/1.1",
            501,
            Some("inner, edge;error=incremental_refused"),
        ),
        ("POST / HTTP/1.1\r\nIncremental: ?1", 200, Some("inner")),
    ] {
        let request = format!("{head}\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
        let response = exchange(server.port, &request);
        assert_eq!(response.status, status, "{head}");
        assert_eq!(response.field("Proxy-Status"), reported, "{head}");
    }
}

#[test]
fn settings_of_a_json_configuration_do_not_vanish() {
    let server =
        |inner: &str| format!(r#"{{"apps":{{"http":{{"servers":{{"s":{{{inner}}}}}}}}}}}"#);
    let folder = Folder::new();
    let validate = |text: &str| {
        folder.write("config.json", text);
        let output = run_to_end(&folder, &["validate", "--config", "config.json"]);
        (output.status.code(), text_of(&output))
    };
    let load = r#"{"admin":{"config":{"load":{"module":"http","url":"http://a.test"}}}}"#;
    let (code, said) = validate(load);
    assert_eq!(code, Some(0), "{said}");
    let load = r#"{"admin":{"config":{"load":{"module":"http","url":"a.test"}}}}"#;
    let (code, said) = validate(load);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("admin.config.load"), "{said}");
    let identity = r#"{"admin":{"identity":{"identifiers":["a.test"]}}}"#;
    let (code, said) = validate(identity);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("at admin.identity"), "{said}");
    for (name, inner) in [
        ("push", r#""routes":[{"handle":[{"handler":"push"}]}]"#),
        (
            "write_buffer_size",
            r#""routes":[{"handle":[{"handler":"reverse_proxy","transport":{"protocol":"http","write_buffer_size":4096}}]}]"#,
        ),
    ] {
        let (code, said) = validate(&server(inner));
        assert_eq!(code, Some(0), "{said}");
        assert!(
            said.contains("warning[no-effect]") && said.contains(name),
            "{said}"
        );
    }
    let (code, said) = validate(&server(r#""protocols":["h1","h2","h3"]"#));
    assert!(code == Some(0) && !said.contains("no-effect"), "{said}");
}

fn text_of(output: &std::process::Output) -> String {
    text(&output.stderr) + &text(&output.stdout)
}
