//! Matches patterns for a request, which stores the groups.

use sluice_route::Provenance;

use super::captures::Captures;
use super::groups::Pattern;
use super::state::{NginxContext, RequestState};
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::seldom::Empty;

impl Pattern {
    /// Whether `text` matches; if so its groups are stored in `exchange`. `from` is the provenance of the text.
    pub fn matches(
        &self,
        exchange: &mut Exchange,
        text: &[u8],
        from: Provenance,
    ) -> Result<bool, Fault> {
        if self.groups_count() == 0 {
            let matches = self.is_match(text)?;
            if matches {
                exchange.context.captures_mut().clear();
            }
            return Ok(matches);
        }
        let find = |text: &[u8], groups: &mut Vec<_>| self.find(text, groups);
        if !exchange.context.captures_mut().keep(text, from, find)? {
            return Ok(false);
        }
        for (group, name) in &self.named {
            let state = exchange.context.dialect.find::<RequestState>();
            let captures = state.map_or(Captures::empty(), |state| &state.captures);
            let slot = exchange
                .context
                .vars
                .slot_from(name, captures.provenance(*group));
            slot.extend_from_slice(captures.group(*group));
        }
        Ok(true)
    }
}
