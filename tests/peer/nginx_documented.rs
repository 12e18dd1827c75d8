//! Directives of FastCGI, SCGI, uwsgi and gRPC upstreams, each used as nginx's documentation describes it: the same
//! requests, in the same order, to sluice and to an installed nginx, each with applications of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use pki_types::pem::PemObject;
use pki_types::{CertificateDer, PrivateKeyDer};
use rcgen::{CertificateParams, DnType, KeyPair};

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

use crate::peer::http::{Response, ask};
use crate::peer::nginx::run;
use crate::peer::peers::{Site, free_port, sluice};
use crate::support::cgi::{read_scgi, read_uwsgi};
use crate::support::fastcgi::{Asked, STDOUT, end, read_request, record};
use crate::support::wait::eventually;
use crate::support::wire::Wire;
use crate::support::{listen, servers};
use crate::tls;

/// The directives that the configuration must use, so that none is lost when it is edited.
const COVERED: &[&str] = &[
    "fastcgi_buffering",
    "fastcgi_cache_background_update",
    "fastcgi_cache_lock",
    "fastcgi_cache_lock_age",
    "fastcgi_cache_lock_timeout",
    "fastcgi_cache_max_range_offset",
    "fastcgi_cache_methods",
    "fastcgi_cache_revalidate",
    "fastcgi_connect_timeout",
    "fastcgi_force_ranges",
    "fastcgi_ignore_client_abort",
    "fastcgi_ignore_headers",
    "fastcgi_limit_rate",
    "fastcgi_next_upstream_timeout",
    "fastcgi_next_upstream_tries",
    "fastcgi_read_timeout",
    "fastcgi_send_timeout",
    "fastcgi_store",
    "fastcgi_store_access",
    "grpc_connect_timeout",
    "grpc_hide_header",
    "grpc_intercept_errors",
    "grpc_next_upstream_timeout",
    "grpc_next_upstream_tries",
    "grpc_pass_header",
    "grpc_read_timeout",
    "grpc_send_timeout",
    "grpc_ssl_certificate",
    "grpc_ssl_certificate_key",
    "grpc_ssl_name",
    "scgi_buffering",
    "scgi_buffers",
    "scgi_cache_background_update",
    "scgi_cache_bypass",
    "scgi_cache_lock_age",
    "scgi_cache_lock_timeout",
    "scgi_cache_methods",
    "scgi_cache_min_uses",
    "scgi_cache_revalidate",
    "scgi_cache_use_stale",
    "scgi_cache_valid",
    "scgi_connect_timeout",
    "scgi_hide_header",
    "scgi_ignore_client_abort",
    "scgi_intercept_errors",
    "scgi_max_temp_file_size",
    "scgi_next_upstream_timeout",
    "scgi_next_upstream_tries",
    "scgi_pass_header",
    "scgi_pass_request_body",
    "scgi_read_timeout",
    "scgi_request_buffering",
    "scgi_send_timeout",
    "uwsgi_buffering",
    "uwsgi_buffers",
    "uwsgi_cache_background_update",
    "uwsgi_cache_bypass",
    "uwsgi_cache_lock",
    "uwsgi_cache_lock_age",
    "uwsgi_cache_lock_timeout",
    "uwsgi_cache_max_range_offset",
    "uwsgi_cache_methods",
    "uwsgi_cache_min_uses",
    "uwsgi_cache_revalidate",
    "uwsgi_connect_timeout",
    "uwsgi_force_ranges",
    "uwsgi_ignore_client_abort",
    "uwsgi_intercept_errors",
    "uwsgi_max_temp_file_size",
    "uwsgi_next_upstream_timeout",
    "uwsgi_next_upstream_tries",
    "uwsgi_no_cache",
    "uwsgi_pass_header",
    "uwsgi_send_timeout",
    "uwsgi_store_access",
];

/// The module names of applications.
const MODULES: [&str; 3] = ["fastcgi", "scgi", "uwsgi"];

/// In `http`, for each module: `APP` is its name, `ADDRESS` its application.
const GROUPS: &str = "APP_cache_path DIR/WHICH-APP keys_zone=APP:1m;\n\
    upstream three_APP { server DEAD max_fails=0; server DEAD max_fails=0; server ADDRESS max_fails=0; }\n\
    upstream quiet_APP { server SILENT max_fails=0; server ADDRESS max_fails=0; }\n";

/// In `server`, for each module.
const LOCATIONS: &str = "
    location /APP/plain/ { APP_pass ADDRESS; }
    location /APP/direct/ { APP_request_buffering off; APP_pass ADDRESS; }
    location /APP/stream/ { APP_buffering off; APP_pass ADDRESS; }
    location /APP/head/ { APP_hide_header X-Hidden; APP_pass_header X-Accel-Expires; APP_pass ADDRESS; }
    location /APP/errors/ { APP_intercept_errors on; error_page 404 /fallback; APP_pass ADDRESS; }
    location /APP/nobody/ { APP_pass_request_body off; NOBODY APP_param REQUEST_URI $request_uri; APP_param REQUEST_METHOD $request_method; APP_pass ADDRESS; }
    location /APP/big/ { APP_buffers 4 4k; APP_busy_buffers_size 8k; APP_max_temp_file_size 0; APP_limit_rate 10m; APP_pass ADDRESS; }
    location /APP/ranges/ { APP_force_ranges on; APP_pass ADDRESS; }
    location /APP/three/ { APP_pass three_APP; }
    location /APP/twice/ { APP_next_upstream_tries 2; APP_pass three_APP; }
    location /APP/patient/ { APP_read_timeout 300ms; APP_pass quiet_APP; }
    location /APP/late/ { APP_read_timeout 300ms; APP_next_upstream_timeout 100ms; APP_pass quiet_APP; }
    location /APP/silent/ { APP_read_timeout 300ms; APP_pass SILENT; }
    location /APP/deaf/ { APP_send_timeout 300ms; APP_read_timeout 30s; APP_pass DEAF; }
    location /APP/full/ { APP_connect_timeout 300ms; APP_pass FULL; }
    location /APP/left/ { APP_pass ADDRESS; access_log DIR/WHICH-left status; }
    location /APP/kept/ { APP_ignore_client_abort on; APP_pass ADDRESS; access_log DIR/WHICH-left status; }
    location /APP/store/ { APP_store DIR/WHICH-stored$uri; APP_store_access group:r all:r; APP_pass ADDRESS; }
    location /APP/stored/ { APP_store on; root DIR/WHICH-on; APP_pass ADDRESS; }
    location /APP/cached/ { APP_cache APP; APP_cache_key $uri; APP_cache_valid 200 1h; APP_cache_valid 404 1h; APP_cache_methods GET HEAD POST; APP_cache_min_uses 2;
        APP_cache_bypass $http_x_bypass; APP_no_cache $http_x_nostore; APP_pass ADDRESS; }
    location /APP/ignored/ { APP_cache APP; APP_cache_key $uri; APP_cache_valid 1h; APP_ignore_headers X-Accel-Redirect Set-Cookie Cache-Control; APP_pass ADDRESS; }
    location /APP/offset/ { APP_cache APP; APP_cache_key $uri; APP_cache_valid 1h; APP_cache_max_range_offset 10; APP_pass ADDRESS; }
    location /APP/stale/ { APP_cache APP; APP_cache_key $uri; APP_cache_use_stale http_500; APP_pass ADDRESS; }
    location /APP/fresh/ { APP_cache APP; APP_cache_key $uri; APP_cache_use_stale updating; APP_cache_background_update on; APP_pass ADDRESS; }
    location /APP/again/ { APP_cache APP; APP_cache_key $uri; APP_cache_revalidate on; APP_pass ADDRESS; }
    location /APP/locked/ { APP_cache APP; APP_cache_key $uri; APP_cache_valid 1h; APP_cache_lock on; APP_cache_lock_age 1m; APP_cache_lock_timeout 1m; APP_pass ADDRESS; }
    location /APP/lock_timeout/ { APP_cache APP; APP_cache_key $uri; APP_cache_valid 1h; APP_cache_lock on; APP_cache_lock_age 1m; APP_cache_lock_timeout 100ms; APP_pass ADDRESS; }
    location /APP/lock_age/ { APP_cache APP; APP_cache_key $uri; APP_cache_valid 1h; APP_cache_lock on; APP_cache_lock_age 1s; APP_cache_lock_timeout 1m; APP_pass ADDRESS; }
";

/// In `http`: the upstream of gRPC, which is a server of the same program, over plain HTTP/2 and over TLS.
const GRPC_SERVERS: &str = "
    upstream three_grpc { server DEAD max_fails=0; server DEAD max_fails=0; server 127.0.0.1:SECOND max_fails=0; }
    upstream quiet_grpc { server SILENT max_fails=0; server 127.0.0.1:SECOND max_fails=0; }
    server { listen 127.0.0.1:SECOND http2; add_header X-Hidden 1 always; add_header X-Accel-Expires 0 always; location / { return 200 grpc; } location = /grpc/errors { return 404 lost; } }
    server { listen 127.0.0.1:THIRD ssl http2; server_name named.test; ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate DIR/server.crt; ssl_certificate_key DIR/server.key;
        ssl_verify_client on; ssl_client_certificate DIR/client.crt; location / { return 200 \"$ssl_client_verify $ssl_client_s_dn $ssl_server_name\"; }
        location /form { return 200 \"$ssl_session_id\"; }
        location /variables { return 200 \"$ssl_client_cert|$ssl_client_raw_cert|$ssl_client_escaped_cert|$ssl_client_i_dn_legacy|$ssl_client_v_remain|$ssl_ciphers\"; } }
";

/// In `server`, for gRPC.
const GRPC_LOCATIONS: &str = "
    location /grpc/head { grpc_hide_header X-Hidden; grpc_pass_header X-Accel-Expires; grpc_pass grpc://127.0.0.1:SECOND; }
    location /grpc/errors { grpc_intercept_errors on; error_page 404 /fallback; grpc_pass 127.0.0.1:SECOND; }
    location /grpc/three { grpc_pass three_grpc; }
    location /grpc/twice { grpc_next_upstream_tries 2; grpc_pass three_grpc; }
    location /grpc/patient { grpc_read_timeout 300ms; grpc_pass quiet_grpc; }
    location /grpc/late { grpc_read_timeout 300ms; grpc_next_upstream_timeout 100ms; grpc_pass quiet_grpc; }
    location /grpc/silent { grpc_read_timeout 300ms; grpc_pass SILENT; }
    location /grpc/deaf { grpc_send_timeout 300ms; grpc_read_timeout 300ms; grpc_pass DEAF; }
    location /grpc/full { grpc_connect_timeout 300ms; grpc_pass FULL; }
    location /grpc/tls { grpc_ssl_certificate DIR/client.crt; grpc_ssl_certificate_key DIR/client.key; grpc_ssl_name named.test; grpc_ssl_server_name on; grpc_ssl_session_reuse off; grpc_set_header Host named.test;
        grpc_ssl_verify on; grpc_ssl_trusted_certificate DIR/server.crt; grpc_pass grpcs://127.0.0.1:THIRD; }
    location /grpc/misnamed { grpc_ssl_certificate DIR/client.crt; grpc_ssl_certificate_key DIR/client.key; grpc_ssl_name other.test; grpc_ssl_server_name on; grpc_ssl_session_reuse off; grpc_set_header Host named.test;
        grpc_ssl_verify on; grpc_ssl_trusted_certificate DIR/server.crt; grpc_pass grpcs://127.0.0.1:THIRD; }
    location /grpc/anonymous { grpc_ssl_name named.test; grpc_ssl_server_name on; grpc_ssl_session_reuse off; grpc_set_header Host named.test; grpc_pass grpcs://127.0.0.1:THIRD; }
";

/// Variables whose values differ between two servers, of which the form is compared.
const PLAIN_VARIABLES: &str = "$bytes_sent|$connection|$connection_time|$connections_reading|$hostname|$msec|$nginx_version|$pid|$realip_remote_port|$request_time|$time_iso8601";

/// The requests for each module, in order: what each receives depends on those before.
const REQUESTS: &[&str] = &[
    "GET /APP/plain/a",
    "POST /APP/direct/a | body=hello",
    "GET /APP/head/a?h=X-Hidden:1&h=X-Shown:2&h=X-Accel-Expires:0",
    "GET /APP/plain/b?h=X-Hidden:1&h=X-Accel-Expires:0",
    "GET /APP/errors/a?s=404",
    "GET /APP/plain/c?s=404",
    "POST /APP/nobody/a | body=hello",
    "GET /APP/big/a?b=200000",
    "GET /APP/ranges/a | Range: bytes=0-3",
    "GET /APP/plain/d | Range: bytes=0-3",
    "GET /APP/three/a",
    "GET /APP/twice/a",
    "GET /APP/patient/a",
    "GET /APP/late/a",
    "GET /APP/silent/a",
    "GET /APP/full/a",
    "GET /APP/cached/a",
    "GET /APP/cached/a",
    "GET /APP/cached/a",
    "GET /APP/cached/a | X-Bypass: 1",
    "GET /APP/cached/a",
    "GET /APP/cached/b | X-Nostore: 1",
    "GET /APP/cached/b | X-Nostore: 1",
    "GET /APP/cached/b | X-Nostore: 1",
    "POST /APP/cached/c | body=x",
    "POST /APP/cached/c | body=x",
    "POST /APP/cached/c | body=x",
    "GET /APP/cached/d?s=404",
    "GET /APP/cached/d?s=404",
    "GET /APP/cached/d?s=404",
    "GET /APP/cached/e?s=410",
    "GET /APP/cached/e?s=410",
    "GET /APP/cached/e?s=410",
    "GET /APP/ignored/a?h=X-Accel-Redirect:/fallback&h=Set-Cookie:a=b&h=Cache-Control:no-cache",
    "GET /APP/ignored/a?h=X-Accel-Redirect:/fallback&h=Set-Cookie:a=b&h=Cache-Control:no-cache",
    "GET /APP/plain/e?h=X-Accel-Redirect:/fallback",
    "GET /APP/offset/a | Range: bytes=20-22",
    "GET /APP/offset/a | Range: bytes=20-22",
    "GET /APP/offset/b | Range: bytes=2-4",
    "GET /APP/offset/b | Range: bytes=2-4",
    "GET /APP/store/f.txt",
    "GET /APP/stored/f.txt",
    "GET /APP/stale/a?h=Cache-Control:max-age=1",
    "GET /APP/fresh/a?h=Cache-Control:max-age=1",
    "GET /APP/again/a?h=Cache-Control:max-age=1&h=ETag:\"x\"",
];

/// Those after the cached responses have become stale.
const LATER: &[&str] = &[
    "GET /APP/stale/a?h=Cache-Control:max-age=1&s=500",
    "GET /APP/plain/f?s=500",
    "GET /APP/again/a?h=Cache-Control:max-age=1&h=ETag:\"x\"",
];

/// The requests for gRPC.
const GRPC_REQUESTS: &[&str] = &[
    "GET /grpc/head",
    "GET /grpc/errors",
    "GET /grpc/three",
    "GET /grpc/twice",
    "GET /grpc/patient",
    "GET /grpc/late",
    "GET /grpc/silent",
    "GET /grpc/full",
    "GET /grpc/tls",
    "GET /grpc/misnamed",
    "GET /grpc/anonymous",
];

/// Intentional differences: what is observed, and why.
const ACCEPTED: &[(&str, &str)] = &[
    (
        "POST /scgi/nobody/",
        "nginx announces the length of a body that it does not send, and the application waits for it",
    ),
    (
        "/offset/b",
        "parts of cached responses are served even if the upstream does not offer parts (RFC 9110, section 14.2)",
    ),
];

/// The applications of one program.
pub struct Apps {
    state: Arc<State>,
    /// The ports of [`MODULES`].
    pub ports: [u16; 3],
}

#[derive(Default)]
struct State {
    /// How often each path was requested.
    counts: Mutex<BTreeMap<String, u32>>,
    /// The paths whose responses may go on.
    open: Mutex<BTreeSet<String>>,
    opened: Condvar,
}

impl Apps {
    pub fn start() -> Apps {
        let state = Arc::new(State::default());
        let [a, b, c] = [(); 3].map(|()| state.clone());
        Apps {
            state,
            ports: [
                listen(move |mut wire| {
                    while let Some(asked) = read_request(&mut wire) {
                        let sent = a.respond(&asked, &mut |part| {
                            let records = part.chunks(60_000).flat_map(|part| record(STDOUT, part));
                            wire.try_send(records.collect::<Vec<u8>>()).is_ok()
                        });
                        if !sent || wire.try_send(end(0)).is_err() || !asked.keeps {
                            return;
                        }
                    }
                }),
                listen(move |mut wire| {
                    if let Some(asked) = read_scgi(&mut wire) {
                        b.respond(&asked, &mut |part| wire.try_send(part).is_ok());
                    }
                }),
                listen(move |mut wire| {
                    if let Some((asked, _)) = read_uwsgi(&mut wire) {
                        c.respond(&asked, &mut |part| wire.try_send(part).is_ok());
                    }
                }),
            ],
        }
    }

    fn count(&self, path: &str) -> u32 {
        let counts = self.state.counts.lock().expect("nobody panics with it");
        counts.get(path).copied().unwrap_or_default()
    }

    fn await_count(&self, path: &str, count: u32) {
        eventually(
            &format!("{count} requests for {path}"),
            || self.count(path) >= count,
            || self.count(path).to_string(),
        );
    }

    fn open(&self, path: &str) {
        let mut open = self.state.open.lock().expect("nobody panics with it");
        open.insert(path.to_owned());
        self.state.opened.notify_all();
    }
}

impl State {
    /// Responds as the query says: with the status `s`, headers `h`, and `b` bytes. Paths that end with `gate` have two
    /// parts, and the second is sent once the test allows it.
    fn respond(&self, asked: &Asked, send: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let uri = asked.param("REQUEST_URI").unwrap_or_default();
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let count = {
            let mut counts = self.counts.lock().expect("nobody panics with it");
            let count = counts.entry(path.to_owned()).or_default();
            *count += 1;
            *count
        };
        let mut head = String::new();
        let (mut status, mut bytes) = ("200", 0);
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let value = &value.replace("%22", "\"");
            match name {
                "s" => {
                    status = if value == "404" {
                        "404"
                    } else if value == "410" {
                        "410"
                    } else {
                        "500"
                    }
                }
                "b" => bytes = value.parse().expect("a number"),
                "h" => writeln!(head, "{}\r", value.replacen(':', ": ", 1)).expect("it is text"),
                _ => {}
            }
        }
        if asked.param("HTTP_IF_NONE_MATCH").is_some() {
            status = "304";
        }
        let method = asked.param("REQUEST_METHOD").unwrap_or_default();
        let range = asked.param("HTTP_RANGE").unwrap_or("none");
        let text = format!(
            "{method} {path} {count} body={} range={range}\n",
            asked.body.len()
        );
        let head = format!("Status: {status} It\r\nContent-Type: text/plain\r\n{head}\r\n");
        if status == "304" {
            return send(head.as_bytes());
        }
        if path.ends_with("gate") {
            // Nothing has been sent when the client leaves: then nginx logs 499.
            let is_left = path.contains("/left/") || path.contains("/kept/");
            let first = is_left || send(format!("{head}first\n").as_bytes());
            let open = self.open.lock().expect("nobody panics with it");
            let waited = self
                .opened
                .wait_timeout_while(open, Duration::from_secs(20), |open| !open.contains(path));
            drop(waited);
            let start = if is_left { &*head } else { "" };
            return first && send(format!("{start}{text}").as_bytes());
        }
        let filling = "0123456789".repeat(bytes / 10);
        let length = text.len() + filling.len();
        let head = head.trim_end();
        send(format!("{head}\r\nContent-Length: {length}\r\n\r\n{text}{filling}").as_bytes())
    }
}

/// An address that accepts connections and reads, and never responds.
fn silent() -> u16 {
    listen(|mut wire| {
        wire.drain();
    })
}

/// An address that accepts connections and does not read.
fn deaf() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        let held: Vec<TcpStream> = listener.incoming().flatten().collect();
        drop(held);
    });
    port
}

/// An address whose queue of connections is full, so that further ones are not established.
struct Full {
    addr: SocketAddr,
    _held: (TcpListener, Vec<TcpStream>),
}

impl Full {
    fn new() -> Full {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let addr = listener.local_addr().expect("it is bound");
        let mut held = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&addr, Duration::from_millis(200)) {
            held.push(stream);
            assert!(held.len() < 1000, "the queue has an end");
        }
        Full {
            addr,
            _held: (listener, held),
        }
    }
}

/// Certificates of a server and of a client, each its own CA.
fn write_certificates(dir: &Path) {
    for (file, name) in [("server", "named.test"), ("client", "client.test")] {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let made = params.self_signed(&key).expect("a certificate");
        std::fs::write(dir.join(format!("{file}.crt")), made.pem()).expect("it can be written");
        std::fs::write(dir.join(format!("{file}.key")), key.serialize_pem())
            .expect("it can be written");
    }
}

/// One program with its applications.
struct Side {
    running: crate::peer::nginx::Running,
    apps: Apps,
    dir: PathBuf,
    which: &'static str,
    /// The port of TLS.
    third: u16,
}

/// The addresses that both sides use.
struct Addresses {
    silent: u16,
    deaf: u16,
    full: Full,
}

fn conf(dir: &Path, apps: &Apps, ports: [u16; 3], shared: &Addresses, is_nginx: bool) -> String {
    let (mut groups, mut locations) = (String::new(), String::new());
    for (module, port) in MODULES.iter().zip(apps.ports) {
        let nobody = match *module {
            "uwsgi" => "uwsgi_param CONTENT_LENGTH 0;",
            "scgi" => "scgi_param SCGI 1;",
            _ => "fastcgi_param CONTENT_LENGTH 0;",
        };
        let fill = |text: &str| {
            let text = text
                .replace("NOBODY", nobody)
                .replace("ADDRESS", &format!("127.0.0.1:{port}"));
            text.replace("APP", module)
        };
        groups.push_str(&fill(GROUPS));
        locations.push_str(&fill(LOCATIONS));
    }
    let (main, own, which) = match is_nginx {
        true => (
            "user root;\ndaemon off;\nmaster_process off;\n",
            "server_tokens off;\nclient_body_temp_path DIR/nginx-temp; proxy_temp_path DIR/nginx-temp; fastcgi_temp_path DIR/nginx-temp; \
             uwsgi_temp_path DIR/nginx-temp; scgi_temp_path DIR/nginx-temp;\n",
            "theirs",
        ),
        false => ("", "server_tokens \"nginx\";\n", "ours"),
    };
    let text = format!(
        "{main}worker_processes 1;\npid DIR/{which}.pid;\nerror_log DIR/{which}.log;\nevents {{}}\nhttp {{\n{own}\
         log_format status '$uri $status';\naccess_log off;\nclient_max_body_size 10m;\n\
         map $content_length $length {{ '' 0; default $content_length; }}\n{groups}OTHERS\
         server {{\nlisten 127.0.0.1:PORT;\nroot DIR/www;\nadd_header X-Cache $upstream_cache_status always;\nadd_header X-Tried $upstream_status always;\n\
         fastcgi_param CONTENT_LENGTH $content_length; fastcgi_param REQUEST_URI $request_uri; fastcgi_param REQUEST_METHOD $request_method;\n\
         scgi_param SCGI 1; scgi_param REQUEST_URI $request_uri; scgi_param REQUEST_METHOD $request_method;\n\
         uwsgi_param CONTENT_LENGTH $length; uwsgi_param REQUEST_URI $request_uri; uwsgi_param REQUEST_METHOD $request_method;\n\
         location = /variables {{ return 200 \"PLAIN\"; }}\nlocation = /fallback {{ return 200 fallback; }}\n{locations}GRPC_LOCATIONS}}\n}}\n"
    );
    let [port, second, third] = ports.map(|port| port.to_string());
    let mut text = text
        .replace("GRPC_LOCATIONS", GRPC_LOCATIONS)
        .replace("OTHERS", GRPC_SERVERS)
        .replace("PLAIN", PLAIN_VARIABLES)
        .replace("DIR", &dir.display().to_string())
        .replace("WHICH", which)
        .replace("SILENT", &format!("127.0.0.1:{}", shared.silent))
        .replace("DEAF", &format!("127.0.0.1:{}", shared.deaf))
        .replace("FULL", &shared.full.addr.to_string())
        .replace("SECOND", &second)
        .replace("THIRD", &third)
        .replace("PORT", &port);
    while text.contains("DEAD") {
        text = text.replacen("DEAD", &format!("127.0.0.1:{}", free_port()), 1);
    }
    text
}

impl Side {
    fn start(site: &Site, program: &Path, shared: &Addresses, is_nginx: bool) -> Side {
        let apps = Apps::start();
        let ports = [(); 3].map(|()| free_port());
        let text = conf(site.dir(), &apps, ports, shared, is_nginx);
        if is_nginx {
            for name in COVERED {
                assert!(text.contains(&format!("{name} ")), "{name} is not used");
            }
        }
        let which = if is_nginx { "theirs" } else { "ours" };
        for folder in ["stored", "on"] {
            let folder = site.dir().join(format!("{which}-{folder}"));
            std::fs::create_dir_all(folder).expect("the folder is writable");
        }
        Side {
            running: run(site, program, "documented", &text, ports[0], is_nginx),
            apps,
            dir: site.dir().to_owned(),
            which,
            third: ports[2],
        }
    }

    fn get(&self, path: &str) -> Wire {
        let mut wire = Wire::connect(self.running.port);
        wire.send(format!(
            "GET {path} HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n"
        ));
        wire
    }

    /// All that is observed, in order.
    fn observe(&self) -> Vec<(String, String)> {
        let mut seen = Vec::new();
        for module in MODULES {
            for (number, request) in REQUESTS.iter().enumerate() {
                let request = request.replace("APP", module);
                seen.push((
                    format!("{number} {request}"),
                    shown(&ask(self.running.port, &request)),
                ));
            }
            self.observe_streams(module, &mut seen);
            self.observe_locks(module, &mut seen);
            self.observe_files(module, &mut seen);
            let long = "x".repeat(4_000_000);
            let response = ask(
                self.running.port,
                &format!("POST /{module}/deaf/a | body={long}"),
            );
            seen.push((format!("{module} deaf"), response.status));
        }
        for request in GRPC_REQUESTS {
            seen.push((
                (*request).to_owned(),
                shown(&ask(self.running.port, request)),
            ));
        }
        let long = "x".repeat(4_000_000);
        let response = ask(self.running.port, &format!("POST /grpc/deaf | body={long}"));
        seen.push(("grpc deaf".to_owned(), response.status));
        let plain = ask(self.running.port, "GET /variables");
        seen.push((
            "variables".to_owned(),
            form(&String::from_utf8_lossy(&plain.body)),
        ));
        for (version, name) in [(&TLS12, "1.2"), (&TLS13, "1.3")] {
            let client = identified(&self.dir, version);
            for path in ["/variables", "/form"] {
                let mut wire =
                    tls::connect(&client, self.third, "named.test").expect("a handshake");
                let (head, body) = tls::get(&mut wire, "named.test", path);
                let body = if path == "/form" { form(&body) } else { body };
                seen.push((format!("TLS {name} {path}"), format!("{} {body}", head[0])));
            }
        }
        // Freshness has whole seconds: time has to pass until responses of one second are stale for both.
        std::thread::sleep(Duration::from_millis(2100));
        for module in MODULES {
            for request in LATER {
                let request = request.replace("APP", module);
                seen.push((request.clone(), shown(&ask(self.running.port, &request))));
            }
            let fresh = format!("GET /{module}/fresh/a?h=Cache-Control:max-age=1000");
            seen.push((fresh.clone(), shown(&ask(self.running.port, &fresh))));
            self.apps.await_count(&format!("/{module}/fresh/a"), 2);
            eventually(
                "the refreshed response",
                || shown(&ask(self.running.port, &fresh)).contains("HIT"),
                || shown(&ask(self.running.port, &fresh)),
            );
            seen.push((
                format!("{fresh} afterwards"),
                shown(&ask(self.running.port, &fresh)),
            ));
        }
        seen
    }

    /// Responses that are sent as they arrive, and clients that leave.
    fn observe_streams(&self, module: &str, seen: &mut Vec<(String, String)>) {
        let path = format!("/{module}/stream/gate");
        let mut wire = self.get(&path);
        let head = wire.head().expect("a response");
        // The second part is not sent before the first has arrived.
        let first = wire.chunk().unwrap_or_default();
        self.apps.open(&path);
        let rest = wire.chunk().unwrap_or_default();
        let text = [first, rest].concat();
        seen.push((
            path,
            format!("{} {}", &head[0][..12], String::from_utf8_lossy(&text)),
        ));
        let log = self.dir.join(format!("{}-left", self.which));
        let lines = || std::fs::read_to_string(&log).unwrap_or_default();
        let (left, kept) = (
            format!("/{module}/left/gate"),
            format!("/{module}/kept/gate"),
        );
        for path in [&kept, &left] {
            let wire = self.get(path);
            self.apps.await_count(path, 1);
            drop(wire);
        }
        // The client that left last was noticed, so the other one was, too.
        eventually("a line", || lines().contains(&left), lines);
        self.apps.open(&kept);
        eventually("a line", || lines().contains(&kept), lines);
        self.apps.open(&left);
        let mut found: Vec<String> = lines().lines().map(str::to_owned).collect();
        found.sort();
        seen.push((format!("{module} left"), found.join(", ")));
    }

    /// Two requests for the same key at a time.
    fn observe_locks(&self, module: &str, seen: &mut Vec<(String, String)>) {
        for (kind, requests) in [("locked", 1), ("lock_timeout", 2), ("lock_age", 2)] {
            let path = format!("/{module}/{kind}/gate");
            let mut first = self.get(&path);
            self.apps.await_count(&path, 1);
            let mut second = self.get(&path);
            self.apps.await_count(&path, requests);
            self.apps.open(&path);
            for (which, wire) in [("first", &mut first), ("second", &mut second)] {
                let mut bytes = Vec::new();
                wire.stream().read_to_end(&mut bytes).expect("it ends");
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let is_there = text.contains(&format!("GET {path} "));
                seen.push((format!("{path} {which}"), is_there.to_string()));
            }
            seen.push((
                format!("{path} requests"),
                self.apps.count(&path).to_string(),
            ));
        }
    }

    /// The files of `store`.
    fn observe_files(&self, module: &str, seen: &mut Vec<(String, String)>) {
        for path in [
            format!("stored/{module}/store/f.txt"),
            format!("on/{module}/stored/f.txt"),
        ] {
            let file = self.dir.join(format!("{}-{path}", self.which));
            eventually("the file", || file.is_file(), || file.display().to_string());
            let mode = std::fs::metadata(&file)
                .expect("it is there")
                .permissions()
                .mode();
            let text = std::fs::read_to_string(&file).expect("it can be read");
            seen.push((path, format!("{:o} {text}", mode & 0o777)));
        }
    }
}

/// A text in which each number has become a `9`, and the digits of a long hexadecimal one an `f`.
fn form(text: &str) -> String {
    let mut form = String::new();
    for c in text.chars() {
        let c = if c.is_ascii_digit() { '9' } else { c };
        if c != '9' || !form.ends_with('9') {
            form.push(c);
        }
    }
    let is_hex = text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex {
        format!("{} hexadecimal digits", text.len())
    } else {
        form
    }
}

/// A client with the certificate of [`write_certificates`].
fn identified(dir: &Path, version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
    let read = |file: &str| CertificateDer::from_pem_file(dir.join(file)).expect("it was written");
    let mut roots = RootCertStore::empty();
    roots.add(read("server.crt")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(dir.join("client.key")).expect("it was written");
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[version])
        .expect("it is known")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![read("client.crt")], key);
    Arc::new(config.expect("a certificate with its key"))
}

/// A response in one line: the status, the headers that are compared, and the body.
fn shown(response: &Response) -> String {
    let mut text = response.status.clone();
    for name in [
        "x-cache",
        "x-tried",
        "x-hidden",
        "x-shown",
        "x-accel-expires",
        "content-range",
        "etag",
    ] {
        for value in response.fields.get(name).into_iter().flatten() {
            write!(text, " {name}={value}").expect("it is text");
        }
    }
    let body = String::from_utf8_lossy(&response.body);
    let page = "<html>";
    match body.len() {
        _ if body.starts_with(page) => text + " a page",
        0..300 => format!("{text} {body:?}"),
        length => format!("{text} {length} bytes"),
    }
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn applications_are_treated_as_by_nginx() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let site = Site::new();
    write_certificates(site.dir());
    let shared = Addresses {
        silent: silent(),
        deaf: deaf(),
        full: Full::new(),
    };
    let (theirs, ours) = std::thread::scope(|scope| {
        let theirs = scope.spawn(|| Side::start(&site, &nginx, &shared, true).observe());
        let ours = Side::start(&site, &sluice(), &shared, false).observe();
        (theirs.join().expect("nginx was observed"), ours)
    });
    assert_eq!(theirs.len(), ours.len());
    let mut failures = Vec::new();
    for ((what, expected), (_, found)) in theirs.iter().zip(&ours) {
        let is_accepted = ACCEPTED.iter().any(|(part, _)| what.contains(part));
        if expected != found && !is_accepted {
            failures.push(format!("{what}\n    theirs {expected}\n    ours   {found}"));
        }
    }
    println!(
        "{} observations compared with {}",
        theirs.len(),
        nginx.display()
    );
    assert!(
        theirs.len() >= 180,
        "the yardstick got shorter: {}",
        theirs.len()
    );
    assert!(
        failures.is_empty(),
        "{} differences:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
