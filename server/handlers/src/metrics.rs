//! `metrics`: the metrics page for Prometheus.

use std::sync::Arc;

use sluice_message::{FieldId, Method, Status};
use sluice_model::handler::MetricsHandler as Config;
use sluice_net::Body;
use sluice_net::body::SharedSlice;

use sluice_observe::Recorder;
use sluice_observe::metrics::{Format, page};
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Handler, Step};

struct Metrics {
    /// The counters; `None` if requests are only explained.
    recorder: Option<Arc<Recorder>>,
    /// Whether to use the OpenMetrics format if the client accepts it.
    open_metrics: bool,
}

impl Handler for Metrics {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        if !matches!(exchange.req.method, Method::Get | Method::Head) {
            exchange.res.status = Status::METHOD_NOT_ALLOWED;
            exchange.res.fields.set(FieldId::Allow, b"GET, HEAD");
            return Step::Done(Body::Empty);
        }
        let accept = exchange
            .req
            .fields
            .first(FieldId::Accept)
            .unwrap_or_default();
        let format = match Format::accepted(accept) {
            Format::OpenMetrics if self.open_metrics => Format::OpenMetrics,
            Format::OpenMetrics | Format::Prometheus => Format::Prometheus,
        };
        let media_type = format.media_type().as_bytes();
        exchange.res.fields.set(FieldId::ContentType, media_type);
        let text = match &self.recorder {
            Some(recorder) => page(recorder, format),
            None => String::new(),
        };
        Step::Done(Body::Shared(SharedSlice::new(text.into_bytes().into())))
    }
}

/// Builds `metrics`.
pub fn build(config: &Config, builder: &Builder<'_>) -> Box<dyn Handler> {
    Box::new(Metrics {
        recorder: builder.recorder.cloned(),
        open_metrics: !config.disable_openmetrics,
    })
}
