//! Pushing a configuration to a fleet: a compare-and-swap of the text, and the verdicts of the nodes. If a node refuses it,
//! or its errors jump, the text before is written again.

use std::time::Duration;

use sluice_store::{Store, StoreError};

use super::layout::{Layout, Past};
use super::proposal::{Checked, NodeVerdict, Proposal, PushError, PushOutcome, Pushed, Stage};
use super::push_steps::Steps;
use super::revision::Revision;
use super::seen::text_of;
use super::view::Fleet;

/// Reads what is there.
///
/// # Errors
/// The store fails, or what it has is not a text.
pub fn check(store: &dyn Store, layout: &Layout) -> Result<Checked, StoreError> {
    let value = store.load(&[&layout.text])?.pop().flatten();
    let fleet = Fleet::read(store, layout)?;
    Checked::of(value, fleet, store.place())
}

/// The last text of the history that differs from the one in effect and is older, or the one of the revision with these
/// digits. `None` if there is none.
///
/// # Errors
/// The store fails, or what it has is not a text.
pub fn before_last(
    store: &dyn Store,
    layout: &Layout,
    digits: Option<&str>,
) -> Result<Option<String>, StoreError> {
    let value = store.load(&[&layout.text])?.pop().flatten();
    let current = value.as_ref().map(super::view::revision_of);
    let history = layout.history(store)?;
    let found = match digits {
        Some(digits) => history
            .iter()
            .rfind(|past| past.revision.is_named_by(digits)),
        None => {
            let is_current = |past: &&Past| Some(&past.revision) == current.as_ref();
            let end = history.iter().rposition(|past| is_current(&past));
            let older = &history[..end.unwrap_or(history.len())];
            older.iter().rfind(|past| !is_current(past))
        }
    };
    let Some(found) = found else { return Ok(None) };
    let value = store.load(&[&found.key])?.pop().flatten();
    value
        .map(|value| text_of(value.bytes, store.place()))
        .transpose()
}

/// Writes the text of `proposal` if the one of `checked` is still in effect, and waits for the nodes. `progress` is called
/// when a stage begins and when verdicts have come.
///
/// # Errors
/// Nothing has changed.
pub fn push(
    store: &dyn Store,
    layout: &Layout,
    checked: &Checked,
    proposal: &Proposal,
    progress: &mut dyn FnMut(Stage, &[NodeVerdict]),
) -> Result<Pushed, PushError> {
    let revision = Revision::of(&proposal.text);
    let mut steps = Steps::new(store, layout, revision.clone(), proposal, progress);
    // If the canary of an interrupted push is there, the text is written again to end it.
    if checked.text.as_deref() == Some(&proposal.text) && checked.fleet.canary.is_none() {
        steps.look_once()?;
        return Ok(Pushed {
            revision,
            previous: checked.revision.clone(),
            outcome: PushOutcome::Unchanged,
            nodes: steps.verdicts(),
        });
    }
    let lease = store.lease(&layout.push_lease(), Duration::ZERO)?;
    steps.remember()?;
    let past = steps.add_to_history(checked)?;
    let outcome = steps.run(checked, &lease, &past)?;
    let is_done = outcome == PushOutcome::Done;
    steps.tidy(&past, is_done);
    Ok(Pushed {
        revision,
        previous: checked.revision.clone(),
        outcome,
        nodes: steps.verdicts(),
    })
}
