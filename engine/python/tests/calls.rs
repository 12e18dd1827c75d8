//! Calls to applications in real processes: requests, bodies, files, trailers, WebSockets, failures of applications.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use sluice_net::body::{Body, RequestBody};
use sluice_python::limits::WINDOW_BYTES;
use sluice_python::{
    Handshake, Interface, Kind, MessagePart, Received, Request, Sent, Settings, Stage, WebSocket,
    Why,
};

use crate::support::*;

fn wsgi(folder: &Folder, change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = app_in(folder, Interface::Wsgi, WSGI);
    change(&mut settings);
    settings
}

fn asgi(folder: &Folder) -> Settings {
    app_in(folder, Interface::Asgi, ASGI)
}

#[test]
fn a_wsgi_application_gets_its_environment() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(wsgi(&folder, |s| s.root_path = "/base".to_owned()));
    assert_eq!(app.interface(), Interface::Wsgi);
    on_worker(0, 1, async |worker| {
        let text = get(&app, &worker, "/environ?x=%20").await;
        for line in [
            "HTTP_HOST='example.com'",
            "PATH_INFO='/environ'",
            "QUERY_STRING='x=%20'",
            "REMOTE_ADDR='203.0.113.9'",
            "REQUEST_METHOD='GET'",
            "SCRIPT_NAME='/base'",
            "SERVER_PORT='80'",
            "wsgi.url_scheme='http'",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert_eq!(get(&app, &worker, "/").await, "hello GET");
    });
}

#[test]
fn an_application_whose_interface_is_detected_is_called_by_it() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(app_in(&folder, Interface::Auto, ASGI));
    assert_eq!(app.interface(), Interface::Asgi);
    on_worker(0, 1, async |worker| {
        let text = get(&app, &worker, "/scope?a=b").await;
        for line in [
            "client=('203.0.113.9', 50000)",
            "headers=[(b'host', b'example.com')]",
            "http_version='1.1'",
            "method='GET'",
            "path='/scope'",
            "query_string=b'a=b'",
            "raw_path=b'/scope'",
            "server=('192.0.2.1', 80)",
            "type='http'",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    });
}

#[test]
fn request_bodies_arrive_whole() {
    if !has_python() {
        return;
    }
    let (host, first, second) = (Host::new(1), Folder::new(), Folder::new());
    let wsgi = host.start(wsgi(&first, |_| {}));
    let asgi = host.start(asgi(&second));
    on_worker(0, 1, async |worker| {
        // Nothing, a byte, a frame, more than a window, and more than the socket's buffer.
        for size in [0, 1, 65_536, 300_000, 5_000_000] {
            let body = || Bytes::body(&vec![b'a'; size]);
            let (_, text) = fetch(&wsgi, &worker, "POST", "/echo", body())
                .await
                .unwrap();
            assert_eq!(text, format!("{size} {}", "a".repeat(size.min(20))));
            let (_, text) = fetch(&asgi, &worker, "POST", "/echo", body())
                .await
                .unwrap();
            assert_eq!(text, size.to_string());
        }
    });
}

#[test]
fn responses_of_any_size_arrive_whole() {
    if !has_python() {
        return;
    }
    let (host, first, second) = (Host::new(1), Folder::new(), Folder::new());
    let wsgi = host.start(wsgi(&first, |_| {}));
    let asgi = host.start(asgi(&second));
    on_worker(0, 1, async |worker| {
        for size in [
            0, 1, 8192, 8193, 16_384, 16_385, 65_536, 81_920, 81_921, 300_000, 5_000_000,
        ] {
            let target = format!("/big?bytes={size}");
            assert_eq!(get(&wsgi, &worker, &target).await.len(), size);
            let target = format!("/stream?bytes={size}");
            assert_eq!(get(&asgi, &worker, &target).await.len(), size);
        }
    });
}

#[test]
fn files_are_passed_as_descriptors() {
    if !has_python() {
        return;
    }
    let (host, first, second) = (Host::new(1), Folder::new(), Folder::new());
    let file = first.write("data.bin", "0123456789".repeat(10_000));
    let target = format!("/file?file={}", file.display());
    let apps = [host.start(wsgi(&first, |_| {})), host.start(asgi(&second))];
    on_worker(0, 1, async |worker| {
        for app in apps {
            let mut call = begin(&app, &worker, "GET", &target, RequestBody::None)
                .await
                .unwrap_or_else(|failure| panic!("{:?}", failure.why));
            let response = responded(&mut call).await.ok().unwrap();
            let mut inline = Vec::new();
            let body = call.into_body(response.framing, &mut inline).unwrap();
            let bytes = content(body, inline).await.unwrap();
            assert_eq!(bytes, std::fs::read(&file).unwrap());
        }
    });
}

#[test]
fn trailers_follow_the_body() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(asgi(&folder));
    on_worker(0, 1, async |worker| {
        let mut call = begin(&app, &worker, "GET", "/trailers", RequestBody::None)
            .await
            .ok()
            .unwrap();
        let response = responded(&mut call).await.ok().unwrap();
        let body = call.into_body(response.framing, &mut Vec::new()).unwrap();
        let Body::Stream(mut stream) = body else {
            panic!("a stream")
        };
        let whole = sluice_net::body::read_whole(&mut *stream, 100).await;
        assert_eq!(whole.unwrap().unwrap(), b"body");
        let trailers = stream.trailers().unwrap();
        assert_eq!(trailers.find_first(b"x-sum"), Some(&b"42"[..]));
    });
}

#[test]
fn exceptions_and_broken_rules_are_one_entry_and_a_failure_each() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(wsgi(&folder, |_| {}));
    on_worker(0, 1, async |worker| {
        let get = async |target: &str| fetch(&app, &worker, "GET", target, RequestBody::None).await;
        match get("/raise").await {
            Err(Why::Application { stage, text }) => {
                assert_eq!(stage, Stage::BeforeResponse);
                assert!(text.contains("ValueError: raised on purpose"), "{text}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(host.log.count("raised on purpose"), 1);
        match get("/bad-header").await {
            Err(Why::Application { .. } | Why::Response(_)) => {}
            other => panic!("{other:?}"),
        }
        for target in ["/longer", "/shorter"] {
            assert!(
                get(target).await.is_err() || target == "/longer",
                "{target}"
            );
        }
        // Others are not affected.
        assert!(get("/").await.is_ok());
    });
}

#[test]
fn a_call_that_is_dropped_cancels_its_request() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(asgi(&folder));
    let (begun, ended) = (
        path_of(folder.path(), "begun"),
        path_of(folder.path(), "ended"),
    );
    on_worker(0, 1, async |worker| {
        let target = format!("/disconnect?begun={begun}&file={ended}");
        let call = begin(&app, &worker, "GET", &target, RequestBody::None).await;
        let mut call = call.ok().unwrap();
        eventually("request", || {
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(call.poll_response(&mut cx).is_pending());
            std::fs::exists(&begun).unwrap().then_some(())
        })
        .await;
        drop(call);
        let seen = eventually("disconnect", || {
            std::fs::read_to_string(&ended)
                .ok()
                .filter(|text| !text.is_empty())
        });
        assert_eq!(seen.await, "http.disconnect");
        eventually("free place", || {
            (app.snapshot().processes[0].in_flight == 0).then_some(())
        })
        .await;
        assert_eq!(get(&app, &worker, "/").await, "hello");
    });
}

async fn give(socket: &mut WebSocket, data: &[u8], piece: MessagePart) -> Sent {
    poll_fn(|cx| socket.poll_send(Kind::Binary, data, piece, cx)).await
}

/// Sends a message in pieces.
async fn say(socket: &mut WebSocket, kind: Kind, message: &[u8]) {
    let mut rest = message;
    loop {
        let (now, later) = rest.split_at(rest.len().min(50_000));
        let piece = MessagePart::last_if(later.is_empty());
        let sent = poll_fn(|cx| socket.poll_send(kind, now, piece, cx)).await;
        assert_eq!(sent, Sent::Taken);
        if piece.is_last() {
            return;
        }
        rest = later;
    }
}

/// Receives a message, whose pieces fit into the window.
async fn hear(socket: &mut WebSocket) -> (Kind, Vec<u8>) {
    let mut whole = Vec::new();
    loop {
        match poll_fn(|cx| socket.poll_receive(cx)).await {
            Ok(Received::Message(kind, data, piece)) => {
                assert!(data.len() <= WINDOW_BYTES as usize);
                whole.extend(data);
                if piece.is_last() {
                    return (kind, whole);
                }
            }
            Ok(other) => panic!("{other:?}"),
            Err(failure) => panic!("{:?}", failure.why),
        }
    }
}

#[test]
fn websockets_carry_messages_both_ways() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(asgi(&folder));
    on_worker(0, 1, async |worker| {
        let head = head("GET", "/chat");
        let request = || Request {
            head: &head,
            facts: facts(),
            body: RequestBody::None,
        };
        let mut socket = app.websocket(&worker, request()).await.ok().unwrap();
        match poll_fn(|cx| socket.poll_handshake(cx)).await {
            Ok(Handshake::Accepted(head)) => {
                let chosen = head.fields.find_first(b"sec-websocket-protocol");
                assert_eq!(chosen, Some(&b"v1"[..]));
            }
            Ok(_) => panic!("refused"),
            Err(failure) => panic!("{:?}", failure.why),
        }
        // One that is larger than the window, too, in both directions.
        let long = "x".repeat(1_000_000);
        for text in ["hello", &long, "again"] {
            say(&mut socket, Kind::Text, text.as_bytes()).await;
            let (kind, data) = hear(&mut socket).await;
            assert_eq!(kind, Kind::Text);
            assert!(data == text.to_uppercase().into_bytes(), "{}", data.len());
        }
        say(&mut socket, Kind::Binary, &[1, 2, 255]).await;
        assert_eq!(hear(&mut socket).await, (Kind::Binary, vec![255, 2, 1]));
        assert_eq!(
            app.snapshot().messages_outbound,
            3 + 128,
            "until it is consumed"
        );
        say(&mut socket, Kind::Text, b"bye").await;
        match poll_fn(|cx| socket.poll_receive(cx)).await {
            Ok(Received::Close(4000, reason)) => assert_eq!(reason, "as you like"),
            Ok(other) => panic!("{other:?}"),
            Err(failure) => panic!("{:?}", failure.why),
        }
    });
}

#[test]
fn what_processes_hold_for_an_application_has_a_limit() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let mut settings = asgi(&folder);
    // Eight pieces of 50,000 bytes, each of which counts 128 besides.
    settings.messages_bytes_max = 401_024;
    settings.queue_timeout = Duration::from_millis(50);
    let app = host.start(settings);
    on_worker(0, 1, async |worker| {
        let open = async || {
            let head = head("GET", "/deaf");
            let request = Request {
                head: &head,
                facts: facts(),
                body: RequestBody::None,
            };
            let mut socket = app.websocket(&worker, request).await.ok().unwrap();
            let handshake = poll_fn(|cx| socket.poll_handshake(cx)).await;
            assert!(matches!(handshake, Ok(Handshake::Accepted(_))));
            socket
        };
        let piece = vec![0; 50_000];
        let (mut first, mut second, mut third) = (open().await, open().await, open().await);
        // A message that exceeds the window is sent on, as long as there is room.
        for _ in 0..7 {
            let sent = give(&mut first, &piece, MessagePart::More).await;
            assert_eq!(sent, Sent::Taken);
        }
        let last = MessagePart::Last;
        assert_eq!(give(&mut second, &piece, last).await, Sent::Taken);
        assert_eq!(app.snapshot().messages_inbound, 401_024);
        assert_eq!(give(&mut second, b"x", last).await, Sent::Overloaded);
        assert_eq!(app.snapshot().websockets_shed, 1);
        // One that waits goes on when another connection has ended.
        poll_fn(|cx| {
            let sent = third.poll_send(Kind::Binary, b"x", last, cx);
            assert!(sent.is_pending());
            Poll::Ready(())
        })
        .await;
        drop(second);
        assert_eq!(give(&mut third, b"x", last).await, Sent::Taken);
        assert_eq!(app.snapshot().messages_inbound, 351_025);
        drop((first, third));
        assert_eq!(app.snapshot().messages_inbound, 0);
    });
}

#[test]
fn websockets_are_refused_and_lost_ones_noticed() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(asgi(&folder));
    let seen = path_of(folder.path(), "code");
    on_worker(0, 1, async |worker| {
        let open = async |target: &str| {
            let head = head("GET", target);
            let request = Request {
                head: &head,
                facts: facts(),
                body: RequestBody::None,
            };
            let mut socket = app.websocket(&worker, request).await.ok().unwrap();
            let handshake = poll_fn(|cx| socket.poll_handshake(cx)).await;
            (socket, handshake.ok().unwrap())
        };
        let (socket, handshake) = open("/refuse").await;
        match handshake {
            Handshake::Refused => {}
            Handshake::Responded(response) => assert_eq!(response.head.status.code(), 403),
            Handshake::Accepted(_) => panic!("accepted"),
        }
        drop(socket);
        let (socket, _) = open(&format!("/file{seen}")).await;
        drop(socket);
        let code = eventually("disconnect", || {
            std::fs::read_to_string(&seen)
                .ok()
                .filter(|text| !text.is_empty())
        });
        assert_eq!(code.await, "1006");
        std::fs::remove_file(&seen).unwrap();
        let (mut socket, _) = open(&format!("/file{seen}")).await;
        socket.close(1001, b"going away");
        let code = eventually("disconnect", || {
            std::fs::read_to_string(&seen)
                .ok()
                .filter(|text| !text.is_empty())
        });
        assert_eq!(code.await, "1001");
    });
}

#[test]
fn a_slow_reader_holds_no_more_than_a_window() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(asgi(&folder));
    let progress = path_of(folder.path(), "progress");
    on_worker(0, 1, async |worker| {
        let target = format!("/stream?bytes=20000000&file={progress}");
        let call = begin(&app, &worker, "GET", &target, RequestBody::None).await;
        let mut call = call.ok().unwrap();
        let response = responded(&mut call).await.ok().unwrap();
        let body = call.into_body(response.framing, &mut Vec::new()).unwrap();
        let Body::Stream(mut stream) = body else {
            panic!("a stream")
        };
        // Until the application does not get on any more.
        let sent = || -> usize {
            let text = std::fs::read_to_string(&progress).unwrap_or_default();
            text.parse().unwrap_or(0)
        };
        let window = app.settings().window as usize;
        eventually("full window", || (sent() + 16_384 >= window).then_some(())).await;
        for _ in 0..20 {
            // Other requests are served meanwhile.
            assert_eq!(get(&app, &worker, "/").await, "hello");
            assert!(sent() <= window + 16_384, "{}", sent());
        }
        let mut received = 0;
        loop {
            let count = poll_fn(|cx| stream.poll_data(cx).map_ok(<[u8]>::len)).await;
            match count.unwrap() {
                0 => break,
                count => {
                    received += count;
                    stream.consume(count);
                }
            }
        }
        assert_eq!(received, 20_000_000);
    });
}

#[test]
fn head_requests_have_no_body() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(wsgi(&folder, |_| {}));
    on_worker(0, 1, async |worker| {
        let call = begin(&app, &worker, "HEAD", "/big?bytes=1000", RequestBody::None).await;
        let mut call = call.ok().unwrap();
        let response = responded(&mut call).await.ok().unwrap();
        let length = response.head.fields.find_first(b"content-length");
        assert_eq!(length, Some(&b"1000"[..]));
        let body = call.into_body(response.framing, &mut Vec::new()).unwrap();
        assert!(matches!(body, Body::Empty));
        assert_eq!(get(&app, &worker, "/").await, "hello GET");
    });
}

#[test]
fn threads_of_sluice_share_the_processes() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(2), Folder::new());
    let app = host.start(wsgi(&folder, |settings| settings.workers = 2));
    let threads: Vec<_> = (0..2)
        .map(|index| {
            let app = app.clone();
            std::thread::spawn(move || {
                on_worker(index, 2, async |worker| {
                    let mut calls = Vec::new();
                    for _ in 0..50 {
                        let (app, worker) = (app.clone(), worker.clone());
                        calls.push(beside(async move { pid(&app, &worker).await }));
                    }
                    let mut pids = Vec::new();
                    for call in calls {
                        pids.push(call.await.unwrap());
                    }
                    pids
                })
            })
        })
        .collect();
    let all: Vec<u32> = threads
        .into_iter()
        .flat_map(|t| t.join().unwrap())
        .collect();
    assert_eq!(all.len(), 100);
    let known: Vec<u32> = app.snapshot().processes.iter().map(|p| p.pid).collect();
    assert!(all.iter().all(|pid| known.contains(pid)));
    assert_eq!(app.snapshot().requests, 100);
    assert!(poll_ready(&app));
}

fn poll_ready(app: &sluice_python::Application) -> bool {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    matches!(app.poll_ready(&mut cx), Poll::Ready(Ok(())))
}
