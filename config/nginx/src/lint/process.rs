//! Lint rules for the process, its workers, and media types.

use std::collections::HashMap;

use super::{File, Found};

/// Fewer connections than a page with its pictures and a handful of visitors take.
const CONNECTIONS_MIN: u64 = 1024;

pub fn few_connections<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for events in file.blocks("events") {
        let Some(block) = events.block() else {
            continue;
        };
        match events.own("worker_connections").last() {
            None => found.at(block, "512 is the default"),
            Some(line) if number(line.arg(0)).is_some_and(|count| count < CONNECTIONS_MIN) => {
                found.at(line, "soon used up");
            }
            Some(_) => {}
        }
    }
}

pub fn connections_below_keepalive<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (_, line) in file.all("worker_connections") {
        for (_, keepalive) in file.all("keepalive") {
            if let (Some(count), Some(kept)) = (number(line.arg(0)), number(keepalive.arg(0)))
                && kept.saturating_mul(2) > count
            {
                found.with(line, "few are left for clients", keepalive, "kept unused");
            }
        }
    }
}

pub fn connections_above_files<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (_, files) in file.all("worker_rlimit_nofile") {
        for (_, line) in file.all("worker_connections") {
            if let (Some(files_max), Some(count)) = (number(files.arg(0)), number(line.arg(0)))
                && count.saturating_mul(2) > files_max
            {
                found.with(
                    line,
                    "so many cannot be had",
                    files,
                    "the limit of open files",
                );
            }
        }
    }
}

pub fn one_worker<'t>(file: &File<'t>, found: &mut Found<'t>) {
    let is_written = file.all("worker_processes").next().is_some();
    let http = file.blocks("http").next().and_then(|http| http.block());
    if let Some(http) = http.filter(|_| !is_written) {
        found.at(http, "served by one worker");
    }
}

pub fn error_log_off<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (_, line) in file
        .all("error_log")
        .filter(|(_, line)| line.arg(0) == Some("off"))
    {
        found.at(line, "the name of a file");
    }
}

pub fn no_media_types<'t>(file: &File<'t>, found: &mut Found<'t>) {
    let has_types = file.blocks("types").next().is_some();
    let roots = file.all("root").chain(file.all("alias"));
    if let Some((_, line)) = roots.into_iter().next().filter(|_| !has_types) {
        found.at(line, "files are served from here");
    }
}

pub fn duplicate_media_type<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for types in file.blocks("types") {
        let mut known: HashMap<&str, &'t crate::tree::Directive> = HashMap::new();
        for line in types.body() {
            for extension in &line.args {
                match known.insert(&extension.text, line) {
                    Some(first) if first.name() != line.name() => {
                        let label = format!("a second type for `.{}`", extension.text);
                        found.with(line, label, first, "the first one");
                    }
                    Some(_) | None => {}
                }
            }
        }
    }
}

pub fn gzip_types_html<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (_, line) in file.all("gzip_types") {
        if line.args.iter().any(|word| word.text == "text/html") {
            found.at(line, "listed again");
        }
    }
}

fn number(text: Option<&str>) -> Option<u64> {
    text?.parse().ok()
}
