//! A site with php-fpm behind it.

use std::path::PathBuf;

use crate::client::{Response, exchange};
use crate::harness::{Server, Setup, free_port};
use crate::support::php::Fpm;

/// The address php-fpm listens on.
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

impl Site {
    /// A server with these lines in its site block, with `{fpm}` replaced by the address of php-fpm. `None` if PHP is
    /// not installed.
    pub fn start(lines: &str, listens: Listens) -> Option<Site> {
        Site::start_with(lines, listens, "")
    }

    /// Like `start`, with additional pool settings.
    pub fn start_with(lines: &str, listens: Listens, pool: &str) -> Option<Site> {
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
        let fpm = Fpm::start(&folder, &listen, pool)?;
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

    pub fn get(&self, path: &str) -> Response {
        self.server.ask(path)
    }

    pub fn post(&self, path: &str, content_type: &str, body: &[u8]) -> Response {
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
