//! Calls per second to a bare WSGI and ASGI application, and what they cost: `cargo run --profile quick -p sluice-python
//! --example call_speed`. The load is on the same thread of sluice, so nothing but the host is measured.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_message::{FieldId, RequestHead, Scheme};
use sluice_net::body::RequestBody;
use sluice_net::worker::Worker;
use sluice_python::{Application, Facts, Groups, Interface, Request, Settings};

const WSGI: &str = "
def app(environ, start_response):
    start_response('200 OK', [('Content-Type', 'application/json'), ('Content-Length', '18')])
    return [b'{\"hello\": \"world\"}']
";

const ASGI: &str = "
async def app(scope, receive, send):
    headers = [(b'content-type', b'application/json'), (b'content-length', b'18')]
    await send({'type': 'http.response.start', 'status': 200, 'headers': headers})
    await send({'type': 'http.response.body', 'body': b'{\"hello\": \"world\"}'})
";

fn main() {
    let folder = std::env::temp_dir().join(format!("sluice-call-speed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be created");
    let groups = Groups::new(1, Arc::new(|_| {})).expect("a thread starts");
    for (interface, text) in [(Interface::Wsgi, WSGI), (Interface::Asgi, ASGI)] {
        std::fs::write(folder.join("app.py"), text).expect("a file can be written");
        let mut settings = Settings::new("speed", interface, "app:app");
        settings.working_dir = Some(folder.clone());
        let app = groups.obtain(settings);
        app.wait_ready().expect("the application starts");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime starts");
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let worker = Worker::new(0, 1);
            for concurrency in [1, 100] {
                measure(&app, &worker, interface, concurrency).await;
            }
        });
    }
    groups.shutdown(Duration::from_secs(1));
    std::fs::remove_dir_all(&folder).expect("the folder is there");
}

async fn measure(app: &Application, worker: &Rc<Worker>, interface: Interface, concurrency: usize) {
    let process = app.snapshot().processes[0].pid.to_string();
    let (count, until) = (
        Rc::new(Cell::new(0_u64)),
        Instant::now() + Duration::from_secs(3),
    );
    let before = (cpu("self"), cpu(&process), Instant::now());
    let clients: Vec<_> = (0..concurrency)
        .map(|_| {
            let (app, worker, count) = (app.clone(), worker.clone(), count.clone());
            tokio::task::spawn_local(async move {
                let head = head();
                while Instant::now() < until {
                    request(&app, &worker, &head).await;
                    count.set(count.get() + 1);
                }
            })
        })
        .collect();
    for client in clients {
        client.await.expect("no client panics");
    }
    let calls = count.get();
    let per_call = |ticks: u64| ticks as f64 * 10_000.0 / calls as f64;
    println!(
        "{interface:?}, {concurrency} at a time: {:.0} calls/s, CPU per call: {:.1} us host, {:.1} us worker",
        calls as f64 / before.2.elapsed().as_secs_f64(),
        per_call(cpu("self") - before.0),
        per_call(cpu(&process) - before.1),
    );
}

async fn request(app: &Application, worker: &Rc<Worker>, head: &RequestHead) {
    let facts = Facts {
        client: Some(([203, 0, 113, 9], 50_000).into()),
        server: Some(([192, 0, 2, 1], 80).into()),
        scheme: Scheme::Http,
        root: b"",
        user: b"",
        content_length: None,
        tls: None,
    };
    let body = RequestBody::None;
    let request = Request { head, facts, body };
    let Ok(mut call) = app.call(worker, request).await else {
        panic!("refused");
    };
    match poll_fn(|cx| call.poll_response(cx)).await {
        Ok(response) => {
            let mut inline = Vec::new();
            let body = call.into_body(response.framing, &mut inline);
            assert!(body.is_ok() && inline.len() == 18);
        }
        Err(failure) => panic!("{:?}", failure.why),
    }
}

fn head() -> RequestHead {
    let mut head = RequestHead {
        target: b"/".to_vec(),
        ..RequestHead::default()
    };
    head.uri.set(b"/");
    head.fields.push(FieldId::Host, b"127.0.0.1:8080");
    head.set_authority(b"127.0.0.1:8080");
    head
}

/// CPU time of a process so far, in ticks of 10 ms.
fn cpu(process: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let numbers = stat.rsplit(')').next().unwrap_or_default();
    let numbers: Vec<i64> = numbers
        .split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect();
    // After the name: state (not a number), then utime and stime at 11 and 12, one less without the state.
    let ticks = numbers.iter().skip(10).take(2).sum::<i64>();
    u64::try_from(ticks).unwrap_or(0)
}
