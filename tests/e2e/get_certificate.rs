//! Certificates fetched from an HTTP endpoint during handshakes.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustls::version::TLS13;

use crate::harness::Server;
use crate::tls::{client, connect, get, pair, start};
use crate::upstream::Upstream;

/// Response delay of the endpoint for `slow.localhost`.
const SLOW: Duration = Duration::from_secs(4);

/// An endpoint with the certificates of `authority`, and the names it was asked for.
fn endpoint(authority: &Server) -> (Upstream, Arc<Mutex<Vec<String>>>) {
    let bundle = |name: &str| {
        let (certificate, key) = pair(&authority.folder, name);
        certificate + &key
    };
    let (one, two) = (bundle("a.localhost"), bundle("localhost"));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = asked.clone();
    let upstream = Upstream::start(move |mut wire| {
        let Some(head) = wire.head() else { return };
        let line = head[0].clone();
        let name = line.split(['=', '&']).nth(1).unwrap_or_default().to_owned();
        heard.lock().expect("nobody panics").push(line);
        let (status, body) = match name.as_str() {
            "a.localhost" => (200, one.as_str()),
            "localhost" => (200, two.as_str()),
            "wrong.localhost" => (200, one.as_str()),
            "garbage.localhost" => (200, "this is not a certificate"),
            "fails.localhost" => (500, "oh"),
            "slow.localhost" => {
                // Longer than the server waits.
                thread::sleep(SLOW);
                (204, "")
            }
            _ => (204, ""),
        };
        let length = match status {
            204 => String::new(),
            _ => format!("Content-Length: {}\r\n", body.len()),
        };
        let _ = wire.try_send(format!(
            "HTTP/1.1 {status} X\r\n{length}Connection: close\r\n\r\n{body}"
        ));
    });
    (upstream, asked)
}

#[test]
fn an_endpoint_hands_out_certificates_and_its_failures_stay_with_their_names() {
    let (authority, _) = start();
    let (upstream, asked) = endpoint(&authority);
    let site = "{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n}\n\
        https://own.localhost:{port} {\n\
        \ttls {\n\t\tget_certificate http http://127.0.0.1:{up}/cert\n\t}\n\trespond own\n}\n\
        https://:{port} {\n\
        \ttls {\n\t\tget_certificate tailscale\n\
        \t\tget_certificate http http://127.0.0.1:{up}/cert\n\t}\n\trespond {host}\n}\n";
    let server = Server::start(&site.replace("{up}", &upstream.port.to_string()));
    let config = client(&authority.folder, &[&TLS13]);
    let port = server.port;

    let slow = {
        let config = config.clone();
        thread::spawn(move || connect(&config, port, "slow.localhost").is_ok())
    };
    let begun = Instant::now();
    for name in ["wrong", "garbage", "fails", "none"] {
        let name = format!("{name}.localhost");
        assert!(connect(&config, port, &name).is_err(), "{name}");
    }
    for _ in 0..2 {
        for name in ["a.localhost", "localhost"] {
            let mut wire = connect(&config, port, name).expect("the certificate of the endpoint");
            assert_eq!(get(&mut wire, name, "/").1, name);
        }
    }
    assert!(
        begun.elapsed() < SLOW,
        "others do not wait for the slow one"
    );
    assert!(!slow.join().expect("a client"), "it has none");
    server.wait_for_words("status 500");
    server.wait_for_words("no certificate in `http://127.0.0.1:");
    server.wait_for_words("is for other names");

    // Names in the configuration that the endpoint has no certificate for get one from our own CA: its root does not
    // exist before.
    let stranger = connect(&config, port, "own.localhost");
    assert!(stranger.is_err(), "it is of another authority");
    let ours = client(&server.folder, &[&TLS13]);
    let mut wire = connect(&ours, port, "own.localhost").expect("a certificate of our own");
    assert_eq!(get(&mut wire, "own.localhost", "/").1, "own");

    let asked = asked.lock().expect("nobody panics");
    let of = |name: &str| {
        let wanted = format!("server_name={name}&");
        asked.iter().filter(|line| line.contains(&wanted)).count()
    };
    assert_eq!(of("a.localhost"), 1, "what was handed out is kept");
    let line = asked.first().expect("a question");
    for words in [
        "GET /cert?server_name=",
        "&signature_schemes=",
        "%2C",
        "&cipher_suites=1302%2C1301",
        "&local_ip=127.0.0.1 ",
    ] {
        assert!(line.contains(words), "{words}: {line}");
    }
}
