//! Counts requests to the admin API. They are rare, so a single lock is sufficient.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::limits::ADMIN_SERIES_MAX;
use super::lock;
use super::sample::Kind;
use super::text::Page;

/// Counters by status, method and path.
#[derive(Debug, Default)]
pub struct AdminCounts {
    counts: Mutex<BTreeMap<(u16, String, String), u64>>,
}

impl AdminCounts {
    /// Counts a request.
    pub fn count(&self, method: &str, path: &str, status: u16) {
        let mut counts = lock(&self.counts);
        let key = (status, method.to_owned(), path.to_owned());
        let room = counts.len() < ADMIN_SERIES_MAX || counts.contains_key(&key);
        let key = if room {
            key
        } else {
            (0, "OTHER".to_owned(), "_other".to_owned())
        };
        *counts.entry(key).or_default() += 1;
    }

    /// Writes the counters.
    pub fn write(&self, page: &mut Page) {
        let counts = lock(&self.counts);
        if counts.is_empty() {
            return;
        }
        page.family(
            "caddy_admin_http_requests_total",
            "Requests to the control interface.",
            Kind::Counter,
        );
        for ((status, method, path), count) in counts.iter() {
            let code = status.to_string();
            let labels = [
                ("code", code.as_str()),
                ("handler", "admin"),
                ("method", method),
                ("path", path),
            ];
            page.sample("", &labels, *count);
        }
    }
}
