//! nginx.conf: parsed into directives including its includes, changed where necessary, and written as one file.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Backend, DIR, Found, PORT, Place, Right, asked, file_at};

/// Maximum nesting of blocks and of includes.
const DEPTH_MAX: usize = 16;

/// Maximum number of files for one `include` with a `*`.
const INCLUDES_MAX: usize = 256;

/// A directive: its words as written, and its block.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Directive {
    words: Vec<String>,
    block: Option<Vec<Directive>>,
}

impl Directive {
    fn new(words: &[&str]) -> Self {
        Directive {
            words: words.iter().map(|word| (*word).to_string()).collect(),
            block: None,
        }
    }

    fn name(&self) -> &str {
        &self.words[0]
    }

    /// The arguments without quotes.
    fn args(&self) -> impl Iterator<Item = &str> {
        self.words[1..].iter().map(|word| bare(word))
    }

    fn arg(&self) -> &str {
        self.args().next().unwrap_or_default()
    }

    fn inside(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    fn find(&self, name: &str) -> Option<&Directive> {
        self.inside().iter().find(|one| one.name() == name)
    }
}

fn bare(word: &str) -> &str {
    let quotes = ['"', '\''];
    let quoted = quotes
        .iter()
        .find_map(|quote| word.strip_prefix(*quote)?.strip_suffix(*quote));
    quoted.unwrap_or(word)
}

/// Parses a configuration with its includes.
pub fn read(path: &Path, text: &str) -> Result<Found, String> {
    let mut parser = Parser {
        file: path.to_path_buf(),
        text,
        at: 0,
        base: path.parent().unwrap_or(Path::new(".")).to_path_buf(),
    };
    let mut all = parser.block(0, false)?;
    let mut found = Found::default();
    let Some(http) = all.iter_mut().find(|one| one.name() == "http") else {
        return Err(format!("{}: there is no `http` block", path.display()));
    };
    twins(http, &mut found);
    name_all(http, &mut found);
    for server in http.inside().iter().filter(|one| one.name() == "server") {
        places(http, server, &mut found);
    }
    for one in &mut all {
        change(one, &mut found, 0);
    }
    all.retain(|one| !is_left_out(one, &mut found));
    if !all.iter().any(|one| one.name() == "events") {
        all.insert(
            0,
            Directive {
                block: Some(Vec::new()),
                ..Directive::new(&["events"])
            },
        );
    }
    let mut copy = String::new();
    print(&all, 0, &mut copy);
    found.copies.push((String::new(), copy));
    Ok(found)
}

struct Parser<'a> {
    file: PathBuf,
    text: &'a str,
    at: usize,
    /// Base folder of relative includes.
    base: PathBuf,
}

impl Parser<'_> {
    fn mistake(&self, text: &str) -> String {
        let before = &self.text[..self.at.min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        format!("{}:{line}:{column}: {text}", self.file.display())
    }

    /// Parses directives up to the end of the block, or of the file.
    fn block(&mut self, depth: usize, inner: bool) -> Result<Vec<Directive>, String> {
        if depth > DEPTH_MAX {
            return Err(self.mistake("blocks are nested too deeply"));
        }
        let (mut found, mut words) = (Vec::new(), Vec::new());
        loop {
            let Some(word) = self.word()? else {
                return match (inner, words.is_empty()) {
                    (false, true) => Ok(found),
                    (true, _) => Err(self.mistake("the block is not closed")),
                    (false, false) => Err(self.mistake("a directive without `;`")),
                };
            };
            match word.as_str() {
                ";" if words.is_empty() => return Err(self.mistake("a `;` without a directive")),
                ";" => {
                    let one = Directive {
                        words: std::mem::take(&mut words),
                        block: None,
                    };
                    match one.name() {
                        "include" => found.extend(self.include(one.arg(), depth)?),
                        _ => found.push(one),
                    }
                }
                "{" if words.is_empty() => return Err(self.mistake("a block without a directive")),
                "{" => {
                    let block = Some(self.block(depth + 1, true)?);
                    let words = std::mem::take(&mut words);
                    found.push(Directive { words, block });
                }
                "}" if inner && words.is_empty() => return Ok(found),
                "}" => return Err(self.mistake("a `}` too many, or a directive without `;`")),
                _ => words.push(word),
            }
        }
    }

    /// The next word with its quotes, or one of `;{}`; `None` at the end.
    fn word(&mut self) -> Result<Option<String>, String> {
        let bytes = self.text.as_bytes();
        loop {
            match bytes.get(self.at) {
                None => return Ok(None),
                Some(byte) if byte.is_ascii_whitespace() => self.at += 1,
                Some(b'#') => {
                    let rest = &self.text[self.at..];
                    self.at += rest.find('\n').unwrap_or(rest.len());
                }
                Some(_) => break,
            }
        }
        let from = self.at;
        let first = bytes[from];
        if b";{}".contains(&first) {
            self.at += 1;
            return Ok(Some((first as char).to_string()));
        }
        let quoted = first == b'"' || first == b'\'';
        self.at += usize::from(quoted);
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'\\' => self.at += 1,
                _ if quoted && *byte == first => {
                    self.at += 1;
                    return Ok(Some(self.text[from..self.at].to_string()));
                }
                // `${name}` is part of a word.
                b'{' if !quoted && self.at > from && bytes[self.at - 1] == b'$' => {
                    let rest = &self.text[self.at..];
                    self.at += rest.find('}').unwrap_or(0);
                }
                b';' | b'{' if !quoted => break,
                _ if !quoted && byte.is_ascii_whitespace() => break,
                _ => {}
            }
            self.at += 1;
        }
        if quoted {
            return Err(self.mistake("unterminated quote"));
        }
        self.at = self.at.min(self.text.len());
        let word = self.text.get(from..self.at);
        Ok(Some(word.unwrap_or_default().to_string()))
    }

    /// Parses a file, or all files of a pattern.
    fn include(&self, pattern: &str, depth: usize) -> Result<Vec<Directive>, String> {
        let path = self.base.join(pattern);
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let files = match name.split_once('*') {
            None => vec![path],
            Some((begin, end)) => {
                let folder = path.parent().unwrap_or(Path::new("."));
                let entries = fs::read_dir(folder).into_iter().flatten().flatten();
                let mut files: Vec<PathBuf> = entries
                    .filter(|entry| {
                        let name = entry.file_name().to_string_lossy().into_owned();
                        let long = name.len() >= begin.len() + end.len();
                        let hidden = name.starts_with('.') && begin.is_empty();
                        long && !hidden && name.starts_with(begin) && name.ends_with(end)
                    })
                    .map(|entry| entry.path())
                    .collect();
                files.sort();
                files.truncate(INCLUDES_MAX);
                files
            }
        };
        let mut found = Vec::new();
        for file in files {
            let text = fs::read_to_string(&file)
                .map_err(|error| self.mistake(&format!("{}: {error}", file.display())))?;
            let mut parser = Parser {
                file,
                text: &text,
                at: 0,
                base: self.base.clone(),
            };
            found.extend(parser.block(depth + 1, false)?);
        }
        Ok(found)
    }
}

/// Of two servers with the same name, drops the one that only redirects to HTTPS.
fn twins(http: &mut Directive, found: &mut Found) {
    let names = |server: &Directive| -> Vec<String> {
        let name = server.find("server_name");
        name.map_or(Vec::new(), |name| name.args().map(String::from).collect())
    };
    let only_sends = |server: &Directive| {
        let inside = server.inside().iter();
        let mut rest = inside.filter(|one| !["listen", "server_name"].contains(&one.name()));
        rest.all(|one| one.name() == "return" && one.arg().starts_with('3'))
    };
    let servers = http.inside().iter().filter(|one| one.name() == "server");
    let real: Vec<Vec<String>> = servers.filter(|one| !only_sends(one)).map(names).collect();
    let Some(block) = &mut http.block else { return };
    block.retain(|one| {
        let goes = one.name() == "server" && only_sends(one) && real.contains(&names(one));
        if goes {
            let text = "servers that only redirect to their HTTPS counterpart are omitted";
            found.changes.insert(text.into());
        }
        !goes
    });
}

/// The host name a client uses for a server, if it has a fixed one.
fn host_of(server: &Directive) -> Option<&str> {
    let names = server.find("server_name");
    let mut names = names.into_iter().flat_map(Directive::args);
    names.find(|name| {
        let varies = name.contains(['*', '~', '$']) || name.starts_with('.');
        !name.is_empty() && *name != "_" && !varies
    })
}

/// Servers distinguished only by their ports share one in the copy: those without a name get one.
fn name_all(http: &mut Directive, found: &mut Found) {
    let block = http.block.iter_mut().flatten();
    let servers: Vec<&mut Directive> = block.filter(|one| one.name() == "server").collect();
    let several = servers.len() > 1;
    for (at, server) in servers.into_iter().enumerate() {
        if !several || host_of(server).is_some() {
            continue;
        }
        let name = format!("server-{}.lab", at + 1);
        let block = server.block.get_or_insert_default();
        match block.iter_mut().find(|one| one.name() == "server_name") {
            Some(names) => names.words.push(name),
            None => block.insert(0, Directive::new(&["server_name", &name])),
        }
        let text = "servers without a fixed name of their own are called server-N.lab";
        found.changes.insert(text.into());
    }
}

/// Finds what can be tested in a server.
fn places(http: &Directive, server: &Directive, found: &mut Found) {
    let host = host_of(server).map(String::from);
    let roots = [server.find("root"), http.find("root")];
    let root = roots
        .into_iter()
        .flatten()
        .next()
        .map(|one| one.arg().to_string());
    let before = found.places.len() + found.left_out.len();
    for location in server
        .inside()
        .iter()
        .filter(|one| one.name() == "location")
    {
        let args: Vec<&str> = location.args().collect();
        let path = match args.as_slice() {
            [path] | ["=" | "^~", path] => asked(path).filter(|_| !path.starts_with('@')),
            _ => None,
        };
        match path {
            Some(path) => place(&host, &path, root.as_deref(), location, found),
            None => found.leave(format!("location {}", args.join(" "))),
        }
    }
    if let Some(fixed) = server.find("return").and_then(fixed) {
        add(&host, "/", "", fixed, found);
    }
    if before == found.places.len() + found.left_out.len() && root.is_some() {
        place(&host, "/", root.as_deref(), server, found);
    }
}

fn add(host: &Option<String>, path: &str, name: &str, right: Right, found: &mut Found) {
    let slash = if name.is_empty() || path.ends_with('/') {
        ""
    } else {
        "/"
    };
    found.add(Place {
        host: host.clone(),
        path: format!("{path}{slash}{name}"),
        kind: String::new(),
        right,
    });
}

fn place(
    host: &Option<String>,
    path: &str,
    root: Option<&str>,
    block: &Directive,
    found: &mut Found,
) {
    for (name, backend) in [
        ("proxy_pass", Backend::Http),
        ("fastcgi_pass", Backend::Fastcgi),
    ] {
        match block.find(name) {
            Some(pass) if pass.arg().contains('$') => {
                found.leave(format!("location {path}: {name} {} varies", pass.arg()));
                return;
            }
            Some(_) => return add(host, path, "", Right::Behind(backend), found),
            None => {}
        }
    }
    for name in ["uwsgi_pass", "scgi_pass", "grpc_pass", "memcached_pass"] {
        if block.find(name).is_some() {
            let text = format!("location {path}: the lab has no upstream for {name}");
            return found.leave(text);
        }
    }
    if let Some(right) = block.find("return").and_then(fixed) {
        return add(host, path, "", right, found);
    }
    let alias = block.find("alias").map(|one| (one.arg(), ""));
    let own = block.find("root").map(|one| (one.arg(), path));
    let files = alias.or(own).or(root.map(|root| (root, path)));
    let Some((folder, below)) = files else {
        return found.leave(format!("location {path}: no root"));
    };
    match file_at(Path::new(folder), below).filter(|_| !folder.contains('$')) {
        Some((name, file)) => add(host, path, &name, Right::File(file), found),
        None => found.leave(format!("location {path}: no file found below {folder}")),
    }
}

/// The response of `return`: a status with a text, or a redirect.
fn fixed(one: &Directive) -> Option<Right> {
    let args: Vec<&str> = one.args().collect();
    let status: u16 = match args.first()?.parse() {
        Ok(status) => status,
        // A URL alone is a redirect.
        Err(_) => return Some(Right::Fixed(302, None)),
    };
    // 444 closes the connection without a response.
    if status == 444 {
        return None;
    }
    let plain = |text: &&&str| !text.contains(['$', '\\']) && !(300..400).contains(&status);
    let body = args.get(1).filter(plain).map(|text| (*text).to_string());
    Some(Right::Fixed(status, body))
}

/// Inserts the lab's port and upstreams.
fn change(one: &mut Directive, found: &mut Found, depth: usize) {
    if one.name() == "server" && one.block.is_some() && depth == 1 {
        let block = one.block.get_or_insert_default();
        block.retain(|one| one.name() != "listen");
        let listen = format!("127.0.0.1:{PORT}");
        block.insert(0, Directive::new(&["listen", &listen]));
        found
            .changes
            .insert("servers listen on the lab's port alone, without TLS".into());
    }
    match one.name() {
        "upstream" => {
            // The protocol depends on the directives that use the upstream, in other blocks; it is mostly HTTP.
            let backend = match found
                .places
                .iter()
                .any(|place| place.right == Right::Behind(Backend::Http))
            {
                true => Backend::Http,
                false => Backend::Fastcgi,
            };
            let address = format!("127.0.0.1:{}", backend.port());
            let block = one.block.get_or_insert_default();
            block.retain(|one| !["server", "zone", "resolver", "state"].contains(&one.name()));
            block.insert(0, Directive::new(&["server", &address]));
        }
        "proxy_pass" if !one.arg().contains('$') => {
            let url = one.arg().to_string();
            let (_, rest) = url.split_once("://").unwrap_or(("", &url));
            let cut = rest.find('/').unwrap_or(rest.len());
            // The name of an upstream has no dot and no port, and is changed where it is defined.
            let (host, path) = rest.split_at(cut);
            let named = !host.contains(['.', ':', '[']) && host != "localhost";
            let address = match named {
                true => host.to_string(),
                false => format!("127.0.0.1:{}", Backend::Http.port()),
            };
            one.words = vec!["proxy_pass".into(), format!("http://{address}{path}")];
            found
                .changes
                .insert("the lab's upstreams replace yours, without TLS".into());
        }
        "fastcgi_pass" if one.arg().contains([':', '/', '.']) => {
            let address = format!("127.0.0.1:{}", Backend::Fastcgi.port());
            one.words = vec!["fastcgi_pass".into(), address];
            found
                .changes
                .insert("the lab's upstreams replace yours, without TLS".into());
        }
        "access_log" if one.arg() != "off" => {
            one.words[1] = format!("{DIR}/access.log");
            found
                .changes
                .insert("access logs are written to the folder of the run".into());
        }
        _ => {}
    }
    if let Some(block) = &mut one.block {
        block
            .iter_mut()
            .for_each(|inner| change(inner, found, depth + 1));
        block.retain(|inner| !is_left_out(inner, found));
    }
}

/// What a copy omits: privileges, files and ports of the original, and TLS.
fn is_left_out(one: &Directive, found: &mut Found) -> bool {
    const NAMES: [&str; 9] = [
        "user",
        "daemon",
        "master_process",
        "pid",
        "lock_file",
        "error_log",
        "http2",
        "http3",
        "stream",
    ];
    let name = one.name();
    let tls = name.starts_with("ssl_") || name == "ssl" || name.starts_with("quic_");
    let goes = NAMES.contains(&name) || tls || name == "mail";
    if goes {
        let text = match tls {
            true => "TLS directives are omitted".to_string(),
            false => format!("`{name}` is omitted"),
        };
        found.changes.insert(text);
    }
    goes
}

fn print(all: &[Directive], depth: usize, out: &mut String) {
    for one in all {
        out.push_str(&"    ".repeat(depth));
        out.push_str(&one.words.join(" "));
        match &one.block {
            None => out.push_str(";\n"),
            Some(block) => {
                out.push_str(" {\n");
                print(block, depth + 1, out);
                out.push_str(&"    ".repeat(depth));
                out.push_str("}\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<Directive>, String> {
        let mut parser = Parser {
            file: "a.conf".into(),
            text,
            at: 0,
            base: ".".into(),
        };
        parser.block(0, false)
    }

    #[test]
    fn directives_are_read_and_printed_again() {
        let text = "user a; # who\nevents {\n}\nhttp {\n log_format x '$a \"b\" {';\n  server { return 200 \"a;\\\"b\"; set $x ${y}z; }\n}\n";
        let all = parse(text).unwrap();
        let mut out = String::new();
        print(&all, 0, &mut out);
        assert_eq!(
            out,
            "user a;\nevents {\n}\nhttp {\n    log_format x '$a \"b\" {';\n    server {\n        return 200 \"a;\\\"b\";\n        set $x ${y}z;\n    }\n}\n"
        );
        assert_eq!(parse(&out).unwrap(), all);
    }

    #[test]
    fn mistakes_have_their_places() {
        for (text, message) in [
            ("a b", "a.conf:1:4: a directive without `;`"),
            ("a {\n b;\n", "a.conf:3:1: the block is not closed"),
            ("a 'b;", "a.conf:1:6: unterminated quote"),
            ("a;}", "a.conf:1:4: a `}` too many"),
            (";", "a.conf:1:2: a `;` without a directive"),
            ("include no-such-file;", "a.conf:1:22: ./no-such-file"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
        assert_eq!(parse("include no-such-folder/*.conf;").unwrap(), []);
    }

    #[test]
    fn places_are_found_and_the_copy_runs_beside_others() {
        let text = "user www-data; error_log /var/log/e; http { upstream app { server 10.0.0.1:80; keepalive 8; }\n\
            server { listen 80; server_name a.example; return 301 https://a.example$request_uri; }\n\
            server { listen 443 ssl; http2 on; server_name a.example; ssl_certificate x; access_log /var/log/a;\n\
              location / { proxy_pass http://app; }\n  location = /up { return 200 \"up\\n\"; }\n\
              location /ok { return 200 fine; }\n  location ~ \\.php$ { fastcgi_pass unix:/run/php; }\n\
              location /php/ { fastcgi_pass unix:/run/php; } location /old { return 301 /new; } } }";
        let found = read(Path::new("nginx.conf"), text).unwrap();
        let seen: Vec<_> = found
            .places
            .iter()
            .map(|place| (place.path.as_str(), &place.right))
            .collect();
        assert_eq!(
            seen,
            [
                ("/", &Right::Behind(Backend::Http)),
                ("/up", &Right::Fixed(200, None)),
                ("/ok", &Right::Fixed(200, Some("fine".into()))),
                ("/php/", &Right::Behind(Backend::Fastcgi)),
                ("/old", &Right::Fixed(301, None)),
            ]
        );
        assert!(
            found
                .places
                .iter()
                .all(|place| place.host.as_deref() == Some("a.example"))
        );
        assert_eq!(found.left_out, ["location ~ \\.php$"]);
        let copy = &found.copies[0].1;
        for words in [
            "listen 127.0.0.1:__LAB_PORT__;",
            "server 127.0.0.1:__LAB_APP__;\n        keepalive 8;",
            "proxy_pass http://app;",
            "fastcgi_pass 127.0.0.1:__LAB_FCGI__;",
            "access_log __LAB_DIR__/access.log;",
        ] {
            assert!(copy.contains(words), "{words} in\n{copy}");
        }
        for words in [
            "ssl",
            "user",
            "error_log",
            "http2",
            "443",
            "10.0.0.1",
            "301 https",
        ] {
            assert!(!copy.contains(words), "{words} in\n{copy}");
        }
    }
}
