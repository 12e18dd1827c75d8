//! What a client gets when an application gives no response. The log has the reason; tracebacks never leave the server.

use sluice_message::{FieldId, Status};
use sluice_python::{Death, Refusal, Stage, Why};

use super::Chosen;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;

const DOES_NOT_START: &str = "the application does not start";

/// The fault of a request whose last attempt failed.
pub(super) fn fault(exchange: &mut Exchange, chosen: &Chosen, why: Why) -> Fault {
    match why {
        Why::Refused(refusal) => refused(exchange, chosen, refusal),
        Why::Died { how, .. } => Fault::new(Status::BAD_GATEWAY, died(how)),
        Why::TimedOut => Fault::new(
            Status::GATEWAY_TIMEOUT,
            "the application took longer than `request_timeout`",
        ),
        Why::Application { stage, .. } => {
            // The worker's traceback is in the log already, in an entry of its own.
            exchange.context.log.is_logged = true;
            Fault::new(
                Status::INTERNAL_SERVER_ERROR,
                match stage {
                    Stage::BeforeResponse | Stage::AfterHead => {
                        "the application raised an exception"
                    }
                    Stage::Rules => "the application broke the rules of its interface",
                },
            )
        }
        Why::Response(what) => {
            exchange.context.log.is_logged = true;
            let message = format!("the application's response is malformed: {what}");
            Fault::new(Status::BAD_GATEWAY, message)
        }
        Why::Body(failure) => failure.into(),
    }
}

fn refused(exchange: &mut Exchange, chosen: &Chosen, refusal: Refusal) -> Fault {
    let seconds = chosen.application.retry_after().as_secs().max(1);
    let fields = &mut exchange.res.fields;
    fields.set(FieldId::RetryAfter, seconds.to_string().as_bytes());
    Fault::new(
        Status::SERVICE_UNAVAILABLE,
        match refusal {
            Refusal::QueueFull => "the queue of the application is full (`queue_size`)",
            Refusal::QueueTimeout => "no worker process became free in time (`queue_timeout`)",
            Refusal::Failed => DOES_NOT_START,
            Refusal::Stopped => "the application is being stopped",
        },
    )
}

/// The fault of a request for an application that placeholders selected and that does not start.
pub(super) fn does_not_start(exchange: &mut Exchange) -> Fault {
    let fields = &mut exchange.res.fields;
    let seconds = crate::limits::PYTHON_FAILED_PAUSE.as_secs();
    fields.set(FieldId::RetryAfter, seconds.to_string().as_bytes());
    Fault::new(Status::SERVICE_UNAVAILABLE, DOES_NOT_START)
}

fn died(how: Death) -> String {
    let what = "the worker process ended while it had the request:";
    match how {
        Death::Exited(code) => format!("{what} it exited with status {code}"),
        Death::Signal(signal) => format!("{what} signal {signal}"),
        Death::OutOfMemory => format!("{what} out of memory"),
        Death::RequestTimeout => format!("{what} another request exceeded `request_timeout`"),
        Death::DrainTimeout => format!("{what} it did not drain in time"),
        Death::StartTimeout => format!("{what} it did not start in time"),
        Death::Protocol => format!("{what} it broke the protocol"),
        Death::Unknown => format!("{what} reason unknown"),
    }
}

/// The fault of a handler that was built without starting anything, and then asked.
pub(super) fn not_started() -> Fault {
    Fault::new(
        Status::SERVICE_UNAVAILABLE,
        "the application was not started",
    )
}
