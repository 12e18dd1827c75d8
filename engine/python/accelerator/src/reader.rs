//! The frames of a lane: what `Lane.parse` of the worker does.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::asgi::{self, Asgi, Http};
use crate::frames::{END, HEADER_LEN, Header, OTHERS, REQUEST};
use crate::lane::Lane;
use crate::limits::FRAME_BYTES_MAX;
use crate::marshal::Decoder;
use crate::wsgi::{self, Exchange, Wsgi};

/// Reads the frames of one lane, and begins its requests.
#[pyclass(frozen)]
pub struct Reader {
    lane: Arc<Lane>,
    loads: Py<PyAny>,
    garbage: Py<PyAny>,
    begin: Py<PyAny>,
    /// Members of each request's dictionary.
    more: Option<Py<PyDict>>,
    wsgi: Option<Arc<Wsgi>>,
    asgi: Option<Arc<Asgi>>,
    /// `None`: this interpreter reads marshal differently, and requests are JSON.
    decoder: Option<Mutex<Decoder>>,
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
        wsgi: Option<wsgi::Calls>,
        asgi: Option<asgi::Calls>,
    ) -> PyResult<Reader> {
        let shared = Arc::new(Lane::new(lane, window)?);
        Ok(Reader {
            begin: lane.getattr("seat")?.getattr("begin")?.unbind(),
            loads,
            garbage,
            more,
            wsgi: wsgi.map(|calls| Arc::new(Wsgi::new(shared.clone(), calls))),
            asgi: asgi.map(|calls| Arc::new(Asgi::new(shared.clone(), calls))),
            lane: shared,
            decoder: marshal.then(|| Mutex::new(Decoder::new())),
        })
    }

    /// Delivers all complete frames, and returns how many bytes they had.
    fn parse(&self, data: &Bound<'_, PyBytes>) -> PyResult<usize> {
        let py = data.py();
        let bytes = data.as_bytes();
        let mut at = 0;
        while let Some(header) = bytes.get(at..).and_then(<[u8]>::first_chunk::<HEADER_LEN>) {
            let header = Header::decode(header);
            let begin = at + HEADER_LEN;
            let Some(payload) = bytes.get(begin..begin.saturating_add(header.length)) else {
                if header.length > FRAME_BYTES_MAX {
                    return Err(self.garbage(py, format!("a frame of {} bytes", header.length)));
                }
                break;
            };
            at = begin + header.length;
            self.lane.set_last(at == bytes.len());
            if let Err(error) = self.deliver(py, &header, payload) {
                if !error.is_instance_of::<PyException>(py) {
                    return Err(error);
                }
                let text = error.value(py).repr()?;
                return Err(self.garbage(py, format!("a frame of type {:#x}: {text}", header.kind)));
            }
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

    fn deliver(&self, py: Python<'_>, header: &Header, payload: &[u8]) -> PyResult<()> {
        let streams = self.lane.streams(py);
        if header.kind == REQUEST {
            if header.stream == 0 || streams.contains(header.stream)? {
                return Err(self.garbage(py, format!("request {} is not new", header.stream)));
            }
            return self.request(py, header, payload);
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

    fn request(&self, py: Python<'_>, header: &Header, payload: &[u8]) -> PyResult<()> {
        let dict = self.dictionary(py, payload)?;
        if header.flags == END {
            if let Some(wsgi) = &self.wsgi
                && wsgi.begin(py, header.stream, &dict)?
            {
                return Ok(());
            }
            if let Some(asgi) = &self.asgi
                && asgi.begin(py, header.stream, &dict)?
            {
                return Ok(());
            }
        }
        self.begin
            .call1(py, (&self.lane.object, header.stream, header.flags, dict))?;
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
}
