//! `--budget`: fits a run into a time. First there are fewer blocks, down to what an interval needs; then shorter windows; and only
//! then fewer blocks than that.

use std::time::Duration;

use crate::file::File;
use sluice_audit::limits::BLOCKS_MIN;

/// Shortest window that is chosen for a budget: it has as many intervals as the check for steadiness wants.
const WINDOW_MIN: Duration = Duration::from_secs(1);

/// Whether the windows of a run may be shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Windows {
    /// The user has set them.
    Fixed,
    /// They are those of the file.
    Flexible,
}

/// Fits an experiment into a time. `block_s` are the seconds of one block of all cells. Returns what has changed, if anything.
pub(super) fn fit(
    file: &mut File,
    budget: Duration,
    windows: Windows,
    block_s: impl Fn(&File) -> f64,
) -> Option<String> {
    let blocks = |file: &File| (budget.as_secs_f64() / block_s(file)) as usize;
    let (blocks_before, window_before) = (file.repeat.blocks, file.load.duration);
    let wanted = blocks_before.min(BLOCKS_MIN);
    while windows == Windows::Flexible && blocks(file) < wanted && file.load.duration > WINDOW_MIN {
        file.load.duration = (file.load.duration / 2).max(WINDOW_MIN);
    }
    file.repeat.blocks = blocks(file).clamp(1, blocks_before);
    let mut parts = Vec::new();
    if file.repeat.blocks != blocks_before {
        parts.push(format!(
            "{} blocks instead of {blocks_before}",
            file.repeat.blocks
        ));
    }
    if file.load.duration != window_before {
        let (now, before) = (
            file.load.duration.as_secs_f64(),
            window_before.as_secs_f64(),
        );
        parts.push(format!("windows of {now} s instead of {before} s"));
    }
    (!parts.is_empty()).then(|| format!("--budget: {}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{builtin::builtin, file};

    #[test]
    fn blocks_go_first_then_windows_then_the_last_blocks() {
        let fitted = |seconds: u64, windows| {
            let mut file = file::parse("000", builtin("000").unwrap()).unwrap();
            (file.repeat.blocks, file.load.duration) = (10, Duration::from_secs(8));
            let budget = Duration::from_secs(seconds);
            // Ten cells, without anything around them.
            let text = fit(&mut file, budget, windows, |file| {
                10.0 * file.load.duration.as_secs_f64()
            });
            (file.repeat.blocks, file.load.duration.as_secs(), text)
        };
        let of = |seconds| fitted(seconds, Windows::Flexible);
        assert_eq!(of(800), (10, 8, None));
        let text = Some("--budget: 6 blocks instead of 10".to_string());
        assert_eq!(of(500), (6, 8, text));
        let text = "--budget: 5 blocks instead of 10, windows of 4 s instead of 8 s";
        assert_eq!(of(200), (5, 4, Some(text.to_string())));
        let both = |seconds, windows| {
            let (blocks, window, _) = fitted(seconds, windows);
            (blocks, window)
        };
        assert_eq!(both(60, Windows::Flexible), (6, 1));
        assert_eq!(both(25, Windows::Flexible), (2, 1));
        assert_eq!(both(1, Windows::Flexible), (1, 1));
        assert_eq!(both(200, Windows::Fixed), (2, 8));
    }
}
