//! Results of the same experiment as one: their blocks together, so that intervals become narrower and percentiles are
//! those of all responses.

use super::compare::reasons;
use sluice_load::result::{CellState, RunResult};

/// Adds the blocks of the other results to the first. The error names why they are not the same experiment; with
/// `force` that becomes a note.
pub fn merge(results: Vec<RunResult>, force: bool) -> Result<RunResult, String> {
    let mut results = results.into_iter();
    let mut all = results.next().ok_or("no result to merge")?;
    for other in results {
        let differ = reasons(&all, &other);
        if !differ.is_empty() {
            let differ = differ.join("; ");
            if !force {
                return Err(format!("not the same experiment: {differ}"));
            }
            all.notes
                .push(format!("merged although they differ: {differ}"));
        }
        add(&mut all, other);
    }
    Ok(all)
}

fn add(all: &mut RunResult, other: RunResult) {
    // Blocks with the same number are neighbours in time and form pairs: those of each result stay together.
    let numbers = all.cells.iter().flat_map(|cell| &cell.blocks);
    let offset = numbers.map(|block| block.number + 1).max().unwrap_or(0);
    for cell in other.cells {
        let known = all.cells.iter().position(|known| known.axes == cell.axes);
        let mut blocks = cell.blocks.clone();
        blocks.iter_mut().for_each(|block| block.number += offset);
        let Some(at) = known else {
            let mut cell = cell;
            cell.blocks = blocks;
            cell.failed_starts
                .iter_mut()
                .for_each(|start| start.block += offset);
            all.cells.push(cell);
            continue;
        };
        let mine = &mut all.cells[at];
        if !blocks.is_empty() {
            mine.state = CellState::Measured;
        }
        mine.blocks.extend(blocks);
        let starts = cell.failed_starts.into_iter().map(|mut start| {
            start.block += offset;
            start
        });
        mine.failed_starts.extend(starts);
    }
    all.duration_s += other.duration_s;
    all.started_unix_ms = all.started_unix_ms.min(other.started_unix_ms);
    let known: Vec<String> = all.subjects.iter().map(|one| one.name.clone()).collect();
    let new = other.subjects.into_iter();
    all.subjects
        .extend(new.filter(|one| !known.contains(&one.name)));
    all.overload.extend(other.overload);
    for limit in other.limits {
        if !all.limits.contains(&limit) {
            all.limits.push(limit);
        }
    }
    for note in other.notes {
        if !all.notes.contains(&note) {
            all.notes.push(note);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use crate::view::View;
    use sluice_load::result::FailedStart;

    #[test]
    fn blocks_are_those_of_all_results_and_stay_pairs() {
        let mut one = example::result();
        one.cells.truncate(2);
        let mut two = one.clone();
        two.cells[1].failed_starts.push(FailedStart {
            block: 0,
            reason: "no port".into(),
        });
        // A cell that only the second has.
        let mut more = two.cells[0].clone();
        more.axes.insert("clients".into(), "77".into());
        two.cells.push(more);
        let merged = merge(vec![one.clone(), two], false).unwrap();
        let numbers: Vec<usize> = merged.cells[0]
            .blocks
            .iter()
            .map(|block| block.number)
            .collect();
        assert_eq!(numbers, (0..10).collect::<Vec<usize>>());
        assert_eq!(merged.cells[1].failed_starts[0].block, 5);
        assert_eq!(
            (merged.cells.len(), merged.cells[2].blocks[0].number),
            (3, 5)
        );
        // Histograms add up exactly.
        let count = |result: &RunResult| View::new(result).cells[0].histogram().unwrap().count();
        assert_eq!(count(&merged), 2 * count(&one));
    }

    #[test]
    fn other_experiments_are_refused() {
        let one = example::result();
        let mut two = one.clone();
        two.machine.cpus = 64;
        let error = merge(vec![one.clone(), two.clone()], false).unwrap_err();
        assert!(
            error.contains("processors: `2 x A Processor <2>` and `64 x"),
            "{error}"
        );
        let forced = merge(vec![one, two], true).unwrap();
        assert!(
            forced
                .notes
                .last()
                .unwrap()
                .contains("merged although they differ")
        );
    }
}
