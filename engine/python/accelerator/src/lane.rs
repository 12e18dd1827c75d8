//! A lane as its requests see it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::frames::{HEADER_LEN, response_header};
use crate::headers::Texts;
use crate::limits::PART_BYTES_MAX;

/// A lane of the worker, and what its requests need of it.
pub struct Lane {
    /// The `Lane` of the worker.
    pub object: Py<PyAny>,
    /// Its streams by number.
    streams: Py<PyDict>,
    /// Frames that it will write.
    out: Py<PyList>,
    /// The most bytes of a body that are sent without regard to credit: the window, or one part.
    room: usize,
    /// The frame that is being delivered is the last one received.
    last: AtomicBool,
    /// Texts of its application.
    pub texts: Mutex<Texts>,
}

impl Lane {
    pub fn new(lane: &Bound<'_, PyAny>, window: usize) -> PyResult<Lane> {
        Ok(Lane {
            object: lane.clone().unbind(),
            streams: lane.getattr("streams")?.extract()?,
            out: lane.getattr("out")?.extract()?,
            room: window.min(PART_BYTES_MAX),
            last: AtomicBool::new(false),
            texts: Mutex::new(Texts::new()),
        })
    }

    pub fn streams<'py>(&self, py: Python<'py>) -> &Bound<'py, PyDict> {
        self.streams.bind(py)
    }

    /// Says whether further frames follow the one that is delivered next.
    pub fn set_last(&self, last: bool) {
        self.last.store(last, Relaxed);
    }

    /// Whether the lane has no other requests, so that a response has nothing to wait for.
    pub fn is_idle(&self, py: Python<'_>) -> bool {
        self.last.load(Relaxed) && self.streams(py).is_empty()
    }

    /// Whether a body of this size is sent in one frame.
    pub fn has_room(&self, size: usize) -> bool {
        size <= self.room
    }

    /// Writes a whole response in one frame, which ends its stream.
    pub fn respond(
        &self,
        py: Python<'_>,
        stream: u32,
        status: u16,
        block: &[u8],
        body: &[u8],
    ) -> PyResult<()> {
        let header = response_header(stream, status, block.len(), body.len());
        let size = HEADER_LEN + block.len() + body.len();
        let frame = PyBytes::new_with(py, size, |frame| {
            let (head, rest) = frame.split_at_mut(HEADER_LEN);
            head.copy_from_slice(&header);
            let (first, second) = rest.split_at_mut(block.len());
            first.copy_from_slice(block);
            second.copy_from_slice(body);
            Ok(())
        })?;
        self.out.bind(py).append(frame)?;
        self.streams(py).del_item(stream)
    }
}

/// Whether the method of a request is GET; `name` is that of the method in its dictionary.
pub fn is_get(request: &Bound<'_, PyDict>, name: &Bound<'_, PyString>) -> PyResult<bool> {
    let get = intern!(request.py(), "GET");
    match request.get_item(name)? {
        Some(method) => Ok(method.is(get) || method.eq(get)?),
        None => Ok(false),
    }
}
