//! `sluice explain`: the page behind the name in the brackets of a message. The pages are the sections of
//! `docs/diagnostics.md`.

use sluice_diag::closest;

use crate::Exit;
use crate::messages::Failed;

const PAGES: &str = include_str!("../../../../docs/diagnostics.md");

/// The flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The name, such as `unknown-directive`; without one all names are listed.
    slug: Option<String>,
}

impl Args {
    /// Prints the page.
    pub fn run(self) -> Result<Exit, Failed> {
        let Some(wanted) = self.slug else {
            let names: Vec<&str> = pages().map(|(name, _)| name).collect();
            println!("{}", names.join("\n"));
            return Ok(Exit::Done);
        };
        let name = wanted.trim_matches(['[', ']']);
        match pages().find(|(slug, _)| *slug == name) {
            Some((slug, page)) => {
                println!("{slug}\n\n{}", page.trim());
                Ok(Exit::Done)
            }
            None => {
                let failed = Failed::new(format!("no message is called `{name}`"));
                Err(match closest(name, pages().map(|(slug, _)| slug)) {
                    Some(guess) => failed.help(format!("did you mean `{guess}`?")),
                    None => failed.help("`sluice explain` lists all names"),
                })
            }
        }
    }
}

/// Names and pages, in the order of the document.
fn pages() -> impl Iterator<Item = (&'static str, &'static str)> {
    PAGES
        .split("\n## ")
        .skip(1)
        .map(|page| page.split_once('\n').unwrap_or((page, "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_has_a_name_and_says_something() {
        let names: Vec<&str> = pages().map(|(name, _)| name).collect();
        assert!(names.contains(&"unknown-directive"));
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(
            names, sorted,
            "the pages are in order and none is there twice"
        );
        for (name, page) in pages() {
            assert!(page.trim().len() > 40, "the page of {name} says too little");
        }
    }
}
