//! `sluice fmt`: formats a Caddyfile.

use std::path::PathBuf;

use crate::Exit;
use crate::load::{ADJACENT, Source};
use crate::messages::{Failed, MessageFormat};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Caddyfile to format, or `-` for stdin (default: `./Caddyfile`).
    #[arg(conflicts_with = "config")]
    path: Option<PathBuf>,
    /// Caddyfile to format.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Write the result back to the file.
    #[arg(short = 'w', long)]
    overwrite: bool,
    /// Print the differences instead of the result.
    #[arg(short, long)]
    diff: bool,
}

impl Args {
    /// Formats the file. When printing, the exit code says whether the file was already formatted.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        let path = self.path.or(self.config).unwrap_or_else(|| ADJACENT.into());
        let is_stdin = path.as_os_str() == "-";
        let source = Source::of(Some(&path), None).expect("a source was named");
        let (name, text) = source.read()?;
        let formatted = sluice_caddyfile::format(&name, &text)
            .map_err(|report| Failed::report(&report, format))?;
        if self.overwrite && !is_stdin {
            if formatted != text {
                std::fs::write(&path, &formatted)
                    .map_err(|error| Failed::new(format!("cannot write {name}: {error}")))?;
            }
            return Ok(Exit::Done);
        }
        if self.diff {
            crate::messages::print_bytes(differences(&text, &formatted).as_bytes())?;
        } else {
            crate::messages::print_bytes(formatted.as_bytes())?;
        }
        if is_stdin || formatted == text {
            return Ok(Exit::Done);
        }
        Err(Failed::new(format!("{name} is not formatted"))
            .help("`sluice fmt --overwrite` writes the result to the file"))
    }
}

/// A line-by-line comparison: `-` and `+` mark lines of one text only, two spaces the others.
fn differences(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = common(&old, &new);
    let (mut a, mut b) = (0, 0);
    let mut out = String::new();
    let mut push = |mark: &str, line: &str| {
        out.push_str(mark);
        out.push_str(line);
        out.push('\n');
    };
    for (in_old, in_new) in same.into_iter().chain([(old.len(), new.len())]) {
        old[a..in_old].iter().for_each(|line| push("- ", line));
        new[b..in_new].iter().for_each(|line| push("+ ", line));
        if let Some(line) = old.get(in_old) {
            push("  ", line);
        }
        (a, b) = ((in_old + 1).min(old.len()), (in_new + 1).min(new.len()));
    }
    out
}

/// Pairs of equal lines in order. Looks only a few lines ahead on both sides, as formatting does not move lines far.
fn common(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    const AHEAD: usize = 64;
    let mut pairs = Vec::new();
    let (mut a, mut b) = (0, 0);
    while a < old.len() && b < new.len() {
        let near = (0..AHEAD).flat_map(|sum| (0..=sum).map(move |i| (i, sum - i)));
        let found = near
            .map(|(i, j)| (a + i, b + j))
            .find(|(i, j)| old.get(*i).is_some_and(|line| new.get(*j) == Some(line)));
        match found {
            Some((i, j)) => {
                pairs.push((i, j));
                (a, b) = (i + 1, j + 1);
            }
            None => (a, b) = (a + 1, b + 1),
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_show_both_texts() {
        assert_eq!(
            differences("a {\n b\nc\n}\n", "a {\n\tb\n\tc\n}\n\n"),
            "  a {\n-  b\n- c\n+ \tb\n+ \tc\n  }\n+ \n"
        );
        assert_eq!(differences("a\n", "a\n"), "  a\n");
        assert_eq!(differences("", "a\n"), "+ a\n");
    }
}
