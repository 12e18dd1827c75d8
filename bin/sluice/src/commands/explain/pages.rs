//! The pages of diagnostics, by slug. They are the files of `docs/reference/errors/`.

use sluice_diag::closest;

use crate::Exit;
use crate::messages::Failed;

#[path = "../../../../../docs/reference/errors/index.rs"]
mod index;

use index::PAGES;

/// Prints the slugs of all pages.
pub fn list() -> Exit {
    for (name, _) in PAGES {
        say!("{name}");
    }
    Exit::Done
}

/// Prints the page of the slug `wanted`.
pub fn print(wanted: &str) -> Result<Exit, Failed> {
    let name = wanted.trim_matches(['[', ']']);
    if let Some((_, page)) = PAGES.iter().find(|(slug, _)| *slug == name) {
        say!("{}", page.trim_start_matches("# ").trim_end());
        return Ok(Exit::Done);
    }
    let failed = Failed::new(format!("`{name}` is not the slug of a diagnostic"));
    Err(match closest(name, PAGES.iter().map(|(slug, _)| *slug)) {
        Some(guess) => failed.help(format!("did you mean `{guess}`?")),
        None => failed.help(format!(
            "`sluice explain` lists all slugs; to explain a request, write `{name}/` or a complete URL"
        )),
    })
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
