//! `disable_symlinks`: symbolic links are never followed, or only with the right owner.

use std::os::unix::fs::symlink;

use super::setup;
use crate::client::exchange;

const CONF: &str = r#"
events { worker_connections 100; }
http {
    root {folder}/site;
    server {
        listen 127.0.0.1:{port};
        location / { }
        location /never/ { alias {folder}/site/; disable_symlinks on; }
        location /from/ { alias {folder}/site/; disable_symlinks on from={folder}/site/way; }
        location /owner/ { alias {folder}/site/; disable_symlinks if_not_owner from=$document_root; }
        location /asked/ { disable_symlinks on; if (-f {folder}/site/$arg_n) { return 201; } if (-e {folder}/site/$arg_n) { return 202; } return 203; }
        location /tried/ { alias {folder}/site/; disable_symlinks on; try_files $uri /page.html; }
    }
}
"#;

#[test]
fn links_are_followed_as_the_configuration_says() {
    let setup = setup(CONF);
    let folder = setup.folder();
    for (file, text) in [
        ("site/page.html", "page"),
        ("site/real/index.html", "index"),
        ("site/real/page.html", "real"),
        ("site/linked_index/other.html", "other"),
    ] {
        folder.write(file, text);
    }
    let site = folder.path().join("site");
    for (to, name) in [
        ("page.html", "link.html"),
        ("real", "way"),
        ("/proc/version", "foreign"),
        ("../page.html", "linked_index/index.html"),
    ] {
        symlink(to, site.join(name)).expect("the folder is ours");
    }
    let is_root = sluice_net::sys::identity::is_root();
    let server = setup.start();
    let status = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        exchange(server.port, request).status
    };
    let foreign = if is_root { 200 } else { 403 };
    for (path, expected) in [
        ("/link.html", 200),
        ("/way/page.html", 200),
        ("/foreign", 200),
        ("/never/page.html", 200),
        ("/never/real/", 200),
        ("/never/link.html", 403),
        // As in nginx: a symbolic link in place of a directory does not count as one.
        ("/never/way/page.html", 404),
        // nginx responds with 404 for such a directory, too.
        ("/never/way/", 403),
        ("/never/linked_index/", 403),
        ("/never/nothing", 404),
        ("/from/way/page.html", 200),
        ("/from/link.html", 403),
        ("/owner/link.html", 200),
        ("/owner/way/page.html", 200),
        ("/owner/foreign", foreign),
        ("/asked/?n=page.html", 201),
        ("/asked/?n=real", 202),
        ("/asked/?n=link.html", 203),
        ("/asked/?n=way/page.html", 203),
        ("/tried/page.html", 200),
        ("/tried/link.html", 200),
    ] {
        assert_eq!(status(path), expected, "{path}");
    }
    let tried = exchange(
        server.port,
        "GET /tried/real/../link.html HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(tried.text(), "page", "the one in its place");
}
