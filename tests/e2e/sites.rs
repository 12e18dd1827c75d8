//! The sites of `tests/data/sites` as sluice serves them. The comparison with Caddy sends the same requests.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use crate::client::{Response, exchange};
use crate::harness::{Setup, TIMEOUT, eventually, run_to_end};
use crate::support::sites::{Doubles, SITES, Site, bytes};

/// Starts the site and sends all requests.
fn ask_all(name: &str) {
    let site = Site::read(name);
    let doubles = Doubles::start(crate::upstream::dead());
    let setup = Setup::bare();
    let port: u16 = setup.fill("{port}").parse().expect("a port");
    let text = site.prepare(setup.folder().path(), port, &doubles);
    setup.folder().write("Caddyfile", text);
    let server = setup.start();
    for step in &site.steps {
        let response = match step.request.contains("Upgrade: ") {
            true => upgraded(server.port, &bytes(&step.request)),
            false => exchange(server.port, bytes(&step.request)),
        };
        for expected in &step.expected {
            if let Err(found) = meets(&response, expected) {
                panic!(
                    "{name}: {}\n  expected {expected}\n  found {found}",
                    step.request
                );
            }
        }
    }
    for (file, words, is_there) in &site.logged {
        match is_there {
            true => eventually(
                words,
                || server.folder.read(file).contains(words),
                || server.folder.read(file),
            ),
            false => assert!(
                !server.folder.read(file).contains(words),
                "{name}: {words} in {file}"
            ),
        }
    }
}

/// A response with everything after its head until the upstream closes.
fn upgraded(port: u16, request: &str) -> Response {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("somebody listens");
    stream
        .set_read_timeout(Some(TIMEOUT))
        .expect("a timeout can be set");
    stream
        .write_all(request.as_bytes())
        .expect("the server takes it");
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw).expect("the tunnel ends");
    let end = raw.windows(4).position(|part| part == b"\r\n\r\n");
    let end = end.expect("a head came") + 4;
    let head = String::from_utf8_lossy(&raw[..end]).into_owned();
    Response {
        status: head[9..12].parse().expect("a status"),
        head,
        body: raw[end..].to_vec(),
    }
}

/// Whether a response meets an expectation of the script; otherwise what it is instead.
fn meets(response: &Response, expected: &str) -> Result<(), String> {
    let text = response.text();
    let (is_so, found) = if let Some(words) = expected.strip_prefix("~ ") {
        (text.contains(words), text)
    } else if let Some(words) = expected.strip_prefix("- ") {
        (!text.contains(words), text)
    } else if let Some(body) = expected.strip_prefix('=') {
        (text.trim_end() == body.trim(), text)
    } else if let Some(field) = expected.strip_prefix('!') {
        let found = response.field(field);
        (found.is_none(), found.unwrap_or_default().to_owned())
    } else if let Some((field, value)) = expected.split_once(": ") {
        let found = response.field(field);
        (found == Some(value), format!("{found:?}"))
    } else {
        let status = response.status.to_string();
        (status == expected, status)
    };
    is_so.then_some(()).ok_or(found)
}

macro_rules! sites {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            ask_all(stringify!($name));
        })*

        #[test]
        fn every_site_is_asked() {
            assert_eq!(SITES, &[$(stringify!($name)),*]);
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/sites");
            let found = std::fs::read_dir(folder).expect("the sites are there").flatten();
            let mut names: Vec<String> = found
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            assert_eq!(names, SITES);
        }
    };
}

sites! {
    admin_area
    balanced_api
    blog_with_redirects
    canary_by_cookie
    cors_snippet
    downloads
    error_pages
    forward_auth
    grafana_sub_path
    home_assistant
    ip_allow_list
    jellyfin
    laravel
    log_per_site
    maintenance_page
    multi_tenant
    nextcloud
    s3_proxy
    security_headers
    spa_with_api
    unix_socket
    vaultwarden
    wildcard_home
    wordpress
    www_to_apex
}

/// Published Caddyfiles are formatted, and so are these.
#[test]
fn the_files_are_formatted() {
    let folder = crate::harness::Folder::new();
    for name in SITES {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../tests/data/sites")
            .join(name)
            .join("Caddyfile");
        let output = run_to_end(&folder, &["fmt", &path.to_string_lossy()]);
        assert_eq!(output.status.code(), Some(0), "{name}");
    }
}
