//! Signals: their meanings, and the thread that waits for them. The parent module acts on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread;

use sluice_net::sys::process::{Signal, Signals, exit_now};
use sluice_observe::log::Log;

use super::pidfile::Pidfile;
use super::{Event, LAST_LINES};
use crate::messages::Failed;

/// Which program's signals a server understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners {
    /// Those of Caddy, <https://caddyserver.com/docs/command-line#signals>.
    Caddy,
    /// Those of nginx's master process, <https://nginx.org/en/docs/control.html>.
    Nginx,
}

/// The meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Reload the configuration.
    Reload,
    /// Reopen the log files.
    Reopen,
    /// Drain the connections, then exit.
    Stop,
    /// Exit without waiting for requests.
    Halt,
    /// Exit immediately with an error code.
    Abort,
    /// Binary upgrade: start the new program beside this process.
    Upgrade,
    /// Stop accepting connections, but stay.
    Withdraw,
    /// Ignored silently.
    Nothing,
}

impl Manners {
    /// The meaning of `signal`.
    pub fn wish(self, signal: Signal) -> Wish {
        match (self, signal) {
            (Manners::Caddy, Signal::Hangup | Signal::User1) => Wish::Reload,
            (Manners::Caddy, Signal::Interrupt | Signal::Terminate) => Wish::Stop,
            (Manners::Caddy, Signal::Quit) => Wish::Abort,
            (Manners::Caddy, Signal::Window) => Wish::Nothing,
            (Manners::Caddy | Manners::Nginx, Signal::User2) => Wish::Upgrade,
            (Manners::Nginx, Signal::Window) => Wish::Withdraw,
            (Manners::Nginx, Signal::Hangup) => Wish::Reload,
            (Manners::Nginx, Signal::User1) => Wish::Reopen,
            (Manners::Nginx, Signal::Quit) => Wish::Stop,
            (Manners::Nginx, Signal::Interrupt | Signal::Terminate) => Wish::Halt,
        }
    }

    /// The exit code if a second signal cuts the shutdown short.
    fn hasty_code(self) -> u8 {
        match self {
            Manners::Caddy => 2,
            Manners::Nginx => 0,
        }
    }
}

/// What the signal thread needs.
pub struct Listening {
    /// Permission to wait for signals.
    pub signals: Signals,
    /// Their meanings.
    pub manners: Manners,
    /// Where events go.
    pub sender: SyncSender<Event>,
    /// Set once the process is stopping.
    pub ending: Arc<AtomicBool>,
    /// Removed before an immediate exit.
    pub pidfile: Pidfile,
    /// The log for received signals.
    pub log: Log,
}

impl Listening {
    /// Starts a thread that turns signals into events. A second request to exit ends the process immediately, unless it
    /// is a graceful one like the first.
    pub fn start(self) -> Result<(), Failed> {
        thread::Builder::new()
            .name("signals".into())
            .spawn(move || self.listen())
            .map_err(Failed::new)?;
        Ok(())
    }

    fn listen(self) {
        loop {
            let signal = self.signals.wait();
            let wish = self.manners.wish(signal);
            let at_once = match wish {
                Wish::Abort => true,
                Wish::Halt => self.ending.swap(true, Ordering::AcqRel),
                Wish::Stop => {
                    let ended = self.ending.swap(true, Ordering::AcqRel);
                    ended && self.manners == Manners::Caddy
                }
                Wish::Reload | Wish::Reopen | Wish::Upgrade | Wish::Withdraw => false,
                Wish::Nothing => continue,
            };
            if at_once {
                self.log
                    .warn("", "exiting at once")
                    .text("signal", signal.as_str())
                    .send();
                self.pidfile.remove();
                self.log.finish(LAST_LINES);
                exit_now(self.manners.hasty_code());
            }
            // A full queue already contains a reload, or the process is stopping: losing this event changes nothing. A
            // stop must not be lost, so it waits.
            if matches!(wish, Wish::Stop | Wish::Halt) {
                let _ = self.sender.send(Event::Signal(signal, wish));
            } else {
                let _ = self.sender.try_send(Event::Signal(signal, wish));
            }
        }
    }
}
