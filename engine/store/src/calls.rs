//! What the engines have in common: counters of calls, a pause after refused credentials, checks of writes, and texts
//! that identify the holder of a lease.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::failure::{Fault, StoreError};
use crate::limits::{CREDENTIALS_PAUSE, LEASE_PAUSE, VALUE_BYTES_MAX, WRITES_MAX};
use crate::values::Write;

/// What a store has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Calls of the engine. Those that a pause after refused credentials has suppressed are not counted.
    pub requests: u64,
    /// Calls that failed. A lease that is held and a guard that does not hold are results, not failures.
    pub failures: u64,
    /// The time spent in calls.
    pub time: Duration,
    /// Reads that no quorum confirmed, and that may be older than the last write.
    pub stale_reads: u64,
}

/// Whether a request was sent more than once.
#[cfg(any(feature = "etcd", feature = "redis"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Once, as far as the engine can have received it.
    First,
    /// Again, after an attempt that may have had its effect.
    Repeated,
}

/// The counters of one store.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    requests: AtomicU64,
    failures: AtomicU64,
    microseconds: AtomicU64,
    stale_reads: AtomicU64,
    /// When the engine refused the credentials, and how.
    refused: Mutex<Option<(Instant, StoreError)>>,
}

impl Calls {
    /// Makes a call and counts it. After refused credentials no call is made for a while: the same error is returned.
    pub(crate) fn run<T>(
        &self,
        call: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        if let Some((at, error)) = &*self.refused.lock().unwrap_or_else(PoisonError::into_inner)
            && began.duration_since(*at) < CREDENTIALS_PAUSE
        {
            return Err(error.clone());
        }
        let result = call();
        self.requests.fetch_add(1, Ordering::Relaxed);
        let spent = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.microseconds.fetch_add(spent, Ordering::Relaxed);
        if let Err(error) = &result {
            if !matches!(error.fault, Fault::Refused | Fault::Held) {
                self.failures.fetch_add(1, Ordering::Relaxed);
            }
            if error.fault == Fault::Credentials {
                let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
                *refused = Some((Instant::now(), error.clone()));
            }
        }
        result
    }

    /// Counts a read that no quorum confirmed.
    pub(crate) fn stale_read(&self) {
        self.stale_reads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn statistics(&self) -> Statistics {
        Statistics {
            requests: self.requests.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            time: Duration::from_micros(self.microseconds.load(Ordering::Relaxed)),
            stale_reads: self.stale_reads.load(Ordering::Relaxed),
        }
    }
}

/// The writes of a call, of several of one key the last.
///
/// # Errors
/// [`Fault::Limit`] if there are too many, or a value is too large.
pub(crate) fn checked<'a>(writes: &[Write<'a>], place: &str) -> Result<Vec<Write<'a>>, StoreError> {
    let mut last: Vec<Write<'a>> = Vec::with_capacity(writes.len());
    for write in writes {
        if let Write::Put(key, bytes) = write
            && bytes.len() > VALUE_BYTES_MAX
        {
            let what = format!("the value of `{key}` exceeds {VALUE_BYTES_MAX} bytes");
            return Err(StoreError::new(Fault::Limit, place, what));
        }
        last.retain(|other| other.key() != write.key());
        last.push(*write);
        if last.len() > WRITES_MAX {
            let what = format!("more than {WRITES_MAX} values are written together");
            return Err(StoreError::new(Fault::Limit, place, what));
        }
    }
    Ok(last)
}

/// Attempts to take a lease until nobody else holds it, for up to `timeout`.
pub(crate) fn taken_within<T>(
    timeout: Duration,
    attempt: impl Fn() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let began = Instant::now();
    loop {
        match attempt() {
            Err(error) if error.fault == Fault::Held => {
                let left = timeout.saturating_sub(began.elapsed());
                if left.is_zero() {
                    return Err(error);
                }
                std::thread::sleep(LEASE_PAUSE.min(left));
            }
            other => return other,
        }
    }
}

/// Whom a lock names as its holder: `by HOST/PID`, without the random part of the text.
pub(crate) fn held_by(name: &str, holder: &[u8]) -> String {
    let holder = String::from_utf8_lossy(holder);
    match holder.rsplit_once('/') {
        Some((node, _)) => format!("`{name}`, by {node}"),
        None => format!("`{name}`"),
    }
}

/// A random text of 32 hexadecimal digits, to recognize what this process has written.
pub(crate) fn random_text() -> String {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).expect("aws-lc always has random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A text that no other holder of a lease has, with the host and the PID for operators.
pub(crate) fn holder() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let pid = std::process::id();
    format!("{}/{pid}/{}", host.trim(), random_text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    #[test]
    fn refused_credentials_are_not_tried_again_at_once() {
        let calls = Calls::default();
        let refuse = || StoreError::new(Fault::Credentials, "x", "wrong password");
        assert_eq!(calls.run(|| Err::<(), _>(refuse())), Err(refuse()));
        let mut was_called = false;
        let again = calls.run(|| {
            was_called = true;
            Ok(())
        });
        assert_eq!(again, Err(refuse()));
        assert!(!was_called);
        let counted = calls.statistics();
        assert_eq!((counted.requests, counted.failures), (1, 1));
    }

    #[test]
    fn of_several_writes_of_a_key_the_last_counts() {
        let (a, b) = (Key::new("a").unwrap(), Key::new("b").unwrap());
        let writes = [
            Write::Put(&a, b"1"),
            Write::Put(&b, b"2"),
            Write::Delete(&a),
        ];
        let kept = checked(&writes, "x").unwrap();
        assert!(matches!(
            kept[..],
            [Write::Put(_, b"2"), Write::Delete(key)] if *key == a
        ));
        let keys: Vec<Key> = (0..65)
            .map(|n| Key::new(format!("k{n}")).unwrap())
            .collect();
        let many: Vec<_> = keys.iter().map(Write::Delete).collect();
        assert_eq!(checked(&many, "x").unwrap_err().fault, Fault::Limit);
        assert!(checked(&many[1..], "x").is_ok());
    }
}
