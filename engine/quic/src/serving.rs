//! Serves one socket: gives each datagram to its connection, and begins new connections.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::{DatagramEvent, EcnCodepoint, Incoming};
use sluice_net::datagrams::Receiver;
use sluice_net::multiplexed::host::Host;
use sluice_net::{AddressValidation, Service};

use crate::connection;
use crate::endpoint::{Counted, Endpoint, initial_suite};
use crate::generations::{MESSAGE_BYTES_MAX, Origin, Other, Passed};
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
    if let Some(link) = receiver.predecessor {
        endpoint.generations.follow(link);
    }
    let mut buffers = Buffers {
        batch: Batch::new(&endpoint.socket),
        message: [0; MESSAGE_BYTES_MAX],
    };
    let reading = poll_fn(|cx| endpoint.poll(cx, &mut buffers));
    let ending = async {
        loop {
            endpoint.host.retired().await;
            while endpoint.open.get() > 0 && endpoint.host.is_retired() {
                endpoint.closed.notified().await;
            }
            while endpoint.generations.is_between() && endpoint.host.is_retired() {
                endpoint.generations.changed.notified().await;
            }
            // Meanwhile the listener may be there again.
            if endpoint.host.is_retired() && endpoint.open.get() == 0 {
                return;
            }
        }
    };
    let passing = async {
        loop {
            let link = endpoint.host.link_of(receiver.index).await;
            endpoint.generations.precede(link, endpoint.host.worker());
            endpoint.socket.wake_reader();
        }
    };
    let (mut reading, mut ending, mut passing) = (pin!(reading), pin!(ending), pin!(passing));
    poll_fn(|cx| {
        if ending.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let _: Poll<()> = passing.as_mut().poll(cx);
        reading.as_mut().poll(cx)
    })
    .await;
}

/// What datagrams are received into.
struct Buffers {
    batch: Batch,
    message: [u8; MESSAGE_BYTES_MAX],
}

impl<S: Service> Endpoint<S> {
    /// Receives and dispatches datagrams; never ends.
    fn poll(self: &Rc<Self>, cx: &mut Context<'_>, buffers: &mut Buffers) -> Poll<()> {
        self.socket.poll_writers(cx);
        for _ in 0..RECEIVE_TURNS {
            let has_passed = self.take_passed(cx, &mut buffers.message);
            // What a successor reads is not taken from it: it may be for a connection that begins there.
            let has_received = !self.generations.is_succeeded()
                && self.take_received(cx, &mut buffers.batch).is_ready();
            if !has_passed && !has_received {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes datagrams from the socket.
    fn take_received(self: &Rc<Self>, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<()> {
        // An error is of an earlier packet, such as an unreachable client.
        if ready!(self.socket.poll_receive(cx, batch)).is_err() {
            return Poll::Ready(());
        }
        let now = Instant::now();
        let mut count = 0;
        for (meta, datagram) in batch.datagrams() {
            count += 1;
            let origin = Origin {
                remote: meta.addr,
                local_ip: meta.dst_ip,
                ecn: meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
            };
            self.receive(now, &origin, datagram);
        }
        self.socket.expect(count);
        Poll::Ready(())
    }

    /// Takes what other processes pass. Returns whether there was anything.
    fn take_passed(
        self: &Rc<Self>,
        cx: &mut Context<'_>,
        message: &mut [u8; MESSAGE_BYTES_MAX],
    ) -> bool {
        let mut has_taken = false;
        for other in [Other::Predecessor, Other::Successor] {
            let passed = self.generations.poll_passed(other, cx, message);
            if let Poll::Ready((passed, count)) = passed {
                has_taken = true;
                if let Passed::Datagram(origin, at) = passed {
                    self.receive(Instant::now(), &origin, &message[at..count]);
                }
            }
        }
        has_taken
    }

    fn receive(self: &Rc<Self>, now: Instant, origin: &Origin, datagram: &[u8]) {
        let mut out = self.out.borrow_mut();
        let takes_more = !self.host.is_retired();
        let owner = self.generations.owner(self.index, datagram, takes_more);
        if let Some(other) = owner {
            return self.generations.pass(other, origin, datagram, &mut out);
        }
        out.clear();
        let bytes = BytesMut::from(datagram);
        let Origin {
            remote,
            local_ip,
            ecn,
        } = *origin;
        let mut quic = self.quic.borrow_mut();
        let event = quic.handle(now, remote, local_ip, ecn, bytes, &mut out);
        drop(quic);
        match event {
            None => {}
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let known = self.connections.borrow();
                if let Some(Some(connection)) = known.get(handle.0) {
                    connection.receive(event);
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
        let settings = binding.service.settings();
        let asks = is_busy || settings.h3.address_validation == AddressValidation::Always;
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
        let config = self.config(choice, settings, &incoming);
        self.waiting.set(self.waiting.get() + 1);
        let counted = Counted::new(self);
        let accepted = connection::accept(self.clone(), incoming, config, entered, counted);
        tokio::task::spawn_local(accepted);
    }
}
