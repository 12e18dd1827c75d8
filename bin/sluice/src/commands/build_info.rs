//! `sluice build-info`: the packages in this program, read from the lock file of the build.

use crate::Exit;
use crate::commands::version;
use crate::messages::Failed;

/// The lock file of the build.
pub const LOCK: &str = include_str!("../../../../Cargo.lock");

/// Prints the packages that this program was built from.
pub fn run() -> Result<Exit, Failed> {
    say!("sluice\t{}", version::TEXT);
    say!("rust\t{}", env!("CARGO_PKG_RUST_VERSION"));
    say!(
        "target\t{}-{}",
        std::env::consts::ARCH,
        std::env::consts::OS
    );
    for (name, version) in packages(LOCK) {
        say!("dep\t{name}\tv{version}");
    }
    Ok(Exit::Done)
}

/// Names and versions of external packages.
pub fn packages(lock: &str) -> impl Iterator<Item = (&str, &str)> {
    lock.split("[[package]]").skip(1).filter_map(|package| {
        let field = |name: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(name))?;
            line.strip_prefix(" = \"")?.strip_suffix('"')
        };
        field("source")?;
        Some((field("name")?, field("version")?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_others_are_listed() {
        let found: Vec<_> = packages(LOCK).collect();
        assert!(found.iter().any(|(name, _)| *name == "clap"));
        assert!(!found.iter().any(|(name, _)| name.starts_with("sluice")));
    }
}
