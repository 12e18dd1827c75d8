//! ASGI: GET requests without a body whose response is one piece.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use pyo3::exceptions::PyStopIteration;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PyList, PyTuple};

use crate::headers::{Block, bytes_block};
use crate::lane::{Lane, is_get};

/// What the worker gives for the requests of an ASGI seat.
#[derive(FromPyObject)]
pub struct Calls {
    /// Starts the task of a request: `(lane, stream, scope)`.
    #[pyo3(item(0))]
    start: Py<PyAny>,
    /// Makes an `AsgiHttp` of the state of an `Http`.
    #[pyo3(item(1))]
    promote: Py<PyAny>,
    /// The streams whose application still runs, and their tasks.
    #[pyo3(item(2))]
    active: Py<PyDict>,
    /// Streams that hold their response's head until the next flush.
    #[pyo3(item(3))]
    heads: Py<PyList>,
    /// A scope's `asgi`.
    #[pyo3(item(4))]
    version: Py<PyDict>,
    /// A scope's `extensions`.
    #[pyo3(item(5))]
    extensions: Py<PyDict>,
    /// The `http.request` message of an empty body.
    #[pyo3(item(6))]
    request: Py<PyDict>,
}

/// What the requests of a lane have in common.
pub struct Asgi {
    lane: Arc<Lane>,
    calls: Calls,
}

impl Asgi {
    pub fn new(lane: Arc<Lane>, calls: Calls) -> Asgi {
        Asgi { lane, calls }
    }

    /// Begins a request, if it is one for `Http`.
    pub fn begin(
        self: &Arc<Self>,
        py: Python<'_>,
        number: u32,
        scope: &Bound<'_, PyDict>,
    ) -> PyResult<bool> {
        if !is_get(scope, intern!(py, "method"))? {
            return Ok(false);
        }
        scope.set_item(intern!(py, "asgi"), self.calls.version.bind(py).copy()?)?;
        let name = intern!(py, "extensions");
        match scope.get_item(name)? {
            Some(own) => own
                .cast::<PyDict>()?
                .update(self.calls.extensions.bind(py).as_mapping())?,
            None => scope.set_item(name, self.calls.extensions.bind(py).copy()?)?,
        }
        let stream = Bound::new(
            py,
            Http {
                site: self.clone(),
                number,
                status: AtomicU16::new(0),
                block: Mutex::new(None),
                body_given: AtomicBool::new(false),
                done: AtomicBool::new(false),
                promoted: OnceLock::new(),
            },
        )?;
        self.lane.streams(py).set_item(number, &stream)?;
        self.calls
            .start
            .call1(py, (&self.lane.object, stream, scope))?;
        Ok(true)
    }
}

/// A request to an ASGI application: `AsgiHttp` of the worker for the simplest case.
#[pyclass(frozen)]
pub struct Http {
    site: Arc<Asgi>,
    number: u32,
    /// 0 before `http.response.start`.
    status: AtomicU16,
    block: Mutex<Option<Block>>,
    /// The application has received the end of the request body.
    body_given: AtomicBool,
    done: AtomicBool,
    promoted: OnceLock<Py<PyAny>>,
}

#[pymethods]
impl Http {
    /// Whether END was sent.
    #[getter]
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        match self.promoted.get() {
            Some(promoted) => promoted.bind(py).getattr(intern!(py, "done"))?.extract(),
            None => Ok(self.done.load(Relaxed)),
        }
    }

    /// Whether the head of the response was sent: with the body, unless the worker has taken over.
    #[getter]
    fn head_sent(&self, py: Python<'_>) -> PyResult<bool> {
        match self.promoted.get() {
            Some(promoted) => promoted
                .bind(py)
                .getattr(intern!(py, "head_sent"))?
                .extract(),
            None => Ok(self.done.load(Relaxed)),
        }
    }

    #[setter]
    fn set_cancelled(slf: &Bound<'_, Self>, value: bool) -> PyResult<()> {
        Http::promote(slf)?.setattr(intern!(slf.py(), "cancelled"), value)
    }

    /// The stream that stands in the tables of the worker: this one, or the one that has taken its place.
    #[getter]
    fn actual<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyAny> {
        match slf.get().promoted.get() {
            Some(promoted) => promoted.bind(slf.py()).clone(),
            None => slf.clone().into_any(),
        }
    }

    fn wake(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(promoted) = self.promoted.get() {
            promoted.bind(py).call_method0(intern!(py, "wake"))?;
        }
        Ok(())
    }

    /// Writes the head of the response, since the body does not come.
    fn respond<'py>(
        slf: &Bound<'py, Self>,
        data: &Bound<'py, PyAny>,
        end: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        Http::promote(slf)?.call_method1(intern!(slf.py(), "respond"), (data, end))
    }

    /// ASGI's `receive`.
    fn receive(slf: &Bound<'_, Self>) -> Call {
        Call::new(slf, None)
    }

    /// ASGI's `send`.
    fn send(slf: &Bound<'_, Self>, message: Py<PyAny>) -> Call {
        Call::new(slf, Some(message))
    }

    /// The worker's own stream, which has taken this one's place.
    pub fn promote<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        if let Some(promoted) = this.promoted.get() {
            return Ok(promoted.bind(py).clone());
        }
        let lane = &this.site.lane;
        let calls = &this.site.calls;
        let block = this
            .block
            .try_lock()
            .ok()
            .and_then(|mut block| block.take());
        let done = this.done.load(Relaxed);
        let promoted = calls.promote.bind(py).call1((
            &lane.object,
            this.number,
            this.status.load(Relaxed),
            PyBytes::new(py, block.as_ref().map_or(&[], |block| &block.bytes)),
            block.as_ref().and_then(|block| block.length),
            this.body_given.load(Relaxed),
            done,
        ))?;
        if !done {
            lane.streams(py).set_item(this.number, &promoted)?;
        }
        let active = calls.active.bind(py);
        if let Some(task) = active.get_item(slf)? {
            active.set_item(&promoted, task)?;
            active.del_item(slf)?;
        }
        _ = this.promoted.set(promoted.clone().unbind());
        Ok(promoted)
    }
}

impl Http {
    /// The next message, if it is there.
    fn next_message<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.promoted.get().is_some()
            || self.done.load(Relaxed)
            || self.body_given.swap(true, Relaxed)
        {
            return Ok(None);
        }
        Ok(Some(self.site.calls.request.bind(py).copy()?.into_any()))
    }

    /// Sends a message, if it is one of a plain response.
    fn send_quickly(slf: &Bound<'_, Self>, message: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = slf.py();
        let this = slf.get();
        let Ok(message) = message.cast_exact::<PyDict>() else {
            return Ok(false);
        };
        if this.promoted.get().is_some() || this.done.load(Relaxed) {
            return Ok(false);
        }
        let Some(kind) = message.get_item(intern!(py, "type"))? else {
            return Ok(false);
        };
        let started = this.status.load(Relaxed) != 0;
        let expected: &[u8] = match started {
            false => b"http.response.start",
            true => b"http.response.body",
        };
        // Not a comparison of texts: one object of the application has been compared before.
        let Ok(mut texts) = this.site.lane.texts.try_lock() else {
            return Ok(false);
        };
        if texts.bytes(&kind) != Some(expected) {
            return Ok(false);
        }
        drop(texts);
        match started {
            false => Http::start(slf, message),
            true => this.finish(py, message),
        }
    }

    fn start(slf: &Bound<'_, Self>, message: &Bound<'_, PyDict>) -> PyResult<bool> {
        let py = slf.py();
        let this = slf.get();
        let (Some(status), Some(headers)) = (
            message.get_item(intern!(py, "status"))?,
            message.get_item(intern!(py, "headers"))?,
        ) else {
            return Ok(false);
        };
        let (Ok(status), Ok(headers)) =
            (status.cast_exact::<PyInt>(), headers.cast_exact::<PyList>())
        else {
            return Ok(false);
        };
        let (Ok(status @ (200..=203 | 205..=303 | 305..=999)), Some(block), Ok(mut place)) = (
            status.extract::<u16>(),
            bytes_block(headers),
            this.block.try_lock(),
        ) else {
            return Ok(false);
        };
        if message.contains(intern!(py, "trailers"))? {
            return Ok(false);
        }
        *place = Some(block);
        this.status.store(status, Relaxed);
        drop(place);
        this.site.calls.heads.bind(py).append(slf)?;
        let lane = this.site.lane.object.bind(py);
        if !lane.getattr(intern!(py, "scheduled"))?.is_truthy()? {
            lane.call_method0(intern!(py, "schedule"))?;
        }
        Ok(true)
    }

    fn finish(&self, py: Python<'_>, message: &Bound<'_, PyDict>) -> PyResult<bool> {
        let body = message.get_item(intern!(py, "body"))?;
        let Some(Ok(body)) = body.as_ref().map(|body| body.cast_exact::<PyBytes>()) else {
            return Ok(false);
        };
        if let Some(more) = message.get_item(intern!(py, "more_body"))?
            && !more.is(PyBool::new(py, false))
        {
            return Ok(false);
        }
        let body = body.as_bytes();
        let lane = &self.site.lane;
        let Ok(place) = self.block.try_lock() else {
            return Ok(false);
        };
        let Some(block) = place.as_ref() else {
            return Ok(false);
        };
        if block.length.is_some_and(|length| length != body.len()) || !lane.has_room(body.len()) {
            return Ok(false);
        }
        self.done.store(true, Relaxed);
        lane.respond(
            py,
            self.number,
            self.status.load(Relaxed),
            &block.bytes,
            body,
        )?;
        drop(place);
        let object = lane.object.bind(py);
        object.call_method1(intern!(py, "flush_soon"), (lane.is_idle(py),))?;
        Ok(true)
    }
}

/// A call of `receive` or `send`, which happens when it is awaited, as that of a coroutine function does. What cannot be
/// done at once is left to the coroutine of the worker's own stream.
#[pyclass(frozen)]
pub struct Call {
    stream: Py<Http>,
    /// `None` for `receive`.
    message: Option<Py<PyAny>>,
    state: OnceLock<State>,
}

enum State {
    /// It is done; the message that was received.
    Ready(Option<Py<PyAny>>),
    /// The coroutine that does it.
    Coroutine(Py<PyAny>),
}

#[pymethods]
impl Call {
    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        match slf.get().begin(slf.py())? {
            State::Ready(_) => Ok(slf.clone().into_any()),
            State::Coroutine(coroutine) => coroutine
                .bind(slf.py())
                .call_method0(intern!(slf.py(), "__await__")),
        }
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        match self.begin(py)? {
            State::Ready(None) => Ok(None),
            State::Ready(Some(value)) => Err(PyStopIteration::new_err((value.clone_ref(py),))),
            State::Coroutine(coroutine) => {
                let value = coroutine
                    .bind(py)
                    .call_method1(intern!(py, "send"), (py.None(),));
                Ok(Some(value?.unbind()))
            }
        }
    }

    /// A task that was made of this call steps it with `send`, `throw` and `close`.
    fn send<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = value.py();
        match self.begin(py)? {
            State::Ready(None) => Err(PyStopIteration::new_err(())),
            State::Ready(Some(value)) => Err(PyStopIteration::new_err((value.clone_ref(py),))),
            State::Coroutine(coroutine) => coroutine
                .bind(py)
                .call_method1(intern!(py, "send"), (value,)),
        }
    }

    #[pyo3(signature = (*arguments))]
    fn throw<'py>(&self, arguments: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = arguments.py();
        // Where nothing has happened yet, the coroutine raises the exception.
        let coroutine = self.coroutine(py)?;
        coroutine
            .bind(py)
            .call_method1(intern!(py, "throw"), arguments)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if let State::Coroutine(coroutine) = self.state.get_or_init(|| State::Ready(None)) {
            coroutine.bind(py).call_method0(intern!(py, "close"))?;
        }
        Ok(())
    }
}

impl Call {
    fn new(stream: &Bound<'_, Http>, message: Option<Py<PyAny>>) -> Call {
        Call {
            stream: stream.clone().unbind(),
            message,
            state: OnceLock::new(),
        }
    }

    /// Does what was called for, the first time.
    fn begin(&self, py: Python<'_>) -> PyResult<&State> {
        if let Some(state) = self.state.get() {
            return Ok(state);
        }
        let stream = self.stream.bind(py);
        let state = match &self.message {
            None => match stream.get().next_message(py)? {
                Some(message) => State::Ready(Some(message.unbind())),
                None => State::Coroutine(self.coroutine(py)?),
            },
            Some(message) => match Http::send_quickly(stream, message.bind(py))? {
                true => State::Ready(None),
                false => State::Coroutine(self.coroutine(py)?),
            },
        };
        Ok(self.state.get_or_init(|| state))
    }

    /// The coroutine of the worker's own stream.
    fn coroutine(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if let Some(State::Coroutine(coroutine)) = self.state.get() {
            return Ok(coroutine.clone_ref(py));
        }
        let stream = Http::promote(self.stream.bind(py))?;
        let coroutine = match &self.message {
            None => stream.call_method0(intern!(py, "receive"))?,
            Some(message) => stream.call_method1(intern!(py, "send"), (message,))?,
        };
        Ok(coroutine.unbind())
    }
}
