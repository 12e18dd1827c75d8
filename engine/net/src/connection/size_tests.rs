//! How much memory a connection takes, whatever it does. The code does not show how large a future is: one more value that is
//! alive while something is awaited enlarges the task of each of ten thousand connections.

use super::{Connection, Link};
use crate::limits::{CONNECTION_BYTES_MAX, LINK_BYTES_MAX, STREAM_BYTES_MAX};
use crate::service::{Completion, Exchange, Refused, Response, Service, Settings};
use crate::stream::Stream;

/// A service of which only the type is used.
struct Unused;

impl Service for Unused {
    type Context = ();
    /// As large as that of the real service, and dropped like that.
    type Outcome = [Option<Box<u8>>; 8];

    fn reset(&self, _: &mut ()) {
        unreachable!("only the type is used")
    }

    fn serve<'a>(&'a self, _: &'a mut Exchange<()>) -> Response<'a, Self::Outcome> {
        unreachable!("only the type is used")
    }

    fn resume<'a>(
        &'a self,
        _: &'a mut Exchange<()>,
        _: Self::Outcome,
    ) -> Response<'a, Self::Outcome> {
        unreachable!("only the type is used")
    }

    fn refuse<'a>(
        &'a self,
        _: &'a mut Exchange<()>,
        _: &Refused<'_>,
    ) -> Response<'a, Self::Outcome> {
        unreachable!("only the type is used")
    }

    fn record(&self, _: &mut Exchange<()>, _: &Completion) {
        unreachable!("only the type is used")
    }

    fn settings(&self) -> &Settings {
        unreachable!("only the type is used")
    }
}

/// The size of the future that serves a connection, with the connection.
fn connection_bytes() -> usize {
    fn bytes_of<F>(_run: impl FnOnce(Connection<Unused>) -> F) -> usize {
        size_of::<F>()
    }
    bytes_of(|mut connection| async move { connection.run().await })
}

#[test]
fn a_connection_takes_no_more_than_its_limits() {
    for (what, bytes, bytes_max) in [
        (
            "the future of a connection",
            connection_bytes(),
            CONNECTION_BYTES_MAX,
        ),
        ("a link", size_of::<Link>(), LINK_BYTES_MAX),
        ("a stream", size_of::<Stream>(), STREAM_BYTES_MAX),
    ] {
        assert!(bytes <= bytes_max, "{what}: {bytes} bytes");
    }
}
