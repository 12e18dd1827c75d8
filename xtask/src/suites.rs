//! The slower kinds of tests: they run other programs, which are first installed below `target`. If one cannot be
//! fetched, that is reported as skipped, not as failed: the exit status is that of `Outcome::Unavailable`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::check::{cargo, test_with};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything it does succeeded.
    Done,
    /// A test or a check failed.
    Failed,
    /// Nothing was tested: a program that it needs cannot be fetched.
    Unavailable,
}

impl From<bool> for Outcome {
    fn from(done: bool) -> Outcome {
        match done {
            true => Outcome::Done,
            false => Outcome::Failed,
        }
    }
}

impl From<Outcome> for ExitCode {
    /// 2 is the status for wrong usage.
    fn from(outcome: Outcome) -> ExitCode {
        match outcome {
            Outcome::Done => ExitCode::SUCCESS,
            Outcome::Failed => ExitCode::from(1),
            Outcome::Unavailable => ExitCode::from(3),
        }
    }
}

/// The Caddy to compare with: Debian's is older than the directives compared.
const CADDY: &str = "v2.11.9";

/// Runs the tests that compare with other servers; those whose server is not installed are reported as skipped. Caddy
/// is built below `target` first if `CADDY_BIN` is not set and Go is installed; so are the clients of HTTP/3.
pub fn peer(root: &Path) -> Outcome {
    let (caddy, quic_go, aioquic) = (caddy(root), quic_go(root), aioquic(root));
    let programs = [
        ("CADDY_BIN", caddy.as_ref()),
        ("SLUICE_QUIC_GO", quic_go.as_ref()),
        ("SLUICE_AIOQUIC", aioquic.as_ref()),
    ];
    let programs: Vec<(&str, &Path)> = programs
        .into_iter()
        .filter_map(|(name, path)| Some((name, path?.as_path())))
        .collect();
    let args = ["e2e", "peer::", "--", "--include-ignored"];
    tests(root, &args, &programs)
}

/// The client of HTTP/3 on quic-go, built from `tests/peer/quic_go`, whose `go.mod` has the release.
fn quic_go(root: &Path) -> Option<PathBuf> {
    let program = root.join("target/quic_go/client");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(".");
    go.current_dir(root.join("tests/peer/quic_go"));
    if go.status().is_ok_and(|status| status.success()) {
        return Some(program);
    }
    eprintln!("the client on quic-go cannot be built; it needs Go and the module proxy");
    None
}

/// A release of aioquic, the same everywhere.
const AIOQUIC: &str = "1.7.2";

/// Python with aioquic, in a separate environment.
fn aioquic(root: &Path) -> Option<PathBuf> {
    let folder = root.join("target/aioquic").join(AIOQUIC);
    python_environment(&folder, &[format!("aioquic=={AIOQUIC}")], "aioquic")?;
    Some(folder.join("bin/python"))
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

/// Runs the soak test with its mixed load for this many minutes, and prints its figures; then the other long tests.
pub fn soak(root: &Path, minutes: &str) -> Outcome {
    if !minutes.parse::<f64>().is_ok_and(|minutes| minutes > 0.0) {
        eprintln!("`{minutes}` is not a number of minutes");
        return Outcome::Failed;
    }
    let Some(pebble) = pebble(root) else {
        return unavailable("soak", "pebble");
    };
    let args = [
        "test",
        "--workspace",
        "--test",
        "e2e",
        "soak",
        "--",
        "--ignored",
        "--nocapture",
    ];
    let minutes = ("SLUICE_SOAK_MINUTES", OsStr::new(minutes));
    let pebble = ("SLUICE_PEBBLE", pebble.as_os_str());
    cargo(root, &args, &[minutes, pebble]).into()
}

/// The ACME server that the tests use: a fixed release, the same everywhere.
const PEBBLE: &str = "v2.10.1";

/// The folder with pebble and its DNS server, which Go builds.
fn pebble(root: &Path) -> Option<PathBuf> {
    let folder = root.join("target/pebble").join(PEBBLE);
    for program in ["pebble", "pebble-challtestsrv"] {
        let module = format!("github.com/letsencrypt/pebble/v2/cmd/{program}@{PEBBLE}");
        go_install(&folder, program, &module)?;
    }
    Some(folder)
}

/// Runs the tests that obtain certificates from a real ACME server, pebble, except those of the modules called `soak`. The
/// tests that also need Caddy or Certbot
/// report themselves as skipped if that cannot be installed.
pub fn acme(root: &Path) -> Outcome {
    let Some(folder) = pebble(root) else {
        return unavailable("acme", "pebble");
    };
    let (caddy, certbot) = (caddy(root), certbot(root));
    let programs = [
        ("SLUICE_PEBBLE", Some(&folder)),
        ("CADDY_BIN", caddy.as_ref()),
        ("SLUICE_CERTBOT", certbot.as_ref()),
    ];
    let programs: Vec<(&str, &Path)> = programs
        .into_iter()
        .filter_map(|(name, path)| Some((name, path?.as_path())))
        .collect();
    tests(root, &ACME_ARGS, &programs)
}

/// The tests of `acme`. The matrix of engines and faults is in modules called `soak`, of which it has one of each kind.
const ACME_ARGS: [&str; 7] = [
    "e2e",
    "acme",
    "--",
    "--include-ignored",
    "--test-threads=2",
    "--skip",
    "::soak::",
];

/// A Certbot release whose nginx plugin works with this server.
const CERTBOT: &str = "5.8.0";

/// Certbot with its nginx plugin, in a separate Python environment.
fn certbot(root: &Path) -> Option<PathBuf> {
    let folder = root.join("target/certbot").join(CERTBOT);
    let release = |package: &str| format!("{package}=={CERTBOT}");
    let packages = [release("certbot"), release("certbot-nginx")];
    python_environment(&folder, &packages, "Certbot")?;
    Some(folder.join("bin/certbot"))
}

/// Creates a Python environment with `packages` in `folder`, once; prints the reason if it cannot be created.
fn python_environment(folder: &Path, packages: &[String], name: &str) -> Option<()> {
    // Written last: an environment without it was not finished.
    let finished = folder.join("finished");
    if finished.is_file() {
        return Some(());
    }
    let mut python = Command::new("python3");
    let mut pip = Command::new(folder.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]);
    pip.args(packages);
    for command in [python.args(["-m", "venv"]).arg(folder), &mut pip] {
        if !command.status().is_ok_and(|status| status.success()) {
            eprintln!(
                "{name} cannot be installed; it needs Python with `venv`, and the package index"
            );
            return None;
        }
    }
    std::fs::write(finished, "").ok()
}

/// The release of h2spec, the same everywhere.
const H2SPEC: &str = "v2.2.1+incompatible";

/// Runs h2spec, the HTTP/2 conformance suite, against the real server.
pub fn h2spec(root: &Path) -> Outcome {
    let folder = root.join("target/h2spec").join(H2SPEC);
    let module = format!("github.com/summerwind/h2spec/cmd/h2spec@{H2SPEC}");
    let Some(program) = go_install(&folder, "h2spec", &module) else {
        return unavailable("h2spec", "h2spec");
    };
    let programs = [("SLUICE_H2SPEC", program.as_path())];
    tests(
        root,
        &["e2e", "h2spec", "--", "--include-ignored"],
        &programs,
    )
}

/// The gRPC release whose interoperability tests are run.
const GRPC: &str = "v1.85.0";

/// Runs gRPC's interoperability tests, its own client and its own server with the proxy between them.
pub fn grpc(root: &Path) -> Outcome {
    let folder = root.join("target/grpc").join(GRPC);
    for program in ["client", "server"] {
        let module = format!("google.golang.org/grpc/interop/{program}@{GRPC}");
        if go_install(&folder, program, &module).is_none() {
            return unavailable("grpc", "gRPC's interoperability test");
        }
    }
    let programs = [("SLUICE_GRPC", folder.as_path())];
    tests(root, &["e2e", "grpc", "--", "--include-ignored"], &programs)
}

/// Reports that a kind of tests cannot run here, in the form of a run of tests.
fn unavailable(kind: &str, program: &str) -> Outcome {
    println!("skipped: {kind}: {program} cannot be built: it needs Go and the module proxy");
    println!("summary: 0 passed, 0 failed, 1 skipped");
    Outcome::Unavailable
}

/// The program that `module` is built to in `folder`, once; prints the reason if it cannot be built.
fn go_install(folder: &Path, program: &str, module: &str) -> Option<PathBuf> {
    let path = folder.join(program);
    if !path.is_file() {
        println!("-- building {module}");
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
fn tests(root: &Path, args: &[&str], programs: &[(&str, &Path)]) -> Outcome {
    // With `--workspace` as in `check`: the features of third-party crates stay the same, so nothing is rebuilt.
    let args = [&["--workspace", "--test"], args].concat();
    test_with(root, &args, programs).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_cannot_be_fetched_is_not_a_failed_test() {
        assert_eq!(Outcome::from(true), Outcome::Done);
        assert_eq!(Outcome::from(false), Outcome::Failed);
        let folder = std::env::temp_dir().join(format!("sluice-suites-{}", std::process::id()));
        let missing = go_install(&folder, "nothing", "not a module");
        assert_eq!(missing, None);
    }
}
