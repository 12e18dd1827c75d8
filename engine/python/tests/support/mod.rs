//! Applications in real processes for the tests: files, groups, calls, and what was logged.

use std::future::{Future, poll_fn};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use sluice_message::{FieldId, Method, RequestHead, Scheme};
use sluice_net::body::{Body, BodyStream, RequestBody, read_whole};
use sluice_net::failure::Failure;
use sluice_net::worker::Worker;
use sluice_python::{
    Application, Call, CallFailure, Fact, Facts, Groups, Interface, Level, Notice, Request,
    Response, Settings, Why,
};

use crate::abilities::{can_run, skipped};
pub use crate::temp_folder::TempFolder as Folder;

/// How long a test waits for an event before it fails: far longer than a loaded machine takes.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Settings of an application whose file in `folder` is `app.py` with this text.
pub fn app_in(folder: &Folder, interface: Interface, text: &str) -> Settings {
    folder.write("app.py", text);
    let mut settings = Settings::new("test", interface, "app:app");
    settings.working_dir = Some(folder.path().to_owned());
    settings
}

/// An entry of the log.
#[derive(Clone, Debug)]
pub struct Logged {
    pub level: Level,
    pub message: &'static str,
    pub pid: Option<u32>,
    /// All facts as text.
    pub text: String,
}

/// What was logged.
#[derive(Clone, Default)]
pub struct Log(Arc<(Mutex<Vec<Logged>>, Condvar)>);

impl Log {
    fn add(&self, notice: &Notice<'_>) {
        let mut text = String::new();
        for (name, fact) in notice.facts {
            match fact {
                Fact::Text(value) => text.push_str(&format!("{name}={value}\n")),
                Fact::Number(value) => text.push_str(&format!("{name}={value}\n")),
            }
        }
        let logged = Logged {
            level: notice.level,
            message: notice.message,
            pid: notice.pid,
            text,
        };
        self.0.0.lock().expect("no panics").push(logged);
        self.0.1.notify_all();
    }

    pub fn all(&self) -> Vec<Logged> {
        self.0.0.lock().expect("no panics").clone()
    }

    /// How many entries have this text in their message or facts.
    pub fn count(&self, text: &str) -> usize {
        let has = |entry: &&Logged| entry.message.contains(text) || entry.text.contains(text);
        self.all().iter().filter(has).count()
    }

    /// Waits for an entry with this text in its message or facts; blocks the thread.
    pub fn wait_for(&self, text: &str) -> Logged {
        let until = Instant::now() + WAIT_TIMEOUT;
        let mut entries = self.0.0.lock().expect("no panics");
        loop {
            let has = |entry: &&Logged| entry.message.contains(text) || entry.text.contains(text);
            if let Some(found) = entries.iter().find(has) {
                return found.clone();
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "`{text}` was not logged: {entries:#?}");
            let waited = self.0.1.wait_timeout(entries, left);
            entries = waited.expect("no panics").0;
        }
    }

    /// Like [`Log::wait_for`], while other tasks run.
    pub async fn seen(&self, text: &str) -> Logged {
        eventually(&format!("`{text}` in the log"), || {
            let has = |entry: &Logged| entry.message.contains(text) || entry.text.contains(text);
            self.all().into_iter().find(has)
        })
        .await
    }
}

/// Groups with a log.
pub struct Host {
    pub groups: Groups,
    pub log: Log,
}

impl Host {
    /// For a server with this number of threads.
    pub fn new(workers: usize) -> Host {
        let log = Log::default();
        let sink = log.clone();
        let groups = Groups::new(
            workers,
            Arc::new(move |notice: &Notice<'_>| sink.add(notice)),
        );
        Host {
            groups: groups.expect("a thread can be started"),
            log,
        }
    }

    /// Starts an application and waits until it is ready.
    pub fn start(&self, settings: Settings) -> Application {
        let app = self.groups.obtain(settings);
        if let Err(failure) = app.wait_ready() {
            panic!("{failure:#?}\n{:#?}", self.log.all());
        }
        app
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.groups.shutdown(Duration::from_secs(1));
    }
}

/// Whether `python3` can be started; if not, the test is reported as skipped.
#[track_caller]
pub fn has_python() -> bool {
    can_run("python3", &["-V"])
}

/// Whether this is root, so that processes can be started as other users; if not, the test is reported as skipped.
#[track_caller]
pub fn is_root() -> bool {
    let is_root = sluice_net::sys::identity::is_root();
    if !is_root {
        skipped("only root may start processes as another user");
    }
    is_root
}

/// Runs a test on a thread of sluice: number `index` of `count`.
pub fn on_worker<T>(index: usize, count: usize, test: impl AsyncFnOnce(Rc<Worker>) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let worker = Worker::new(index, count);
        let ticking = worker.clone();
        let ticks = tokio::task::spawn_local(async move {
            loop {
                // The clock of a worker is advanced by time, here as in the server.
                tokio::time::sleep(Duration::from_millis(20)).await;
                ticking.clock.tick();
                ticking.timers.sweep(ticking.clock.coarse());
            }
        });
        let outcome = test(worker).await;
        ticks.abort();
        outcome
    })
}

/// Waits until `look` finds something.
pub async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + WAIT_TIMEOUT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "there was no {what} in time");
        // Between two looks at what nothing announces; other tasks of the thread go on meanwhile.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A request head.
pub fn head(method: &str, target: &str) -> RequestHead {
    let mut head = RequestHead {
        method: Method::from_token(method.as_bytes()).expect("a method"),
        target: target.as_bytes().to_vec(),
        ..RequestHead::default()
    };
    head.uri.set(target.as_bytes());
    head.fields.push(FieldId::Host, b"example.com");
    head.set_authority(b"example.com");
    head
}

/// The facts of a request without a body.
pub fn facts() -> Facts<'static> {
    Facts {
        client: Some(([203, 0, 113, 9], 50_000).into()),
        server: Some(([192, 0, 2, 1], 80).into()),
        scheme: Scheme::Http,
        root: b"",
        user: b"",
        content_length: None,
        tls: None,
    }
}

/// A body that is there at once.
pub struct Bytes {
    pub bytes: Vec<u8>,
    pub at: usize,
}

impl Bytes {
    pub fn body(bytes: &[u8]) -> RequestBody {
        RequestBody::Stream(Box::new(Bytes {
            bytes: bytes.to_vec(),
            at: 0,
        }))
    }
}

impl BodyStream for Bytes {
    fn len(&self) -> Option<u64> {
        Some((self.bytes.len() - self.at) as u64)
    }

    fn poll_data(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<&[u8], Failure>> {
        std::task::Poll::Ready(Ok(&self.bytes[self.at..]))
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
    }

    fn is_rewindable(&self) -> bool {
        true
    }

    fn rewind(&mut self) {
        self.at = 0;
    }
}

/// Begins a request.
pub async fn begin(
    app: &Application,
    worker: &Rc<Worker>,
    method: &str,
    target: &str,
    body: RequestBody,
) -> Result<Box<Call>, CallFailure> {
    let head = head(method, target);
    let facts = Facts {
        content_length: body.len(),
        ..facts()
    };
    let request = Request {
        head: &head,
        facts,
        body,
    };
    app.call(worker, request).await
}

/// The head of the response to a request.
pub async fn responded(call: &mut Call) -> Result<Response, CallFailure> {
    poll_fn(|cx| call.poll_response(cx)).await
}

/// The bytes of a response.
pub async fn content(body: Body, inline: Vec<u8>) -> Result<Vec<u8>, Failure> {
    match body {
        Body::Empty => Ok(Vec::new()),
        Body::Inline => Ok(inline),
        Body::Stream(mut stream) => Ok(read_whole(&mut *stream, usize::MAX)
            .await?
            .expect("there is no limit")),
        Body::File(slice) => {
            let mut bytes = vec![0; slice.len as usize];
            std::os::unix::fs::FileExt::read_exact_at(&*slice.file, &mut bytes, slice.start)
                .expect("the file is there");
            Ok(bytes)
        }
        Body::Shared(_) | Body::Tunnel(_) | Body::Abort => unreachable!("not from applications"),
    }
}

/// A whole response: its status and body.
pub async fn fetch(
    app: &Application,
    worker: &Rc<Worker>,
    method: &str,
    target: &str,
    body: RequestBody,
) -> Result<(u16, String), Why> {
    let called = begin(app, worker, method, target, body).await;
    let mut call = called.map_err(|failure| failure.why)?;
    let response = responded(&mut call).await.map_err(|failure| failure.why)?;
    let mut inline = Vec::new();
    let body = call.into_body(response.framing, &mut inline);
    let bytes = match body {
        Ok(body) => content(body, inline).await,
        Err(failure) => Err(failure),
    };
    let bytes = bytes.map_err(Why::Body)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok((response.head.status.code(), text))
}

/// The body of a GET, which has to succeed.
pub async fn get(app: &Application, worker: &Rc<Worker>, target: &str) -> String {
    match fetch(app, worker, "GET", target, RequestBody::None).await {
        Ok((200, text)) => text,
        other => panic!("{target}: {other:?}"),
    }
}

/// The PID of a process, as the application gives it.
pub async fn pid(app: &Application, worker: &Rc<Worker>) -> u32 {
    get(app, worker, "/pid").await.parse().expect("a PID")
}

/// Whether a process is there and not a zombie.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    !state.is_empty() && !state.starts_with('Z')
}

/// Runs `task` beside others.
pub fn beside<T: 'static>(task: impl Future<Output = T> + 'static) -> tokio::task::JoinHandle<T> {
    tokio::task::spawn_local(task)
}

/// A WSGI application for the tests.
pub const WSGI: &str = include_str!("wsgi_app.py");

/// An ASGI application for the tests.
pub const ASGI: &str = include_str!("asgi_app.py");

/// The path of a file beside the tests.
pub fn path_of(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}
