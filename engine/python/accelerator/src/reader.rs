//! The frames of a lane: what `Lane.parse` of the worker does.

use std::sync::Mutex;

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::asgi::{Asgi, Http};
use crate::frames::{END, HEADER_LEN, Header, OTHERS, REQUEST, response_header};
use crate::headers::Texts;
use crate::limits::{FRAME_BYTES_MAX, PART_BYTES_MAX};
use crate::marshal::Decoder;
use crate::wsgi::{Exchange, Wsgi};

/// Reads the frames of one lane, and begins its requests.
#[pyclass(frozen)]
pub struct Reader {
    pub lane: Py<PyAny>,
    streams: Py<PyDict>,
    out: Py<PyList>,
    loads: Py<PyAny>,
    garbage: Py<PyAny>,
    begin: Py<PyAny>,
    /// The most bytes of a body that are sent without regard to credit: the window, or one part.
    room: usize,
    /// Members of each request's dictionary.
    more: Option<Py<PyDict>>,
    pub wsgi: Option<Wsgi>,
    pub asgi: Option<Asgi>,
    /// `None`: this interpreter reads marshal differently, and requests are JSON.
    decoder: Option<Mutex<Decoder>>,
    pub texts: Mutex<Texts>,
}

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (lane, loads, garbage, window, marshal, more=None, wsgi=None, asgi=None))]
    #[expect(clippy::too_many_arguments, reason = "named arguments of Python")]
    fn new(
        lane: &Bound<'_, PyAny>,
        loads: Py<PyAny>,
        garbage: Py<PyAny>,
        window: usize,
        marshal: bool,
        more: Option<Py<PyDict>>,
        wsgi: Option<Wsgi>,
        asgi: Option<Asgi>,
    ) -> PyResult<Reader> {
        Ok(Reader {
            streams: lane.getattr("streams")?.extract()?,
            out: lane.getattr("out")?.extract()?,
            begin: lane.getattr("seat")?.getattr("begin")?.unbind(),
            lane: lane.clone().unbind(),
            loads,
            garbage,
            room: window.min(PART_BYTES_MAX),
            more,
            wsgi,
            asgi,
            decoder: marshal.then(|| Mutex::new(Decoder::new())),
            texts: Mutex::new(Texts::new()),
        })
    }

    /// Delivers all complete frames, and returns how many bytes they had.
    fn parse(slf: &Bound<'_, Reader>, data: &Bound<'_, PyBytes>) -> PyResult<usize> {
        let this = slf.get();
        let bytes = data.as_bytes();
        let mut at = 0;
        while let Some(header) = bytes.get(at..).and_then(<[u8]>::first_chunk::<HEADER_LEN>) {
            let header = Header::decode(header);
            let begin = at + HEADER_LEN;
            let Some(payload) = bytes.get(begin..begin + header.length) else {
                if header.length > FRAME_BYTES_MAX {
                    return Err(
                        this.garbage(slf.py(), format!("a frame of {} bytes", header.length))
                    );
                }
                break;
            };
            if let Err(error) = this.deliver(slf, &header, payload) {
                let py = slf.py();
                if !error.is_instance_of::<PyException>(py) {
                    return Err(error);
                }
                let text = error.value(py).repr()?;
                return Err(this.garbage(py, format!("a frame of type {:#x}: {text}", header.kind)));
            }
            at = begin + header.length;
        }
        Ok(at)
    }
}

impl Reader {
    /// Ends the process, since the other side does not speak the protocol. Returns only where a test prevents the end.
    fn garbage(&self, py: Python<'_>, what: String) -> PyErr {
        match self.garbage.call1(py, (&what,)) {
            Ok(_) => PyRuntimeError::new_err(what),
            Err(error) => error,
        }
    }

    fn deliver(&self, slf: &Bound<'_, Reader>, header: &Header, payload: &[u8]) -> PyResult<()> {
        let py = slf.py();
        let streams = self.streams.bind(py);
        if header.kind == REQUEST {
            if header.stream == 0 || streams.contains(header.stream)? {
                return Err(self.garbage(py, format!("request {} is not new", header.stream)));
            }
            return self.request(slf, header, payload);
        }
        let Some(stream) = streams.get_item(header.stream)? else {
            if OTHERS.contains(&header.kind) {
                return Ok(());
            }
            return Err(self.garbage(py, format!("a frame of type {:#x}", header.kind)));
        };
        let stream = if let Ok(exchange) = stream.cast_exact::<Exchange>() {
            Exchange::promote(exchange)?
        } else if let Ok(http) = stream.cast_exact::<Http>() {
            Http::promote(http)?
        } else {
            stream
        };
        stream.call_method1(
            intern!(py, "receive_frame"),
            (
                header.kind,
                header.flags,
                header.small,
                header.large,
                PyBytes::new(py, payload),
            ),
        )?;
        Ok(())
    }

    fn request(&self, slf: &Bound<'_, Reader>, header: &Header, payload: &[u8]) -> PyResult<()> {
        let py = slf.py();
        let dict = self.dictionary(py, payload)?;
        if header.flags == END {
            if let Some(wsgi) = &self.wsgi
                && wsgi.begin(slf, header.stream, &dict)?
            {
                return Ok(());
            }
            if let Some(asgi) = &self.asgi
                && asgi.begin(slf, header.stream, &dict)?
            {
                return Ok(());
            }
        }
        self.begin
            .call1(py, (&self.lane, header.stream, header.flags, dict))?;
        Ok(())
    }

    fn dictionary<'py>(&self, py: Python<'py>, payload: &[u8]) -> PyResult<Bound<'py, PyDict>> {
        let more = self.more.as_ref().map(|more| more.bind(py));
        // A decoder that is in use below this call on the stack leaves the work to Python.
        if let Some(mut decoder) = self
            .decoder
            .as_ref()
            .and_then(|decoder| decoder.try_lock().ok())
            && let Ok(dict) = decoder.decode(py, payload, more)
        {
            return Ok(dict);
        }
        let dict = self.loads.bind(py).call1((PyBytes::new(py, payload),))?;
        let dict = dict.cast_into::<PyDict>()?;
        if let Some(more) = more {
            dict.update(more.as_mapping())?;
        }
        Ok(dict)
    }

    pub fn streams<'py>(&self, py: Python<'py>) -> &Bound<'py, PyDict> {
        self.streams.bind(py)
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
