//! Complete, realistic nginx.confs for sluice and for an installed nginx: the first lines of each file of
//! `tests/data/nginx` list the files behind it (`#+ name content`) and the requests (`#> request`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use crate::peer::http::differences;
use crate::peer::nginx::{EVERYWHERE, Running, run};
use crate::peer::peers::{Site, free_port, sluice};
use crate::support::servers;

/// A file of the folder.
pub struct Whole {
    /// Its name without the extension.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Intentional differences: the file, a prefix of the request, what differs, and why. One that no longer occurs fails
/// the run.
const ACCEPTED: &[(&str, &str, &str, &str)] = &[
    ("addition", "HEAD /a.html", "transfer-encoding", HEAD),
    ("autoindex", "GET /", "content-length", WHOLE),
    ("autoindex", "GET /", "transfer-encoding", WHOLE),
    ("autoindex", "HEAD /", "content-length", WHOLE),
    (
        "cors",
        "OPTIONS /api/x",
        "content-length",
        "an answer of 204 has no length (RFC 9110, section 8.6)",
    ),
    (
        "downloads",
        "GET /files/big.bin | Range: bytes=70-",
        "content-disposition",
        NOT_416,
    ),
    (
        "downloads",
        "GET /files/big.bin | Range: bytes=5-2",
        "content-disposition",
        NOT_416,
    ),
    (
        "downloads",
        "GET /files/big.bin | Range: bytes=abc",
        "content-disposition",
        NOT_416,
    ),
    (
        "downloads",
        "GET /files/big.bin | Range: bytes=0-9,",
        "",
        BOUNDARY,
    ),
    (
        "fastcgi_variables",
        "HEAD /app.php",
        "transfer-encoding",
        HEAD,
    ),
    ("gzip", "", "transfer-encoding", WHOLE),
    ("gunzip", "HEAD /long.txt", "transfer-encoding", HEAD),
    ("gunzip", "GET /", "transfer-encoding", WHOLE),
    (
        "gunzip",
        "GET /replaced/long.txt | Accept-Encoding: gzip",
        "body",
        "nothing is replaced among the bytes of what is compressed, which would break it",
    ),
    (
        "gzip_proxied",
        "GET /etag/long.txt | Accept-Encoding: gzip | Range",
        "",
        "whoever asks for a part gets it, uncompressed; nginx gives the whole",
    ),
    ("gzip_proxied", "", "transfer-encoding", WHOLE),
    ("headers_more", "GET /", "content-length", WHOLE),
    ("headers_more", "GET /", "transfer-encoding", WHOLE),
    ("node_express", "GET /chunked", "content-length", WHOLE),
    ("node_express", "GET /chunked", "transfer-encoding", WHOLE),
    (
        "node_express",
        "GET /hop",
        "x-secret",
        "a field that Connection names is for us only (RFC 9110, section 7.6.1)",
    ),
    ("proxy_headers", "POST /chunked-in", "", EARLY),
    (
        "returns",
        "GET /408",
        "",
        "the client is told; nginx closes the connection",
    ),
    (
        "server_level_proxy",
        "",
        "server",
        "our own is told where the upstream tells none",
    ),
    (
        "static_cache",
        "GET /a.css | Range: bytes=1-1,3-4",
        "",
        BOUNDARY,
    ),
    ("static_cache", "GET /a.css | Range: bytes=9-", "", NOT_416),
    (
        "variables",
        "GET /headers | X-Some-Thing: one",
        "",
        "since 1.23 several fields of a name are joined",
    ),
    (
        "websocket",
        "",
        "> connection",
        "whether a connection is kept is between two neighbours (RFC 9110, section 7.6.1)",
    ),
];

/// Differences in every response of a FastCGI application, with the reason.
const OVER_FASTCGI: &[(&str, &str)] = &[
    ("transfer-encoding", WHOLE),
    ("content-length", WHOLE),
    (
        "> HTTP_CONNECTION",
        "it is between two neighbours only (RFC 9110, section 7.6.1)",
    ),
    (
        "> HTTP_CONTENT_LENGTH",
        "CONTENT_LENGTH says it (RFC 3875, section 4.1.18)",
    ),
];

const WHOLE: &str = "what is here as a whole is sent with its length, and what is not in chunks";
const HEAD: &str = "an answer to HEAD says of its length what one to GET says";
const EARLY: &str = "refused by the reader of requests (RFC 9112), before a server is chosen";
const BOUNDARY: &str = "parts are set apart by a random text, and begin without an empty line";
const NOT_416: &str = "a refusal has not what is added to good answers";

/// The folder of the files.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/nginx")
}

/// All files, by name.
pub fn all() -> Vec<Whole> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder()).expect("the folder is there") {
        let path = entry.expect("it can be listed").path();
        if path
            .extension()
            .is_some_and(|extension| extension == "conf")
        {
            found.push(Whole {
                name: path.file_stem().expect("a name").display().to_string(),
                text: std::fs::read_to_string(&path).expect("it is UTF-8"),
            });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Writes the files that the others include.
pub fn write_shared(site: &Site) {
    for name in ["mime.types", "fastcgi_params"] {
        let text = std::fs::read(folder().join(name)).expect("it is there");
        std::fs::write(site.dir().join(name), text).expect("the folder is writable");
    }
}

impl Whole {
    /// The requests to it.
    pub fn requests(&self) -> impl Iterator<Item = &str> {
        self.text
            .lines()
            .filter_map(|line| line.strip_prefix("#> "))
    }

    /// Writes the files behind it, all with the same modification time, into a folder of its own.
    pub fn write_files(&self, site: &Site) {
        let root = self.root(site);
        std::fs::create_dir_all(&root).expect("the folder is writable");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        for line in self.text.lines().filter_map(|l| l.strip_prefix("#+ ")) {
            let (name, content) = cut(line);
            let path = root.join(name);
            let parent = path.parent().expect("it is in the root");
            std::fs::create_dir_all(parent).expect("the folder is writable");
            std::fs::write(&path, content).expect("the folder is writable");
            let file = std::fs::File::options().write(true).open(&path);
            let file = file.expect("it was written");
            file.set_modified(time).expect("it is ours");
        }
    }

    fn root(&self, site: &Site) -> PathBuf {
        site.dir().join(format!("root-{}", self.name))
    }

    /// The text with paths and ports filled in.
    pub fn fill(&self, site: &Site, port: u16) -> String {
        let text = self
            .text
            .replace("ROOT", &self.root(site).display().to_string());
        let text = text.replace("DIR", &site.dir().display().to_string());
        let text = text.replace("OTHER", &free_port().to_string());
        let text = text.replace("127.0.0.1:PORT", &format!("127.0.0.1:{port}"));
        // Each dead upstream has its own port.
        let dead = |text: &str| text.replacen("DEAD", &format!("127.0.0.1:{}", free_port()), 1);
        let count = text.matches("DEAD").count();
        site.fill(&(0..count).fold(text, |text, _| dead(&text)))
    }

    /// Starts a program with it. Both are adjusted where Debian's nginx differs from the version we follow: writable
    /// paths, and the server name in responses.
    pub fn start(&self, site: &Site, program: &Path, is_nginx: bool) -> Running {
        let port = free_port();
        let dir = site.dir().display().to_string();
        let mut own = match is_nginx {
            true => ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                .map(|name| format!("{name}_temp_path {dir}/nginx-temp;\n"))
                .concat(),
            false => String::new(),
        };
        own.push_str(match is_nginx {
            true => "server_tokens off;\n",
            false => "server_tokens \"nginx\";\n",
        });
        if !self.text.contains("\n    access_log ") {
            own.push_str("access_log off;\n");
        }
        let main = match is_nginx {
            true => format!(
                "user root;\ndaemon off;\nmaster_process off;\npid {dir}/{}.pid;\n",
                self.name
            ),
            false => String::new(),
        };
        let filled = self.fill(site, port);
        let text = filled.replacen("\nhttp {", &format!("\nhttp {{\n{own}"), 1);
        let text = format!("{main}error_log {dir}/nginx-error.log;\n{text}");
        run(site, program, &self.name, &text, port, is_nginx)
    }
}

/// Splits a line into the name of a file and its content: the name ends at the first blank after its first dot, or at
/// the first blank if it has no dot.
fn cut(line: &str) -> (&str, &str) {
    let dot = line.find('.').unwrap_or(0);
    let blank = line[dot..].find(' ').map_or(line.len(), |at| dot + at);
    let blank = match dot {
        0 => line.find(' ').unwrap_or(line.len()),
        _ => blank,
    };
    (&line[..blank], line[blank..].trim_start())
}

/// The result of a comparison.
#[derive(Default)]
struct Compared {
    requests: usize,
    failures: Vec<String>,
    /// Indices of the accepted differences that occurred.
    seen: BTreeSet<usize>,
}

impl Compared {
    fn compare(&mut self, whole: &Whole, site: &Site, nginx: &Path) {
        whole.write_files(site);
        let theirs = whole.start(site, nginx, true);
        let ours = whole.start(site, &sluice(), false);
        for request in whole.requests() {
            self.requests += 1;
            for difference in differences(&theirs.ask(request), &ours.ask(request)) {
                let everywhere = |(what, theirs): &(&str, &str)| {
                    difference.what == *what && difference.theirs == *theirs
                };
                let accepted = ACCEPTED.iter().position(|(name, start, what, _)| {
                    *name == whole.name
                        && request.starts_with(start)
                        && (what.is_empty() || difference.what == *what)
                });
                let over_fastcgi = || {
                    whole.text.contains("fastcgi_pass")
                        && OVER_FASTCGI
                            .iter()
                            .any(|(what, _)| *what == difference.what)
                };
                match accepted {
                    None if over_fastcgi() => {}
                    Some(index) => _ = self.seen.insert(index),
                    None if EVERYWHERE.iter().any(everywhere) => {}
                    None => self
                        .failures
                        .push(format!("{}: {request}\n    {difference}", whole.name)),
                }
            }
        }
    }
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn whole_sites_respond_as_in_nginx() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut files = all();
    files.retain(|whole| whole.name.contains(&only));
    let site = Site::new();
    write_shared(&site);
    let next = AtomicUsize::new(0);
    // Most of the time is spent waiting for programs to start.
    let found: Vec<Compared> = std::thread::scope(|scope| {
        let work = || {
            let mut found = Compared::default();
            while let Some(whole) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                found.compare(whole, &site, &nginx);
            }
            found
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended
            .map(|found| found.expect("no thread panics"))
            .collect()
    });
    let requests: usize = found.iter().map(|found| found.requests).sum();
    let seen: BTreeSet<usize> = found.iter().flat_map(|found| found.seen.clone()).collect();
    let mut failures: Vec<String> = found.into_iter().flat_map(|found| found.failures).collect();
    for (index, (name, start, what, _)) in ACCEPTED.iter().enumerate() {
        if only.is_empty() && !seen.contains(&index) {
            failures.push(format!(
                "{name}: {start}: {what}: accepted, but has gone away"
            ));
        }
    }
    println!(
        "{requests} requests in {} files compared with {}",
        files.len(),
        nginx.display()
    );
    assert!(
        !only.is_empty() || requests >= 600 && files.len() >= 55,
        "the yardstick got shorter"
    );
    assert!(
        failures.is_empty(),
        "{} differences:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// An nginx.conf that can be translated completely to a Caddyfile behaves the same: both responses of sluice are
/// compared, without what differs between the two kinds of servers by design.
#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn translated_sites_respond_alike() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let site = Site::new();
    write_shared(&site);
    let (mut requests, mut files, mut failures) = (0, 0, Vec::new());
    for whole in all().iter().filter(|whole| whole.name.contains(&only)) {
        let Some(caddyfile) = whole.translated(&site) else {
            continue;
        };
        files += 1;
        whole.write_files(&site);
        let ours = whole.start(&site, &sluice(), false);
        let name = format!("{}-translated", whole.name);
        let theirs = site.start_text(&sluice(), &name, &caddyfile, &name);
        for request in whole.requests() {
            let differs = |(name, asked, _): &(&str, &str, &str)| {
                *name == whole.name
                    && (asked.is_empty() || request.split(" | ").next() == Some(*asked))
            };
            if TRANSLATED_OTHERWISE.iter().any(differs) {
                continue;
            }
            requests += 1;
            let (one, two) = (meaning(&ours.ask(request)), meaning(&theirs.ask(request)));
            if one != two {
                let text = format!("{}: {request}\n    {one:?}\n    {two:?}", whole.name);
                failures.push(text);
            }
        }
    }
    println!("{requests} requests in {files} translated files");
    assert!(
        failures.is_empty(),
        "{} differences:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(
        !only.is_empty() || files >= TRANSLATED_MIN,
        "only {files} files are said whole"
    );
}

/// Minimum number of files that can be translated completely.
const TRANSLATED_MIN: usize = 12;

/// Where a Caddyfile behaves differently from the nginx.conf it was translated from: the file, the request (empty for
/// all), and why.
const TRANSLATED_OTHERWISE: &[(&str, &str, &str)] = &[
    ("index_lists", "GET /four", NO_INDEX),
    ("index_lists", "GET /four/", NO_INDEX),
    (
        "index_lists",
        "GET /x/four/",
        "an index that is a path of its own",
    ),
    (
        "methods",
        "foo /a.txt",
        "as with nginx such a method is malformed; as with Caddy it is only unknown",
    ),
    ("port_redirects", "", NO_INDEX),
    ("returns", "GET /495", "nginx's own statuses"),
    ("returns", "GET /497", "nginx's own statuses"),
    (
        "slashes",
        "",
        "paths that hardly anybody asks for are read as Caddy reads them",
    ),
    ("spa", "GET /assets", NO_INDEX),
    ("spa", "GET /assets/", NO_INDEX),
    (
        "grafana_subpath",
        "GET /grafana",
        "nginx redirects to a location of an upstream by itself",
    ),
];

const NO_INDEX: &str = "a folder without an index is not found";

/// The meaning of a response: its status, redirect target, content, and the headers set by the configuration. Redirects
/// for folders have another status, error pages are empty, and listings and redirects look different.
fn meaning(response: &crate::peer::http::Response) -> (String, String, String) {
    let field = |name: &str| {
        response
            .fields
            .get(name)
            .map_or_else(String::new, |values| values.join("|"))
    };
    let status = match response.status.as_str() {
        "308" => "301",
        status => status,
    };
    let location = field("location")
        .replace("http://site.test:PORT", "")
        .replace("http://site.test", "");
    let body = String::from_utf8_lossy(&response.body).into_owned();
    let says = match status {
        _ if !field("content-encoding").is_empty() => String::new(),
        _ if field("x-echo") == "yes" => body.lines().next().unwrap_or_default().to_owned(),
        "200" | "206" if !body.contains("<pre>") && !body.starts_with("<!") => body,
        _ => String::new(),
    };
    (status.to_owned(), location, says)
}

impl Whole {
    /// The equivalent Caddyfile; `None` if something could not be translated.
    fn translated(&self, site: &Site) -> Option<String> {
        let port = free_port();
        let file = site.dir().join(format!("{}.nginx.conf", self.name));
        std::fs::write(&file, self.fill(site, port)).expect("the folder is writable");
        let mut command = std::process::Command::new(sluice());
        let output = command
            .args(["adapt", "--to", "caddyfile", "--config"])
            .arg(&file)
            .output();
        let output = output.expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {said}", self.name);
        let text = String::from_utf8(output.stdout).expect("it is UTF-8");
        let is_whole = !text
            .lines()
            .any(|line| line.trim_start().starts_with("# not translated"));
        // A pattern name or another server may use another port, which is fine.
        let text = text.replacen("auto_https off", "auto_https off\n\tadmin off", 1);
        is_whole.then(|| text.replace(&format!(":{port}"), ":PORT"))
    }
}
