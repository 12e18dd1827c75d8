use std::path::{Path, PathBuf};

use super::evidence::Sheet;
use super::finding::Weight;
use super::read::{Hints, read};
use super::{audit, print, studies};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// Compares with the file, or updates it with `BLESS=1`.
fn expect(path: &Path, found: &str) {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, found).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(
        found,
        expected,
        "{} differs; BLESS=1 rewrites it",
        path.display()
    );
}

fn study(id: &str) -> Sheet {
    studies::study(id).unwrap().unwrap().sheet
}

#[test]
fn the_studies_have_their_findings() {
    for id in studies::IDS {
        let sheet = study(id);
        expect(
            &golden(&format!("study-{id}.txt")),
            &print::text(&sheet, &audit(&sheet)),
        );
    }
}

/// The list in `studies/README.md`, by study: a rule and words that its finding must contain.
#[test]
fn every_known_fault_of_the_studies_is_found() {
    let wanted: [(&str, &[(&str, &str)]); 5] = [
        (
            "000",
            &[
                (
                    "A2",
                    "html-large, 16 rows: 9.63 to 9.84 Gbit/s for every server",
                ),
                ("A3", "synthetic: different servers agree"),
                (
                    "A1",
                    "11 rows with failures: the latencies explain only 5.18 % to 26.9 %",
                ),
                ("A1", "the window was longer than printed"),
                ("A7", "the slowest response took most of the run"),
                ("A9", "1 worker x 512 worker_connections"),
                ("A9", "4 workers x 1,024 worker_connections"),
                ("A11", "does not hold: 35,127,259 requests"),
                ("A12", "sendfile patch"),
                ("A12", "proxy_cache"),
                ("A4", "a minimum latency of 0.00 ms in 14 rows"),
                ("A8", "single run"),
            ],
        ),
        (
            "001",
            &[
                ("A1", "2 rows: an average larger than the clients allow"),
                ("A6", "average above the maximum"),
                ("A4", "timeout 1343"),
            ],
        ),
        (
            "002",
            &[
                ("A8", "means of percentiles"),
                ("A11", "does not hold: the table matches the results.json"),
                ("A1", "99.7 % to 99.94 %"),
            ],
        ),
        (
            "003",
            &[
                ("A5", "names of histogram steps"),
                ("A11", "does not hold: Caddy outperforms nginx by 4 times"),
                ("A10", "keeps upstream connections"),
                ("A12", "round 2"),
            ],
        ),
        (
            "004",
            &[
                ("A4", "failures as fast as another row's responses"),
                ("A9", "2 idle upstream connections"),
                ("A4", "62 seconds"),
            ],
        ),
    ];
    for (id, findings) in wanted {
        let found = audit(&study(id));
        for (rule, words) in findings {
            let hit = found
                .iter()
                .any(|f| f.rule == *rule && f.title.contains(words));
            assert!(hit, "{id}: no {rule} with `{words}`");
        }
    }
}

#[test]
fn outputs_of_tools_are_judged() {
    for entry in std::fs::read_dir(golden("tools")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let (input, _) = text
            .split_once("\n----\n")
            .expect("input, a line of dashes, findings");
        let hints = Hints {
            clients: Some(50.0),
            ..Hints::default()
        };
        let mut sheet =
            read(input, None, &hints).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        sheet.title = path.file_stem().unwrap().to_string_lossy().into_owned();
        let row = format!("{:#?}\n", sheet.rows);
        expect(
            &path,
            &format!(
                "{input}\n----\n{row}{}",
                print::text(&sheet, &audit(&sheet))
            ),
        );
    }
}

#[test]
fn a_sound_report_has_nothing_against_it() {
    let text = "| name | clients | seconds | requests | requests/s | mean (ms) | median | p99 | max | errors |\n\
        |---|---|---|---|---|---|---|---|---|---|\n\
        | a | 10 | 30 | 300000 | 10000 | 0.98 | 0.9 | 2.5 | 9.1 | 0 |\n\
        | b | 10 | 30 | 240000 | 8000 | 1.21 | 1.1 | 2.9 | 8.4 | 0 |\n";
    let sheet = read(text, None, &Hints::default()).unwrap();
    let against: Vec<_> = audit(&sheet)
        .into_iter()
        .filter(|f| f.weight < Weight::Sound)
        .collect();
    assert!(against.is_empty(), "{against:?}");
}

#[test]
fn unreadable_input_is_reported() {
    let error = read("hello", None, &Hints::default()).unwrap_err();
    assert!(
        error.contains("k6") && error.contains("rpc-bench"),
        "{error}"
    );
    let cut = "Running 30s test @ http://a/\n  1 threads and 10 connections\n";
    assert!(
        read(cut, None, &Hints::default())
            .unwrap_err()
            .contains("Requests/sec")
    );
}

/// Every parser is fed texts that end anywhere and texts with bytes of others in them: the result may be an error,
/// never a panic.
#[test]
fn cut_and_mixed_texts_do_no_harm() {
    for entry in std::fs::read_dir(golden("tools")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let input = text.split("\n----\n").next().unwrap_or_default();
        for at in (0..input.len())
            .step_by(5)
            .filter(|at| input.is_char_boundary(*at))
        {
            for text in [&input[..at], &input[at..]] {
                if let Ok(sheet) = read(text, None, &Hints::default()) {
                    audit(&sheet);
                }
            }
        }
    }
}
