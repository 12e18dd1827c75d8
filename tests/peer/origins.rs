//! Real servers as upstreams: their responses must be the same directly and through sluice. Those that are not
//! installed are reported as skipped; php-fpm is covered by `tests/e2e/php.rs`, where it has its own site.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::peer::peers::{self, free_port};
use crate::support::abilities::{skipped, skipped_part, tried};
use crate::support::program::Program;
use crate::support::python::Python;
use crate::support::temp_folder::TempFolder;

/// An upstream server.
struct Origin {
    name: &'static str,
    /// Where its program is.
    from: From,
    /// A command that must succeed for it to be available.
    probe: [&'static str; 2],
    /// Writes its files into a folder and returns the command for the program; it listens on the port.
    start: fn(&Path, &Path, u16) -> Command,
}

/// Where a program is.
enum From {
    /// In a folder of `PATH`.
    Path,
    /// In the Python environment of the tests.
    Python,
}

const ORIGINS: [Origin; 6] = [
    Origin {
        name: "nginx",
        from: From::Path,
        probe: ["nginx", "-v"],
        start: nginx,
    },
    Origin {
        name: "lighttpd",
        from: From::Path,
        probe: ["lighttpd", "-v"],
        start: lighttpd,
    },
    Origin {
        name: "Go net/http",
        from: From::Path,
        probe: ["go", "version"],
        start: go,
    },
    Origin {
        name: "Node",
        from: From::Path,
        probe: ["node", "--version"],
        start: node,
    },
    Origin {
        name: "gunicorn",
        from: From::Python,
        probe: ["gunicorn", "--version"],
        start: gunicorn,
    },
    Origin {
        name: "uvicorn",
        from: From::Python,
        probe: ["uvicorn", "--version"],
        start: uvicorn,
    },
];

impl Origin {
    /// Its program, if it is available.
    fn program(&self) -> Option<PathBuf> {
        let [name, arg] = self.probe;
        let program = match self.from {
            From::Path => PathBuf::from(name),
            From::Python => Python::look().ok()?.program(name),
        };
        let output = tried(&program.to_string_lossy(), &[arg])?;
        output.status.success().then_some(program)
    }
}

fn write(dir: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, content).expect("the folder is writable");
    path
}

fn nginx(program: &Path, dir: &Path, port: u16) -> Command {
    let root = dir.join("www");
    let text = format!(
        "daemon off;\nmaster_process off;\nuser root;\npid {dir}/nginx.pid;\nerror_log {dir}/error.log;\nevents {{}}\nhttp {{\n\
         access_log off;\nclient_body_temp_path {dir}/body;\nproxy_temp_path {dir}/p;\nfastcgi_temp_path {dir}/f;\n\
         uwsgi_temp_path {dir}/u;\nscgi_temp_path {dir}/s;\nserver {{\nlisten 127.0.0.1:{port};\nroot {root};\n\
         location /moved {{ return 302 /there; }}\n}}\n}}\n",
        dir = dir.display(),
        root = root.display()
    );
    let mut command = Command::new(program);
    command
        .arg("-p")
        .arg(dir)
        .arg("-c")
        .arg(write(dir, "nginx.conf", text));
    command
}

fn lighttpd(program: &Path, dir: &Path, port: u16) -> Command {
    let text = format!(
        "server.document-root = \"{}/www\"\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n",
        dir.display()
    );
    let mut command = Command::new(program);
    command
        .arg("-D")
        .arg("-f")
        .arg(write(dir, "lighttpd.conf", text));
    command
}

/// Each application echoes method, path and body; `/stream` is sent in pieces.
fn go(program: &Path, dir: &Path, port: u16) -> Command {
    let text = format!(
        "package main\nimport (\n\"fmt\"\n\"io\"\n\"net/http\"\n)\nfunc main() {{\n\
         http.HandleFunc(\"/\", func(w http.ResponseWriter, r *http.Request) {{\n\
         if r.URL.Path == \"/stream\" {{\nfor i := 0; i < 50; i++ {{\nfmt.Fprintf(w, \"piece %d\\n\", i)\n\
         w.(http.Flusher).Flush()\n}}\nreturn\n}}\nbody, _ := io.ReadAll(r.Body)\n\
         fmt.Fprintf(w, \"%s %s %d %s\", r.Method, r.URL.Path, len(body), body)\n}})\n\
         http.ListenAndServe(\"127.0.0.1:{port}\", nil)\n}}\n"
    );
    let source = write(dir, "main.go", text);
    let built_to = dir.join("origin");
    let built = Command::new(program)
        .args(["build", "-o"])
        .arg(&built_to)
        .arg(source)
        .status()
        .expect("go starts");
    assert!(built.success(), "the program is good");
    Command::new(built_to)
}

fn node(program: &Path, dir: &Path, port: u16) -> Command {
    let text = format!(
        "require('http').createServer((q, s) => {{\nif (q.url === '/stream') {{\n\
         for (let i = 0; i < 50; i++) s.write('piece ' + i + '\\n');\nreturn s.end();\n}}\nconst parts = [];\n\
         q.on('data', d => parts.push(d));\nq.on('end', () => {{\nconst b = Buffer.concat(parts);\n\
         s.end(q.method + ' ' + q.url + ' ' + b.length + ' ' + b);\n}});\n}}).listen({port}, '127.0.0.1');\n"
    );
    let mut command = Command::new(program);
    command.arg(write(dir, "origin.js", text));
    command
}

fn gunicorn(program: &Path, dir: &Path, port: u16) -> Command {
    let text = "def app(env, start):\n    path = env['PATH_INFO']\n    if path == '/stream':\n\
                \x20       start('200 OK', [('Content-Type', 'text/plain')])\n\
                \x20       return (b'piece %d\\n' % i for i in range(50))\n    body = env['wsgi.input'].read()\n\
                \x20   text = ('%s %s %d ' % (env['REQUEST_METHOD'], path, len(body))).encode() + body\n\
                \x20   start('200 OK', [('Content-Length', str(len(text))), ('Content-Type', 'text/plain')])\n\
                \x20   return [text]\n";
    write(dir, "wsgi_origin.py", text);
    let mut command = Command::new(program);
    command
        .current_dir(dir)
        .args(["-b", &format!("127.0.0.1:{port}"), "wsgi_origin:app"]);
    command
}

fn uvicorn(program: &Path, dir: &Path, port: u16) -> Command {
    let text = "async def app(scope, receive, send):\n    if scope['type'] != 'http':\n        return\n    body = b''\n\
                \x20   more = True\n    while more:\n        message = await receive()\n\
                \x20       body += message.get('body', b'')\n        more = message.get('more_body', False)\n\
                \x20   head = {'type': 'http.response.start', 'status': 200, 'headers': [(b'content-type', b'text/plain')]}\n\
                \x20   await send(head)\n    if scope['path'] == '/stream':\n        for i in range(50):\n\
                \x20           await send({'type': 'http.response.body', 'body': b'piece %d\\n' % i, 'more_body': True})\n\
                \x20       return await send({'type': 'http.response.body'})\n\
                \x20   text = ('%s %s %d ' % (scope['method'], scope['path'], len(body))).encode() + body\n\
                \x20   await send({'type': 'http.response.body', 'body': text})\n";
    write(dir, "asgi_origin.py", text);
    let mut command = Command::new(program);
    command
        .current_dir(dir)
        .args(["--port", &port.to_string(), "--log-level", "warning"]);
    command.arg("asgi_origin:app");
    command
}

fn requests() -> Vec<String> {
    let get =
        |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nHost: origin.test\r\n{more}\r\n");
    let large = "x".repeat(300_000);
    vec![
        get("/small.txt", ""),
        get("/large.bin", ""),
        get("/large.bin", "Range: bytes=10-19\r\n"),
        get("/missing", ""),
        get("/moved", ""),
        get("/stream", ""),
        get("/with%20space?a=1&b=2", ""),
        "HEAD /large.bin HTTP/1.1\r\nHost: origin.test\r\n\r\n".to_owned(),
        "POST /echo HTTP/1.1\r\nHost: origin.test\r\nContent-Length: 5\r\n\r\nhello".to_owned(),
        "POST /echo HTTP/1.1\r\nHost: origin.test\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "POST /echo HTTP/1.1\r\nHost: origin.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"
            .to_owned(),
        format!("PUT /echo HTTP/1.1\r\nHost: origin.test\r\nContent-Length: 300000\r\n\r\n{large}"),
        "DELETE /echo HTTP/1.1\r\nHost: origin.test\r\n\r\n".to_owned(),
    ]
}

/// Status, the headers about the content, and the content.
struct Said {
    status: String,
    content: Vec<String>,
    body: Vec<u8>,
}

/// Sends all requests on one connection as long as the server keeps it open. A new one is opened only when there is
/// something to send: a server with one process per connection would wait for it.
struct Asker {
    port: u16,
    open: Option<TcpStream>,
}

impl Asker {
    fn new(port: u16) -> Asker {
        Asker { port, open: None }
    }

    fn socket(&mut self) -> &mut TcpStream {
        self.open.get_or_insert_with(|| {
            let socket = TcpStream::connect(("127.0.0.1", self.port)).expect("somebody listens");
            let timeout = Some(Duration::from_secs(20));
            socket.set_read_timeout(timeout).expect("it can be set");
            socket
        })
    }

    fn line(&mut self) -> String {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\r\n") {
            self.socket().read_exact(&mut byte).expect("an answer");
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    fn ask(&mut self, request: &str) -> Said {
        self.socket()
            .write_all(request.as_bytes())
            .expect("it is taken");
        let mut status = self.line();
        while status.contains(" 100 ") {
            self.line();
            status = self.line();
        }
        let mut fields = Vec::new();
        loop {
            let line = self.line().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            fields.push(line);
        }
        let named = |name: &str| fields.iter().find_map(|line| line.strip_prefix(name));
        let mut body = Vec::new();
        let code = status[9..12].to_owned();
        if !request.starts_with("HEAD") && code != "304" && code != "204" {
            if named("transfer-encoding:").is_some() {
                loop {
                    let size = usize::from_str_radix(&self.line(), 16).expect("a size");
                    let mut chunk = vec![0; size + 2];
                    self.socket().read_exact(&mut chunk).expect("a chunk");
                    body.extend_from_slice(&chunk[..size]);
                    if size == 0 {
                        break;
                    }
                }
            } else {
                let length = named("content-length:").expect("a length").trim();
                body.resize(length.parse().expect("a number"), 0);
                self.socket().read_exact(&mut body).expect("the content");
            }
        }
        let closes = named("connection:").is_some_and(|value| value.contains("close"));
        // Framing is up to each connection; the length of a body is compared with HEAD.
        let is_head = request.starts_with("HEAD");
        let about = |line: &&String| match line.split(':').next().unwrap_or_default() {
            "content-length" => is_head,
            name => name.starts_with("content-") || name == "location",
        };
        let mut content: Vec<String> = fields.iter().filter(about).cloned().collect();
        content.sort();
        if closes {
            self.open = None;
        }
        Said {
            status: code,
            content,
            body,
        }
    }
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn real_servers_respond_the_same_through_the_proxy() {
    let mut asked = 0;
    for origin in ORIGINS {
        let Some(program) = origin.program() else {
            skipped_part(format_args!("{} is not installed", origin.name));
            continue;
        };
        let folder = TempFolder::new();
        let dir = folder.path();
        folder.write("www/small.txt", "small");
        folder.write("www/large.bin", "0123456789".repeat(30_000));
        folder.write("www/stream", "a file of that name");
        folder.write("www/with space", "spaced");
        let (port, ours) = (free_port(), free_port());
        let mut command = (origin.start)(&program, dir, port);
        let _origin = Program::start(&mut command, dir.join("origin.log")).listening(port);
        let text =
            format!("{{\n\tadmin off\n}}\n:{ours} {{\n\treverse_proxy 127.0.0.1:{port}\n}}\n");
        let mut sluice = Command::new(peers::sluice());
        sluice.env("XDG_DATA_HOME", dir).arg("run").arg("--config");
        let sluice = sluice.arg(folder.write("Caddyfile", text));
        let _sluice = Program::start(sluice, dir.join("sluice.log")).listening(ours);
        let (mut direct, mut through) = (Asker::new(port), Asker::new(ours));
        for round in 0..20 {
            for request in requests() {
                let shown = request.lines().next().unwrap_or_default();
                let (expected, found) = (direct.ask(&request), through.ask(&request));
                let place = format!("{}, round {round}: {shown}", origin.name);
                assert_eq!(found.status, expected.status, "{place}");
                assert_eq!(found.content, expected.content, "{place}");
                assert!(found.body == expected.body, "{place}: another body");
                asked += 1;
            }
        }
        println!("{}: {} requests", origin.name, 20 * requests().len());
    }
    if asked == 0 {
        skipped("none of the servers to compare with is installed");
    }
}
