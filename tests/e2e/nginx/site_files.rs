//! Site files on their own, as those of `sites-available` and `conf.d`, and includes that are missing.

use std::process::Output;

use super::setup;
use crate::client::Client;
use crate::fastcgi::recording;
use crate::harness::{Folder, Setup, run_to_end, text};

const SITE: &str = "# a site\nserver {\n\tlisten 127.0.0.1:{port};\n\troot {folder}/www;\n\
     \tlocation ~ \\.php$ { include fastcgi_params; fastcgi_pass unix:/run/php.sock; }\n}\n";

/// Writes a file and validates it.
fn validate(folder: &Folder, name: &str, content: &str) -> (Option<i32>, String) {
    folder.write(name, content);
    let Output { status, stderr, .. } = run_to_end(folder, &["validate", "--config", name]);
    (status.code(), text(&stderr))
}

#[test]
fn a_site_file_is_validated_inside_a_minimal_configuration() {
    let setup = Setup::bare();
    let site = setup.fill(SITE);
    for name in ["sites-available/default", "conf.d/site.conf", "a.example"] {
        let (status, said) = validate(setup.folder(), name, &site);
        assert_eq!(status, Some(0), "{name}: {said}");
        assert!(said.contains("warning[site-fragment]"), "{name}: {said}");
        assert!(said.contains("warning[built-in-include]"), "{name}: {said}");
        assert!(!said.contains("error["), "{name}: {said}");
    }
    let (status, said) = validate(
        setup.folder(),
        "snippets/cache",
        "location /a {\n\texpires 1h;\n}\n",
    );
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("a part of a `server` block"), "{said}");
    let output = run_to_end(setup.folder(), &["lint", "conf.d/site.conf"]);
    let said = text(&output.stderr);
    assert!(!said.contains("site-fragment"), "no mistake: {said}");
    let wrong = site.replace("fastcgi_pass", "fastcgi_push");
    let (status, said) = validate(setup.folder(), "sites-available/wrong", &wrong);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("unknown directive `fastcgi_push`"), "{said}");
}

#[test]
fn a_file_that_begins_with_events_is_an_nginx_conf() {
    let folder = Folder::new();
    for name in ["Caddyfile", "web", "web.txt"] {
        let text = "# a\nevents {}\nhttp {\n\tserver { listen 127.0.0.1:1; return 204; }\n}\n";
        let (status, said) = validate(&folder, name, text);
        assert_eq!(status, Some(0), "{name}: {said}");
        assert!(!said.contains("site-fragment"), "{name}: {said}");
    }
}

/// Programs that run nginx's command line expect it to refuse what nginx refuses.
#[test]
fn nginxs_command_line_refuses_a_site_file() {
    let setup = Setup::bare();
    let folder = setup.folder();
    folder.write("site.conf", setup.fill(SITE));
    let path = folder.path().join("site.conf");
    let path = path.to_str().expect("it is text");
    let output = run_to_end(folder, &["nginx", "-t", "-e", "stderr", "-c", path]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("test failed"), "{said}");
}

#[test]
fn a_site_file_is_served_with_the_built_in_media_types() {
    let setup = Setup::bare().args(&["--config", "site"]);
    let site = setup.fill(SITE);
    setup.folder().write("site", site);
    for name in ["a.css", "a.js", "a.svg", "a.ico"] {
        setup.folder().write(&format!("www/{name}"), "x");
    }
    let server = setup.start();
    let mut client = Client::connect(server.port);
    for (path, media_type) in [
        ("/a.css", "text/css"),
        ("/a.js", "application/javascript"),
        ("/a.svg", "image/svg+xml"),
        ("/a.ico", "image/x-icon"),
    ] {
        let response = client.get(path);
        assert_eq!(response.field("Content-Type"), Some(media_type), "{path}");
    }
}

#[test]
fn missing_parameters_are_built_in() {
    let (application, asked) = recording();
    let conf = format!(
        "events {{}}\nhttp {{\nserver {{\nlisten 127.0.0.1:{{port}};\nroot /srv;\n\
         location / {{ include /none/fastcgi.conf; fastcgi_pass 127.0.0.1:{}; }}\n}}\n}}\n",
        application.port
    );
    let server = setup(&conf).start();
    assert_eq!(Client::connect(server.port).get("/a.php?x=1").text(), "ok");
    let request = asked.try_recv().expect("the application was asked");
    for (name, value) in [
        ("SCRIPT_FILENAME", "/srv/a.php"),
        ("QUERY_STRING", "x=1"),
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_URI", "/a.php?x=1"),
        ("REDIRECT_STATUS", "200"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
    ] {
        assert_eq!(request.param(name), Some(value), "{name}");
    }
    assert_eq!(request.param("HTTPS"), None, "it is set if it is not empty");
    server.wait_for_words("the built-in `fastcgi.conf` is used");
}
