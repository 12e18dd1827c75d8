//! Checks and chores of this repository: `cargo xtask check` is what CI runs. CONTRIBUTING.md explains the rules.

mod attacks;
mod check;
mod cost;
mod fresh;
mod pgo;
#[allow(dead_code, reason = "the tests that generate the tables use the rest")]
mod proofs;
mod python;
mod rerun;
mod sites;
mod skipped;
mod suites;
mod tidy;
mod wheel;

use std::path::PathBuf;
use std::process::ExitCode;

use suites::Outcome;

const USAGE: &str = "\
usage: cargo xtask <command>

  check          what `make test` runs: tidy, fmt, clippy, rustdoc, deny, tests
  test [args]    `cargo test`; a test that fails is run once more, alone, and listed as flaky if it then passes
  tidy           the house rules that a program can check
  tidy --words [context]
                 counts of the phrases that glossary.toml rules out (BLESS=1 lowers their ceilings), or where they
                 occur in one context, such as docs
  tidy --cycles  the import cycles inside packages (BLESS=1 lowers their ceilings)
  python-env     creates target/python with the packages of tests/python/requirements.txt, once, and prints its folder
  wheel [profile]
                 builds the wheels `sluice` and `sluice-worker` in target/wheels (profile: release)
  wheel worker   builds `sluice-worker` for the tests in target/wheels/dev

slower kinds, which install what they need below target/; exit status 3 if that cannot be fetched:
  peer           the tests that compare with nginx and with Caddy, which Go builds
  acme           the tests with a real ACME server, pebble, which Go builds, and with Certbot from PyPI
  h2spec         the public suite of HTTP/2, which Go builds
  grpc           the public test cases of gRPC through the proxy, which Go builds
  soak [minutes] everything at once for so long (10): nothing fails, nothing grows
  fuzz [secs]    each fuzz target for so many seconds (60)
  fresh [step…]  README's two commands in a clean Debian 12 that debootstrap makes; needs root.
                 Steps: setup (or --setup-only), check, clippy, test, run; by default test and run

the fastest program:
  pgo            builds target/pgo/sluice with profile-guided optimisation: an instrumented build, requests of every
                 kind of `cost` to it, and a build for what they have used. Needs PyPI for llvm-profdata

to measure with:
  sites <count>  prints a Caddyfile with so many sites
  cost [kind…]   instructions, allocations and system calls per request, beside the committed ones (xtask/costs.toml;
                 BLESS=1 replaces them). Measures target/release/sluice, which it builds, or $SLUICE_BIN; needs valgrind
";

fn main() -> ExitCode {
    let root = root();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["check"] => check::check(&root),
        ["test", ref args @ ..] => check::test(&root, args),
        ["tidy"] => tidy::print(&root),
        ["fresh", ref steps @ ..] => match fresh::fresh(&root, steps) {
            Some(done) => done,
            None => return usage(),
        },
        ["tidy", "--cycles"] => tidy::print_cycles(&root),
        ["tidy", "--words"] => tidy::print_words(&root),
        ["tidy", "--words", context] => tidy::print_occurrences(&root, context),
        ["peer"] => return suites::peer(&root).into(),
        ["acme"] => return suites::acme(&root).into(),
        ["h2spec"] => return suites::h2spec(&root).into(),
        ["soak"] => return suites::soak(&root, "10").into(),
        ["soak", minutes] => return suites::soak(&root, minutes).into(),
        ["python-env"] => python::print(&root),
        ["wheel"] => wheel::build(&root, "release"),
        ["wheel", "worker"] => wheel::build_for_tests(&root),
        ["wheel", profile] => wheel::build(&root, profile),
        ["grpc"] => return suites::grpc(&root).into(),
        ["sites", count] => match count.parse() {
            Ok(count) => sites::print(count),
            Err(_) => return usage(),
        },
        ["cost", ref kinds @ ..] => cost::print(&root, kinds),
        ["pgo"] => pgo::build(&root),
        ["fuzz"] => check::fuzz(&root, 60),
        ["fuzz", seconds] => match seconds.parse() {
            Ok(seconds) => check::fuzz(&root, seconds),
            Err(_) => return usage(),
        },
        _ => return usage(),
    };
    Outcome::from(done).into()
}

fn usage() -> ExitCode {
    eprint!("{USAGE}");
    ExitCode::from(2)
}

/// The root folder of the repository: the parent of this package.
fn root() -> PathBuf {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    package
        .parent()
        .expect("xtask/ lies in the repository")
        .to_path_buf()
}
