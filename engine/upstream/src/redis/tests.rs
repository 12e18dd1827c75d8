//! Calls against a fake server: a thread with a real socket that follows a script.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::*;
use crate::tests::on_worker;

const PONG: &[u8] = b"+PONG\r\n";
const LONG: Duration = Duration::from_secs(5);

/// A server that runs `script` on its connections, one after the other.
fn fake(script: impl Fn(usize, TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            script(number, stream.unwrap());
        }
    });
    url
}

/// Reads until what was read ends with `end`.
fn read_to(stream: &mut TcpStream, end: &str) -> bool {
    let mut read = Vec::new();
    let mut byte = [0];
    while !read.ends_with(end.as_bytes()) {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return false;
        }
        read.push(byte[0]);
    }
    true
}

fn server(url: &str) -> (Arc<RedisServer>, Receiver<Reachability>) {
    let (sender, changes): (Sender<Reachability>, _) = channel();
    let url = RedisUrl::parse(url).unwrap();
    let made = RedisServer::new(&url, None, move |change| {
        let _ = sender.send(change.clone());
    });
    (Arc::new(made), changes)
}

fn script() -> Script {
    Script::new("return 1")
}

#[test]
fn a_script_is_called_by_its_digest_and_sent_when_it_is_not_known() {
    assert_eq!(script().digest, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    let url = fake(|_, mut stream| {
        assert!(read_to(&mut stream, "PING\r\n"));
        stream.write_all(PONG).unwrap();
        assert!(read_to(
            &mut stream,
            "e0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n$1\r\n1\r\n$1\r\nk\r\n"
        ));
        stream
            .write_all(b"-NOSCRIPT No matching script.\r\n")
            .unwrap();
        assert!(read_to(
            &mut stream,
            "$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n$1\r\nk\r\n"
        ));
        stream.write_all(b":1\r\n").unwrap();
        assert!(!read_to(&mut stream, "more"));
    });
    let (server, changes) = server(&url);
    let reply = on_worker(|worker| {
        let server = server.clone();
        async move { server.run(&worker, &script(), (b"k", &[]), LONG).await }
    });
    assert_eq!(reply, Ok(Reply::Integer(1)));
    assert!(changes.try_recv().is_err(), "nothing happened to report");
}

#[test]
fn nobody_waits_behind_a_late_reply_and_calls_resume_with_it() {
    let (go, waits) = channel::<()>();
    let url = fake(move |_, mut stream| {
        assert!(read_to(&mut stream, "PING\r\n"));
        stream.write_all(PONG).unwrap();
        assert!(read_to(&mut stream, "$1\r\nk\r\n"));
        waits.recv().unwrap();
        stream.write_all(b":1\r\n").unwrap();
        // The call that is made again.
        assert!(read_to(&mut stream, "$1\r\nk\r\n"));
        stream.write_all(b":2\r\n").unwrap();
        assert!(!read_to(&mut stream, "more"));
    });
    let (server, _changes) = server(&url);
    on_worker(|worker| {
        let server = server.clone();
        async move {
            let call = async |deadline| server.run(&worker, &script(), (b"k", &[]), deadline).await;
            // Whether the connection is open before or after the deadline, the reply is not there.
            assert_eq!(
                call(Duration::from_millis(200)).await,
                Err(CallError::Deadline)
            );
            assert_eq!(
                call(LONG).await,
                Err(CallError::Away),
                "nobody waits meanwhile"
            );
            go.send(()).unwrap();
            let reply = loop {
                match call(LONG).await {
                    Err(CallError::Away) => tokio::task::yield_now().await,
                    other => break other,
                }
            };
            assert_eq!(reply, Ok(Reply::Integer(2)), "replies stay in step");
        }
    });
    let counts = server.counts();
    let count =
        |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((count(&counts.replies), count(&counts.timeouts)), (1, 1));
    assert!(count(&counts.unavailable) >= 1);
}

#[test]
fn a_refused_password_is_reported_once_and_so_is_the_return() {
    let url = fake(|number, mut stream| {
        assert!(read_to(&mut stream, "AUTH\r\n$5\r\nwrong\r\n"));
        assert!(read_to(&mut stream, "PING\r\n"));
        let reply: &[u8] = match number {
            0..3 => b"-WRONGPASS invalid username-password pair\r\n-NOAUTH\r\n",
            _ => b"+OK\r\n+PONG\r\n",
        };
        stream.write_all(reply).unwrap();
        while read_to(&mut stream, "$1\r\nk\r\n") {
            stream.write_all(b":1\r\n").unwrap();
        }
    });
    let (server, changes) = server(&url.replace("redis://", "redis://:wrong@"));
    let reply = on_worker(|worker| {
        let server = server.clone();
        async move {
            loop {
                let reply = server.run(&worker, &script(), (b"k", &[]), LONG).await;
                match reply {
                    Err(CallError::Away) => tokio::task::yield_now().await,
                    other => break other,
                }
            }
        }
    });
    assert_eq!(reply, Ok(Reply::Integer(1)));
    let changes: Vec<Reachability> = changes.try_iter().collect();
    let refused = "WRONGPASS invalid username-password pair".to_owned();
    assert_eq!(changes, [Reachability::Away(refused), Reachability::Back]);
}

#[test]
fn a_peer_of_another_protocol_is_named() {
    let url = fake(|_, mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = read_to(&mut stream, "PING\r\n");
    });
    let (server, changes) = server(&url);
    let reply = on_worker(|worker| {
        let server = server.clone();
        async move { server.run(&worker, &script(), (b"k", &[]), LONG).await }
    });
    assert_eq!(reply, Err(CallError::Away));
    let Ok(Reachability::Away(reason)) = changes.recv() else {
        panic!("it is reported");
    };
    assert!(reason.contains("not a Redis reply"), "{reason}");
}

#[test]
fn replies_that_are_late_again_and_again_are_reported_until_one_is_in_time() {
    let (go, waits) = channel::<()>();
    let url = fake(move |_, mut stream| {
        assert!(read_to(&mut stream, "PING\r\n"));
        stream.write_all(PONG).unwrap();
        while read_to(&mut stream, "$1\r\nk\r\n") {
            waits.recv().unwrap();
            stream.write_all(b":1\r\n").unwrap();
        }
    });
    let (server, changes) = server(&url);
    on_worker(|worker| {
        let server = server.clone();
        async move {
            let call = async |deadline| server.run(&worker, &script(), (b"k", &[]), deadline).await;
            // The connection is open from here on.
            go.send(()).unwrap();
            assert_eq!(call(LONG).await, Ok(Reply::Integer(1)));
            // Until the worker has reported it: replies have to be late for a second.
            while !server.is_away() {
                match call(Duration::from_millis(50)).await {
                    Err(CallError::Deadline) => go.send(()).unwrap(),
                    Err(CallError::Away) => tokio::task::yield_now().await,
                    other => panic!("{other:?}"),
                }
            }
            go.send(()).unwrap();
            loop {
                match call(LONG).await {
                    Err(CallError::Away) => tokio::task::yield_now().await,
                    other => break assert_eq!(other, Ok(Reply::Integer(1))),
                }
            }
        }
    });
    let changes: Vec<Reachability> = changes.try_iter().collect();
    let late = Reachability::Away("replies arrive after the deadline".to_owned());
    assert_eq!(changes, [late, Reachability::Back]);
}
