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

use super::messages::Log;
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

/// Reads a control channel until its end; frames go to `heed`.
pub(super) async fn read(
    control: Rc<Control>,
    group: Arc<Group>,
    process: Option<Arc<Process>>,
    mut heed: impl FnMut(&Header, &[u8]),
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
                        heed(&header, payload);
                    }
                }
                Err(fault) => {
                    let facts = [("fault", Fact::Text(fault.to_string()))];
                    let message = "a Python worker violated the protocol of its control channel";
                    group.report_of(process.as_deref(), Level::Error, message, &facts);
                    return;
                }
            }
        }
    }
}

/// What a worker itself has to say.
pub(super) fn report_log(group: &Group, process: Option<&Process>, payload: &[u8]) {
    if let Ok(log) = serde_json::from_slice::<Log>(payload) {
        let level = log.level();
        let mut facts = vec![("text", Fact::Text(log.message))];
        facts.extend(log.traceback.map(|text| ("traceback", Fact::Text(text))));
        group.report_of(process, level, "Python worker", &facts);
    }
}
