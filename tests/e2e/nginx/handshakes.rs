//! TLS parameters: cipher suites, groups and sessions, with clients and with upstreams.

use std::sync::Arc;

use pki_types::CertificateDer;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, HandshakeKind, SupportedProtocolVersion};

use crate::client::exchange;
use crate::handshakes::{Hasty, is_complete_response};
use crate::harness::{Folder, Server, eventually, free_port};
use crate::tls;

/// Writes a certificate for `localhost`, and returns it.
fn write_certificate(folder: &Folder) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    folder.write("site.pem", made.cert.pem());
    folder.write("site.key", made.signing_key.serialize_pem());
    made.cert.der().clone()
}

/// A server with these lines.
struct Site {
    server: Server,
    root: CertificateDer<'static>,
}

fn site(lines: &str) -> Site {
    let setup = super::setup(&format!(
        "events {{}}\nhttp {{\nserver {{\nlisten 127.0.0.1:{{port}} ssl;\nssl_certificate site.pem;\n\
         ssl_certificate_key site.key;\n{lines}\n}}\n}}\n"
    ));
    let root = write_certificate(setup.folder());
    Site {
        server: setup.start(),
        root,
    }
}

impl Site {
    fn client(&self, version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
        tls::trusting(self.root.clone(), &[version])
    }

    /// The response body for `GET /`, and the kind of handshake; `None` if the handshake failed.
    fn get(&self, client: &Arc<ClientConfig>) -> Option<(String, Option<HandshakeKind>)> {
        let mut wire = tls::connect(client, self.server.port, "localhost").ok()?;
        let (_, body) = tls::get(&mut wire, "localhost", "/");
        Some((body, wire.stream().conn.handshake_kind()))
    }

    /// The kinds of the first, second and third handshake.
    fn kinds(&self, version: &'static SupportedProtocolVersion) -> [HandshakeKind; 3] {
        let client = self.client(version);
        [(); 3].map(|()| {
            self.get(&client)
                .and_then(|(_, kind)| kind)
                .expect("a handshake")
        })
    }
}

#[test]
fn suites_and_groups_are_those_that_are_named() {
    let named = site(
        "ssl_ciphers ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:AES128-SHA;\n\
         ssl_prefer_server_ciphers on;\nssl_ecdh_curve secp384r1:secp521r1;\n\
         return 200 \"$ssl_protocol $ssl_cipher $ssl_curve $ssl_curves\";",
    );
    let says = |version| named.get(&named.client(version)).map(|(said, _)| said);
    let offered = "X25519MLKEM768:X25519:prime256v1:secp384r1";
    let old = format!("TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384 secp384r1 {offered}");
    assert_eq!(says(&TLS12), Some(old.replace("X25519MLKEM768:", "")));
    let new = says(&TLS13).expect("an answer");
    assert!(
        new.starts_with("TLSv1.3 TLS_") && new.contains(" secp384r1 "),
        "{new}"
    );
    // A client without any of them is rejected.
    let mut provider = default_provider();
    provider.cipher_suites = vec![cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256];
    let other = tls::trusting_with(named.root.clone(), &[&TLS12], provider);
    assert_eq!(named.get(&other), None);
    // Without any TLS 1.2 cipher suite only TLS 1.3 is left.
    let modern = site("ssl_ciphers AES128-SHA;\nreturn 200 $ssl_protocol;");
    assert_eq!(modern.get(&modern.client(&TLS12)), None);
    let said = modern.get(&modern.client(&TLS13)).map(|(said, _)| said);
    assert_eq!(said.as_deref(), Some("TLSv1.3"));
    let bounded = site("ssl_conf_command MaxProtocol TLSv1.2;\nreturn 200 $ssl_protocol;");
    assert_eq!(bounded.get(&bounded.client(&TLS13)), None);
    assert!(bounded.get(&bounded.client(&TLS12)).is_some());
}

#[test]
fn suites_of_tls_1_3_are_those_that_are_named() {
    let named = site(
        "ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256;\nreturn 200 $ssl_cipher;",
    );
    let says = |version| named.get(&named.client(version)).map(|(said, _)| said);
    assert_eq!(
        says(&TLS13).as_deref(),
        Some("TLS_CHACHA20_POLY1305_SHA256")
    );
    assert!(says(&TLS12).is_some_and(|said| said.starts_with("ECDHE-")));
    let mut provider = default_provider();
    provider.cipher_suites = vec![cipher_suite::TLS13_AES_128_GCM_SHA256];
    let other = tls::trusting_with(named.root.clone(), &[&TLS13], provider);
    assert_eq!(named.get(&other), None);
}

/// Even if there is a certificate, which may be that of `http`.
#[test]
fn handshakes_are_refused_whatever_certificates_there_are() {
    for (line, is_shaken) in [("", true), ("ssl_reject_handshake on;", false)] {
        let site = site(&format!("{line} return 200 x;"));
        let said = site.get(&site.client(&TLS13));
        assert_eq!(said.is_some(), is_shaken, "{line}");
    }
}

#[test]
fn sessions_go_on_as_the_file_says() {
    use HandshakeKind::{Full, Resumed};
    let off = site("ssl_session_tickets off;\nreturn 200 $ssl_session_reused;");
    let kept = site(
        "ssl_session_tickets off;\nssl_session_cache shared:a:1m;\nreturn 200 $ssl_session_reused;",
    );
    for version in [&TLS12, &TLS13] {
        assert_eq!(off.kinds(version), [Full; 3]);
        assert_eq!(kept.kinds(version), [Full, Resumed, Resumed]);
    }
    let body_of = |site: &Site| site.get(&site.client(&TLS12)).map(|(said, _)| said);
    assert_eq!(body_of(&off).as_deref(), Some("."));
}

#[test]
fn instances_with_one_key_take_the_sessions_of_one_another() {
    let start = |keys: &str| {
        let lines = format!("{keys}\nreturn 200 $ssl_session_reused;");
        let setup = super::setup(&format!(
            "events {{}}\nhttp {{\nssl_certificate site.pem;\nssl_certificate_key site.key;\n\
             server {{ listen 127.0.0.1:{{port}} ssl; {lines} }}\n}}\n"
        ));
        let root = write_certificate(setup.folder());
        setup.folder().write("one.key", [1; 80]);
        setup.folder().write("two.key", [2; 48]);
        Site {
            server: setup.start(),
            root,
        }
    };
    let one = start("ssl_session_ticket_key one.key;");
    let two = start("ssl_session_ticket_key two.key; ssl_session_ticket_key one.key;");
    let other = start("ssl_session_ticket_key two.key;");
    // One client for all of them, as behind a load balancer.
    let mut roots = rustls::RootCertStore::empty();
    for site in [&one, &two, &other] {
        roots.add(site.root.clone()).expect("a root certificate");
    }
    let client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("it is known")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = Arc::new(client);
    let said = |site: &Site| site.get(&client).expect("an answer").0;
    assert_eq!(said(&one), ".");
    assert_eq!(said(&two), "r");
    assert_eq!(said(&other), "r", "the newest ticket is sealed by its key");
    assert_eq!(said(&one), ".", "which it does not have");
}

#[test]
fn early_requests_are_marked() {
    let site = site(
        "ssl_early_data on;\nadd_header Was-Early \"<$ssl_early_data>\" always;\nreturn 200 \"hello\";",
    );
    let mut config = (*site.client(&TLS13)).clone();
    config.enable_early_data = true;
    let config = Arc::new(config);
    site.get(&config).expect("an answer");
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut early = Hasty::begin(&config, site.server.port, request).expect("it may");
    let heard = early.hear(is_complete_response);
    let heard = String::from_utf8_lossy(&heard).into_owned();
    assert!(heard.contains("\r\nWas-Early: <1>\r\n"), "{heard}");
    let mut wire = early.end();
    let (head, _) = tls::get(&mut wire, "localhost", "/");
    assert!(head.iter().any(|line| line == "Was-Early: <>"), "{head:?}");
}

/// A CA with two certificates for `localhost`, one of which it has revoked.
fn write_authority(folder: &Folder) {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().expect("a key");
    let root = params.self_signed(&key).expect("a certificate");
    folder.write("root.pem", root.pem());
    let issuer = Issuer::new(params, key);
    for (name, serial) in [("good", 7), ("revoked", 8)] {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        params.serial_number = Some(SerialNumber::from(serial));
        let key = KeyPair::generate().expect("a key");
        let made = params.signed_by(&key, &issuer).expect("a certificate");
        folder.write(&format!("{name}.pem"), made.pem());
        folder.write(&format!("{name}.key"), key.serialize_pem());
    }
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2000, 1, 1),
        next_update: date_time_ymd(2126, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: SerialNumber::from(8),
            revocation_time: date_time_ymd(2000, 1, 1),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let list = list.signed_by(&issuer).expect("a list");
    folder.write("list.crl", list.pem().expect("a list"));
}

const UPSTREAMS: &str = r#"
events {}
http {
  server { listen 127.0.0.1:{good} ssl; ssl_certificate good.pem; ssl_certificate_key good.key; keepalive_timeout 0;
    return 200 "$ssl_protocol $ssl_cipher <$ssl_server_name> $ssl_session_reused $ssl_curves"; }
  server { listen 127.0.0.1:{revoked} ssl; ssl_certificate revoked.pem; ssl_certificate_key revoked.key; return 200 "revoked"; }
  proxy_ssl_verify on; proxy_ssl_trusted_certificate root.pem; proxy_ssl_name localhost;
  server {
    listen 127.0.0.1:{port};
    location = /plain { proxy_pass https://127.0.0.1:{good}; }
    location = /hidden { proxy_ssl_server_name off; proxy_pass https://127.0.0.1:{good}; }
    location = /fresh { proxy_ssl_session_reuse off; proxy_pass https://127.0.0.1:{good}; }
    location = /old { proxy_ssl_protocols TLSv1.2; proxy_ssl_ciphers ECDHE-ECDSA-CHACHA20-POLY1305;
      proxy_ssl_conf_command Groups prime256v1; proxy_pass https://127.0.0.1:{good}; }
    location = /modern { proxy_ssl_conf_command MinProtocol TLSv1.3; proxy_pass https://127.0.0.1:{good}; }
    location = /host { proxy_ssl_name $proxy_host; proxy_ssl_verify off; proxy_pass https://127.0.0.1:{good}; }
    location = /believed { proxy_pass https://127.0.0.1:{revoked}; }
    location = /listed { proxy_ssl_crl list.crl; proxy_pass https://127.0.0.1:{good}; }
    location = /revoked { proxy_ssl_crl list.crl; proxy_pass https://127.0.0.1:{revoked}; }
  }
}
"#;

#[test]
fn hands_are_shaken_with_upstreams_as_the_file_says() {
    let (good, revoked) = (free_port(), free_port());
    let conf = UPSTREAMS.replace("{good}", &good.to_string());
    let setup = super::setup(&conf.replace("{revoked}", &revoked.to_string()));
    write_authority(setup.folder());
    let server = setup.start();
    let get = |path: &str| {
        let request = format!("GET /{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let response = exchange(server.port, request);
        (response.status, response.text())
    };
    let says = |path: &str| {
        let (status, said) = get(path);
        assert_eq!(status, 200, "{path}: {said}");
        said
    };
    assert!(
        says("plain").contains("<localhost> . X25519"),
        "{}",
        says("plain")
    );
    let goes_on = || says("plain").contains("<localhost> r ");
    eventually("a session that goes on", goes_on, || says("plain"));
    for _ in 0..2 {
        assert!(says("fresh").contains("<localhost> . "), "none goes on");
    }
    assert!(says("hidden").contains(" <> "), "{}", says("hidden"));
    let old = "TLSv1.2 ECDHE-ECDSA-CHACHA20-POLY1305 <localhost> . prime256v1";
    assert_eq!(says("old"), old);
    assert!(says("modern").starts_with("TLSv1.3 "));
    assert!(says("host").contains(" <> "), "an address is not a name");
    assert_eq!(says("believed"), "revoked");
    assert!(says("listed").contains("<localhost>"));
    assert_eq!(get("revoked").0, 502);
}
