//! Second requests for slow responses, retry budgets, and upstreams that differ from the others.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use crate::client::{Client, ask};
use crate::harness::{Server, eventually};
use crate::upstream::Upstream;

fn saying(text: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    )
}

fn proxy(ports: &[u16], options: &str) -> Server {
    let to: Vec<String> = ports
        .iter()
        .map(|port| format!("localhost:{port}"))
        .collect();
    Server::start(&format!(
        "{{\n\tadmin localhost:{{admin}}\n}}\n:{{port}} {{\n\treverse_proxy {} {{\n{options}\n\t}}\n}}\n",
        to.join(" ")
    ))
}

/// An upstream that responds once it may, and reports connections that are closed meanwhile.
struct Slow {
    upstream: Upstream,
    asked: Arc<AtomicUsize>,
    may_respond: Arc<AtomicBool>,
    closed: mpsc::Receiver<()>,
}

fn slow() -> Slow {
    let (asked, may_respond) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
    let (closing, closed) = mpsc::channel();
    let (count, may) = (asked.clone(), may_respond.clone());
    let upstream = Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            count.fetch_add(1, Ordering::SeqCst);
            if head[0].contains("/hedged") {
                // Nothing more comes: the end of the connection is all that is left to read.
                if wire.head().is_none() {
                    let _ = closing.send(());
                }
                return;
            }
            let _ = wire.body(&head);
            eventually("the permission", || may.load(Ordering::SeqCst), String::new);
            if wire.try_send(saying("slow")).is_err() {
                return;
            }
        }
    });
    Slow {
        upstream,
        asked,
        may_respond,
        closed,
    }
}

#[test]
fn a_slow_response_is_asked_of_another_upstream_as_well() {
    let slow = slow();
    let fast = Upstream::responding(saying("fast"));
    let ports = [slow.upstream.port, fast.port];
    let server = proxy(&ports, "lb_policy first\nlb_hedge 20ms");
    assert_eq!(server.ask("/hedged").text(), "fast");
    slow.closed
        .recv_timeout(crate::harness::TIMEOUT)
        .expect("the request that lost is cancelled");
    // A POST may have an effect each time that it arrives.
    let mut client = Client::connect(server.port);
    client.send("POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    eventually(
        "the request",
        || slow.asked.load(Ordering::SeqCst) == 2,
        || server.stderr(),
    );
    slow.may_respond.store(true, Ordering::SeqCst);
    assert_eq!(client.response().text(), "slow");
    assert_eq!(fast.connections(), 1);
}

#[test]
fn second_requests_are_limited_by_a_budget() {
    let slow = slow();
    let fast = Upstream::responding(saying("fast"));
    let ports = [slow.upstream.port, fast.port];
    let server = proxy(&ports, "lb_policy first\nlb_hedge 20ms\nlb_retry_budget 1");
    let port = server.port;
    let (sender, responses) = mpsc::channel();
    for _ in 0..13 {
        let sender = sender.clone();
        std::thread::spawn(move || sender.send(ask(port, "/").text()));
    }
    let next = || {
        let response = responses.recv_timeout(crate::harness::TIMEOUT);
        response.expect("a response")
    };
    for _ in 0..10 {
        assert_eq!(next(), "fast", "ten are allowed at the start");
    }
    eventually(
        "all requests",
        || slow.asked.load(Ordering::SeqCst) == 13,
        || server.metrics(),
    );
    slow.may_respond.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        assert_eq!(next(), "slow");
    }
}

#[test]
fn retries_are_limited_by_a_budget() {
    let closing = Upstream::start(|mut wire| {
        let _ = wire.head();
    });
    let good = Upstream::responding(saying("good"));
    // Ten at the start, and a share of thirty.
    for (budget, expected) in [
        ("lb_retry_budget 1", 10),
        ("", 13),
        ("lb_retry_budget 50%", 25),
    ] {
        let options = format!("lb_policy first\nlb_retries 1\n{budget}");
        let server = proxy(&[closing.port, good.port], &options);
        let good = (0..30).filter(|_| server.ask("/").status == 200).count();
        assert_eq!(good, expected, "{budget}");
    }
}

#[test]
fn an_upstream_that_differs_from_the_others_is_ejected() {
    let fast = [(); 2].map(|()| Upstream::responding(saying("fast")));
    let slow = Upstream::start(|mut wire| {
        while wire.head().is_some() {
            // How slow the upstream is: the others respond at once.
            std::thread::sleep(std::time::Duration::from_millis(300));
            let _ = wire.try_send(saying("slow"));
        }
    });
    let breaker = "circuit_breaker outlier 3 {\n\t\t\tmin_requests 5\n\t\t\twindow 10m\n\t\t\ttrip_duration 1h\n\t\t}";
    let ports = [fast[0].port, slow.port, fast[1].port];
    let server = proxy(&ports, &format!("lb_policy round_robin\n{breaker}"));
    let is_ejected = || (0..6).all(|_| server.ask("/").text() == "fast");
    eventually("the ejection", is_ejected, || server.metrics());
}

#[test]
fn upstreams_that_all_fail_are_not_all_ejected() {
    let failing =
        [(); 3].map(|()| Upstream::responding("HTTP/1.1 500 Failed\r\nContent-Length: 0\r\n\r\n"));
    let breaker = "circuit_breaker outlier 3 {\n\t\t\tmin_requests 2\n\t\t\twindow 10m\n\t\t\ttrip_duration 1h\n\t\t}";
    let ports = [failing[0].port, failing[1].port, failing[2].port];
    let server = proxy(&ports, &format!("lb_policy round_robin\n{breaker}"));
    for _ in 0..30 {
        assert_eq!(server.ask("/").status, 500, "{}", server.metrics());
    }
}
