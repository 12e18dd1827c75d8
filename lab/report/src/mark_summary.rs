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
            "A server did not start {count} times (such as: {}). This is reported although it started at other times.",
            first.reason
        )
    });
    MEANINGS.iter().filter_map(sentence).chain(failed).collect()
}

/// Failures are not included: they have columns of their own.
const MEANINGS: &[(MarkKind, &str, &str)] = &[
    (
        MarkKind::Unusable,
        "The intended setup was not in effect in",
        "Those figures measure something else.",
    ),
    (
        MarkKind::Ended,
        "The server exited in",
        "Those figures stop at that moment.",
    ),
    (
        MarkKind::Disturbed,
        "Other processes ran during",
        "Compare CPU time per response there: rates and latencies depend on the other processes as well.",
    ),
    (
        MarkKind::GeneratorLimited,
        "The generator was saturated in",
        "Rates and latencies there are those of the generator: the server could have served more.",
    ),
    (
        MarkKind::Unsteady,
        "Throughput was still rising or falling in",
        "Use a longer warm-up.",
    ),
    (
        MarkKind::Late,
        "Requests were sent later than they were due in",
        "Latencies there are partly the generator's own.",
    ),
    (
        MarkKind::Slow,
        "The machine itself was slow around",
        "Other guests on the host may be the cause; compare subjects within a block there, not across blocks.",
    ),
];
