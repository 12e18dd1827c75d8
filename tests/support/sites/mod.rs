//! The sites of `tests/data/sites`: Caddyfiles as people publish them, and requests to them. Used by the end-to-end
//! test and the comparison with Caddy, which start the servers and connect to them.

mod double;
mod fastcgi;

use std::path::Path;
use std::time::{Duration, SystemTime};

/// Every site, in alphabetical order.
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

/// A site with its requests.
pub struct Site {
    caddyfile: String,
    /// Text of the Caddyfile, and its replacement in the test.
    replaces: Vec<(String, String)>,
    files: Vec<(String, String)>,
    /// The requests, in order.
    pub steps: Vec<Step>,
    /// Files of the folder, text, and whether they must contain it.
    pub logged: Vec<(String, String, bool)>,
}

/// A request.
pub struct Step {
    /// `METHOD target`, then headers and `body=…` after `|`.
    pub request: String,
    /// The expectations about the response; see [`Site::read`].
    pub expected: Vec<String>,
    /// Differences in Caddy's response: `status`, `body` or a header, and why.
    pub differs: Vec<(String, String)>,
}

/// The upstreams of every site.
pub struct Doubles {
    app: u16,
    app2: u16,
    php: u16,
    dead: u16,
}

impl Doubles {
    /// Starts the upstreams; `dead` is a port on which nothing listens.
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
    /// Parses `Caddyfile` and `requests`. The lines of the latter are:
    ///
    /// - `replace <words> => <words>`: replaces text in the Caddyfile;
    /// - `file <path> <text>`: creates a file, with the escapes `\n` and `\t`;
    /// - `logged <file> <words>`, `silent <file> <words>`: what a file must contain at the end, and what not;
    /// - `METHOD target | Field: value | body=text`: a request, followed by indented expectations about its response:
    ///   the status, `Field: value`, `!Field` for a missing header, `= body`, `~ words` in the body, `- words` not in
    ///   it, `% what: why` for a difference in Caddy's response.
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

    /// Writes the files into a folder and returns the Caddyfile with replacements.
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
        // A folder's modification time changes with its contents, and a listing shows it.
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

/// Unquotes a text of the script and resolves `\n` and `\t`.
fn unescape(text: &str) -> String {
    let bare = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    bare.unwrap_or(text)
        .replace("\\n", "\n")
        .replace("\\t", "\t")
}

/// The bytes of a request; the connection ends after its response.
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
