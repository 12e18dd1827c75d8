//! What tests require of the machine they run on. A test checks for the ability it needs, not for the name of a
//! program: there is uWSGI without Python and curl without HTTP/2. A test that cannot run reports that by name.

use std::fmt::Display;
use std::io::Write;
use std::panic::Location;
use std::process::{Command, Output, Stdio};

/// The file to which the tests of a run append what they skip; `cargo xtask check` sets it and prints the contents.
const SKIPPED: &str = "SLUICE_SKIPPED";

/// Reports that the calling test cannot run here. It is then counted as skipped and not as passed.
#[track_caller]
pub fn skipped(reason: impl Display) {
    record("skipped", &reason, Location::caller());
}

/// Reports that a part of the calling test cannot run here. The test counts by the result of the rest.
#[track_caller]
pub fn skipped_part(reason: impl Display) {
    record("skipped in part", &reason, Location::caller());
}

fn record(what: &str, reason: &dyn Display, caller: &Location<'_>) {
    let thread = std::thread::current();
    // With one test thread the test runs in the main thread, and its name is not known.
    let name = match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => format!("{}:{}", caller.file(), caller.line()),
    };
    // The reason may quote a program's error of several lines.
    let reason = reason.to_string().replace('\n', " ");
    let line = format!("{what}: {name}: {reason}\n");
    print!("{line}");
    let Some(path) = std::env::var_os(SKIPPED) else {
        return;
    };
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path);
    // The line is written in one call, so that lines of concurrent tests do not mix.
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| println!("{SKIPPED}: {error}"));
}

/// The output of a program run with these arguments; `None` if it cannot be started.
pub fn tried(program: &str, args: &[&str]) -> Option<Output> {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .ok()
}

/// Whether a program succeeds with these arguments; if not, the test is reported as skipped.
#[track_caller]
pub fn can_run(program: &str, args: &[&str]) -> bool {
    let can = tried(program, args).is_some_and(|output| output.status.success());
    if !can {
        skipped(format_args!("`{program}` does not run here"));
    }
    can
}

/// The name of an installed Chromium; if there is none, the test is reported as skipped.
#[track_caller]
pub fn chromium() -> Option<&'static str> {
    let known = ["chromium", "chromium-browser", "google-chrome"];
    let runs =
        |name: &&str| tried(name, &["--version"]).is_some_and(|output| output.status.success());
    let found = known.into_iter().find(runs);
    if found.is_none() {
        skipped("no chromium is installed");
    }
    found
}

/// Whether OpenSSL 3.0 or newer is installed: tests use features that LibreSSL and older versions lack.
/// If not, the test is reported as skipped.
#[track_caller]
pub fn has_openssl() -> bool {
    let version = tried("openssl", &["version"]);
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let major = version.as_deref().and_then(|version| {
        let number = version.strip_prefix("OpenSSL ")?;
        number.split('.').next()?.parse::<u32>().ok()
    });
    let has = major.is_some_and(|major| major >= 3);
    if !has {
        skipped("no OpenSSL of 3.0 or newer is installed");
    }
    has
}

/// Whether this machine has IPv6; if not, the test is reported as skipped.
#[track_caller]
pub fn has_ipv6() -> bool {
    let has = std::net::TcpListener::bind((std::net::Ipv6Addr::LOCALHOST, 0)).is_ok();
    if !has {
        skipped("this machine has no IPv6");
    }
    has
}
