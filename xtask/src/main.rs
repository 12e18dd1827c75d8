//! Checks and chores of this repository: `cargo xtask check` is what CI runs. CONTRIBUTING.md explains the rules.

mod attacks;
mod check;
mod fresh;
mod python;
mod rerun;
mod sites;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  check          everything that CI runs: fmt, clippy, rustdoc, tidy, deny, tests
  test [args]    `cargo test`; a test that fails is run once more, alone, and listed as flaky if it then passes
  tidy           the house rules that a program can check
  fresh [step…]  README's two commands in a clean Debian 12 that debootstrap makes; needs root.
                 Steps: setup (or --setup-only), check, clippy, test, run; by default test and run
  tidy --words [context]
                 counts of the phrases that glossary.toml rules out (BLESS=1 lowers their ceilings), or where they
                 occur in one context, such as docs
  tidy --cycles  the import cycles inside packages (BLESS=1 lowers their ceilings)
  peer           the tests that compare with Caddy and nginx
  acme           the tests with a real ACME authority, pebble, which Go installs
  h2spec         the public suite of HTTP/2, which Go installs
  soak [minutes] everything at once for so long (10): nothing fails, nothing grows
  grpc           the public test cases of gRPC through the proxy, which Go installs
  python-env     creates target/python with the packages of tests/python/requirements.txt, once, and prints its folder
  sites <count>  prints a Caddyfile with so many sites, to measure with
  fuzz [secs]    each fuzz target for so many seconds (60)
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
        ["peer"] => check::peer(&root),
        ["acme"] => check::acme(&root),
        ["h2spec"] => check::h2spec(&root),
        ["soak"] => check::soak(&root, "10"),
        ["soak", minutes] => check::soak(&root, minutes),
        ["python-env"] => python::print(&root),
        ["grpc"] => check::grpc(&root),
        ["sites", count] => match count.parse() {
            Ok(count) => sites::print(count),
            Err(_) => return usage(),
        },
        ["fuzz"] => check::fuzz(&root, 60),
        ["fuzz", seconds] => match seconds.parse() {
            Ok(seconds) => check::fuzz(&root, seconds),
            Err(_) => return usage(),
        },
        _ => return usage(),
    };
    if done {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    }
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
