//! Connections to upstreams and caches whose settings have variables: `proxy_bind`, `proxy_ssl_name`,
//! `proxy_ssl_certificate`, `proxy_cache`.

use super::setup;
use crate::client::Client;
use crate::harness::free_port;

#[test]
fn connections_come_from_the_address_that_the_request_names() {
    let (upstream, fixed) = (free_port(), free_port());
    let server = setup(&format!(
        "events {{}}\nhttp {{\nserver {{ listen 127.0.0.1:{{port}};\n\
         location / {{ proxy_bind $arg_from; proxy_pass http://127.0.0.1:{upstream}; }}\n\
         location /fixed {{ proxy_bind 127.0.0.7:{fixed}; proxy_pass http://127.0.0.1:{upstream}; }}\n\
         location /off {{ proxy_bind off; proxy_pass http://127.0.0.1:{upstream}; }}\n}}\n\
         server {{ listen 127.0.0.1:{upstream}; return 200 $remote_addr:$remote_port; }}\n}}\n"
    ))
    .start();
    let mut client = Client::connect(server.port);
    let mut host = |path: &str| {
        let response = client.get(path);
        assert_eq!(response.status, 200, "{path}");
        let text = response.text();
        let (host, port) = text.rsplit_once(':').expect("an address and a port");
        (host.to_owned(), port.to_owned())
    };
    // The third request finds idle connections from both other addresses, and uses neither.
    assert_eq!(host("/?from=127.0.0.5").0, "127.0.0.5");
    assert_eq!(host("/?from=127.0.0.6").0, "127.0.0.6");
    assert_eq!(host("/").0, "127.0.0.1");
    let first = host("/?from=127.0.0.5").1;
    assert_eq!(
        host("/?from=127.0.0.5").1,
        first,
        "the connection is reused"
    );
    assert_eq!(host("/?from=nonsense").0, "127.0.0.1");
    server.wait_for_words("the local address is not an IP address");
    let fixed = ("127.0.0.7".to_owned(), fixed.to_string());
    assert_eq!(host("/fixed"), fixed);
    assert_eq!(host("/off").0, "127.0.0.1");
    // That address belongs to no interface.
    let response = Client::connect(server.port).get("/?from=192.0.2.1");
    assert_eq!(response.status, 502);
}

#[test]
fn tls_names_and_certificates_may_depend_on_the_request() {
    let upstream = free_port();
    let setup = setup(&format!(
        "events {{}}\nhttp {{\nssl_certificate site.pem;\nssl_certificate_key site.key;\n\
         server {{ listen 127.0.0.1:{{port}};\n\
         proxy_ssl_verify on; proxy_ssl_trusted_certificate site.pem; proxy_ssl_server_name on;\n\
         proxy_ssl_name $arg_name; proxy_ssl_certificate {{folder}}/$arg_client.pem;\n\
         proxy_ssl_certificate_key {{folder}}/$arg_client.key;\n\
         proxy_set_header Host $arg_name;\n\
         location / {{ proxy_pass https://127.0.0.1:{upstream}; }}\n\
         location /plain {{ proxy_ssl_certificate $arg_none; proxy_pass https://127.0.0.1:{upstream}; }} }}\n\
         server {{ listen 127.0.0.1:{upstream} ssl; ssl_verify_client optional_no_ca;\n\
         return 200 \"$ssl_server_name $ssl_client_s_dn\"; }}\n}}\n"
    ));
    let names = ["a.test".to_owned(), "b.test".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let put = |name: &str, text: String| setup.folder().write(name, text);
    put("site.pem", made.cert.pem());
    put("site.key", made.signing_key.serialize_pem());
    for name in ["one", "two"] {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let common_name = rcgen::DnType::CommonName;
        params.distinguished_name.push(common_name, name);
        let cert = params.self_signed(&key).expect("a certificate");
        put(&format!("{name}.pem"), cert.pem());
        put(&format!("{name}.key"), key.serialize_pem());
    }
    let server = setup.start();
    let mut client = Client::connect(server.port);
    let mut ask = |name: &str, who: &str| client.get(&format!("/?name={name}&client={who}"));
    assert_eq!(ask("a.test", "one").text(), "a.test CN=one");
    assert_eq!(ask("b.test", "two").text(), "b.test CN=two");
    // Neither a pooled connection nor a resumed session has the identity of another request.
    assert_eq!(ask("a.test", "two").text(), "a.test CN=two");
    assert_eq!(ask("a.test:443", "one").text(), "a.test CN=one");
    assert_eq!(
        ask("c.test", "one").status,
        502,
        "the certificate has no such name"
    );
    assert_eq!(ask("a.test", "three").status, 500, "the file is missing");
    let response = Client::connect(server.port).get("/plain?name=a.test");
    assert_eq!(
        response.text(),
        "a.test ",
        "an empty name means no certificate"
    );
}

#[test]
fn the_request_selects_the_cache() {
    let upstream = free_port();
    let server = setup(&format!(
        "events {{}}\nhttp {{\nproxy_cache_path {{folder}}/one keys_zone=one:1m;\n\
         proxy_cache_path {{folder}}/two keys_zone=two:1m;\n\
         server {{ listen 127.0.0.1:{{port}};\nproxy_cache $arg_zone; proxy_cache_key $uri; proxy_cache_valid 1h;\n\
         add_header X-Cache \"[$upstream_cache_status]\" always;\n\
         location / {{ proxy_pass http://127.0.0.1:{upstream}; }} }}\n\
         server {{ listen 127.0.0.1:{upstream}; return 200 $request_id; }}\n}}\n"
    ))
    .start();
    let mut client = Client::connect(server.port);
    let mut ask = |zone: &str| {
        let response = client.get(&format!("/a?zone={zone}"));
        let cache = response.field("X-Cache").unwrap_or_default().to_owned();
        (response.status, cache, response.text())
    };
    let (status, cache, one) = ask("one");
    assert_eq!((status, cache.as_str()), (200, "[MISS]"));
    let (_, cache, two) = ask("two");
    assert_eq!(cache, "[MISS]");
    assert_ne!(one, two);
    assert_eq!(ask("one"), (200, "[HIT]".to_owned(), one));
    assert_eq!(ask("two"), (200, "[HIT]".to_owned(), two));
    for zone in ["", "off"] {
        let (status, cache, _) = ask(zone);
        assert_eq!((status, cache.as_str()), (200, "[]"), "{zone}");
    }
    assert_eq!(ask("three").0, 500);
}
