//! A site with php-fpm behind it. What is asked is left to the tests.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sluice_net::sys::process::{Signal, send};

use crate::client::{Answer, exchange};
use crate::harness::{PATIENCE, Server, Setup, free_port};

/// Where php-fpm listens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Listens {
    Unix,
    Tcp,
}

/// A server and its php-fpm.
pub struct Site {
    server: Server,
    _fpm: Fpm,
}

/// A running php-fpm.
struct Fpm(Child);

impl Drop for Fpm {
    fn drop(&mut self) {
        // Only asked kindly does it end its children, too.
        let _ = send(self.0.id(), Signal::Terminate);
        let _ = self.0.wait();
    }
}

impl Site {
    /// A server with these lines in its site block, in which `{fpm}` stands for the address of php-fpm. Nothing where
    /// there is no PHP.
    pub fn start(lines: &str, listens: Listens) -> Option<Site> {
        Site::start_with(lines, listens, "")
    }

    /// The same with further settings of the pool.
    pub fn start_with(lines: &str, listens: Listens, pool: &str) -> Option<Site> {
        let Some(program) = find() else {
            println!(
                "skipped: no program `php-fpm` is installed; Debian has it as package php-fpm"
            );
            return None;
        };
        let tcp = free_port();
        let address = match listens {
            Listens::Unix => "unix/{folder}/fpm.sock".to_owned(),
            Listens::Tcp => format!("127.0.0.1:{tcp}"),
        };
        let lines = lines.replace("{fpm}", &address);
        let setup = Setup::new(&format!(
            "{{\n\tadmin off\n}}\n:{{port}} {{\n\t{lines}\n}}\n"
        ));
        let folder = setup.folder().path().to_owned();
        let listen = match listens {
            Listens::Unix => folder.join("fpm.sock").display().to_string(),
            Listens::Tcp => address,
        };
        std::fs::create_dir_all(folder.join("www")).expect("the folder is writable");
        let children = if pool.contains("max_children") {
            ""
        } else {
            "pm.max_children = 4"
        };
        let place = folder.display();
        let config = setup.folder().write(
            "fpm.conf",
            format!(
                "[global]\nerror_log = {place}/fpm.log\ndaemonize = no\n[www]\nuser = root\ngroup = root\n\
                 listen = {listen}\npm = static\n{children}\n{pool}\n\
                 php_value[session.save_path] = {place}\nphp_admin_value[upload_tmp_dir] = {place}\n\
                 php_value[post_max_size] = 50M\nphp_value[upload_max_filesize] = 50M\n\
                 php_flag[display_errors] = off\nphp_flag[log_errors] = on\n\
                 php_value[output_buffering] = 0\nphp_value[memory_limit] = 256M\n"
            ),
        );
        let mut command = Command::new(program);
        command.args([
            "--nodaemonize",
            "--allow-to-run-as-root",
            "--no-php-ini",
            "--fpm-config",
        ]);
        let child = command
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let fpm = Fpm(child.spawn().expect("php-fpm starts"));
        let until = Instant::now() + PATIENCE;
        let is_there = || match listens {
            Listens::Unix => UnixStream::connect(&listen).is_ok(),
            Listens::Tcp => std::net::TcpStream::connect(&listen).is_ok(),
        };
        while !is_there() {
            let said = || std::fs::read_to_string(folder.join("fpm.log")).unwrap_or_default();
            assert!(
                Instant::now() < until,
                "php-fpm does not listen:\n{}",
                said()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(Site {
            server: setup.start(),
            _fpm: fpm,
        })
    }

    pub fn port(&self) -> u16 {
        self.server.port
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The root of the site.
    pub fn www(&self) -> PathBuf {
        self.server.folder.path().join("www")
    }

    /// Writes a script; `code` is PHP without its tag.
    pub fn script(&self, name: &str, code: &str) {
        self.file(name, &format!("<?php\n{code}\n"));
    }

    /// Writes a file of the site.
    pub fn file(&self, name: &str, content: &str) {
        self.server.folder.write(&format!("www/{name}"), content);
    }

    pub fn get(&self, path: &str) -> Answer {
        self.server.ask(path)
    }

    pub fn post(&self, path: &str, content_type: &str, body: &[u8]) -> Answer {
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        exchange(self.server.port, request)
    }
}

/// Any php-fpm: Debian's has the version in its name and lies where only root looks.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let mut found: Vec<PathBuf> = folders
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(|file| {
            let name = file
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let version = name.strip_prefix("php-fpm");
            version.is_some_and(|v| v.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
        })
        .collect();
    found.sort();
    found.pop()
}
