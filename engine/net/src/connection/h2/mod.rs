//! The life cycle of an HTTP/2 connection. Frames are left to `sluice-wire`; the submodules contain the parts.

mod carrier;
mod drive;
mod mux;

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;

use super::{Connection, linger};
use crate::multiplexed::host::Host;
use crate::multiplexed::{Home, serve as serve_stream};
use crate::service::Service;
use drive::{Drive, Over};
use mux::Mux;

/// Serves all requests of an HTTP/2 connection until it ends. Bytes already read are in the link's input.
pub(super) async fn serve<S: Service>(connection: &Connection<S>) {
    let link = &connection.link;
    link.worker.counters.http2_connections.up();
    let binding = connection.slot.binding();
    let mux = Mux::new(
        link.clone(),
        &binding.service.settings_for(&connection.info).h2,
    );
    drop(binding);
    let home = Rc::new(Home {
        carrier: Rc::new(mux),
        host: Host::new(connection.slot.clone(), connection.shared.clone()),
        is_closing: Cell::new(false),
    });
    let make = |start| serve_stream(home.clone(), start);
    let mut drive = Drive::new(connection, home.clone(), make);
    let over = poll_fn(|cx| drive.poll(cx)).await;
    drop(drive);
    if over == Over::Said {
        let binding = connection.slot.binding();
        let linger = binding.service.settings_for(&connection.info).client.linger;
        drop(binding);
        linger::close(link, linger).await;
    }
}
