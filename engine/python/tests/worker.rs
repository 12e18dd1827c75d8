//! The tests of the worker itself, which are written in Python: `worker/tests/run.py` runs them with other interpreters.

use std::ffi::OsStr;
use std::process::Command;

use crate::abilities::{can_run, skipped_part};
use crate::python::accelerator_wheel;
use crate::support::Folder;

#[test]
fn the_worker_passes_its_own_tests() {
    let supported = "import sys; sys.exit(sys.version_info < (3, 9))";
    if !can_run("python3", &["-c", supported]) {
        return;
    }
    run(&[]);
}

#[test]
fn the_worker_passes_its_own_tests_with_the_accelerator() {
    let supported = "import sys, pip; sys.exit(sys.version_info < (3, 9) or sys.implementation.name != 'cpython')";
    if !can_run("python3", &["-c", supported]) {
        return;
    }
    let Some(wheel) = accelerator_wheel() else {
        return;
    };
    let folder = Folder::new();
    let pip = [
        "-m",
        "pip",
        "install",
        "--no-index",
        "--no-deps",
        "--quiet",
        "--target",
    ];
    let mut install = Command::new("python3");
    install.args(pip).arg(folder.path()).arg(wheel);
    let installed = install.output().expect("python3 runs");
    let report = String::from_utf8_lossy(&installed.stderr);
    assert!(installed.status.success(), "{report}");
    run(&["--accelerator".as_ref(), folder.path().as_os_str()]);
}

fn run(options: &[&OsStr]) {
    let output = Command::new("python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/worker/tests/run.py"))
        .args(options)
        .arg("python3")
        .output()
        .expect("python3 runs");
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}");
    // The last line counts the tests that need uvloop, gevent or a framework.
    let result = report.lines().last().unwrap_or_default();
    if result.contains("skipped") {
        skipped_part(format_args!("tests of the Python worker: {result}"));
    }
}
