//! Verifies passwords on dedicated threads: one verification takes as much CPU time as a thousand requests. The
//! handlers decide what to do about a wrong password.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use argon2::{Argon2, PasswordHash, PasswordVerifier};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::crypt::{self, Crypt};
use crate::limits::{PASSWORD_QUEUE_MAX, PASSWORD_THREADS_MAX};

/// A password hash.
#[derive(Debug, PartialEq, Eq)]
pub struct Hash {
    text: String,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Bcrypt,
    Argon2,
    Crypt(Crypt),
}

impl Hash {
    /// Parses a hash, or a base64-encoded hash as in configurations of old Caddy versions.
    pub(super) fn parse(text: &str) -> Option<Hash> {
        let text = match text.starts_with('$') {
            true => text.to_owned(),
            false => String::from_utf8(STANDARD.decode(text).ok()?).ok()?,
        };
        let kind = if text.starts_with("$argon2id$") {
            let parsed = PasswordHash::new(&text).ok()?;
            parsed.hash?;
            argon2::Params::try_from(&parsed).ok()?;
            Kind::Argon2
        } else {
            text.parse::<bcrypt::HashParts>().ok()?;
            Kind::Bcrypt
        };
        Some(Hash { text, kind })
    }

    /// Parses a hash from a user file: the formats of `htpasswd` and `crypt(3)`, except traditional DES.
    pub fn of_user_file(text: &str) -> Option<Hash> {
        if text.starts_with("$2") {
            return crypt::is_affordable(text)
                .then(|| Hash::parse(text))
                .flatten();
        }
        Crypt::parse(text).map(|crypt| Hash {
            text: text.to_owned(),
            kind: Kind::Crypt(crypt),
        })
    }

    /// Whether verification is too fast to be worth a thread; if so, `verify` may be called directly.
    pub fn is_quick(&self) -> bool {
        matches!(&self.kind, Kind::Crypt(crypt) if crypt.is_quick())
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// Whether the hash is that of `password`; compared in constant time.
    pub fn verify(&self, password: &[u8]) -> bool {
        match &self.kind {
            Kind::Bcrypt => bcrypt::verify(password, &self.text).unwrap_or(false),
            Kind::Argon2 => PasswordHash::new(&self.text)
                .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok()),
            Kind::Crypt(crypt) => crypt.verify(password),
        }
    }
}

/// The error that the queue is full.
#[derive(Debug, PartialEq, Eq)]
pub struct Busy;

/// Starts a verification; the future resolves to whether the password is right.
pub fn check(hash: Arc<Hash>, password: Vec<u8>) -> Result<Checking, Busy> {
    // One queue for all sites of the process, so that the number of threads does not grow with the configuration.
    static QUEUE: OnceLock<Option<Queue>> = OnceLock::new();
    let queue = QUEUE.get_or_init(Queue::start);
    queue.as_ref().ok_or(Busy)?.check(hash, password)
}

/// A verification in progress.
pub struct Checking {
    verdict: Arc<Mutex<Verdict>>,
}

#[derive(Default)]
struct Verdict {
    right: Option<bool>,
    waiting: Option<Waker>,
}

impl Future for Checking {
    type Output = bool;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        let mut verdict = self.verdict.lock().unwrap_or_else(PoisonError::into_inner);
        match verdict.right {
            Some(right) => Poll::Ready(right),
            None => {
                verdict.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

struct Job {
    hash: Arc<Hash>,
    password: Vec<u8>,
    verdict: Arc<Mutex<Verdict>>,
}

impl Drop for Job {
    /// Runs also if verification panicked, so that the request does not wait forever.
    fn drop(&mut self) {
        let mut verdict = self.verdict.lock().unwrap_or_else(PoisonError::into_inner);
        verdict.right.get_or_insert(false);
        if let Some(waiting) = verdict.waiting.take() {
            waiting.wake();
        }
    }
}

/// Verifications that wait for a thread, and the threads, which end with the queue.
pub(super) struct Queue(SyncSender<Job>);

impl Queue {
    /// Starts the threads. `None` if not one can be started.
    pub(super) fn start() -> Option<Queue> {
        let (sender, receiver) = sync_channel(PASSWORD_QUEUE_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let started = (0..cores.min(PASSWORD_THREADS_MAX))
            .filter(|_| start_thread(receiver.clone()).is_ok())
            .count();
        (started > 0).then_some(Queue(sender))
    }

    pub(super) fn check(&self, hash: Arc<Hash>, password: Vec<u8>) -> Result<Checking, Busy> {
        let verdict = Arc::new(Mutex::new(Verdict::default()));
        let job = Job {
            hash,
            password,
            verdict: verdict.clone(),
        };
        self.0.try_send(job).map_err(|_| Busy)?;
        Ok(Checking { verdict })
    }
}

fn start_thread(jobs: Arc<Mutex<Receiver<Job>>>) -> std::io::Result<()> {
    let work = move || {
        loop {
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(job) = job else { return };
            // A panic in a library fails this verification and leaves the thread running.
            let verify = std::panic::AssertUnwindSafe(|| job.hash.verify(&job.password));
            let right = std::panic::catch_unwind(verify).unwrap_or(false);
            job.verdict
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .right = Some(right);
        }
    };
    thread::Builder::new()
        .name("passwords".into())
        .spawn(work)
        .map(drop)
}
