//! Serves one socket: gives each datagram to its connection, and begins new connections.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::{DatagramEvent, EcnCodepoint, Incoming};
use quinn_udp::RecvMeta;
use sluice_net::datagrams::Receiver;
use sluice_net::multiplexed::host::Host;
use sluice_net::{AddressValidation, Service};

use crate::connection;
use crate::endpoint::{Counted, Endpoint, initial_suite};
use crate::limits::{HANDSHAKES_BEFORE_RETRY, INCOMING_MAX, RECEIVE_TURNS};
use crate::socket::{Batch, Socket};

/// Serves the datagrams of a socket until the listener is removed and its connections have ended.
pub fn serve<S: Service>(receiver: Receiver, host: Host<S>) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(run(receiver, host))
}

async fn run<S: Service>(receiver: Receiver, host: Host<S>) {
    let Ok(socket) = Socket::new(receiver.socket) else {
        return;
    };
    let Some(initial) = initial_suite() else {
        return;
    };
    let endpoint = Rc::new(Endpoint::new(socket, receiver.index, host, initial));
    let mut batch = Batch::new(&endpoint.socket);
    let reading = poll_fn(|cx| endpoint.poll(cx, &mut batch));
    let ending = async {
        loop {
            endpoint.host.retired().await;
            while endpoint.open.get() > 0 && endpoint.host.is_retired() {
                endpoint.closed.notified().await;
            }
            // Meanwhile the listener may be there again.
            if endpoint.host.is_retired() {
                return;
            }
        }
    };
    let (mut reading, mut ending) = (pin!(reading), pin!(ending));
    poll_fn(|cx| {
        if ending.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        reading.as_mut().poll(cx)
    })
    .await;
}

impl<S: Service> Endpoint<S> {
    /// Receives and dispatches datagrams; never ends.
    fn poll(self: &Rc<Self>, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<()> {
        self.socket.poll_writers(cx);
        for _ in 0..RECEIVE_TURNS {
            match self.socket.poll_receive(cx, batch) {
                Poll::Pending => return Poll::Pending,
                // An error of an earlier packet, such as an unreachable client.
                Poll::Ready(Err(_)) => continue,
                Poll::Ready(Ok(())) => {}
            }
            let now = Instant::now();
            for (meta, datagram) in batch.datagrams() {
                self.receive(now, meta, datagram);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn receive(self: &Rc<Self>, now: Instant, meta: &RecvMeta, datagram: &[u8]) {
        let mut out = self.out.borrow_mut();
        out.clear();
        let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
        let bytes = BytesMut::from(datagram);
        let mut quic = self.quic.borrow_mut();
        let event = quic.handle(now, meta.addr, meta.dst_ip, ecn, bytes, &mut out);
        drop(quic);
        match event {
            None => {}
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let known = self.connections.borrow();
                if let Some(mux) = known.get(&handle) {
                    mux.receive(event);
                }
            }
            Some(DatagramEvent::Response(transmit)) => self.send(&transmit, &out),
            Some(DatagramEvent::NewConnection(incoming)) => {
                drop(out);
                self.begin(incoming);
            }
        }
    }

    /// A client begins a connection.
    fn begin(self: &Rc<Self>, incoming: Incoming) {
        let host = &self.host;
        let worker = host.worker();
        if host.is_retired() || worker.draining.get() || self.waiting.get() >= INCOMING_MAX {
            return self.refuse(incoming);
        }
        let second = worker.clock.unix_seconds();
        let is_busy = self.rate.count(second) > HANDSHAKES_BEFORE_RETRY;
        let binding = host.binding();
        let validation = binding.service.settings().h3.address_validation;
        let asks = is_busy || validation == AddressValidation::Always;
        if asks && !incoming.remote_address_validated() && incoming.may_retry() {
            worker.counters.quic_retries.up();
            return self.retry(incoming);
        }
        let choice = binding.tls.as_ref().and_then(|tls| tls.config_choice());
        let Some(choice) = choice else {
            return self.refuse(incoming);
        };
        let Some(entered) = host.enter() else {
            worker.counters.accept_pauses.up();
            return self.refuse(incoming);
        };
        let admission = self.admission(choice, &incoming);
        self.waiting.set(self.waiting.get() + 1);
        let counted = Counted::new(self);
        let accepted = connection::accept(self.clone(), incoming, admission, entered, counted);
        tokio::task::spawn_local(accepted);
    }
}
