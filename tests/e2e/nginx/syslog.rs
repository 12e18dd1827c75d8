//! Logs sent to syslog.

use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;

use super::setup;
use crate::client::ask;
use crate::harness::TIMEOUT;

fn packet(receive: impl Fn(&mut [u8]) -> std::io::Result<usize>) -> String {
    let mut packet = [0; 2048];
    let count = receive(&mut packet).expect("a packet comes");
    String::from_utf8_lossy(&packet[..count]).into_owned()
}

#[test]
fn packets_are_those_of_nginx() {
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    udp.set_read_timeout(Some(TIMEOUT)).expect("it is a socket");
    let port = udp.local_addr().expect("it is bound").port();
    let setup = setup(
        &"
error_log syslog:server=unix:{folder}/log.sock,tag=errors error;
events { worker_connections 100; }
http {
log_format own '$request_uri $status';
access_log syslog:server=127.0.0.1:{udp},facility=local3,severity=debug,nohostname own;
server { listen 127.0.0.1:{port}; root {folder}/www; }
}
"
        .replace("{udp}", &port.to_string()),
    );
    let unix = UnixDatagram::bind(setup.folder().path().join("log.sock")).expect("writable");
    unix.set_read_timeout(Some(TIMEOUT))
        .expect("it is a socket");
    let server = setup.start();
    assert_eq!(ask(server.port, "/none").status, 404);
    let access = packet(|buf| udp.recv(buf));
    let rest = access
        .strip_prefix("<159>")
        .unwrap_or_else(|| panic!("{access}"));
    // `Nov 22 09:47:08 nginx: `
    let (time, rest) = rest.split_at(15);
    assert_eq!(time.split(':').count(), 3, "{access}");
    assert_eq!(rest.trim_end(), " nginx: /none 404");
    let error = packet(|buf| unix.recv(buf));
    assert!(error.starts_with("<187>"), "{error}");
    assert!(
        error.contains(" errors: 20") && error.contains(" [error] "),
        "{error}"
    );
    assert!(
        error.contains("(2: No such file or directory), client: 127.0.0.1"),
        "{error}"
    );
}
