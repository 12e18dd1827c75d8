//! How many of six hundred clients get a response from sluice and from an installed nginx with 512 connection slots and
//! one worker each.

use std::path::Path;

use crate::peer::nginx::{Running, run};
use crate::peer::peers::{Site, free_port, sluice};
use crate::support::client_load::{Fate, Holding, count, gather};
use crate::support::servers;

fn conf(dir: &Path, port: u16, upstream: u16, is_nginx: bool) -> String {
    let own = match is_nginx {
        true => ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {}/nginx-temp;\n", dir.display()))
            .concat(),
        false => String::new(),
    };
    let (user, dir) = match is_nginx {
        true => ("user root;\n", dir.display()),
        false => ("", dir.display()),
    };
    format!(
        "{user}daemon off;\nworker_processes 1;\npid {dir}/crowd.pid;\nerror_log {dir}/crowd.log;\n\
         events {{ worker_connections 512; }}\nhttp {{\n{own}access_log off;\nserver {{\nlisten 127.0.0.1:{port};\n\
         root {dir}/www;\nlocation / {{ return 200 here; }}\nlocation = /rated {{ limit_rate 200; }}\n\
         location = /held {{ proxy_pass http://127.0.0.1:{upstream}; }}\n}}\n}}\n"
    )
}

fn start(site: &Site, program: &Path, upstream: u16, is_nginx: bool) -> (Running, u16) {
    let port = free_port();
    let text = conf(site.dir(), port, upstream, is_nginx);
    let running = run(site, program, "crowd", &text, port, is_nginx);
    (running, port)
}

/// The number of responses if responses take long, if each needs an upstream, and if they are fast.
fn served(site: &Site, program: &Path, is_nginx: bool) -> [usize; 3] {
    let holding = Holding::default();
    let upstream = holding.start();
    let counted = ["/rated", "/held", "/"].map(|target| {
        let (_running, port) = start(site, program, upstream, is_nginx);
        let clients = gather(port, 600, target, Some(&holding));
        count(&clients, Fate::Responded(200)) + count(&clients, Fate::Waits)
    });
    holding.free();
    counted
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn connection_slots_behave_as_in_nginx() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let site = Site::new();
    std::fs::create_dir_all(site.dir().join("www")).expect("it is writable");
    std::fs::write(site.dir().join("www/rated"), "x".repeat(100_000)).expect("it is writable");
    let theirs = served(&site, &nginx, true);
    let ours = served(&site, &sluice(), false);
    println!("of 600 clients: nginx {theirs:?}, sluice {ours:?}");
    assert_eq!(theirs, ours);
}
