//! The sites of `tests/data/sites`: a Caddyfile as people publish it, and what is asked of it. Both the end-to-end test
//! and the comparison with Caddy read them; starting a server and speaking to it is left to those.

mod double;
mod fastcgi;

use std::path::Path;
use std::time::{Duration, SystemTime};

/// Every site, in the order of the alphabet.
pub const SITES: &[&str] = &[
    "admin_area",
    "balanced_api",
    "blog_with_redirects",
    "canary_by_cookie",
    "cors_snippet",
    "downloads",
    "error_pages",
    "forward_auth",
    "grafana_sub_path",
    "home_assistant",
    "ip_allow_list",
    "jellyfin",
    "laravel",
    "log_per_site",
    "maintenance_page",
    "multi_tenant",
    "nextcloud",
    "s3_proxy",
    "security_headers",
    "spa_with_api",
    "unix_socket",
    "vaultwarden",
    "wildcard_home",
    "wordpress",
    "www_to_apex",
];

/// A site with the requests to it.
pub struct Site {
    caddyfile: String,
    /// What stands in the Caddyfile, and what takes its place here.
    replaces: Vec<(String, String)>,
    files: Vec<(String, String)>,
    /// The requests, in order.
    pub steps: Vec<Step>,
    /// Files of the folder, words, and whether they are to be in it.
    pub logged: Vec<(String, String, bool)>,
}

/// A request.
pub struct Step {
    /// `METHOD target`, then fields and `body=…` behind `|`.
    pub request: String,
    /// What the answer has to be; see [`Site::read`].
    pub expected: Vec<String>,
    /// What of Caddy's answer is otherwise: `status`, `body` or a field, and why.
    pub differs: Vec<(String, String)>,
}

/// What stands behind every site.
pub struct Doubles {
    app: u16,
    app2: u16,
    php: u16,
    dead: u16,
}

impl Doubles {
    /// Starts the upstreams; `dead` is a port on which nobody listens.
    pub fn start(dead: u16) -> Doubles {
        Doubles {
            app: double::start("app"),
            app2: double::start("app2"),
            php: fastcgi::start(),
            dead,
        }
    }
}

impl Site {
    /// Reads `Caddyfile` and `requests`. In the latter a line says:
    ///
    /// - `replace <words> => <words>`: what of the Caddyfile is another here;
    /// - `file <path> <text>`: a file that is there; `\n` and `\t` stand for themselves;
    /// - `logged <file> <words>`, `silent <file> <words>`: what is to be in a file at the end, and what is not;
    /// - `METHOD target | Field: value | body=text`: a request, then indented what its answer has to be:
    ///   the status, `Field: value`, `!Field` for one that is missing, `= body`, `~ words` in the body, `- words` not in
    ///   it, `% what: why` for what of Caddy's answer is otherwise.
    pub fn read(name: &str) -> Site {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../tests/data/sites")
            .join(name);
        let read = |file: &str| {
            std::fs::read_to_string(folder.join(file)).expect("every site has both files")
        };
        let mut site = Site {
            caddyfile: read("Caddyfile"),
            replaces: Vec::new(),
            files: Vec::new(),
            steps: Vec::new(),
            logged: Vec::new(),
        };
        for line in read("requests").lines().filter(|line| !line.is_empty()) {
            site.line(line);
        }
        assert!(!site.steps.is_empty(), "{name} is asked nothing");
        site
    }

    fn line(&mut self, line: &str) {
        if let Some(expected) = line.strip_prefix("  ") {
            let step = self
                .steps
                .last_mut()
                .expect("an expectation follows a request");
            match expected.strip_prefix("% ") {
                Some(known) => {
                    let (what, why) = known.split_once(": ").expect("a reason is given");
                    step.differs.push((what.to_owned(), why.to_owned()));
                }
                None => step.expected.push(expected.to_owned()),
            }
            return;
        }
        let (word, rest) = line.split_once(' ').expect("a line has two words");
        let two = || rest.split_once(' ').expect("a line has three words");
        match word {
            "replace" => {
                let (from, to) = rest.split_once(" => ").expect("a replacement");
                let (from, to) = (unescape(from), unescape(to));
                assert!(
                    self.caddyfile.contains(&from),
                    "{from} is not in the Caddyfile"
                );
                self.replaces.push((from, to));
            }
            "file" => self.files.push((two().0.to_owned(), unescape(two().1))),
            "logged" | "silent" => {
                let (file, words) = two();
                self.logged
                    .push((file.to_owned(), words.to_owned(), word == "logged"));
            }
            _ => self.steps.push(Step {
                request: line.to_owned(),
                expected: Vec::new(),
                differs: Vec::new(),
            }),
        }
    }

    /// Writes the files into a folder and gives the Caddyfile as it is there.
    pub fn prepare(&self, folder: &Path, port: u16, doubles: &Doubles) -> String {
        let socket = folder.join("app.sock");
        let mut text = self.caddyfile.clone();
        for (from, to) in &self.replaces {
            text = text.replace(from, to);
        }
        if text.contains("SOCKET") && !socket.exists() {
            double::start_unix(&socket);
        }
        let ports = [
            ("PORT", port),
            ("APP2", doubles.app2),
            ("APP", doubles.app),
            ("PHP", doubles.php),
            ("DEAD", doubles.dead),
        ];
        for (name, port) in ports {
            let place = if name == "PORT" {
                port.to_string()
            } else {
                format!("127.0.0.1:{port}")
            };
            text = text.replace(name, &place);
        }
        let text = text
            .replace("SOCKET", &socket.to_string_lossy())
            .replace("FOLDER", &folder.to_string_lossy());
        for (name, content) in &self.files {
            let path = folder.join(name);
            let parent = path.parent().expect("it has a folder");
            std::fs::create_dir_all(parent).expect("the folder is writable");
            std::fs::write(&path, content.replace("FOLDER", &folder.to_string_lossy()))
                .expect("the folder is writable");
        }
        // A folder is as old as what was last put into it, which a listing tells.
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        for (name, _) in &self.files {
            let path = folder.join(name);
            let inside = path.ancestors().take_while(|place| *place != folder);
            for place in inside {
                let opened = std::fs::File::open(place).expect("it was written");
                opened.set_modified(time).expect("it is ours");
            }
        }
        text
    }
}

/// A text of the script: quotes around it are left out, `\n` and `\t` are what they stand for.
fn unescape(text: &str) -> String {
    let bare = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    bare.unwrap_or(text)
        .replace("\\n", "\n")
        .replace("\\t", "\t")
}

/// The bytes of a request; the connection ends behind its answer.
pub fn bytes(request: &str) -> String {
    let mut parts = request.split(" | ");
    let mut head = format!("{} HTTP/1.1\r\n", parts.next().unwrap_or_default());
    let (mut body, mut upgrades) = ("", false);
    for part in parts {
        match part.strip_prefix("body=") {
            Some(text) => body = text,
            None => {
                upgrades |= part.starts_with("Connection:");
                head.push_str(&format!("{part}\r\n"));
            }
        }
    }
    if !body.is_empty() {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    if !upgrades {
        head.push_str("Connection: close\r\n");
    }
    format!("{head}\r\n{body}")
}
