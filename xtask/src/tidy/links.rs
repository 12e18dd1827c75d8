//! Links in Markdown files: the file and the heading that a relative link names must exist. Links to other hosts are
//! not followed.

use std::collections::{BTreeMap, BTreeSet};

use super::{Breach, Source};

/// Breaches of all Markdown files.
pub fn check(sources: &[Source]) -> Vec<Breach> {
    let files: BTreeSet<&str> = sources.iter().map(|source| source.path.as_str()).collect();
    let pages = || sources.iter().filter(|source| is_page(&source.path));
    let headings: BTreeMap<&str, BTreeSet<String>> = pages()
        .map(|page| (page.path.as_str(), anchors(page)))
        .collect();
    let mut breaches = Vec::new();
    for page in pages() {
        for (number, line) in prose(page) {
            for target in targets(&line) {
                let Some(problem) = problem(page, target, &files, &headings) else {
                    continue;
                };
                breaches.push(Breach::new(&page.path, number, "links", problem));
            }
        }
    }
    breaches
}

/// What is wrong with a link of `page`.
fn problem(
    page: &Source,
    target: &str,
    files: &BTreeSet<&str>,
    headings: &BTreeMap<&str, BTreeSet<String>>,
) -> Option<String> {
    let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
    if is_elsewhere {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match file {
        "" => page.path.clone(),
        _ => match resolved(page.folder(), file) {
            Some(path) => path,
            None => return Some(format!("`{target}` leads out of the repository")),
        },
    };
    let is_folder = || {
        let inside = format!("{path}/");
        files.iter().any(|file| file.starts_with(&inside))
    };
    if !files.contains(path.as_str()) && !is_folder() {
        return Some(format!("`{target}` names a file that does not exist"));
    }
    let known = headings.get(path.as_str())?;
    let is_known = anchor.is_empty() || known.contains(anchor);
    (!is_known).then(|| format!("`{target}` names a heading that does not exist"))
}

/// A relative path below the root of the repository; `None` if it climbs out of it.
fn resolved(folder: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn is_page(path: &str) -> bool {
    path.ends_with(".md") && !path.contains("/tests/")
}

/// The lines outside fenced code, with their numbers and without code spans.
fn prose(page: &Source) -> Vec<(usize, String)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (number, line) in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            let text: String = line.split('`').step_by(2).collect();
            lines.push((number, text));
        }
    }
    lines
}

/// The targets of inline links.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let links = line.split("](").skip(1);
    links.filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// The anchors of a page's headings, spelled as GitHub does.
fn anchors(page: &Source) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_code = false;
    for (_, line) in page.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if is_code || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let anchor = anchor(title.trim());
        let repeated = (1..).map(|count| format!("{anchor}-{count}"));
        let mut names = [anchor.clone()].into_iter().chain(repeated);
        found.extend(names.find(|name| !found.contains(name)));
    }
    found
}

fn anchor(title: &str) -> String {
    let kept = title
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c })
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(pages: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = pages
            .iter()
            .map(|(path, text)| Source::new(*path, *text))
            .collect();
        check(&sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_to_missing_files_and_headings_are_refused() {
        let page =
            "# A\n[b](../b.md#two-words) [c](c.md)\n[d](#no) [e](../../../e.md) [f](../b.md#no)\n";
        assert_eq!(
            messages(&[("docs/x/a.md", page), ("docs/b.md", "# Two `words`?\n")]),
            [
                "docs/x/a.md:2: `c.md` names a file that does not exist [links]",
                "docs/x/a.md:3: `#no` names a heading that does not exist [links]",
                "docs/x/a.md:3: `../../../e.md` leads out of the repository [links]",
                "docs/x/a.md:3: `../b.md#no` names a heading that does not exist [links]",
            ]
        );
    }

    #[test]
    fn folders_other_hosts_and_code_are_not_refused() {
        let page = "# A\n## Same\n## Same\n[x](x) [h](https://a.test/b.md) [s](#same-1) `[i](i.md)`\n\
            ```\n[j](j.md)\n# No\n```\n";
        assert!(messages(&[("a.md", page), ("x/y.rs", "")]).is_empty());
    }
}
