//! Connections of listeners with a listener wrapper: it reads what precedes TLS and HTTP, then the connection is served
//! like any other.

use std::io;
use std::rc::Rc;

use sluice_message::Remote;

use super::{Connection, redirect};
use crate::binding::{Binding, Slot};
use crate::connection::shared::{Open, Shared};
use crate::listener_wrapper::{self, Heard, ListenerWrapper, PlainHttp};
use crate::service::Service;
use crate::stream::Stream;
use crate::timeout::within;
use crate::worker::Worker;

/// Serves a connection from its listener wrapper to its end.
pub(crate) async fn enter<S: Service>(
    mut stream: Stream,
    remote: Remote,
    slot: Rc<Slot<S>>,
    shared: Rc<Shared<S>>,
    open: Open,
) {
    let binding = slot.binding();
    let mut ends = (remote, stream.local_end());
    let (mut addresses, mut is_plain) = (None, false);
    if let Some(wrapper) = &binding.wrapper {
        let reading = read(&shared.worker, &mut stream, remote, wrapper, &binding);
        // In a separate allocation, freed before the connection is served.
        match Box::pin(reading).await {
            Err(_) => return,
            Ok(found) => {
                if let Some(response) = found.plain_response {
                    let worker = shared.worker.clone();
                    return Box::pin(redirect::send(stream, worker, &response)).await;
                }
                if let Some((client, destination)) = found.heard.ends {
                    ends = (client, Some(destination).into());
                }
                addresses = found.heard.addresses;
                is_plain = found.is_plain;
            }
        }
    }
    drop(binding);
    let mut connection = match is_plain {
        true => Connection::plain(stream, ends, slot, shared, open),
        false => Connection::new(stream, ends, slot, shared, open),
    };
    if let Some(addresses) = addresses {
        connection.note(addresses);
    }
    connection.run().await;
}

/// The result of the listener wrapper.
struct Found {
    /// Data from the PROXY protocol header.
    heard: Heard,
    /// The response for a client that speaks plain HTTP to a TLS listener.
    plain_response: Option<String>,
    /// Whether to serve without TLS, although this is a TLS listener.
    is_plain: bool,
}

async fn read<S: Service>(
    worker: &Worker,
    stream: &mut Stream,
    remote: Remote,
    wrapper: &ListenerWrapper,
    binding: &Binding<S>,
) -> io::Result<Found> {
    let heard = match &wrapper.proxies {
        None => Heard::default(),
        Some(proxies) => listener_wrapper::enter(worker, stream, remote, proxies).await?,
    };
    let mut found = Found {
        heard,
        plain_response: None,
        is_plain: false,
    };
    if binding.tls.is_none() || wrapper.plain_http == PlainHttp::Refuse {
        return Ok(found);
    }
    let settings = binding.service.settings();
    if wrapper.plain_http == PlainHttp::Serve {
        let looking = redirect::is_plain(stream);
        let looked = within(worker, settings.handshake_timeout, looking).await;
        found.is_plain = looked.ok_or(io::ErrorKind::TimedOut)??;
    } else {
        let looking = redirect::response(stream, &settings.h1);
        let looked = within(worker, settings.handshake_timeout, looking).await;
        found.plain_response = looked.ok_or(io::ErrorKind::TimedOut)??;
    }
    Ok(found)
}
