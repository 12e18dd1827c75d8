//! Large transfers with constant memory.

use std::io::Write;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use crate::harness::{Server, Setup};
use crate::upstream::Upstream;
use crate::wire::{Wire, field};

/// Enough to see memory grow; a multiple of the block. `SLUICE_VOLUME_MIB` overrides it.
fn total() -> u64 {
    let asked = std::env::var("SLUICE_VOLUME_MIB")
        .ok()
        .and_then(|text| text.parse().ok());
    asked.unwrap_or(256_u64) * 1024 * 1024
}

/// Permitted growth of peak memory, in KiB.
const GROWTH_MAX: u64 = 8 * 1024;

fn assert_flat(server: &Server, before: u64, what: &str) {
    let grown = server.grown(before);
    println!(
        "{what}: {} MiB, peak {before} and {grown} KiB more",
        total() / 1024 / 1024
    );
    assert!(grown < GROWTH_MAX, "{what}: by {grown} KiB from {before}");
}

/// Requests `path` and returns the length of the body.
fn download(port: u16, path: &str) -> u64 {
    let mut client = Wire::connect(port);
    client.send(format!(
        "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    ));
    let head = client.head().expect("an answer");
    let length: u64 = field(&head, "Content-Length")
        .expect("a length")
        .parse()
        .expect("a number");
    assert_eq!(length, total());
    let buffered = client.reader.buffer().len() as u64;
    buffered + client.drain()
}

#[test]
fn a_large_file_is_downloaded() {
    let setup =
        Setup::new("{\n\tadmin off\n}\n:{port} {\n\troot * {folder}/www\n\tfile_server\n}\n");
    let path = setup.folder().write("www/large.bin", "");
    let file = std::fs::File::options()
        .write(true)
        .open(path)
        .expect("it was written");
    file.set_len(total()).expect("holes cost no space");
    setup.folder().write("www/small.txt", "small");
    let server = setup.start();
    assert_eq!(server.ask("/small.txt").status, 200);
    let before = server.peak();
    assert_eq!(download(server.port, "/large.bin"), total());
    assert_flat(&server, before, "file");
}

#[test]
fn a_large_response_passes_the_proxy() {
    let upstream = Upstream::start(|mut wire| {
        let block = vec![b'x'; 1024 * 1024];
        while let Some(head) = wire.head() {
            let large = head[0].contains("/large");
            let length = if large { total() } else { 2 };
            wire.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"
            ));
            match large {
                true => (0..total() / 1024 / 1024).for_each(|_| wire.send(&block)),
                false => wire.send("ok"),
            }
        }
    });
    let server = proxy(&upstream);
    assert_eq!(server.ask("/").text(), "ok");
    let before = server.peak();
    assert_eq!(download(server.port, "/large"), total());
    assert_flat(&server, before, "proxied download");
}

#[test]
fn a_large_upload_passes_the_proxy() {
    let (sender, received) = sync_channel(1);
    let upstream = Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            let mut left =
                field(&head, "Content-Length").map_or(0, |text| text.parse().expect("a number"));
            let mut sum = 0_u64;
            while left > 0 {
                let block = wire.take(left.min(1024 * 1024)).len() as u64;
                assert!(block > 0, "it ended after {sum}");
                (sum, left) = (sum + block, left - block);
            }
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            if sum > 0 {
                sender.send(sum).expect("the test waits");
            }
        }
    });
    let server = proxy(&upstream);
    assert_eq!(server.ask("/").text(), "ok");
    let before = server.peak();
    let mut client = Wire::connect(server.port);
    client.send(format!(
        "PUT /large HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        total()
    ));
    let block = vec![b'y'; 1024 * 1024];
    for _ in 0..total() / 1024 / 1024 {
        client
            .stream()
            .write_all(&block)
            .expect("the server reads on");
    }
    let head = client.head().expect("an answer");
    assert!(head[0].contains(" 200 "), "{head:?}");
    assert_eq!(received.recv_timeout(Duration::from_secs(20)), Ok(total()));
    assert_flat(&server, before, "upload");
}

fn proxy(upstream: &Upstream) -> Server {
    Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\treverse_proxy localhost:{}\n}}\n",
        upstream.port
    ))
}
