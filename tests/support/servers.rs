//! The servers to compare with. If one is not installed, the test is reported as skipped.

use std::path::{Path, PathBuf};

use super::abilities::{skipped, tried};

/// The Caddy of `CADDY_BIN`, or one in `PATH` that is new enough: older ones lack directives and headers that are
/// compared. `cargo xtask peer` and `acme` build it.
#[track_caller]
pub fn caddy() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("CADDY_BIN") {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join("caddy"))
        .filter(|file| file.is_file())
        .find(|file| is_new_enough(file));
    if found.is_none() {
        skipped("no Caddy of 2.11.9 or newer: no CADDY_BIN and none in PATH");
    }
    found
}

/// The comparison follows Caddy 2.11.9.
fn is_new_enough(caddy: &Path) -> bool {
    let Some(output) = tried(&caddy.to_string_lossy(), &["version"]) else {
        return false;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.trim_start_matches('v').split(['.', ' ', '\n']);
    let mut number = || numbers.next().and_then(|part| part.parse::<u32>().ok());
    (number(), number(), number()) >= (Some(2), Some(11), Some(9))
}

/// The nginx of `NGINX_BIN`, or the installed one.
#[track_caller]
pub fn nginx() -> Option<PathBuf> {
    let named = std::env::var_os("NGINX_BIN").map(PathBuf::from);
    let known = ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"];
    let found = named.or_else(|| known.iter().map(PathBuf::from).find(|path| path.is_file()));
    if found.is_none() {
        skipped("nginx is not installed, and NGINX_BIN is not set");
    }
    found
}
