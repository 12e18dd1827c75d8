//! The commands that run other tools and report their results. The rules of `tidy` are in that module.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::{python, rerun, tidy};

/// A step of `check`: its name, the arguments of cargo, and an environment variable it needs.
struct Step(
    &'static str,
    &'static [&'static str],
    Option<(&'static str, &'static str)>,
);

const STEPS: &[Step] = &[
    Step("fmt", &["fmt", "--all", "--check"], None),
    Step(
        "clippy",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        None,
    ),
    Step(
        "rustdoc",
        &[
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ],
        Some(("RUSTDOCFLAGS", "-D warnings")),
    ),
];

/// Everything that CI runs. Continues after a failure, so that one run reports everything.
pub fn check(root: &Path) -> bool {
    let mut failed = Vec::new();
    let begun = Instant::now();
    if !timed("tidy", || tidy::print(root)) {
        failed.push("tidy");
    }
    for Step(name, args, variable) in STEPS {
        let variable = variable.map(|(name, value)| (name, OsStr::new(value)));
        if !timed(name, || cargo(root, args, variable.as_slice())) {
            failed.push(name);
        }
    }
    if !timed("tests", || test(root, &["--workspace", "--quiet"])) {
        failed.push("tests");
    }
    if has(root, "deny") {
        if !timed("deny", || {
            cargo(root, &["deny", "--all-features", "check"], &[])
        }) {
            failed.push("deny");
        }
    } else {
        println!("-- deny: SKIPPED, cargo-deny is not installed (cargo install cargo-deny)");
    }
    let seconds = begun.elapsed().as_secs();
    if failed.is_empty() {
        println!("-- all checks passed in {seconds} s");
    } else {
        println!("-- FAILED after {seconds} s: {}", failed.join(", "));
    }
    failed.is_empty()
}

/// Runs `cargo test` with `args` as `rerun::test` does, with all that tests may use. Lists what was skipped.
pub fn test(root: &Path, args: &[&str]) -> bool {
    test_with(root, args, &[])
}

/// Like `test`, with the paths of programs that some tests need.
fn test_with(root: &Path, args: &[&str], programs: &[(&str, &Path)]) -> bool {
    let skipped = Skipped::new(root);
    let python = python::value(root);
    let mut variables = vec![skipped.variable(), (python::VARIABLE, python.as_os_str())];
    let programs = programs.iter();
    variables.extend(programs.map(|(name, path)| (*name, path.as_os_str())));
    let passed = rerun::test(root, args, &variables);
    skipped.print();
    passed
}

/// The file in which tests record what they skip on this machine: the output of passing tests is not shown.
struct Skipped(PathBuf);

impl Skipped {
    fn new(root: &Path) -> Skipped {
        let path = root.join("target/skipped-tests");
        // Removes the file of an earlier run.
        let _ = std::fs::remove_file(&path);
        Skipped(path)
    }

    /// The environment variable that names it to the tests.
    fn variable(&self) -> (&'static str, &OsStr) {
        ("SLUICE_SKIPPED", self.0.as_os_str())
    }

    fn print(&self) {
        for line in listed(&std::fs::read_to_string(&self.0).unwrap_or_default()) {
            println!("-- {line}");
        }
    }
}

/// The recorded lines, sorted and without duplicates.
fn listed(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// The Caddy to compare with: Debian's is older than the directives compared.
const CADDY: &str = "v2.11.4";

/// Runs the tests that compare with other servers; those whose server is not installed are reported as skipped. Caddy
/// is built below `target` first if `CADDY_BIN` is not set and Go is installed.
pub fn peer(root: &Path) -> bool {
    let caddy = caddy(root);
    let caddy = caddy.as_ref().map(|path| ("CADDY_BIN", path.as_path()));
    tests(root, &["peer", "--", "--include-ignored"], caddy.as_slice())
}

/// The Caddy named by the variable, or one that is built.
fn caddy(root: &Path) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("CADDY_BIN") {
        return Some(path.into());
    }
    let folder = root.join("target/caddy").join(CADDY);
    let module = format!("github.com/caddyserver/caddy/v2/cmd/caddy@{CADDY}");
    go_install(&folder, "caddy", &module)
}

/// Runs the soak test with its mixed load for this many minutes, and prints its figures.
pub fn soak(root: &Path, minutes: &str) -> bool {
    if !minutes.parse::<f64>().is_ok_and(|minutes| minutes > 0.0) {
        eprintln!("`{minutes}` is no number of minutes");
        return false;
    }
    cargo(
        root,
        &[
            "test",
            "--workspace",
            "--test",
            "e2e",
            "soak",
            "--",
            "--ignored",
            "--nocapture",
        ],
        &[("SLUICE_SOAK_MINUTES", OsStr::new(minutes))],
    )
}

/// The ACME server that the tests use: a fixed release, the same everywhere.
const PEBBLE: &str = "v2.10.1";

/// Runs the tests that order certificates from a real ACME server, some beside Caddy; both are installed below `target`
/// first.
pub fn acme(root: &Path) -> bool {
    let folder = root.join("target/pebble").join(PEBBLE);
    for program in ["pebble", "pebble-challtestsrv"] {
        let module = format!("github.com/letsencrypt/pebble/v2/cmd/{program}@{PEBBLE}");
        if go_install(&folder, program, &module).is_none() {
            return false;
        }
    }
    let Some(caddy) = caddy(root) else {
        return false;
    };
    let mut args = vec!["e2e", "acme", "--", "--include-ignored", "--test-threads=2"];
    let mut programs = vec![
        ("SLUICE_PEBBLE", folder.as_path()),
        ("CADDY_BIN", caddy.as_path()),
    ];
    let certbot = certbot(root);
    match &certbot {
        Some(certbot) => programs.push(("SLUICE_CERTBOT", certbot)),
        None => args.extend(["--skip", "certbot"]),
    }
    tests(root, &args, &programs)
}

/// A Certbot release whose nginx plugin works with this server.
const CERTBOT: &str = "5.8.0";

/// Certbot with its nginx plugin, in a separate Python environment.
fn certbot(root: &Path) -> Option<PathBuf> {
    let folder = root.join("target/certbot").join(CERTBOT);
    let program = folder.join("bin/certbot");
    if program.is_file() {
        return Some(program);
    }
    let release = |package: &str| format!("{package}=={CERTBOT}");
    let mut python = Command::new("python3");
    let mut pip = Command::new(folder.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]);
    pip.args([release("certbot"), release("certbot-nginx")]);
    for command in [python.args(["-m", "venv"]).arg(&folder), &mut pip] {
        if !command.status().is_ok_and(|status| status.success()) {
            eprintln!(
                "Certbot cannot be installed; it needs Python with `venv`, and the package index"
            );
            return None;
        }
    }
    Some(program)
}

/// The release of h2spec, the same everywhere.
const H2SPEC: &str = "v2.2.1+incompatible";

/// Runs h2spec, the HTTP/2 conformance suite, against the real server; it is installed below `target` first.
pub fn h2spec(root: &Path) -> bool {
    let folder = root.join("target/h2spec").join(H2SPEC);
    let module = format!("github.com/summerwind/h2spec/cmd/h2spec@{H2SPEC}");
    let Some(program) = go_install(&folder, "h2spec", &module) else {
        return false;
    };
    tests(
        root,
        &["e2e", "h2spec", "--", "--include-ignored"],
        &[("SLUICE_H2SPEC", &program)],
    )
}

/// The gRPC release whose interoperability tests are run.
const GRPC: &str = "v1.85.0";

/// Runs gRPC's interoperability tests, its own client and its own server with the proxy between them; both are
/// installed below `target` first.
pub fn grpc(root: &Path) -> bool {
    let folder = root.join("target/grpc").join(GRPC);
    for program in ["client", "server"] {
        let module = format!("google.golang.org/grpc/interop/{program}@{GRPC}");
        if go_install(&folder, program, &module).is_none() {
            return false;
        }
    }
    tests(
        root,
        &["e2e", "grpc", "--", "--include-ignored"],
        &[("SLUICE_GRPC", &folder)],
    )
}

/// The program that `module` is built to in `folder`, once; prints the reason if it cannot be built.
fn go_install(folder: &Path, program: &str, module: &str) -> Option<PathBuf> {
    let path = folder.join(program);
    if !path.is_file() {
        let mut go = Command::new("go");
        let status = go.args(["install", module]).env("GOBIN", folder).status();
        if !status.is_ok_and(|status| status.success()) {
            eprintln!("`go install {module}` failed; it needs Go and the module proxy");
            return None;
        }
    }
    Some(path)
}

/// Runs a test program of the package `sluice`, with the paths of the programs it needs.
fn tests(root: &Path, args: &[&str], programs: &[(&str, &Path)]) -> bool {
    // With `--workspace` as in `check`: the features of third-party crates stay the same, so nothing is rebuilt.
    let args = [&["--workspace", "--test"], args].concat();
    test_with(root, &args, programs)
}

/// Runs each fuzz target for `seconds`, starting from its seeds.
pub fn fuzz(root: &Path, seconds: u32) -> bool {
    let folder = root.join("fuzz");
    let manifest = match std::fs::read_to_string(folder.join("Cargo.toml")) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("fuzz/Cargo.toml: {error}");
            return false;
        }
    };
    if !has(root, "fuzz") {
        eprintln!("cargo-fuzz is not installed (cargo install cargo-fuzz; it needs +nightly)");
        return false;
    }
    let time = format!("-max_total_time={seconds}");
    let mut clean = true;
    for target in fuzz_targets(&manifest) {
        let corpus = format!("corpus/{target}");
        let seeds = format!("seeds/{target}");
        if let Err(error) = std::fs::create_dir_all(folder.join(&corpus)) {
            eprintln!("fuzz/{corpus}: {error}");
            return false;
        }
        let mut args = vec!["+nightly", "fuzz", "run", target, &corpus];
        if folder.join(&seeds).is_dir() {
            args.push(&seeds);
        }
        args.extend(["--", &time, "-print_final_stats=1"]);
        clean &= timed(target, || cargo(&folder, &args, &[]));
    }
    clean
}

fn fuzz_targets(manifest: &str) -> Vec<&str> {
    let bins = manifest.split("[[bin]]").skip(1);
    bins.filter_map(|bin| {
        let line = bin
            .lines()
            .find_map(|line| line.trim().strip_prefix("name"))?;
        line.split('"').nth(1)
    })
    .collect()
}

/// Runs a step and prints its name, whether it succeeded and how long it took.
pub fn timed(name: &str, run: impl FnOnce() -> bool) -> bool {
    println!("-- {name}");
    let begun = Instant::now();
    let done = run();
    let verdict = if done { "ok" } else { "FAILED" };
    println!(
        "-- {name}: {verdict} after {:.1} s",
        begun.elapsed().as_secs_f32()
    );
    done
}

fn cargo(folder: &Path, args: &[&str], variables: &[(&str, &OsStr)]) -> bool {
    // An argument may select the toolchain (+nightly), which only rustup's cargo understands.
    let mut command = Command::new("cargo");
    command.args(args).current_dir(folder);
    command.envs(variables.iter().copied());
    if args.first().is_some_and(|arg| arg.starts_with('+')) {
        command.env_remove("RUSTUP_TOOLCHAIN");
    }
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cargo: {error}");
            false
        }
    }
}

fn has(root: &Path, subcommand: &str) -> bool {
    let mut command = Command::new("cargo");
    command.args([subcommand, "--version"]).current_dir(root);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_listed_once_and_in_order() {
        let text = "skipped: b: no IPv6\nskipped: a: no curl\nskipped: b: no IPv6\n";
        assert_eq!(listed(text), ["skipped: a: no curl", "skipped: b: no IPv6"]);
        assert!(listed("").is_empty());
    }

    #[test]
    fn fuzz_targets_are_read_from_the_manifest() {
        let manifest = "[package]\nname = \"fuzz\"\n[[bin]]\nname = \"a\"\npath = \"a.rs\"\n\
                        [[bin]]\ntest = false\nname = \"b\"\n";
        assert_eq!(fuzz_targets(manifest), ["a", "b"]);
    }
}
