//! The counts in a file that callgrind writes.

use std::collections::BTreeMap;

/// Counts per request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Instructions of the process in user mode.
    pub instructions: f64,
    /// Allocations and reallocations.
    pub allocations: f64,
    /// System calls, and reads of the clock: valgrind has no vDSO, so each is a call.
    pub system_calls: f64,
}

impl Counts {
    /// Without what is in `other`.
    pub fn without(self, other: Counts) -> Counts {
        Counts {
            instructions: self.instructions - other.instructions,
            allocations: self.allocations - other.allocations,
            system_calls: self.system_calls - other.system_calls,
        }
    }
}

/// Begins of the names of the allocator's own functions.
const ALLOCATOR: [&str; 2] = ["mi_", "_mi_"];

/// The functions of the allocator that the program calls for memory. Freeing is not counted: it follows from these.
const ALLOCATING: [&str; 9] = [
    "mi_malloc",
    "mi_malloc_aligned",
    "mi_malloc_small",
    "mi_zalloc",
    "mi_zalloc_aligned",
    "mi_calloc",
    "mi_realloc",
    "mi_realloc_aligned",
    "mi_rezalloc_aligned",
];

/// The counts in `text` divided by `requests`; `None` if callgrind did not write it.
pub fn read(text: &str, requests: u32) -> Option<Counts> {
    let requests = f64::from(requests);
    let events = text
        .lines()
        .find_map(|line| line.strip_prefix("events: "))?;
    let totals = text
        .lines()
        .find_map(|line| line.strip_prefix("totals: "))?;
    let total = |name: &str| {
        let at = events.split(' ').position(|event| event == name)?;
        // Trailing zeros are left out.
        let value = totals.split(' ').nth(at).unwrap_or("0");
        value.parse::<u64>().ok()
    };
    Some(Counts {
        instructions: total("Ir")? as f64 / requests,
        allocations: allocations(text) as f64 / requests,
        system_calls: total("sysCount")? as f64 / requests,
    })
}

fn allocations(text: &str) -> u64 {
    let mut names = BTreeMap::new();
    let (mut caller, mut callee) = ("", "");
    let mut count = 0;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            caller = resolve(&mut names, name);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            callee = resolve(&mut names, name);
        } else if let Some(calls) = line.strip_prefix("calls=") {
            let is_inside = ALLOCATOR.iter().any(|begin| caller.starts_with(begin));
            if !is_inside && ALLOCATING.contains(&callee) {
                let calls = calls.split(' ').next().and_then(|calls| calls.parse().ok());
                count += calls.unwrap_or(0);
            }
        }
    }
    count
}

/// The name in `(12) name`, or the one that `(12)` had before. A recursive function has a number at its end.
fn resolve<'a>(names: &mut BTreeMap<&'a str, &'a str>, text: &'a str) -> &'a str {
    match text.split_once(' ') {
        Some((number, name)) => {
            let name = name.split('\'').next().unwrap_or(name);
            names.insert(number, name);
            name
        }
        None => names.get(text).copied().unwrap_or(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
version: 1
events: Ir sysCount sysTime
fn=(1) serve
1 100
cfn=(2) mi_malloc
calls=30 5
1 90
cfn=(3) mi_free
calls=30 5
1 90
fn=(2)
1 90
cfn=(4) mi_malloc_aligned
calls=7 5
1 3
fn=(5) other
cfn=(4)
calls=10 9
1 3
totals: 5000 20
";

    #[test]
    fn totals_are_divided_by_the_requests() {
        let counts = read(FILE, 10).unwrap();
        assert_eq!(counts.instructions, 500.0);
        assert_eq!(counts.system_calls, 2.0);
        assert_eq!(read("version: 1\n", 10), None);
    }

    #[test]
    fn what_is_not_of_the_requests_is_taken_off() {
        let counts = |instructions| Counts {
            instructions,
            allocations: 3.0,
            system_calls: 7.0,
        };
        let left = counts(500.0).without(counts(100.0));
        assert_eq!(left.instructions, 400.0);
        assert_eq!((left.allocations, left.system_calls), (0.0, 0.0));
    }

    #[test]
    fn calls_of_the_program_for_memory_are_counted() {
        // 30 and 10; the 7 are the allocator's own.
        assert_eq!(read(FILE, 10).unwrap().allocations, 4.0);
    }
}
