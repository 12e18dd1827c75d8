//! Prints the tree as text, for golden tests and for debugging how a file was parsed.
//!
//! The output is not a Caddyfile; `format` writes those.

use std::fmt::{self, Display, Formatter};

use crate::tree::{Directive, File, Quote, Token};

impl Display for File {
    /// One line for each line of the tree, indented by two spaces a level. Words are quoted as
    /// they were written, with invisible characters escaped.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(global) = &self.global {
            writeln!(f, "global")?;
            directives(f, &global.body, 1)?;
        }
        for route in &self.named_routes {
            writeln!(f, "named_route {}", Word(&route.name))?;
            directives(f, &route.body, 1)?;
        }
        for site in &self.sites {
            write!(f, "site")?;
            for address in &site.addresses {
                write!(f, " {}", Word(address))?;
            }
            writeln!(f)?;
            directives(f, &site.body, 1)?;
        }
        Ok(())
    }
}

fn directives(f: &mut Formatter<'_>, lines: &[Directive], depth: usize) -> fmt::Result {
    for line in lines {
        write!(f, "{:width$}{}", "", Word(&line.name), width = depth * 2)?;
        for arg in &line.args {
            write!(f, " {}", Word(arg))?;
        }
        match line.block.as_deref() {
            None => writeln!(f)?,
            Some([]) => writeln!(f, " {{}}")?,
            Some(lines) => {
                writeln!(f)?;
                directives(f, lines, depth + 1)?;
            }
        }
    }
    Ok(())
}

struct Word<'a>(&'a Token);

impl Display for Word<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let escaped = self.0.text.escape_debug().to_string().replace("\\'", "'");
        match self.0.quote {
            Quote::None => write!(f, "{}", escaped.replace("\\\\", "\\").replace("\\\"", "\"")),
            Quote::Double => write!(f, "\"{escaped}\""),
            Quote::Backtick => write!(f, "`{escaped}`"),
            Quote::Heredoc => write!(f, "<<\"{escaped}\""),
        }
    }
}
