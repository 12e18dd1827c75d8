//! An engine as a child process of a test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::wait::until;

/// A lease time that ends soon, for tests of a holder that has died.
pub const SHORT_LEASE: Duration = Duration::from_secs(2);

/// A running engine, killed on drop.
pub struct Engine {
    child: Child,
    log: PathBuf,
}

impl Engine {
    /// Starts it, with its output in the file `log`.
    pub fn start(command: &mut Command, log: &Path) -> Engine {
        let out = File::create(log).unwrap();
        let err = out.try_clone().unwrap();
        let command = command.stdin(Stdio::null()).stdout(out).stderr(err);
        let child = command.spawn();
        Engine {
            child: child.unwrap_or_else(|error| panic!("{command:?} does not start: {error}")),
            log: log.to_owned(),
        }
    }

    /// Waits until it is ready, as long as it runs.
    pub fn wait_until(&mut self, is_ready: impl Fn() -> bool) {
        let log = self.log.clone();
        let shown = || std::fs::read_to_string(&log).unwrap_or_default();
        let child = &mut self.child;
        let look = || {
            if is_ready() {
                return Some(());
            }
            if let Some(status) = child.try_wait().unwrap() {
                panic!("the engine ended with {status}:\n{}", shown());
            }
            None
        };
        until(crate::wait::TIMEOUT, "the engine", look, shown);
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once, as `kill -9` does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.kill();
    }
}
