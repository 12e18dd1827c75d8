//! Certificates as OpenSSL makes them for people: CA and leaf at once, of X.509 version 1, with only a common name. The
//! results of nginx 1.22 (OpenSSL 3.0) and Caddy 2.11.9 stand beside ours; `tests/peer` compares them with both.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::ports::free_port;

/// A server's certificate, verified for the name `up.test`.
pub struct Case {
    /// Its file, without the ending.
    pub leaf: &'static str,
    /// The file of trusted certificates.
    pub pool: &'static str,
    /// Whether nginx and Caddy accept it.
    pub nginx: bool,
    pub caddy: bool,
    /// Why sluice decides otherwise for one of the two.
    pub differs: Option<(Language, &'static str)>,
}

/// The language of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Nginx,
    Caddyfile,
}

impl Case {
    /// Whether sluice accepts it.
    pub fn is_accepted(&self, language: Language) -> bool {
        let by_peer = self.by_peer(language);
        match self.differs {
            Some((other, _)) if other == language => !by_peer,
            Some(_) | None => by_peer,
        }
    }

    /// Whether the peer accepts it.
    pub fn by_peer(&self, language: Language) -> bool {
        match language {
            Language::Nginx => self.nginx,
            Language::Caddyfile => self.caddy,
        }
    }
}

const ANCHOR: Option<(Language, &str)> = Some((
    Language::Nginx,
    "each certificate of the file is trusted, whether or not its issuer is there too",
));
const USE_OF_KEYS: Option<(Language, &str)> = Some((
    Language::Caddyfile,
    "its key is not for handshakes (RFC 8446, section 4.4.2.2)",
));
const DEPTH: Option<(Language, &str)> =
    Some((Language::Nginx, "chains of any length are verified"));

const fn case(leaf: &'static str, pool: &'static str, nginx: bool, caddy: bool) -> Case {
    Case {
        leaf,
        pool,
        nginx,
        caddy,
        differs: None,
    }
}

const fn odd(case: Case, differs: Option<(Language, &'static str)>) -> Case {
    Case { differs, ..case }
}

/// All cases.
pub const CASES: &[Case] = &[
    // CA and leaf at once.
    case("pinned", "pinned", true, true),
    case("pinned", "ca", false, false),
    case("pinned-cn", "pinned-cn", true, false),
    case("pinned-eku", "pinned-eku", false, false),
    odd(case("pinned-ku", "pinned-ku", false, true), USE_OF_KEYS),
    case("ca-leaf", "ca", true, true),
    odd(case("ca-leaf", "ca-leaf", false, true), ANCHOR),
    odd(case("ca-leaf-ku", "ca", false, true), USE_OF_KEYS),
    // Neither.
    case("plain", "ca", true, true),
    odd(case("plain", "plain", false, true), ANCHOR),
    case("below-chain", "ca", true, true),
    odd(case("below", "i1", false, true), ANCHOR),
    odd(case("deep-chain", "ca", false, true), DEPTH),
    // Version 1.
    case("v1-leaf", "ca", true, false),
    odd(case("v1-leaf", "v1-leaf", false, false), ANCHOR),
    case("v1-self", "v1-self", true, false),
    case("of-v1", "v1-ca", true, true),
    // Names.
    case("cn-only", "ca", true, false),
    case("cn-star", "ca", false, false),
    case("san-other", "ca", false, false),
    case("san-address", "ca", true, false),
];

/// Certificates of clients: the certificate, what the server trusts, and whether Caddy in front of Caddy is served, as
/// sluice in front of sluice. A certificate that is trusted itself but not its own issuer is none of them: Caddy's server
/// accepts it, but its transport shows no certificate with an issuer that the server does not name.
pub const CLIENTS: &[(&str, &str, bool)] = &[
    ("pinned", "pinned", true),
    ("pinned", "ca", false),
    ("v1-leaf", "ca", true),
    ("v1-self", "v1-self", true),
    ("ca-leaf", "ca", true),
    ("below", "ca", false),
];

const NAME: &str = "subjectAltName=DNS:up.test";
const NO_CA: &str = "basicConstraints=CA:FALSE";
const CA: &str = "basicConstraints=critical,CA:TRUE";
const CA_KEY: &str = "keyUsage=critical,keyCertSign,cRLSign";

/// Self-signed by `openssl req -x509`, which makes a CA: the name, the subject, and further extensions.
const OWN: &[(&str, &str, &[&str])] = &[
    ("ca", "/CN=ca", &[]),
    ("pinned", "/CN=x", &[NAME]),
    ("pinned-cn", "/CN=up.test", &[]),
    ("pinned-ku", "/CN=x", &[NAME, CA_KEY]),
    (
        "pinned-eku",
        "/CN=x",
        &[NAME, "extendedKeyUsage=clientAuth"],
    ),
];

/// Signed by `openssl x509 -req`: the name, the subject, the issuer (empty: itself), and the extensions. Without any it
/// makes version 1.
const SIGNED: &[(&str, &str, &str, &[&str])] = &[
    ("plain", "/CN=x", "ca", &[NAME, NO_CA]),
    ("ca-leaf", "/CN=x", "ca", &[NAME, CA]),
    ("ca-leaf-ku", "/CN=x", "ca", &[NAME, CA, CA_KEY]),
    ("v1-leaf", "/CN=up.test", "ca", &[]),
    ("v1-self", "/CN=up.test", "", &[]),
    ("v1-ca", "/CN=old", "", &[]),
    ("of-v1", "/CN=x", "v1-ca", &[NAME, NO_CA]),
    ("cn-only", "/CN=up.test", "ca", &[NO_CA]),
    ("cn-star", "/CN=*.test", "ca", &[NO_CA]),
    (
        "san-other",
        "/CN=up.test",
        "ca",
        &["subjectAltName=DNS:other.test"],
    ),
    (
        "san-address",
        "/CN=up.test",
        "ca",
        &["subjectAltName=IP:10.0.0.1"],
    ),
    ("i1", "/CN=i1", "ca", &[CA]),
    ("i2", "/CN=i2", "i1", &[CA]),
    ("below", "/CN=x", "i1", &[NAME, NO_CA]),
    ("deep", "/CN=x", "i2", &[NAME, NO_CA]),
];

/// Leaf and intermediates in one file.
const CHAINS: &[(&str, &[&str])] = &[
    ("below-chain", &["below", "i1"]),
    ("deep-chain", &["deep", "i2", "i1"]),
];

/// Makes all certificates (`.pem`) and keys (`.key`) in `folder`.
pub fn make(folder: &Path) {
    for (name, subject, extensions) in OWN {
        let added = extensions.iter().flat_map(|text| ["-addext", text]);
        let words =
            format!("req -x509 -days 30 -keyout {name}.key -out {name}.pem -subj {subject}");
        openssl(folder, &words, &with_new_key(added.collect()));
    }
    for (name, subject, issuer, extensions) in SIGNED {
        let words = format!("req -new -keyout {name}.key -out {name}.csr -subj {subject}");
        openssl(folder, &words, &with_new_key(Vec::new()));
        let mut words = format!("x509 -req -days 30 -in {name}.csr -out {name}.pem");
        match *issuer {
            "" => write!(words, " -signkey {name}.key"),
            issuer => write!(
                words,
                " -CA {issuer}.pem -CAkey {issuer}.key -CAcreateserial"
            ),
        }
        .expect("text takes all");
        let mut added = Vec::new();
        if !extensions.is_empty() {
            let text = extensions.join("\n") + "\n";
            std::fs::write(folder.join("extensions"), text).expect("the folder is writable");
            added = vec!["-extfile", "extensions"];
        }
        openssl(folder, &words, &added);
    }
    for (name, parts) in CHAINS {
        let read = |part: &&str| std::fs::read_to_string(folder.join(format!("{part}.pem")));
        let text: Result<String, _> = parts.iter().map(read).collect();
        let text = text.expect("they were made");
        std::fs::write(folder.join(format!("{name}.pem")), text).expect("the folder is writable");
        let key = folder.join(format!("{}.key", parts[0]));
        std::fs::copy(key, folder.join(format!("{name}.key"))).expect("the folder is writable");
    }
}

fn with_new_key(mut words: Vec<&str>) -> Vec<&str> {
    words.extend([
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ]);
    words
}

fn openssl(folder: &Path, words: &str, more: &[&str]) {
    let output = Command::new("openssl")
        .args(words.split(' '))
        .args(more)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("OpenSSL is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {words}: {said}");
}

/// Names of all files with the certificate of a server, each once.
fn leafs() -> Vec<&'static str> {
    let mut leafs: Vec<&str> = CASES.iter().map(|case| case.leaf).collect();
    leafs.sort_unstable();
    leafs.dedup();
    leafs
}

/// Configurations of servers with these certificates, and of proxies in front of them.
pub struct Configurations {
    /// An nginx.conf with a server for each certificate.
    pub upstreams: String,
    /// An nginx.conf with a proxy for each case.
    pub nginx: String,
    /// A Caddyfile with a proxy for each case, and with servers that verify the certificates of clients.
    pub caddyfile: String,
    /// The ports of proxies, in the order of [`CASES`].
    pub nginx_ports: Vec<u16>,
    pub caddy_ports: Vec<u16>,
    /// The ports of proxies that show the certificates of [`CLIENTS`].
    pub client_ports: Vec<u16>,
}

/// Writes them for certificates in `folder`.
pub fn configurations(folder: &Path) -> Configurations {
    let at = folder.display();
    let leafs = leafs();
    let ports: Vec<u16> = leafs.iter().map(|_| free_port()).collect();
    let mut upstreams = format!("pid {at}/upstreams.pid;\nevents {{}}\nhttp {{\naccess_log off;\n");
    for (leaf, port) in leafs.iter().zip(&ports) {
        upstreams += &format!(
            "server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {at}/{leaf}.pem; \
             ssl_certificate_key {at}/{leaf}.key; location / {{ return 200 ok; }} }}\n"
        );
    }
    let mut nginx = format!(
        "pid {at}/nginx.pid;\nerror_log {at}/nginx.log;\nevents {{}}\nhttp {{\naccess_log off;\n"
    );
    let mut caddyfile = "{\n\tadmin off\n\tauto_https off\n}\n".to_owned();
    let (mut nginx_ports, mut caddy_ports) = (Vec::new(), Vec::new());
    for case in CASES {
        let upstream = leafs.iter().position(|leaf| *leaf == case.leaf);
        let upstream = ports[upstream.expect("it is one of them")];
        let (port, pool) = (free_port(), case.pool);
        nginx_ports.push(port);
        nginx += &format!(
            "server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass https://127.0.0.1:{upstream};\n\
             proxy_ssl_name up.test; proxy_ssl_server_name on; proxy_ssl_session_reuse off;\n\
             proxy_ssl_verify on; proxy_ssl_trusted_certificate {at}/{pool}.pem; }} }}\n"
        );
        let port = free_port();
        caddy_ports.push(port);
        caddyfile += &format!(
            "http://:{port} {{\n\tbind 127.0.0.1\n\treverse_proxy https://127.0.0.1:{upstream} {{\n\t\ttransport http {{\n\
             \t\t\ttls_server_name up.test\n\t\t\ttls_trust_pool file {at}/{pool}.pem\n\t\t}}\n\t}}\n}}\n"
        );
    }
    let client_ports = CLIENTS.iter().map(|(shown, pool, _)| {
        let (server, port) = (free_port(), free_port());
        caddyfile += &format!(
            "https://up.test:{server} {{\n\ttls {at}/plain.pem {at}/plain.key {{\n\t\tclient_auth {{\n\
             \t\t\tmode require_and_verify\n\t\t\ttrust_pool file {at}/{pool}.pem\n\t\t}}\n\t}}\n\trespond ok\n}}\n\
             http://:{port} {{\n\tbind 127.0.0.1\n\treverse_proxy https://127.0.0.1:{server} {{\n\t\theader_up Host up.test:{server}\n\
             \t\ttransport http {{\n\t\t\ttls_server_name up.test\n\t\t\ttls_insecure_skip_verify\n\
             \t\t\ttls_client_auth {at}/{shown}.pem {at}/{shown}.key\n\t\t}}\n\t}}\n}}\n"
        );
        port
    });
    let client_ports = client_ports.collect();
    upstreams += "}\n";
    nginx += "}\n";
    Configurations {
        upstreams,
        nginx,
        caddyfile,
        nginx_ports,
        caddy_ports,
        client_ports,
    }
}
