//! The two programs on free ports, with the same files behind them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use crate::peer::cases::Case;
use crate::peer::http::{self, Response};
use crate::peer::{fastcgi, upstream};
use crate::support::program::Program;

/// The files that both serve, removed on drop.
pub struct Site {
    dir: PathBuf,
    upstream: u16,
    fastcgi: u16,
}

/// A running program.
pub struct Peer {
    _program: Program,
    port: u16,
}

pub fn sluice() -> PathBuf {
    env!("CARGO_BIN_EXE_sluice").into()
}

impl Site {
    pub fn new() -> Site {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("sluice-peer-{}-{number}", std::process::id()));
        let root = dir.join("www");
        for folder in [
            "sub",
            "noindex",
            "hidden",
            "sp ace",
            "php/sub",
            "php/upload",
        ] {
            std::fs::create_dir_all(root.join(folder)).expect("the folder is writable");
        }
        let long = "<p>hot dogs are tasty</p>\n".repeat(200);
        let files: [(&str, &[u8]); 18] = [
            ("index.html", b"<h1>home</h1>\n"),
            ("sub/index.html", b"<h1>sub</h1>\n"),
            ("page.html", long.as_bytes()),
            ("style.css", b"body { color: red }\n"),
            ("script.js", b"alert(1)\n"),
            ("data.json", b"{\"a\": 1}\n"),
            ("pic.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
            ("note.txt", b"0123456789abcdefghijklmnopqrstuvwxyz"),
            ("blob.bin", b"\x00\x01\x02\x03"),
            ("empty.txt", b""),
            ("sp ace/f.txt", b"space"),
            ("hidden/secret.txt", b"secret"),
            ("unknown.qqq", b"plain text of an unknown kind"),
            ("noindex/a.txt", b"a"),
            ("php/index.php", b"<?php"),
            ("php/sub/index.php", b"<?php"),
            ("php/style.css", b"body { color: blue }\n"),
            ("php/upload/evil.jpg", b"<?php"),
        ];
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        for (name, content) in files {
            std::fs::write(root.join(name), content).expect("the folder is writable");
            let file = std::fs::File::options()
                .write(true)
                .open(root.join(name))
                .expect("it was written");
            file.set_modified(time).expect("it is ours");
        }
        Site {
            dir,
            upstream: upstream::start(),
            fastcgi: fastcgi::start(),
        }
    }

    /// Adds a file to those that both serve.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.dir.join("www").join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).expect("the folder is writable");
        }
        std::fs::write(path, content).expect("the folder is writable");
    }

    /// Whether `program` accepts the file of `case`.
    pub fn is_known(&self, program: &Path, case: &Case) -> bool {
        let file = self.dir.join("known.Caddyfile");
        let text = case.caddyfile.replace("PORT", "1");
        std::fs::write(&file, text).expect("the folder is writable");
        let mut command = Command::new(program);
        command
            .args(["adapt", "--adapter", "caddyfile", "--config"])
            .arg(&file);
        let status = command
            .env("HOME", &self.dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.expect("the program starts").success()
    }

    /// The folder of the programs' files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Fills in the paths and ports of files and upstreams.
    pub fn fill(&self, text: &str) -> String {
        text.replace("ROOT", &self.dir.join("www").display().to_string())
            .replace("FASTCGI", &format!("127.0.0.1:{}", self.fastcgi))
            .replace("UPSTREAM", &format!("127.0.0.1:{}", self.upstream))
            .replace("DEAD", &format!("127.0.0.1:{}", free_port()))
    }

    /// Starts `program` with the file of `case` and waits until it responds.
    pub fn start(&self, program: &Path, case: &Case, name: &str) -> Peer {
        let text = self.fill(case.caddyfile);
        let text = format!("{{\n\tadmin off\n\tauto_https off\n}}\n{text}");
        self.start_text(program, case.name, &text, name)
    }

    /// Starts `program` with a file in which `PORT` is replaced by a free port, and waits until it responds.
    pub fn start_text(&self, program: &Path, case: &str, text: &str, name: &str) -> Peer {
        let port = free_port();
        let home = self.dir.join(format!("home-{name}"));
        std::fs::create_dir_all(&home).expect("the folder is writable");
        let file = self.dir.join(format!("{case}.Caddyfile"));
        std::fs::write(&file, text.replace("PORT", &port.to_string()))
            .expect("the folder is writable");
        let mut command = Command::new(program);
        command
            .args(["run", "--adapter", "caddyfile", "--config"])
            .arg(&file)
            .env("HOME", &home)
            .env("XDG_DATA_HOME", &home)
            .env("XDG_CONFIG_HOME", &home);
        let log = self.dir.join(format!("{name}.log"));
        Peer {
            _program: Program::start(&mut command, log).listening(port),
            port,
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Peer {
    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends a request, and masks the port in the response, which differs between the two.
    pub fn ask(&self, request: &str) -> Response {
        let mut response = http::ask(self.port, &request.replace("PORT", &self.port.to_string()));
        let port = self.port.to_string();
        for value in response.fields.values_mut().flatten() {
            *value = value.replace(&port, "PORT");
        }
        let lengths = response.fields.get("content-length").cloned();
        let text = String::from_utf8(response.body.clone());
        if let (Ok(text), Some(_)) = (text, lengths)
            && text.contains(&port)
        {
            response.body = text.replace(&port, "PORT").into_bytes();
            let length = response.body.len().to_string();
            response
                .fields
                .insert("content-length".to_owned(), vec![length]);
        }
        response
    }
}

pub use crate::support::ports::free_port;
