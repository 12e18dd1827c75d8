//! The source of a fleet's configuration on the page of metrics.

use super::sample::Kind;
use super::text::Page;
use crate::recorder::Recorder;

/// Adds the metrics, if this is a node of a fleet.
pub(super) fn write(recorder: &Recorder, page: &mut Page) {
    let Some(source) = recorder.sources().config_source() else {
        return;
    };
    page.family(
        "sluice_config_source_changes_total",
        "Configurations of the fleet that this node has taken or refused.",
        Kind::Counter,
    );
    let changes = [("applied", source.applied), ("refused", source.refused)];
    for (result, count) in changes {
        page.sample("", &[("result", result)], count);
    }
    page.single(
        "sluice_config_source_failures_total",
        "Failed attempts to read the source of the configuration or to report to it.",
        Kind::Counter,
        source.failures,
    );
    page.family(
        "sluice_config_source_info",
        "The source of the configuration, this node, and the revision that it runs.",
        Kind::Gauge,
    );
    let revision = source.running.as_deref().unwrap_or_default();
    let labels = [
        ("source", &*source.place),
        ("node", &*source.node),
        ("revision", revision),
    ];
    page.sample("", &labels, 1);
    page.single(
        "sluice_config_source_lag_seconds",
        "For how long the source has had another revision than this node runs; 0 while they are the same.",
        Kind::Gauge,
        source.lag().unwrap_or_default().as_secs_f64(),
    );
    page.single(
        "sluice_config_source_up",
        "Whether the source of the configuration has responded to the last request.",
        Kind::Gauge,
        u8::from(source.is_reachable),
    );
}
