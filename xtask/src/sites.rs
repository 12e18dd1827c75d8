//! Generates a Caddyfile with many sites, for measuring how the cost of a configuration grows.

use std::io::{Write, stdout};

/// The port that all sites share; it needs no privileges.
const PORT: u16 = 8080;

/// Number of upstreams that the sites share.
const UPSTREAMS: usize = 100;

/// Prints a Caddyfile with `count` typical sites: files, a proxied path, a fixed response.
pub fn print(count: usize) -> bool {
    let mut text = String::from("{\n\tauto_https off\n}\n");
    for site in 0..count {
        let upstream = 9000 + site % UPSTREAMS;
        text.push_str(&format!(
            "http://site{site}.example.com:{PORT} {{\n\
             \troot /srv/site{site}\n\
             \tencode gzip\n\
             \t@api path /api/*\n\
             \thandle @api {{\n\t\treverse_proxy localhost:{upstream}\n\t}}\n\
             \thandle {{\n\t\tfile_server\n\t}}\n\
             \thandle /health {{\n\t\trespond ok\n\t}}\n\
             }}\n"
        ));
    }
    stdout().write_all(text.as_bytes()).is_ok()
}
