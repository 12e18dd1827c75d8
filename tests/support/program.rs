//! Programs that tests start beside the server under test.

use std::fs::File;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use sluice_net::sys::process::{Signal, send};

use super::wait::{TIMEOUT, until};

/// How long a program may take to end after the signal.
const END: Duration = Duration::from_secs(10);

/// A running program, which gets a signal to end on drop.
pub struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts it with its output in the file `log`, and without input.
    pub fn start(command: &mut Command, log: impl Into<PathBuf>) -> Program {
        let log = log.into();
        let out = File::create(&log).expect("the folder is writable");
        let err = out.try_clone().expect("a second descriptor");
        let command = command.stdin(Stdio::null()).stdout(out).stderr(err);
        match command.spawn() {
            Ok(child) => Program { child, log },
            Err(error) => panic!("{command:?} does not start: {error}"),
        }
    }

    /// Waits until something listens on the port.
    pub fn listening(self, port: u16) -> Program {
        self.waiting(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())
    }

    /// Waits until it is ready, as long as it runs.
    pub fn waiting(mut self, is_ready: impl Fn() -> bool) -> Program {
        let log = self.log.clone();
        let child = &mut self.child;
        let look = || {
            let ended = child.try_wait().expect("it is our child");
            match ended {
                _ if is_ready() => Some(Ok(())),
                Some(status) => Some(Err(status)),
                None => None,
            }
        };
        let ready: Result<(), ExitStatus> = until(TIMEOUT, "the program", look, || read(&log));
        if let Err(status) = ready {
            panic!("it ended with {status}:\n{}", self.output());
        }
        self
    }

    /// Its output so far.
    pub fn output(&self) -> String {
        read(&self.log)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

/// Sends a signal to a process, for those that the server does not know: `STOP` and `CONT`.
pub fn signal(pid: u32, name: &str) {
    // It is a shell builtin; a program `kill` does not exist everywhere.
    let mut command = Command::new("sh");
    command.args(["-c", "kill -\"$0\" \"$1\"", name, &pid.to_string()]);
    let status = command.status().expect("a shell is there");
    assert!(status.success(), "{command:?}: {status}");
}

fn read(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Drop for Program {
    fn drop(&mut self) {
        // Not killed at once: workers of nginx and php-fpm would keep running.
        let _ = send(self.child.id(), Signal::Terminate);
        let end = std::time::Instant::now() + END;
        while matches!(self.child.try_wait(), Ok(None)) {
            if std::time::Instant::now() > end {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            // The end of a child within a time is only seen by looking.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
