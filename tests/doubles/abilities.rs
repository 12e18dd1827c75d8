//! What tests require of the machine they run on. A test checks for the ability it needs, not for the name of a
//! program: there is uWSGI without Python and curl without HTTP/2. A test that cannot run reports that by name.

use std::fmt::Display;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// The file to which the tests of a run append what they skip; `cargo xtask check` sets it and prints the contents.
const SKIPPED: &str = "SLUICE_SKIPPED";

/// Reports that the calling test, or a part of it, cannot run here.
pub fn skipped(reason: impl Display) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {reason}\n", thread.name().unwrap_or("a test"));
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
pub fn can_run(program: &str, args: &[&str]) -> bool {
    let can = tried(program, args).is_some_and(|output| output.status.success());
    if !can {
        skipped(format_args!("`{program}` does not run here"));
    }
    can
}

/// Whether OpenSSL 3.0 or newer is installed: tests use features that LibreSSL and older versions lack.
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

/// Whether this machine has IPv6.
pub fn has_ipv6() -> bool {
    let has = std::net::TcpListener::bind((std::net::Ipv6Addr::LOCALHOST, 0)).is_ok();
    if !has {
        skipped("this machine has no IPv6");
    }
    has
}
