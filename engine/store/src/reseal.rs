//! Encrypts with the newest key what a store has in plain text or under an older key: after encryption was enabled, or after
//! its key was changed. Servers may use the store meanwhile; a value that one of them writes at the same time stays as it is
//! written.

use crate::Key;
use crate::failure::{Fault, StoreError};
use crate::limits::RESEAL_ATTEMPTS;

/// What happened to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResealOutcome {
    /// It was encrypted with the newest key.
    Sealed,
    /// It was already, or is gone.
    Current,
    /// Others wrote it at every attempt.
    Busy,
    /// It cannot be decrypted, or is not a value.
    Unusable(StoreError),
}

/// A value that was looked at.
#[derive(Clone, Debug)]
pub struct ResealStep<'a> {
    /// Its key.
    pub key: &'a Key,
    /// What happened to it.
    pub outcome: ResealOutcome,
    /// How many values there are.
    pub total: usize,
}

/// Hears of each value.
pub type ResealReport<'r> = dyn FnMut(ResealStep<'_>) + 'r;

/// Calls `attempt` for each of `keys`, again if something else has written the value meanwhile, and reports the outcomes.
///
/// # Errors
/// Those that concern the engine. What was done until then stays.
pub(crate) fn each(
    keys: &[Key],
    attempt: impl Fn(&Key) -> Result<ResealOutcome, StoreError>,
    report: &mut ResealReport<'_>,
) -> Result<(), StoreError> {
    for key in keys {
        let mut outcome = ResealOutcome::Busy;
        for _ in 0..RESEAL_ATTEMPTS {
            match attempt(key) {
                Ok(done) => outcome = done,
                Err(error) if error.fault == Fault::Refused => continue,
                Err(error) if error.fault == Fault::Foreign => {
                    outcome = ResealOutcome::Unusable(error);
                }
                Err(error) => return Err(error),
            }
            break;
        }
        report(ResealStep {
            key,
            outcome,
            total: keys.len(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_value_that_others_write_is_tried_again_and_then_left_to_them() {
        let keys = ["a", "b", "c"].map(|name| Key::new(name).unwrap());
        let failed = |fault| StoreError::new(fault, "x", "");
        let attempts = Cell::new(0);
        let attempt = |key: &Key| {
            attempts.set(attempts.get() + 1);
            match (key.as_str(), attempts.get()) {
                ("a", 1) => Err(failed(Fault::Refused)),
                ("a", _) => Ok(ResealOutcome::Sealed),
                ("b", _) => Err(failed(Fault::Refused)),
                _ => Err(failed(Fault::Foreign)),
            }
        };
        let mut seen = Vec::new();
        let done = each(&keys, attempt, &mut |step| {
            seen.push((step.key.to_string(), step.outcome));
        });
        assert_eq!(done, Ok(()));
        let expected = [
            ResealOutcome::Sealed,
            ResealOutcome::Busy,
            ResealOutcome::Unusable(failed(Fault::Foreign)),
        ];
        let names = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(seen, Vec::from_iter(names.into_iter().zip(expected)));
        assert_eq!(attempts.get(), 2 + RESEAL_ATTEMPTS + 1);
        let away = |_: &Key| Err(failed(Fault::Away));
        assert!(each(&keys, away, &mut |_| panic!("a report")).is_err());
    }
}
