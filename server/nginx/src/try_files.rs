//! `nginx_try_files`: the first of several files that exists, else another path, a named location or a status.

use sluice_cache::{Kind, Missing};
use sluice_message::Status;
use sluice_model::nginx::TryFiles as Config;
use sluice_route::{Template, UnfitPath};

use super::links::Links;
use super::{Query, TreeRef, explained, go_on_at};
use crate::shared::Shared;
use crate::state::NginxContext;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::files;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::{expand_path, expanded};

struct TryFiles {
    files: Vec<Candidate>,
    root: Template,
    alias_of: Box<[u8]>,
    /// Candidates follow the whole alias of a location with a pattern.
    follows_alias: bool,
    otherwise: Otherwise,
    links: Links,
    tree: TreeRef,
}

struct Candidate {
    path: Template,
    /// Whether a directory is looked for.
    is_folder: bool,
}

/// The fallback if no candidate exists.
enum Otherwise {
    Fail(Status),
    GoTo(Template),
}

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let candidate = |text: &String| {
        Ok(Candidate {
            // A directory is entered without its slash, so that a request without the slash is redirected.
            path: builder.template(text.strip_suffix('/').unwrap_or(text))?,
            is_folder: text.ends_with('/'),
        })
    };
    let otherwise = match Status::new(config.status) {
        Some(status) => Otherwise::Fail(status),
        None => Otherwise::GoTo(builder.template(&config.fallback)?),
    };
    Ok(Box::new(TryFiles {
        files: config
            .files
            .iter()
            .map(candidate)
            .collect::<Result<_, Refusal>>()?,
        root: builder.template(&config.root)?,
        alias_of: config.alias_of.as_bytes().into(),
        follows_alias: config.follows_alias,
        otherwise,
        links: Links::build(&config.links, builder)?,
        tree: Shared::of(builder).tree,
    }))
}

impl TryFiles {
    /// Appends the expanded candidate to `text` and the path of its file to `path`.
    fn write(
        &self,
        candidate: &Candidate,
        exchange: &Exchange,
        text: &mut Vec<u8>,
        path: &mut Vec<u8>,
    ) -> Result<(), UnfitPath> {
        expand_path(&candidate.path, exchange, text)?;
        expand_path(&self.root, exchange, path)?;
        // An alias replaces the path of its location, where variables have it; other texts follow the alias as they stand.
        let is_fixed = candidate.path.literal().is_some();
        let below = match text.strip_prefix(&*self.alias_of).filter(|_| !is_fixed) {
            // `location /a { alias /b/; }` would let `/a../c` escape the directory.
            Some([b'.', b'.'] | [b'.', b'.', b'/', ..]) if !self.alias_of.is_empty() => {
                return Err(UnfitPath);
            }
            below => below.unwrap_or(text),
        };
        path.extend_from_slice(below);
        Ok(())
    }
}

impl TryFiles {
    /// Continues with a candidate that exists. `text` is what it expands to.
    fn choose(&self, candidate: &Candidate, exchange: &mut Exchange, mut text: Vec<u8>) {
        if self.follows_alias {
            // The whole alias is the directory.
            if candidate.is_folder {
                return;
            }
            exchange.context.nginx_mut().follows_alias = true;
        }
        if candidate.path.literal().is_some() || !text.starts_with(&self.alias_of) {
            text.splice(0..0, self.alias_of.iter().copied());
        }
        exchange.req.uri.set_path(&text);
        exchange.context.nginx_mut().target.change();
    }
}

impl Handler for TryFiles {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        let now = exchange.worker.clock.coarse();
        for candidate in &self.files {
            let mut text = Vec::new();
            let found = files::with_path(|path| {
                self.write(candidate, exchange, &mut text, path)
                    .map_err(|UnfitPath| Missing::Impossible)?;
                files::facts(path, self.links.access(exchange, path), now)
            });
            let wanted = match candidate.is_folder {
                true => Kind::Directory,
                false => Kind::File,
            };
            let is_there = found.is_ok_and(|facts| facts.kind == wanted);
            explained::own(exchange, is_there, || {
                let kind = if candidate.is_folder {
                    "folder"
                } else {
                    "file"
                };
                let is = if is_there { "is a" } else { "is not a" };
                format!("{} {is} {kind}", explained::quoted(&text))
            });
            if is_there {
                self.choose(candidate, exchange, text);
                return Step::Next;
            }
        }
        match &self.otherwise {
            Otherwise::Fail(status) => Step::Fail(Fault::new(*status, "none of the files exists")),
            Otherwise::GoTo(target) => {
                let target = expanded(target, exchange);
                explained::own(exchange, true, || {
                    format!("continues with {}", explained::quoted(&target))
                });
                match target.starts_with(b"@") {
                    true => go_to_named(&self.tree, exchange, &target),
                    false => go_on_at(exchange, &target, Query::Goes),
                }
            }
        }
    }
}

pub(super) fn go_to_named(tree: &TreeRef, exchange: &mut Exchange, name: &[u8]) -> Step {
    let location = tree.get().and_then(|tree| {
        let name = std::str::from_utf8(name).ok()?;
        tree.named(exchange, name)
    });
    match location {
        Some(location) => {
            exchange.context.nginx_mut().named = Some(location);
            super::start_again(exchange)
        }
        None => Step::Fail(Fault::new(
            Status::INTERNAL_SERVER_ERROR,
            "a location is named that is not there",
        )),
    }
}
