//! What marked blocks mean for the figures of a whole result. The experiment decides when a block is marked.

use sluice_load::result::{Block, MarkKind, RunResult};

/// A sentence for each kind of mark, with the number of blocks and the text of the first one.
pub fn sentences(result: &RunResult) -> Vec<String> {
    let blocks = || result.cells.iter().flat_map(|cell| &cell.blocks);
    let total = blocks().count();
    let sentence = |&(kind, what, meaning): &(MarkKind, &str, &str)| {
        let marks = |block: &Block| block.marks.iter().find(|mark| mark.kind == kind).cloned();
        let marks: Vec<_> = blocks().filter_map(marks).collect();
        let (first, count) = (&marks.first()?.text, marks.len());
        Some(format!(
            "{what} {count} of {total} blocks (such as: {first}). {meaning}"
        ))
    };
    let starts = result.cells.iter().flat_map(|cell| &cell.failed_starts);
    let starts: Vec<_> = starts.collect();
    let failed = starts.first().map(|first| {
        let count = starts.len();
        format!(
            "A server did not start {count} times (such as: {}). It is in the result although it started at other times.",
            first.reason
        )
    });
    MEANINGS.iter().filter_map(sentence).chain(failed).collect()
}

/// Failures are not included: they have columns of their own.
const MEANINGS: &[(MarkKind, &str, &str)] = &[
    (
        MarkKind::Unusable,
        "What was to be measured was not, in",
        "Those figures are of something else.",
    ),
    (
        MarkKind::Ended,
        "The server ended in",
        "Those figures stop there.",
    ),
    (
        MarkKind::Disturbed,
        "Others took part in",
        "Compare the CPU for each answer there; rates and times say as much of the others.",
    ),
    (
        MarkKind::GeneratorLimited,
        "The generator was full in",
        "Rates and times there are its own: the server could have answered more.",
    ),
    (
        MarkKind::Unsteady,
        "Throughput was still rising or falling in",
        "A longer warm-up would tell more.",
    ),
    (
        MarkKind::Late,
        "Requests left later than they were due in",
        "Latencies there are in part the generator's own.",
    ),
    (
        MarkKind::Slow,
        "The machine itself was slow around",
        "Its neighbours on the host may be why; compare subjects within a block there, not with other blocks.",
    ),
];
