//! The control channel of a process: small frames, read by a task and written by the supervisor.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use sluice_net::sys::rights;
use sluice_wire::python::{ControlReader, Header, Kind, encode_control};
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::inbox::{Event, Inbox};
use super::messages::{Failed, Log, Ready, Stats};
use crate::group::Group;
use crate::limits::CONTROL_READ_BYTES;
use crate::notice::{Fact, Level};
use crate::process::Process;

/// Our end of a control channel.
pub(super) struct Control {
    socket: UnixStream,
    /// What the process was not ready to take.
    unsent: RefCell<Vec<u8>>,
}

impl Control {
    pub fn new(socket: std::os::unix::net::UnixStream) -> io::Result<Control> {
        socket.set_nonblocking(true)?;
        Ok(Control {
            socket: UnixStream::from_std(socket)?,
            unsent: RefCell::default(),
        })
    }

    /// Sends a frame without a payload. A process that does not read gets it when it does.
    pub fn send(&self, kind: Kind) {
        encode_control(kind, 0, b"", &mut self.unsent.borrow_mut());
        self.flush();
    }

    /// Sends a frame with descriptors; returns whether that succeeded. It does not while the process does not read.
    pub fn send_descriptors(&self, kind: Kind, small: u16, descriptors: &[OwnedFd]) -> bool {
        self.flush();
        if !self.unsent.borrow().is_empty() {
            return false;
        }
        let mut frame = Vec::new();
        encode_control(kind, small, b"", &mut frame);
        let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        let sent = self.socket.try_io(Interest::WRITABLE, || {
            rights::send(self.socket.as_fd(), &frame, &borrowed)
        });
        match sent {
            Ok(count) => {
                self.unsent.borrow_mut().extend_from_slice(&frame[count..]);
                true
            }
            Err(_) => false,
        }
    }

    fn flush(&self) {
        let mut unsent = self.unsent.borrow_mut();
        while !unsent.is_empty() {
            match self.socket.try_write(&unsent) {
                Ok(count) => drop(unsent.drain(..count)),
                // It is sent with the next frame, or the process is gone.
                Err(_) => return,
            }
        }
    }
}

/// Reads the control channel of a process until its end.
pub(super) async fn read(
    control: Rc<Control>,
    group: Arc<Group>,
    process: Arc<Process>,
    inbox: Rc<Inbox>,
) {
    let mut reader = ControlReader::new();
    let mut buf = vec![0; CONTROL_READ_BYTES];
    loop {
        if control.socket.readable().await.is_err() {
            return;
        }
        let count = match control.socket.try_read(&mut buf) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => return,
        };
        control.flush();
        let mut rest = &buf[..count];
        while !rest.is_empty() {
            match reader.read(rest) {
                Ok((consumed, frame)) => {
                    rest = &rest[consumed..];
                    if let Some((header, payload)) = frame {
                        heed(&group, &process, &inbox, &header, payload);
                    }
                }
                Err(fault) => {
                    let facts = [("fault", Fact::Text(fault.to_string()))];
                    let message = "a Python worker violated the protocol of its control channel";
                    group.report_of(Some(&process), Level::Error, message, &facts);
                    return;
                }
            }
        }
    }
}

fn heed(group: &Group, process: &Process, inbox: &Inbox, header: &Header, payload: &[u8]) {
    match header.kind {
        Kind::Ready => {
            let ready = serde_json::from_slice::<Ready>(payload).ok();
            if let Some(greeting) = ready.and_then(Ready::greeting) {
                inbox.push(process.number, Event::Ready(greeting));
            }
        }
        Kind::Failed => {
            if let Ok(failed) = serde_json::from_slice::<Failed>(payload) {
                inbox.push(process.number, Event::Failed(failed.into()));
            }
        }
        Kind::Stats => {
            if let Ok(stats) = serde_json::from_slice::<Stats>(payload) {
                process.set_busy(stats.busy_us);
            }
        }
        Kind::Log => {
            if let Ok(log) = serde_json::from_slice::<Log>(payload) {
                let level = log.level();
                let mut facts = vec![("text", Fact::Text(log.message))];
                facts.extend(log.traceback.map(|text| ("traceback", Fact::Text(text))));
                group.report_of(Some(process), level, "Python worker", &facts);
            }
        }
        Kind::Draining => inbox.push(process.number, Event::Leaving),
        // Preloading parents send these; processes do not, and the reader accepts nothing else.
        _ => {}
    }
}
