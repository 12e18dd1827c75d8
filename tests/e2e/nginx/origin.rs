//! The origin of requests: clients behind proxies, referring pages, and signed links.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{setup, start};
use crate::client::exchange;

fn ask(port: u16, path: &str, fields: &str) -> String {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n{fields}Connection: close\r\n\r\n");
    exchange(port, request).text()
}

#[test]
fn clients_behind_proxies_are_known_by_place() {
    let conf = r#"
events {}
http {
set_real_ip_from 127.0.0.0/8;
server { listen 127.0.0.1:{port}; server_name a.test;
set $seen $remote_addr;
location / { return 200 "$seen $remote_addr $realip_remote_addr"; }
location /forwarded { real_ip_header X-Forwarded-For; real_ip_recursive on; set_real_ip_from 10.0.0.0/8; set_real_ip_from 127.0.0.1; add_header X $remote_addr; root {folder}; }
}
server { listen 127.0.0.1:{port}; server_name b.test; real_ip_header X-Mine; return 200 $remote_addr; }
server { listen 127.0.0.1:{port}; server_name c.test; set_real_ip_from 10.0.0.0/8; return 200 $remote_addr; }
}
"#;
    let setup = setup(conf);
    setup.folder().write("forwarded", "");
    let server = setup.start();
    let real =
        "X-Real-IP: 1.2.3.4\r\nX-Mine: 2001:db8::1\r\nX-Forwarded-For: 9.9.9.9, 10.0.0.1\r\n";
    assert_eq!(ask(server.port, "/", real), "1.2.3.4 1.2.3.4 127.0.0.1");
    assert_eq!(
        ask(server.port, "/", "X-Real-IP: junk\r\n"),
        "127.0.0.1 127.0.0.1 127.0.0.1"
    );
    let of = |host: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n{real}Connection: close\r\n\r\n");
        exchange(server.port, request).text()
    };
    assert_eq!(of("b.test"), "2001:db8::1");
    assert_eq!(
        of("c.test"),
        "127.0.0.1",
        "whoever asks is not trusted there"
    );
    // The server has determined an address already, so the location does not change it.
    let request = |fields: &str| {
        let request =
            format!("GET /forwarded HTTP/1.1\r\nHost: a.test\r\n{fields}Connection: close\r\n\r\n");
        exchange(server.port, request).field("X").map(str::to_owned)
    };
    assert_eq!(request(real).as_deref(), Some("1.2.3.4"));
    let forwarded = "X-Forwarded-For: 9.9.9.9, 10.0.0.1\r\n";
    assert_eq!(request(forwarded).as_deref(), Some("9.9.9.9"));
}

/// Client addresses that a location takes from a proxy apply to everything below it: a denied client is denied there,
/// too.
#[test]
fn clients_are_kept_out_below_the_location_that_knows_them() {
    let conf = r#"
events {}
http {
server { listen 127.0.0.1:{port}; server_name a.test; root {folder};
location /o/ { set_real_ip_from 127.0.0.1; real_ip_header X-Mine; deny 1.2.3.4;
  add_header X "$remote_addr [$remote_port] $realip_remote_addr" always;
  location /o/in/ { }
  location ~ ^/o/pattern/ { }
  location /o/if/ { if ($host) { set $x 1; } }
  location /o/methods/ { limit_except POST { deny 1.2.3.4; } }
  location /o/more/ { location /o/more/in/ { } }
  location /o/other/ { real_ip_header X-Other; }
  location /o/nobody/ { set_real_ip_from 10.0.0.1; }
}
location /page { error_page 402 /o/in/f; return 402; }
location /sent { rewrite ^ /o/more/in/f last; }
location /tried { try_files /none @named; }
location @named { set_real_ip_from 127.0.0.1; real_ip_header X-Mine; deny 1.2.3.4; try_files /o/in/f =404; }
}
server { listen 127.0.0.1:{port}; server_name b.test; root {folder}; set_real_ip_from 127.0.0.1; deny 1.2.3.4;
location /o/ { real_ip_header X-Mine; location /o/in/ { } }
}
}
"#;
    let setup = setup(conf);
    let folders = [
        "in", "pattern", "if", "methods", "more/in", "other", "nobody",
    ];
    for folder in folders {
        setup.folder().write(&format!("o/{folder}/f"), "file");
    }
    let server = setup.start();
    let status = |host: &str, path: &str, fields: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
        let said = exchange(server.port, request);
        (said.status, said.field("X").map(str::to_owned))
    };
    let denied = "X-Mine: 1.2.3.4\r\n";
    for path in [
        "/o/in/f",
        "/o/pattern/f",
        "/o/if/f",
        "/o/methods/f",
        "/o/more/in/f",
        "/page",
        "/sent",
        "/tried",
    ] {
        assert_eq!(status("a.test", path, denied).0, 403, "{path}");
        let others = status("a.test", path, "X-Mine: 5.6.7.8\r\n").0;
        assert_ne!(others, 403, "{path}");
    }
    assert_eq!(status("b.test", "/o/in/f", denied).0, 403);
    let of = |fields: &str| status("a.test", "/o/in/f", fields);
    let shown = |text: &str| (200, Some(text.to_owned()));
    assert_eq!(of("X-Mine: 5.6.7.8\r\n"), shown("5.6.7.8 [] 127.0.0.1"));
    assert_eq!(
        of("X-Mine: 5.6.7.8:99\r\n"),
        shown("5.6.7.8 [99] 127.0.0.1")
    );
    assert_eq!(of("X-Mine: 127.0.0.1\r\n"), shown("127.0.0.1 [] 127.0.0.1"));
    // The location's own setting overrides that one.
    let other = status(
        "a.test",
        "/o/other/f",
        "X-Mine: 1.2.3.4\r\nX-Other: 5.6.7.8\r\n",
    );
    assert_eq!(other, shown("5.6.7.8 [] 127.0.0.1"));
    assert_eq!(status("a.test", "/o/nobody/f", denied).0, 200);
}

/// The response on a connection that begins with these bytes.
fn after(port: u16, header: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
    let request = format!("{header}GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is taken");
    let mut said = String::new();
    let read = stream.read_to_string(&mut said);
    read.ok()?;
    let (_, body) = said.split_once("\r\n\r\n")?;
    Some(body.to_owned())
}

#[test]
fn the_proxy_protocol_is_noted_and_believed_only_where_that_is_said() {
    let conf = r#"
events {}
http {
server { listen 127.0.0.1:{port} proxy_protocol; server_name a.test; set_real_ip_from WHO; real_ip_header proxy_protocol;
return 200 "$remote_addr $proxy_protocol_addr $proxy_protocol_port $proxy_protocol_server_addr $proxy_protocol_server_port $realip_remote_addr"; }
}
"#;
    let header = "PROXY TCP4 192.0.2.7 192.0.2.8 1234 443\r\n";
    for (trusted, expected) in [
        (
            "127.0.0.1",
            "192.0.2.7 192.0.2.7 1234 192.0.2.8 443 127.0.0.1",
        ),
        (
            "10.0.0.1",
            "127.0.0.1 192.0.2.7 1234 192.0.2.8 443 127.0.0.1",
        ),
    ] {
        let server = setup(&conf.replace("WHO", trusted)).start();
        let mut server = server;
        let port = server.port;
        server.wait_for_words("serving");
        assert_eq!(after(port, header).as_deref(), Some(expected), "{trusted}");
        assert_eq!(after(port, ""), None, "without the header nobody is served");
        let unknown = after(port, "PROXY UNKNOWN\r\n");
        assert_eq!(unknown.as_deref(), Some("127.0.0.1     127.0.0.1"));
        assert!(!server.has_ended());
    }
}

/// Extensions of a PROXY protocol header, by the names and numbers of nginx's documentation.
#[test]
fn extensions_of_the_proxy_protocol_are_variables() {
    let conf = r#"
events {}
http {
server { listen 127.0.0.1:{port} proxy_protocol;
return 200 "$proxy_protocol_tlv_authority $proxy_protocol_tlv_0x02 $proxy_protocol_tlv_alpn|$proxy_protocol_tlv_ssl_verify $proxy_protocol_tlv_ssl_cn $proxy_protocol_tlv_ssl_0x22|$proxy_protocol_tlv_ssl_cipher|$proxy_protocol_addr"; }
}
"#;
    let tlv = |kind: u8, value: &str| {
        let length = u8::try_from(value.len()).expect("it is short");
        format!("{}\0{}{value}", char::from(kind), char::from(length))
    };
    let header = |extensions: &str| {
        let addresses = "\x0a\0\0\x07\x0a\0\0\x08\x10\x10\x01\x7b";
        let length = u8::try_from(addresses.len() + extensions.len()).expect("it is short");
        let length = char::from(length);
        format!("\r\n\r\n\0\r\nQUIT\n\x21\x11\0{length}{addresses}{extensions}")
    };
    let server = setup(conf).start();
    let ssl = format!("\x01\0\0\0\x07{}", tlv(0x22, "client"));
    let all = format!("{}{}", tlv(2, "a.example"), tlv(0x20, &ssl));
    for (extensions, expected) in [
        (&*all, "a.example a.example |7 client client||10.0.0.7"),
        ("", "  |  ||10.0.0.7"),
        ("\x02\0\x70cut off", "  |  ||10.0.0.7"),
    ] {
        let said = after(server.port, &header(extensions));
        assert_eq!(said.as_deref(), Some(expected), "{extensions:?}");
    }
    let text = after(server.port, "PROXY TCP4 10.0.0.7 10.0.0.8 1 2\r\n");
    assert_eq!(text.as_deref(), Some("  |  ||10.0.0.7"));
}

#[test]
fn the_proxy_protocol_names_clients_below_the_location_that_believes_it() {
    let conf = r#"
events {}
http {
server { listen 127.0.0.1:{port} proxy_protocol; server_name a.test;
location / { set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol; deny 192.0.2.7;
  location ~ ^ { error_page 403 /denied; error_page 404 /shown; } }
location = /denied { internal; return 403 "denied $remote_addr:$remote_port"; }
location = /shown { return 200 "$remote_addr:$remote_port $realip_remote_addr"; }
}
}
"#;
    let server = setup(conf).start();
    for (header, expected) in [
        (
            "PROXY TCP4 192.0.2.7 192.0.2.8 1234 443\r\n",
            "denied 192.0.2.7:1234",
        ),
        (
            "PROXY TCP4 192.0.2.9 192.0.2.8 1234 443\r\n",
            "192.0.2.9:1234 127.0.0.1",
        ),
        (
            "PROXY TCP6 2001:db8::1 2001:db8::2 4321 443\r\n",
            "2001:db8::1:4321 127.0.0.1",
        ),
    ] {
        let said = after(server.port, header);
        assert_eq!(said.as_deref(), Some(expected), "{header}");
    }
}

#[test]
fn pages_of_other_servers_are_recognized() {
    let lines = r#"
server_name a.test *.b.test;
location / { valid_referers none server_names www.good.test/path/ ~\.match\.; return 200 "[$invalid_referer]"; }
location /blocked { valid_referers blocked; return 200 "[$invalid_referer]"; }
location /free { return 200 "[$invalid_referer]"; }
"#;
    let server = start(lines, &[]);
    for (path, referer, expected) in [
        ("/", "", "[]"),
        ("/", "Referer: http://a.test/x\r\n", "[]"),
        ("/", "Referer: https://x.b.test\r\n", "[]"),
        ("/", "Referer: http://www.good.test/path/1\r\n", "[]"),
        ("/", "Referer: http://www.good.test/other\r\n", "[1]"),
        ("/", "Referer: http://x.match.test/\r\n", "[]"),
        ("/", "Referer: hidden\r\n", "[1]"),
        ("/blocked", "Referer: hidden\r\n", "[]"),
        ("/blocked", "", "[1]"),
        ("/free", "Referer: http://evil.test/\r\n", "[]"),
    ] {
        assert_eq!(
            ask(server.port, path, referer),
            expected,
            "{path} {referer}"
        );
    }
}

#[test]
fn links_hold_with_their_digest_and_for_a_time() {
    let lines = r#"
location /s/ { secure_link $arg_md5,$arg_expires; secure_link_md5 "$secure_link_expires$uri$remote_addr secret"; return 200 "[$secure_link] [$secure_link_expires]"; }
location /p/ { secure_link_secret word; return 200 "[$secure_link]"; }
"#;
    let server = start(lines, &[]);
    // printf '%s' '4102444800/s/link127.0.0.1 secret' | openssl md5 -binary | base64 | tr +/ -_ | tr -d =
    let good = "/s/link?md5=MI0nz30jdgfeL7APeh5cuw&expires=4102444800";
    assert_eq!(ask(server.port, good, ""), "[1] [4102444800]");
    assert_eq!(
        ask(
            server.port,
            "/s/link?md5=UIngCYIigrobPw-tBCrI1A&expires=1000000000",
            ""
        ),
        "[0] [1000000000]"
    );
    assert_eq!(
        ask(
            server.port,
            "/s/other?md5=MI0nz30jdgfeL7APeh5cuw&expires=4102444800",
            ""
        ),
        "[] [4102444800]"
    );
    assert_eq!(
        ask(
            server.port,
            "/s/link?md5=MI0nz30jdgfeL7APeh5cuw&expires=x",
            ""
        ),
        "[] []"
    );
    assert_eq!(ask(server.port, "/s/link", ""), "[] []");
    assert_eq!(
        ask(
            server.port,
            "/p/10d1cd1e46d34ce1166d782addc8d1d4/a/link",
            ""
        ),
        "[a/link]"
    );
    assert_eq!(
        ask(server.port, "/p/10d1cd1e46d34ce1166d782addc8d1d4/b", ""),
        "[]"
    );
}
