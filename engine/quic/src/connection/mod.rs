//! One QUIC connection: how it is accepted, and what its parts are. `drive` moves it on, `mux` is what its streams see,
//! `control` reads the streams that are not requests.

mod carrier;
mod control;
mod drive;
mod heads;
mod mux;

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;

use quinn_proto::{Incoming, ServerConfig};
use sluice_message::Remote;
use sluice_net::Service;
use sluice_net::multiplexed::host::{Entered, Open};
use sluice_net::multiplexed::{Home, serve};
use sluice_net::stream::canonical;

use crate::endpoint::{Counted, Endpoint};
use drive::Drive;

pub(crate) use mux::Mux;

/// Accepts a connection once it has a slot and its turn, and serves it to its end.
pub(crate) async fn accept<S: Service>(
    endpoint: Rc<Endpoint<S>>,
    incoming: Incoming,
    config: Arc<ServerConfig>,
    entered: Entered,
    counted: Counted<S>,
) {
    let (remote, local_ip) = (incoming.remote_address(), incoming.local_ip());
    let admitted = admit(&endpoint, &incoming, entered).await;
    endpoint.end_waiting();
    let Some(open) = admitted else {
        return endpoint.refuse(incoming);
    };
    let worker = endpoint.host.worker().clone();
    let Some((handle, quic)) = endpoint.accept(incoming, config) else {
        worker.counters.handshakes_failed.up();
        return;
    };
    worker.counters.http3_connections.up();
    let binding = endpoint.host.binding();
    let settings = binding.service.settings();
    let mux = Mux::new(worker.clone(), quic, settings);
    endpoint.register(handle, mux.clone());
    let ends = (
        Remote::Ip(canonical(remote)),
        endpoint.local(local_ip).into(),
    );
    let info = worker.new_connection(ends);
    let home = Rc::new(Home {
        carrier: mux,
        host: endpoint.host.clone(),
        is_closing: std::cell::Cell::new(false),
    });
    let make = |start| serve(home.clone(), start);
    let mut drive = Drive::new(
        &endpoint,
        handle,
        (home.clone(), make),
        (info, open),
        settings,
    );
    drop(binding);
    poll_fn(|cx| drive.poll(cx)).await;
    drop(drive);
    endpoint.forget(handle);
    drop(counted);
}

/// Waits for a slot, and for the turn of the client's handshake.
async fn admit<S: Service>(
    endpoint: &Endpoint<S>,
    incoming: &Incoming,
    entered: Entered,
) -> Option<Open> {
    let open = endpoint.host.admit(entered).await?;
    let counters = &endpoint.host.worker().counters;
    let remote = Remote::Ip(canonical(incoming.remote_address()));
    let shaken = match endpoint.host.begin_handshake(remote) {
        Ok(handshake) => {
            let given = poll_fn(|cx| handshake.poll_turn(cx)).await;
            if handshake.has_waited() {
                counters.handshakes_waited.up();
            }
            given
        }
        Err(shed) => Err(shed),
    };
    match shaken {
        Ok(()) => Some(open),
        Err(_) => {
            counters.handshakes_shed.up();
            None
        }
    }
}
