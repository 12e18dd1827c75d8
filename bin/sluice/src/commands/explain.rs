//! `sluice explain`: the page behind the name in the brackets of a message. The pages are the files of
//! `docs/errors/`.

use sluice_diag::closest;

use crate::Exit;
use crate::messages::Failed;

#[path = "../../../../docs/errors/index.rs"]
mod index;

use index::PAGES;

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
            for (name, _) in PAGES {
                say!("{name}");
            }
            return Ok(Exit::Done);
        };
        let name = wanted.trim_matches(['[', ']']);
        match PAGES.iter().find(|(slug, _)| *slug == name) {
            Some((_, page)) => {
                say!("{}", page.trim_start_matches("# ").trim_end());
                Ok(Exit::Done)
            }
            None => {
                let failed = Failed::new(format!("no message is called `{name}`"));
                Err(match closest(name, PAGES.iter().map(|(slug, _)| *slug)) {
                    Some(guess) => failed.help(format!("did you mean `{guess}`?")),
                    None => failed.help("`sluice explain` lists all names"),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_has_a_name_and_says_something() {
        let names: Vec<&str> = PAGES.iter().map(|(name, _)| *name).collect();
        assert!(names.contains(&"unknown-directive"));
        assert!(
            names.is_sorted_by(|a, b| a < b),
            "the pages are in order, none twice"
        );
        for (name, page) in PAGES {
            let title = format!("# {name}\n\n");
            let text = page
                .strip_prefix(&title)
                .expect("the page begins with its name");
            assert!(text.trim().len() > 40, "the page of {name} says too little");
        }
    }
}
