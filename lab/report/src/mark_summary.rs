//! What marked blocks mean for the figures of a whole result. The experiment decides when a block is marked.

use sluice_load::result::{Block, MarkKind, Rest, RunResult};

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
    let sentences = MEANINGS.iter().filter_map(sentence).chain(failed);
    sentences.chain(rests(result)).collect()
}

/// Blocks that began although the machine had not come to rest.
fn rests(result: &RunResult) -> Vec<String> {
    let blocks = || result.cells.iter().flat_map(|cell| &cell.blocks);
    let (total, rests) = (blocks().count(), blocks().filter_map(|block| block.rest));
    let (busy, short): (Vec<Rest>, Vec<Rest>) = (
        rests.clone().filter(Rest::is_busy).collect(),
        rests.filter(Rest::is_short_of_ports).collect(),
    );
    let longest = |rests: &[Rest]| rests.iter().map(|rest| rest.waited_s).fold(0.0, f64::max);
    let mut sentences = Vec::new();
    if !busy.is_empty() {
        let most = busy.iter().filter_map(|rest| rest.busy).fold(0.0, f64::max);
        sentences.push(format!(
            "The machine did not become idle before {} of {total} blocks, although they waited up to {:.0} s: up to {:.0} % of \
             its CPUs were busy. Marks say in which of them other processes ran during the window.",
            busy.len(),
            longest(&busy),
            most * 100.0
        ));
    }
    if !short.is_empty() {
        let most = short.iter().map(|rest| rest.ports_held).max().unwrap_or(0);
        sentences.push(format!(
            "Closed connections still held up to {most} local ports when {} of {total} blocks began, after a wait of up to \
             {:.0} s. Connects may have failed for lack of ports there.",
            short.len(),
            longest(&short)
        ));
    }
    sentences
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn a_machine_that_did_not_come_to_rest_is_reported() {
        let mut result = example::result();
        result.cells.truncate(1);
        assert_eq!(rests(&result), Vec::<String>::new());
        let rest = Rest {
            waited_s: 30.0,
            idle: Some(true),
            busy: Some(0.01),
            ports_held: 5,
            ports_held_max: 5,
        };
        let blocks = &mut result.cells[0].blocks;
        blocks[0].rest = Some(rest);
        blocks[1].rest = Some(Rest {
            idle: Some(false),
            busy: Some(0.62),
            ..rest
        });
        blocks[2].rest = Some(Rest {
            ports_held: 20_000,
            waited_s: 65.0,
            ..rest
        });
        let texts = sentences(&result);
        let has = |part: &str| texts.iter().any(|text| text.contains(part));
        assert!(
            has("before 1 of 5 blocks, although they waited up to 30 s: up to 62 %"),
            "{texts:?}"
        );
        assert!(has(
            "up to 20000 local ports when 1 of 5 blocks began, after a wait of up to 65 s"
        ));
    }
}
