//! A real ACME server on free ports: pebble, which rejects nonces at random, with a DNS server that resolves every name
//! to 127.0.0.1. `cargo xtask acme` installs it.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use pki_types::pem::PemObject;
use pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ClientConfig;
use rustls::version::TLS13;

use crate::harness::{Folder, free_port};
use crate::support::program::Program;
use crate::tls::{connect, get, trusting};

/// The ACME server and its DNS server.
pub struct Pebble {
    /// `None` after it was ended.
    programs: Option<[Program; 2]>,
    settings: Settings,
}

/// Settings that stay the same when it is restarted.
pub struct Settings {
    pub folder: Folder,
    address: Ipv4Addr,
    directory: u16,
    management: u16,
    /// Port of its DNS server; the next one is for managing its records.
    pub dns: u16,
    pub dns_management: u16,
    /// The port it connects to for http-01.
    pub http: u16,
    /// The port it connects to for tls-alpn-01.
    pub alpn: u16,
    /// Additional members of its configuration, as JSON.
    pub more: String,
    /// Environment variables.
    pub variables: Vec<(&'static str, String)>,
}

fn program(name: &str) -> PathBuf {
    let folder = std::env::var_os("SLUICE_PEBBLE").map(PathBuf::from);
    let file = folder.map(|folder| folder.join(name));
    file.filter(|file| file.is_file()).unwrap_or_else(|| {
        panic!("no `{name}` in the folder SLUICE_PEBBLE; `cargo xtask acme` installs it")
    })
}

impl Settings {
    pub fn new() -> Settings {
        Settings::reached_at(Ipv4Addr::LOCALHOST)
    }

    /// Settings of a CA that servers reach at this address of the machine.
    fn reached_at(address: Ipv4Addr) -> Settings {
        let settings = Settings {
            folder: Folder::new(),
            address,
            directory: free_port(),
            management: free_port(),
            dns: free_port(),
            dns_management: free_port(),
            http: free_port(),
            alpn: free_port(),
            more: String::new(),
            variables: vec![("PEBBLE_VA_NOSLEEP", "1".to_owned())],
        };
        settings.write_certificates();
        settings
    }

    /// The certificate of its own HTTPS endpoint.
    fn write_certificates(&self) {
        let mut root = CertificateParams::new(Vec::new()).expect("no names");
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root_key = KeyPair::generate().expect("a key");
        let root_cert = root.self_signed(&root_key).expect("a certificate");
        self.folder.write("root.pem", root_cert.pem());
        let names = vec!["localhost".to_owned(), self.address.to_string()];
        let mut leaf = CertificateParams::new(names).expect("two names");
        leaf.use_authority_key_identifier_extension = true;
        // The subject must differ from the issuer's, or it would look self-signed.
        let name = rcgen::DnType::CommonName;
        leaf.distinguished_name.push(name, "pebble");
        let key = KeyPair::generate().expect("a key");
        let issuer = Issuer::new(root, root_key);
        let cert = leaf.signed_by(&key, &issuer).expect("a certificate");
        self.folder.write("server.pem", cert.pem());
        self.folder.write("server.key", key.serialize_pem());
    }

    pub fn directory_url(&self) -> String {
        format!("https://{}:{}/dir", self.address, self.directory)
    }

    /// Settings of a CA that rejects no nonces, for tests that count orders of many names.
    pub fn calm() -> Settings {
        Settings::calm_at(Ipv4Addr::LOCALHOST)
    }

    /// The same for a CA that servers reach at this address of the machine.
    pub fn calm_at(address: Ipv4Addr) -> Settings {
        let mut settings = Settings::reached_at(address);
        let always = ("PEBBLE_WFE_NONCEREJECT", "0".to_owned());
        settings.variables.push(always);
        settings
    }

    /// Global options that use this CA.
    pub fn options(&self) -> String {
        self.options_at(&self.http.to_string(), &self.alpn.to_string())
    }

    /// Global options that use this CA, for a server on other ports.
    pub fn options_at(&self, http: &str, https: &str) -> String {
        format!("admin off\n\t{}", self.options_with_admin(http, https))
    }

    /// Like `options_at`, with the admin endpoint.
    pub fn options_with_admin(&self, http: &str, https: &str) -> String {
        format!(
            "http_port {http}\n\thttps_port {https}\n\tacme_ca {}\n\tacme_ca_root {}\n\temail me@example.com\n",
            self.directory_url(),
            self.folder.path().join("root.pem").display(),
        )
    }

    pub fn start(self) -> Pebble {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let config = format!(
            r#"{{"pebble":{{"listenAddress":"0.0.0.0:{}","managementListenAddress":"127.0.0.1:{}",
            "certificate":"{}","privateKey":"{}","httpPort":{},"tlsPort":{},"ocspResponderURL":"",
            "retryAfter":{{"authz":1,"order":1}}{}}}}}"#,
            self.directory,
            self.management,
            path("server.pem"),
            path("server.key"),
            self.http,
            self.alpn,
            self.more
        );
        self.folder.write("pebble.json", config);
        let mut dns = Command::new(program("pebble-challtestsrv"));
        dns.args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""])
            .args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""])
            .args(["-dnsserver", &format!("127.0.0.1:{}", self.dns)])
            .args(["-management", &format!("127.0.0.1:{}", self.dns_management)]);
        let mut pebble = Command::new(program("pebble"));
        pebble
            .args(["-config", &path("pebble.json")])
            .args(["-dnsserver", &format!("127.0.0.1:{}", self.dns)])
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        let pebble = Program::start(&mut pebble, path("pebble.log"));
        let programs = [
            Program::start(&mut dns, path("dns.log")).listening(self.dns_management),
            pebble.listening(self.directory).listening(self.management),
        ];
        Pebble {
            programs: Some(programs),
            settings: self,
        }
    }
}

impl Pebble {
    pub fn new() -> Pebble {
        Settings::new().start()
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Ends it.
    pub fn end(mut self) -> Settings {
        self.programs = None;
        std::mem::replace(&mut self.settings, Settings::new())
    }

    pub fn log(&self) -> String {
        self.settings.folder.read("pebble.log")
    }

    /// Number of orders so far. Requests are less reliable: some are sent twice, since nonces are rejected at random.
    pub fn orders(&self) -> usize {
        self.log().matches("Added order").count()
    }

    /// Number of accounts so far.
    pub fn accounts(&self) -> usize {
        self.log().matches("accounts in memory").count()
    }

    /// What its endpoint for tests has at this path.
    pub fn management(&self, path: &str) -> String {
        let own = self.settings.folder.path().join("root.pem");
        let own = CertificateDer::from_pem_file(own).expect("it was written");
        let config = trusting(own, &[&TLS13]);
        let mut wire = connect(&config, self.settings.management, "localhost").expect("pebble");
        get(&mut wire, "localhost", path).1
    }

    /// A client that trusts only the certificates it issues.
    pub fn client(&self) -> Arc<ClientConfig> {
        let pem = self.management("/roots/0");
        let root = CertificateDer::from_pem_slice(pem.as_bytes()).expect("a root");
        trusting(root, &[&TLS13])
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("---- pebble said:\n{}", self.log());
        }
    }
}

/// Whether this is an account key in the format Caddy stores.
pub fn is_private_key(text: &str) -> bool {
    PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).is_ok()
}
