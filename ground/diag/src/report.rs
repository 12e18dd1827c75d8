//! All diagnostics of one run, with the source texts they point into.
//!
//! The configuration languages find the mistakes; `render` and `json` format them.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::diagnostic::{Diagnostic, Severity};
use crate::limits::DIAGNOSTICS_KEPT_MAX;
use crate::source::{Sources, Span};

/// Collects diagnostics in any order and hands them out in file order.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The texts that the diagnostics point into.
    pub sources: Sources,
    diagnostics: Vec<Diagnostic>,
    places: BTreeSet<(&'static str, Span)>,
    silenced: Vec<Span>,
    error_count: usize,
    warning_count: usize,
}

impl Report {
    /// An empty report.
    pub fn new() -> Self {
        Report::default()
    }

    /// Adds a diagnostic, unless it repeats one (same slug, same place: a snippet imported twice)
    /// or lies in a silenced span. Past a thousand they are only counted.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        let is_kept = self.diagnostics.len() < DIAGNOSTICS_KEPT_MAX;
        if is_kept && self.repeats(&diagnostic) {
            return;
        }
        match diagnostic.severity {
            Severity::Error => self.error_count += 1,
            Severity::Warning => self.warning_count += 1,
        }
        if is_kept {
            let place = diagnostic
                .primary
                .as_ref()
                .map(|label| (diagnostic.slug, label.span));
            self.places.extend(place);
            self.diagnostics.push(diagnostic);
        }
    }

    /// Silences what is said about `span` from now on, because a mistake already reported there
    /// makes the rest of it meaningless.
    pub fn silence(&mut self, span: Span) {
        // When nothing more is kept, nothing has to be silenced.
        if self.diagnostics.len() < DIAGNOSTICS_KEPT_MAX {
            self.silenced.push(span);
        }
    }

    /// The kept errors whose place lies in `span`, for callers that know more about their cause.
    pub fn errors_within(&mut self, span: Span) -> impl Iterator<Item = &mut Diagnostic> {
        self.diagnostics.iter_mut().filter(move |diagnostic| {
            let place = diagnostic.primary.as_ref();
            diagnostic.severity == Severity::Error
                && place.is_some_and(|label| span.contains(label.span))
        })
    }

    /// Whether the configuration is refused.
    pub fn has_errors(&self) -> bool {
        self.error_count > 0
    }

    /// Whether nothing was said at all.
    pub fn is_empty(&self) -> bool {
        self.error_count + self.warning_count == 0
    }

    /// How many errors were reported, counting those no longer kept.
    pub fn error_count(&self) -> usize {
        self.error_count
    }

    /// How many warnings were reported, counting those no longer kept.
    pub fn warning_count(&self) -> usize {
        self.warning_count
    }

    /// The kept diagnostics in file order; those without a place come first.
    pub fn sorted(&self) -> Vec<&Diagnostic> {
        let mut sorted: Vec<&Diagnostic> = self.diagnostics.iter().collect();
        sorted.sort_by_key(|d| d.primary.as_ref().map(|label| label.span));
        sorted
    }

    fn repeats(&self, new: &Diagnostic) -> bool {
        let Some(span) = new.primary.as_ref().map(|label| label.span) else {
            return self.diagnostics.contains(new);
        };
        self.silenced.iter().any(|silent| silent.contains(span))
            || self.places.contains(&(new.slug, span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn report() -> (Report, impl Fn(u32) -> Span) {
        let mut report = Report::new();
        let id = report.sources.add("Caddyfile", "0123456789");
        (report, move |start| Span::new(id, start, start + 1))
    }

    #[test]
    fn diagnostics_come_in_file_order() {
        let (mut report, span) = report();
        report.push(Diagnostic::error("b", "later").at(span(5), ""));
        report.push(Diagnostic::warning("a", "earlier").at(span(2), ""));
        report.push(Diagnostic::error("c", "nowhere"));
        let slugs: Vec<_> = report.sorted().iter().map(|d| d.slug).collect();
        assert_eq!(slugs, vec!["c", "a", "b"]);
        assert_eq!((report.error_count(), report.warning_count()), (2, 1));
    }

    #[test]
    fn repeated_and_silenced_ones_are_dropped() {
        let (mut report, span) = report();
        report.push(Diagnostic::error("a", "first").at(span(5), ""));
        report.push(Diagnostic::error("a", "again, through another import").at(span(5), ""));
        report.silence(span(7));
        report.push(Diagnostic::error("b", "follow-on").at(span(7), ""));
        assert_eq!(report.error_count(), 1);
    }

    #[test]
    fn what_is_no_longer_kept_is_counted() {
        let mut report = Report::new();
        let id = report.sources.add("x", "y".repeat(5_000));
        for at in 0..DIAGNOSTICS_KEPT_MAX as u32 + 7 {
            report.push(Diagnostic::error("a", "each").at(Span::new(id, at, at + 1), ""));
        }
        assert_eq!(report.error_count(), DIAGNOSTICS_KEPT_MAX + 7);
        assert_eq!(report.sorted().len(), DIAGNOSTICS_KEPT_MAX);
    }
}
