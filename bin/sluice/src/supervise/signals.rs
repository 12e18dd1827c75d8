//! Signals: what each means, and the thread that waits for them. What is done then is left to the parent module.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread;

use sluice_net::sys::process::{Signal, Signals, exit_now};
use sluice_observe::log::Log;

use super::pidfile::Pidfile;
use super::{Event, LAST_LINES};
use crate::messages::Failed;

/// Whose signals a server understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners {
    /// Those of Caddy, <https://caddyserver.com/docs/command-line#signals>.
    Caddy,
    /// Those of nginx's master process, <https://nginx.org/en/docs/control.html>.
    Nginx,
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Reading the configuration again.
    Reload,
    /// Opening the log files again.
    Reopen,
    /// Letting requests end, then ending.
    Stop,
    /// Ending without waiting for requests.
    Halt,
    /// Ending the process on the spot, as if it had failed.
    Abort,
    /// Starting the program anew beside this process.
    Upgrade,
    /// Accepting no more, and staying.
    Withdraw,
    /// Nothing that there is.
    Unknown,
    /// Nothing, and that needs no word.
    Nothing,
}

impl Manners {
    /// What `signal` asks for.
    pub fn wish(self, signal: Signal) -> Wish {
        match (self, signal) {
            (Manners::Caddy, Signal::Hangup | Signal::User1) => Wish::Reload,
            (Manners::Caddy, Signal::Interrupt | Signal::Terminate) => Wish::Stop,
            (Manners::Caddy, Signal::Quit) => Wish::Abort,
            (Manners::Caddy, Signal::User2) => Wish::Unknown,
            (Manners::Caddy, Signal::Window) => Wish::Nothing,
            (Manners::Nginx, Signal::User2) => Wish::Upgrade,
            (Manners::Nginx, Signal::Window) => Wish::Withdraw,
            (Manners::Nginx, Signal::Hangup) => Wish::Reload,
            (Manners::Nginx, Signal::User1) => Wish::Reopen,
            (Manners::Nginx, Signal::Quit) => Wish::Stop,
            (Manners::Nginx, Signal::Interrupt | Signal::Terminate) => Wish::Halt,
        }
    }

    /// What the process ends with when a second signal cuts its end short.
    fn hasty_code(self) -> u8 {
        match self {
            Manners::Caddy => 2,
            Manners::Nginx => 0,
        }
    }
}

/// What the thread for signals needs.
pub struct Listening {
    /// The right to wait for them.
    pub signals: Signals,
    /// What they mean.
    pub manners: Manners,
    /// Where wishes go.
    pub sender: SyncSender<Event>,
    /// Set once the process ends.
    pub ending: Arc<AtomicBool>,
    /// To be removed by whoever ends the process.
    pub pidfile: Pidfile,
    /// Where it is told.
    pub log: Log,
}

impl Listening {
    /// Turns signals into events, in a thread of its own. The second wish to end ends the process at once, unless it is as
    /// patient as the first.
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
                Wish::Reload | Wish::Reopen | Wish::Upgrade | Wish::Withdraw | Wish::Unknown => {
                    false
                }
                Wish::Nothing => continue,
            };
            if at_once {
                self.log
                    .warn("", "ending at once")
                    .text("signal", signal.as_str())
                    .send();
                self.pidfile.remove();
                self.log.finish(LAST_LINES);
                exit_now(self.manners.hasty_code());
            }
            // A full queue has a reload in it already, or the process ends: a lost one changes nothing. A lost stop
            // would, so that one waits.
            if matches!(wish, Wish::Stop | Wish::Halt) {
                let _ = self.sender.send(Event::Signal(signal, wish));
            } else {
                let _ = self.sender.try_send(Event::Signal(signal, wish));
            }
        }
    }
}
