//! WSGI: GET requests without a body whose response is one piece.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyAnyMethods, PyBytes, PyDict, PyIterator, PyList, PyString, PyTuple};

use crate::headers::{Block, status_code, text_block};
use crate::lane::{Lane, is_get};

/// What the worker gives for the requests of a WSGI seat.
#[derive(FromPyObject)]
pub struct Calls {
    #[pyo3(item(0))]
    application: Py<PyAny>,
    /// Appends a request to those that the seat has to run.
    #[pyo3(item(1))]
    append: Py<PyAny>,
    /// Makes a `WsgiExchange` of the state of an `Exchange`.
    #[pyo3(item(2))]
    promote: Py<PyAny>,
    /// `io.BytesIO`.
    #[pyo3(item(3))]
    input: Py<PyAny>,
    /// `wsgi.file_wrapper`.
    #[pyo3(item(4))]
    wrapper: Py<PyAny>,
}

/// What the requests of a lane have in common.
pub struct Wsgi {
    lane: Arc<Lane>,
    calls: Calls,
}

impl Wsgi {
    pub fn new(lane: Arc<Lane>, calls: Calls) -> Wsgi {
        Wsgi { lane, calls }
    }

    /// Begins a request, if it is one for `Exchange`.
    pub fn begin(
        self: &Arc<Self>,
        py: Python<'_>,
        number: u32,
        environ: &Bound<'_, PyDict>,
    ) -> PyResult<bool> {
        if !is_get(environ, intern!(py, "REQUEST_METHOD"))? {
            return Ok(false);
        }
        let exchange = Bound::new(
            py,
            Exchange {
                site: self.clone(),
                number,
                environ: Mutex::new(Some(environ.clone().unbind())),
                status: AtomicU16::new(0),
                block: Mutex::new(None),
                done: AtomicBool::new(false),
                promoted: OnceLock::new(),
            },
        )?;
        self.lane.streams(py).set_item(number, &exchange)?;
        self.calls.append.call1(py, (exchange,))?;
        Ok(true)
    }
}

/// A request to a WSGI application: `WsgiExchange` of the worker for the simplest case. It is its own
/// `start_response`.
#[pyclass(frozen)]
pub struct Exchange {
    site: Arc<Wsgi>,
    number: u32,
    environ: Mutex<Option<Py<PyDict>>>,
    /// 0 before `start_response`.
    status: AtomicU16,
    block: Mutex<Option<Block>>,
    done: AtomicBool,
    promoted: OnceLock<Py<PyAny>>,
}

/// An iterable of the application, as far as it has been read.
enum Read<'py> {
    /// To its end.
    All,
    /// An item that is not the whole body.
    Item(Bound<'py, PyAny>),
    Failed(PyErr),
}

#[pymethods]
impl Exchange {
    /// A response of a GET request may wait for others.
    #[classattr]
    fn prompt() -> bool {
        false
    }

    #[getter]
    fn lane(&self, py: Python<'_>) -> Py<PyAny> {
        self.site.lane.object.clone_ref(py)
    }

    #[setter]
    fn set_cancelled(slf: &Bound<'_, Self>, value: bool) -> PyResult<()> {
        Exchange::promote(slf)?.setattr(intern!(slf.py(), "cancelled"), value)
    }

    /// Nothing of a quick request waits.
    fn wake(&self) {}

    /// Calls the application and sends what it returns.
    fn run(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if let Some(promoted) = this.promoted.get() {
            promoted.bind(py).call_method0(intern!(py, "run"))?;
            return Ok(());
        }
        let calls = &this.site.calls;
        let environ = this.take_environ();
        let input = calls.input.bind(py).call0()?;
        let environ = environ.ok_or_else(twice)?.into_bound(py);
        environ.set_item(intern!(py, "wsgi.input"), input)?;
        let result = match calls.application.bind(py).call1((environ, slf)) {
            Ok(result) => result,
            Err(error) => return this.delegate(slf, "raised", (error,)),
        };
        if let Some(body) = single(&result) {
            if this.send_whole(py, body.as_bytes(), Length::Known)? {
                return Ok(());
            }
            return this.delegate(slf, "returned", (result,));
        }
        if !is_plain_iterable(&result, calls)? {
            return this.delegate(slf, "returned", (result,));
        }
        this.send_items(slf, &result)
    }

    /// `start_response` of PEP 3333.
    #[pyo3(signature = (status, headers, exc_info=None))]
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        status: &Bound<'py, PyAny>,
        headers: &Bound<'py, PyAny>,
        exc_info: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        if exc_info.is_none() && this.is_quick() && this.status.load(Relaxed) == 0 {
            let head = this.head(status, headers);
            if let (Some((code, block)), Ok(mut place)) = (head, this.block.try_lock()) {
                *place = Some(block);
                this.status.store(code, Relaxed);
                return slf.getattr(intern!(slf.py(), "write"));
            }
        }
        let promoted = Exchange::promote(slf)?;
        promoted.call_method1(
            intern!(slf.py(), "start_response"),
            (status, headers, exc_info),
        )
    }

    /// The callable that `start_response` returns.
    fn write<'py>(slf: &Bound<'py, Self>, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Exchange::promote(slf)?.call_method1(intern!(slf.py(), "write"), (data,))
    }
}

/// Whether a response without a Content-Length gets one.
#[derive(Clone, Copy, PartialEq)]
enum Length {
    /// The body is all there is.
    Known,
    /// More may follow.
    Declared,
}

impl Exchange {
    fn take_environ(&self) -> Option<Py<PyDict>> {
        self.environ
            .try_lock()
            .ok()
            .and_then(|mut environ| environ.take())
    }

    fn is_quick(&self) -> bool {
        self.promoted.get().is_none()
    }

    /// Status and header block, if both are plain and the response may have a body.
    fn head(&self, status: &Bound<'_, PyAny>, headers: &Bound<'_, PyAny>) -> Option<(u16, Block)> {
        let mut texts = self.site.lane.texts.try_lock().ok()?;
        let code = status_code(texts.bytes(status)?)?;
        let headers = headers.cast_exact::<PyList>().ok()?;
        let block = text_block(headers, &mut texts)?;
        (code != 204 && code != 304).then_some((code, block))
    }

    /// The worker's own exchange, which has taken this one's place.
    pub fn promote<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        if let Some(promoted) = this.promoted.get() {
            return Ok(promoted.bind(py).clone());
        }
        let lane = &this.site.lane;
        let block = this
            .block
            .try_lock()
            .ok()
            .and_then(|mut block| block.take());
        let length = block.as_ref().and_then(|block| block.length);
        let done = this.done.load(Relaxed);
        let promoted = this.site.calls.promote.bind(py).call1((
            &lane.object,
            this.number,
            this.take_environ(),
            this.status.load(Relaxed),
            PyBytes::new(py, block.as_ref().map_or(&[], |block| &block.bytes)),
            length,
            done,
        ))?;
        if !done {
            lane.streams(py).set_item(this.number, &promoted)?;
        }
        // Creating it may have let another thread run, but none that has this request.
        _ = this.promoted.set(promoted.clone().unbind());
        Ok(promoted)
    }

    /// Leaves the rest to a method of the worker's exchange.
    fn delegate<'py>(
        &self,
        slf: &Bound<'py, Self>,
        method: &str,
        arguments: impl pyo3::call::PyCallArgs<'py>,
    ) -> PyResult<()> {
        Exchange::promote(slf)?.call_method1(PyString::intern(slf.py(), method), arguments)?;
        Ok(())
    }

    /// Sends a whole response, if `body` is one.
    fn send_whole(&self, py: Python<'_>, body: &[u8], kind: Length) -> PyResult<bool> {
        let lane = &self.site.lane;
        if !self.is_quick() || self.done.load(Relaxed) || !lane.has_room(body.len()) {
            return Ok(false);
        }
        let Some(mut place) = self.block.try_lock().ok() else {
            return Ok(false);
        };
        let Some(block) = place.as_mut() else {
            return Ok(false);
        };
        if block.length != Some(body.len()) {
            if block.length.is_some() || kind == Length::Declared {
                return Ok(false);
            }
            block.declare(body.len());
        }
        self.done.store(true, Relaxed);
        let status = self.status.load(Relaxed);
        lane.respond(py, self.number, status, &block.bytes, body)?;
        Ok(true)
    }

    /// Sends what an iterable yields, if the first item is the whole body.
    fn send_items<'py>(&self, slf: &Bound<'py, Self>, result: &Bound<'py, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let mut items = match result.try_iter() {
            Ok(items) => items,
            Err(error) => return self.delegate(slf, "fail_items", (result, error)),
        };
        match self.read_items(py, &mut items)? {
            Read::All if self.done.load(Relaxed) && self.is_quick() => {
                let Some(close) = result.getattr_opt(intern!(py, "close"))? else {
                    return Ok(());
                };
                match close.call0() {
                    Ok(_) => Ok(()),
                    Err(error) => self.delegate(slf, "raised", (error,)),
                }
            }
            Read::All => self.delegate(slf, "take_over", (result, items, PyTuple::empty(py))),
            Read::Item(item) => self.delegate(slf, "take_over", (result, items, (item,))),
            Read::Failed(error) => self.delegate(slf, "fail_items", (result, error)),
        }
    }

    fn read_items<'py>(
        &self,
        py: Python<'py>,
        items: &mut Bound<'py, PyIterator>,
    ) -> PyResult<Read<'py>> {
        loop {
            let item = match items.next() {
                None => return Ok(Read::All),
                Some(Err(error)) => return Ok(Read::Failed(error)),
                Some(Ok(item)) => item,
            };
            let Ok(body) = item.cast_exact::<PyBytes>() else {
                return Ok(Read::Item(item));
            };
            let body = body.as_bytes();
            if self.send_whole(py, body, Length::Declared)? {
                let lane = self.site.lane.object.bind(py);
                let seat = lane.getattr(intern!(py, "seat"))?;
                let is_restless = seat.getattr(intern!(py, "restless"))?.is_truthy()?;
                if is_restless || self.site.lane.streams(py).is_empty() {
                    lane.call_method0(intern!(py, "flush"))?;
                }
            } else if !body.is_empty() || !self.done.load(Relaxed) {
                return Ok(Read::Item(item));
            }
        }
    }
}

/// The only item of a list or tuple, if it is `bytes`.
fn single<'py>(result: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
    let item = if let Ok(list) = result.cast_exact::<PyList>() {
        if list.len() != 1 {
            return None;
        }
        list.get_item(0)
    } else {
        let tuple = result.cast_exact::<PyTuple>().ok()?;
        if tuple.len() != 1 {
            return None;
        }
        tuple.get_item(0)
    };
    item.ok()?.cast_into_exact::<PyBytes>().ok()
}

/// Whether an iterable is nothing that the worker treats in its own way.
fn is_plain_iterable(result: &Bound<'_, PyAny>, calls: &Calls) -> PyResult<bool> {
    let py = result.py();
    Ok(!result.is_instance_of::<PyList>()
        && !result.is_instance_of::<PyTuple>()
        && !result.is_instance_of::<PyBytes>()
        && !result.is_instance_of::<PyString>()
        && !result.get_type().is(&calls.wrapper)
        && result.hasattr(intern!(py, "__iter__"))?)
}

/// A mistake of the worker.
fn twice() -> PyErr {
    PyRuntimeError::new_err("a request was run twice")
}
