//! Servers with an nginx.conf.

mod aborts;
mod addition;
mod after_requests;
mod auth;
mod buffering;
pub mod cache;
mod certbot;
mod certificates;
mod charsets;
mod client_certificates;
mod client_timeouts;
mod command_line;
mod connection_slots;
mod content;
mod debian_trees;
mod differences;
mod error_log;
mod file_changes;
mod groups;
mod gzip;
mod handshakes;
mod headers;
mod health_checks;
mod incomplete_requests;
mod inheritance;
mod least_time_and_sticky;
mod lenient_messages;
mod limits;
mod links;
mod listen;
mod locations;
mod log_files;
mod logs;
mod memcached;
mod mirror;
mod names;
mod origin;
mod parity;
mod passwords;
mod patterns;
pub mod prefix;
mod proxy_pass_variables;
mod proxying;
mod ranges;
mod rights;
mod secure_uwsgi;
mod settings_by_request;
mod shutdown_timeout;
mod site_files;
mod ssi;
mod status;
mod studies;
mod syslog;
mod tables;
mod translations;
mod tunnels;
pub mod upgrade;
mod upstream_responses;
mod versions;

use crate::harness::{Server, Setup};

/// A server to be started with this nginx.conf; `{port}` and `{folder}` are filled in.
pub fn setup(conf: &str) -> Setup {
    let setup = Setup::bare().args(&["--config", "nginx.conf"]);
    let text = setup.fill(conf);
    setup.folder().write("nginx.conf", text);
    setup
}

/// A server with these lines in its `server` block.
pub fn site(lines: &str) -> Setup {
    setup(&format!(
        "events {{}}\nhttp {{\nserver {{\nlisten 127.0.0.1:{{port}};\nroot {{folder}}/www;\n{lines}\n}}\n}}\n"
    ))
}

/// Starts a server with these lines in its `server` block, and with these files below its root.
pub fn start(lines: &str, files: &[(&str, &str)]) -> Server {
    let setup = site(lines);
    for (name, content) in files {
        setup.folder().write(&format!("www/{name}"), content);
    }
    setup.start()
}
