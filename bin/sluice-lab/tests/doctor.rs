//! `doctor --fix`.

use std::process::Command;

use crate::abilities::skipped_part;
use crate::world::{LAB, lab, output_text};

/// Runs the lab from a shell with few open files, and returns what it printed and the shell's limits before and after.
fn from_a_shell(words: &str) -> (String, Vec<String>) {
    // The limits of the shell itself, as the kernel has them.
    let limits = "sed -n 's/^Max open files *\\([0-9]*\\) .*/limit \\1/p' /proc/$$/limits";
    let script =
        format!("ulimit -Sn 300; {limits}; '{LAB}' doctor -c 100 {words}; {limits}; exit 0");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let text = output_text(&output);
    let found = text.lines().filter(|line| line.starts_with("limit "));
    (text.clone(), found.map(str::to_string).collect())
}

#[test]
fn the_shell_that_starts_the_lab_gets_more_open_files() {
    let (text, limits) = from_a_shell("--fix --dry-run");
    assert!(text.contains("would  open files"), "{text}");
    assert_eq!(limits, ["limit 300", "limit 300"], "{text}");
    let others = text.lines().filter(|line| line.starts_with("would "));
    if others.count() > 1 {
        // As root outside a container it would change the machine.
        skipped_part("doctor --fix changes settings of the kernel here");
    } else {
        let (text, limits) = from_a_shell("--fix");
        assert!(text.contains("fixed  open files"), "{text}");
        assert!(text.contains(" --nofile=300:"), "{text}");
        assert_eq!(limits, ["limit 300", "limit 400"], "{text}");
    }
    let (text, limits) = from_a_shell("");
    assert!(!text.contains("undo: "), "{text}");
    assert_eq!(limits, ["limit 300", "limit 300"], "{text}");
}

#[test]
fn a_dry_run_needs_something_to_fix() {
    let output = lab(&["doctor", "--dry-run"]);
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("--fix"), "{text}");
}
