//! uwsgi applications over TLS.

use std::sync::Arc;

use pki_types::PrivateKeyDer;
use pki_types::pem::PemObject;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::client::exchange;
use crate::harness::Folder;
use crate::support::cgi::read_uwsgi;
use crate::support::wire::Wire;
use crate::upstream::Upstream;

/// A certificate for `app.test`, also written as `app.pem`.
fn config(folder: &Folder) -> Arc<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(["app.test".to_owned()]).expect("a certificate");
    folder.write("app.pem", made.cert.pem());
    let pem = made.signing_key.serialize_pem();
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("they are known")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key);
    Arc::new(config.expect("a key that fits"))
}

#[test]
fn suwsgi_upstreams_are_verified() {
    let folder = Folder::new();
    let tls = config(&folder);
    let upstream = Upstream::start(move |mut wire| {
        let socket = wire.stream().try_clone().expect("it is open");
        let session = ServerConnection::new(tls.clone()).expect("a session");
        let mut secure = Wire::new(StreamOwned::new(session, socket));
        // A client that does not trust the certificate sends nothing.
        let Some((asked, _)) = read_uwsgi(&mut secure) else {
            return;
        };
        let path = asked.params.iter().find(|(name, _)| name == b"PATH_INFO");
        let path = path.map(|(_, path)| String::from_utf8_lossy(path).into_owned());
        let session = &secure.stream().conn;
        let name = session.server_name().unwrap_or_default().to_owned();
        let said = format!("{} <{name}>", path.unwrap_or_default());
        let _ = secure.try_send(format!("Status: 200 OK\r\n\r\n{said}").as_bytes());
        let session = secure.stream();
        session.conn.send_close_notify();
        let _ = session.conn.complete_io(&mut session.sock);
    });
    let port = upstream.port;
    let ca = folder.path().join("app.pem").display().to_string();
    let lines = format!(
        "uwsgi_param PATH_INFO $uri; uwsgi_param CONTENT_LENGTH 0;\nuwsgi_ssl_trusted_certificate {ca};\n\
         location /any {{ uwsgi_pass suwsgi://127.0.0.1:{port}; }}\n\
         location /right {{ uwsgi_pass suwsgi://127.0.0.1:{port}; uwsgi_ssl_verify on; uwsgi_ssl_name app.test; \
         uwsgi_ssl_server_name on; }}\n\
         location /wrong {{ uwsgi_pass suwsgi://127.0.0.1:{port}; uwsgi_ssl_verify on; uwsgi_ssl_name b.test; }}\n\
         location /variable {{ uwsgi_pass suwsgi://$arg_a; }}\n"
    );
    let server = super::start(&lines, &[]);
    let get = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let response = exchange(server.port, request);
        (response.status, response.text())
    };
    assert_eq!(get("/any"), (200, "/any <>".to_owned()));
    assert_eq!(get("/right"), (200, "/right <app.test>".to_owned()));
    assert_eq!(get("/wrong").0, 502);
    let variable = get(&format!("/variable?a=127.0.0.1:{port}"));
    assert_eq!(variable, (200, "/variable <>".to_owned()));
}
