//! `file_server`: serves files and folders. `send` selects the bytes of a file, `browse` creates folder listings.

mod browse;
mod escape;
mod hide;
pub mod multipart;
mod redirect;
pub mod send;
#[cfg(test)]
mod tests;

use sluice_cache::{Facts, Found, Missing, Reach};
use sluice_diag::shown;
use sluice_message::{FieldId, Method, Moment, Status, path};
use sluice_model::handler::FileServer as Config;
use sluice_route::{Template, UnfitPath};

use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::files::{self, Root};
use sluice_pipeline::handler::{Account, Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::status::StatusText;
use sluice_pipeline::subrequests::ServerRef;
use sluice_pipeline::values::{self, At};

use browse::Browse;
use hide::Hidden;
use send::Sidecar;

/// Serves the files below a root.
///
/// As in Caddy, symbolic links are followed wherever they point: anyone who may write below the root decides what is
/// served. A request cannot escape the root: its path is normalized after decoding, so `..` does not remain, and NUL
/// results in 400. A backslash is an ordinary character.
pub struct FileServer {
    root: Root,
    index: Vec<Template>,
    hidden: Hidden,
    browse: Option<Browse>,
    canonical: bool,
    status: Option<StatusText>,
    pass_thru: bool,
    sidecars: Vec<Sidecar>,
    etag_extensions: Vec<String>,
}

/// Builds `file_server`.
pub fn build(config: &Config, builder: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let status = StatusText::build(config.status_code.as_str(), builder)?;
    Ok(Box::new(FileServer::build(
        config,
        status,
        builder.config_files,
        builder.itself.clone(),
    )?))
}

impl FileServer {
    /// `config_files` are hidden in addition to `hide`, because they are often located in the site's folder.
    fn build(
        config: &Config,
        status: Option<StatusText>,
        config_files: &[String],
        site: ServerRef,
    ) -> Result<FileServer, Refusal> {
        files::check_file_system(&config.fs)?;
        let index = match config.index_names.as_slice() {
            [] => ["index.html", "index.txt"]
                .map(Template::from_literal)
                .into(),
            names => names
                .iter()
                .map(|name| template(name))
                .collect::<Result<_, _>>()?,
        };
        Ok(FileServer {
            root: Root::build(&config.root)?,
            index,
            hidden: Hidden::build(config.hide.iter().chain(config_files))?,
            browse: match &config.browse {
                Some(browse) => Some(Browse::build(browse, site)?),
                None => None,
            },
            canonical: config.canonical_uris.unwrap_or(true),
            status,
            pass_thru: config.pass_thru,
            sidecars: Sidecar::build(config)?,
            etag_extensions: config.etag_file_extensions.clone(),
        })
    }

    fn locate(&self, exchange: &mut Exchange, full: &mut Vec<u8>) -> Step {
        let now = exchange.worker.clock.coarse();
        if let Err(unfit) = self.root.write(&At(exchange), full) {
            return Step::Fail(files::unfit(unfit));
        }
        let root_len = full.len();
        path::clean(exchange.req.uri.path(), full);
        match files::open(full, Reach::Anywhere, now) {
            Found::Missing(missing) => self.missing(exchange, missing),
            Found::Special => refused(),
            Found::Directory(facts) => self.directory(exchange, full, root_len, facts, now),
            Found::File(file) => {
                if self.hidden.hides(exchange, trimmed(full)) {
                    return self.not_found();
                }
                if self.canonical
                    && let Some(step) = redirect::without_slash(exchange)
                {
                    return step;
                }
                self.send(exchange, trimmed(full), file, now)
            }
        }
    }

    fn directory(
        &self,
        exchange: &mut Exchange,
        full: &mut Vec<u8>,
        root_len: usize,
        facts: Facts,
        now: Moment,
    ) -> Step {
        if full.ends_with(b"/") {
            full.pop();
        }
        let dir_len = full.len();
        for name in &self.index {
            full.truncate(dir_len);
            if add_index(name, exchange, full).is_err() {
                continue;
            }
            let Found::File(file) = files::open(full, Reach::Anywhere, now) else {
                continue;
            };
            if self.hidden.hides(exchange, full) {
                continue;
            }
            if self.canonical
                && let Some(step) = redirect::with_slash(exchange)
            {
                return step;
            }
            return self.send(exchange, full, file, now);
        }
        full.truncate(dir_len);
        let hidden = self.hidden.hides(exchange, full);
        let Some(browse) = self.browse.as_ref().filter(|_| !hidden) else {
            return self.not_found();
        };
        if self.canonical
            && let Some(step) = redirect::with_slash(exchange)
        {
            return step;
        }
        if let Some(step) = self.refuse_method(exchange) {
            return step;
        }
        let folder = browse::Folder {
            path: full,
            root: &full[..root_len],
            is_root: dir_len == root_len,
            facts,
        };
        browse.list(exchange, &self.hidden, folder)
    }

    /// Describes the file or folder that the request selects.
    fn words(&self, exchange: &Exchange, full: &mut Vec<u8>) -> String {
        let now = exchange.worker.clock.coarse();
        if self.root.write(&At(exchange), full).is_err() {
            return files::UNFIT.to_owned();
        }
        path::clean(exchange.req.uri.path(), full);
        let text = |path: &[u8]| format!("`{}`", shown(&String::from_utf8_lossy(path)));
        match files::open(full, Reach::Anywhere, now) {
            Found::Missing(Missing::NotFound) => format!("{} does not exist", text(full)),
            Found::Missing(_) => format!("{} cannot be opened", text(full)),
            Found::Special => format!("{} is neither a file nor a folder", text(full)),
            Found::File(_) if self.hidden.hides(exchange, trimmed(full)) => {
                format!("{} is hidden", text(full))
            }
            Found::File(_) => format!("{} is a file", text(full)),
            Found::Directory(_) => {
                let dir_len = trimmed(full).len();
                let folder = text(full);
                for name in &self.index {
                    full.truncate(dir_len);
                    if add_index(name, exchange, full).is_err() {
                        continue;
                    }
                    if matches!(files::open(full, Reach::Anywhere, now), Found::File(_)) {
                        return format!("{folder} is a folder with the index {}", text(full));
                    }
                }
                format!("{folder} is a folder without an index")
            }
        }
    }

    fn missing(&self, exchange: &mut Exchange, missing: Missing) -> Step {
        match missing {
            Missing::NotFound => self.not_found(),
            Missing::Denied => refused(),
            Missing::Impossible => Step::Fail(Fault::new(
                Status::BAD_REQUEST,
                "the path names no possible file",
            )),
            Missing::Exhausted => {
                exchange.res.fields.set(FieldId::RetryAfter, b"5");
                Step::Fail(Fault::new(
                    Status::SERVICE_UNAVAILABLE,
                    "too many open files",
                ))
            }
            Missing::Failed => Step::Fail(Fault::new(
                Status::INTERNAL_SERVER_ERROR,
                "opening the file failed",
            )),
        }
    }

    fn not_found(&self) -> Step {
        if self.pass_thru {
            return Step::Next;
        }
        Step::Fail(Fault::new(Status::NOT_FOUND, "Not Found"))
    }

    /// Responds with 405 to methods other than GET and HEAD (RFC 9110, section 15.5.6). While an error is being
    /// handled, the method is that of the failed request and does not matter.
    fn refuse_method(&self, exchange: &mut Exchange) -> Option<Step> {
        let reads = matches!(exchange.req.method, Method::Get | Method::Head);
        if reads || exchange.context.error.is_some() {
            return None;
        }
        exchange.res.fields.set(FieldId::Allow, b"GET, HEAD");
        Some(Step::Fail(Fault::new(
            Status::METHOD_NOT_ALLOWED,
            "Method Not Allowed",
        )))
    }
}

/// Appends the name of an index file to the path of its folder.
fn add_index(name: &Template, exchange: &Exchange, full: &mut Vec<u8>) -> Result<(), UnfitPath> {
    files::with_path(|text| {
        values::expand_path(name, exchange, text)?;
        path::clean(text, full);
        Ok(())
    })
}

impl Handler for FileServer {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        files::with_path(|full| self.locate(exchange, full))
    }

    fn account(&self, exchange: &mut Exchange) -> Account {
        let text = files::with_path(|full| self.words(exchange, full));
        Account {
            says: vec![text],
            assumed: None,
        }
    }
}

fn template(text: &str) -> Result<Template, Refusal> {
    Template::parse(text).map_err(|error| Refusal::new(format!("`{text}`: {error}")))
}

fn refused() -> Step {
    Step::Fail(Fault::new(Status::FORBIDDEN, "Forbidden"))
}

fn trimmed(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}
