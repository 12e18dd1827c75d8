//! `nginx_files`: static files as nginx serves them. Opening and reading them is left to `sluice-cache` and the
//! connection.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::rc::Rc;
use std::sync::Arc;

use sluice_cache::{Access, Found, Missing, OpenFile, Reach};
use sluice_message::condition::Validators;
use sluice_message::range::Selection;
use sluice_message::{FieldId, Method, Moment, Status, date, etag};
use sluice_model::nginx::NginxFiles as Config;
use sluice_net::Body;
use sluice_route::{Template, UnfitPath};

use super::autoindex::Listing;
use super::gzip::Clients;
use super::links::Links;
use super::redirect::{self, Naming};
use super::types::Types;
use super::{Query, base_name, go_on_at};
use crate::limits::AUTOINDEX_ENTRIES_MAX;
use crate::shared::Shared;
use crate::spelling::ETAG;
use crate::state::NginxContext;
use crate::state::set_status;
use sluice_handlers::file_server::{multipart::Multipart, send};
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::{Cause, Fault};
use sluice_pipeline::files;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::expand_path;

struct Files {
    path: Template,
    index: Vec<Template>,
    types: Arc<Types>,
    listing: Option<Listing>,
    tags: Tags,
    compressed: Compressed,
    clients: Clients,
    naming: Naming,
    dates: Dates,
    /// Maximum number of ranges per request (`max_ranges`).
    ranges_max: Option<u32>,
    folders: Folders,
    links: Links,
}

/// `if_modified_since`: which dates in a request make a response 304.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dates {
    /// The date of the file.
    Exact,
    /// The date of the file or a later one.
    Before,
    /// None.
    Ignored,
}

/// What is served for a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Folders {
    Index,
    /// An arbitrary file of the directory (`random_index`).
    AnyFile,
}

/// `gzip_static`: which clients get the precompressed file next to the requested one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compressed {
    /// None.
    Off,
    /// Those that accept gzip.
    On,
    /// All.
    Always,
}

/// Whether responses have an ETag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tags {
    Sent,
    Off,
}

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let types = Shared::of(builder)
        .types
        .get(config.types as usize)
        .cloned();
    let index = config.index.iter().map(|name| builder.template(name));
    Ok(Box::new(Files {
        path: builder.template(&config.path)?,
        index: index.collect::<Result<_, _>>()?,
        types: types.ok_or_else(|| Refusal::new("the media types are not there"))?,
        listing: config.autoindex.as_ref().map(Listing::build).transpose()?,
        tags: match config.etag {
            Some(false) => Tags::Off,
            Some(true) | None => Tags::Sent,
        },
        compressed: match config.gzip_static.as_str() {
            "" | "off" => Compressed::Off,
            "on" => Compressed::On,
            "always" => Compressed::Always,
            other => {
                return Err(Refusal::new(format!("`gzip_static {other}`"))
                    .with_help("write `on`, `off` or `always`"));
            }
        },
        clients: Clients::build(&config.gzip_clients, builder.recorder)?,
        naming: Naming::build(&config.redirects),
        dates: match config.if_modified_since.as_str() {
            "" | "exact" => Dates::Exact,
            "before" => Dates::Before,
            "off" => Dates::Ignored,
            other => return Err(Refusal::new(format!("if_modified_since `{other}`"))),
        },
        ranges_max: config.max_ranges,
        folders: match config.random_index {
            true => Folders::AnyFile,
            false => Folders::Index,
        },
        links: Links::build(&config.links, builder)?,
    }))
}

impl Handler for Files {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        if !matches!(
            exchange.req.method,
            Method::Get | Method::Head | Method::Post
        ) {
            return not_allowed();
        }
        files::with_path(|path| {
            if expand_path(&self.path, exchange, path).is_err() {
                return refused(Missing::Impossible, path);
            }
            match exchange.req.uri.path().ends_with(b"/") {
                true => self.folder(exchange, path),
                false => self.file(exchange, path),
            }
        })
    }
}

impl Files {
    /// Continues with the first index file that exists in a directory.
    fn folder(&self, exchange: &mut Exchange, path: &mut Vec<u8>) -> Step {
        let now = exchange.worker.clock.coarse();
        let length = path.len();
        if self.folders == Folders::AnyFile
            && let Some(name) = any_file(path)
        {
            let mut target = exchange.req.uri.path().to_vec();
            target.extend_from_slice(&name);
            return self.go_on(exchange, &target);
        }
        for name in &self.index {
            let name = match index_name(name, exchange) {
                Ok(name) => name,
                Err(UnfitPath) => continue,
            };
            if name.starts_with(b"/") {
                return go_on_at(exchange, &name, Query::Stays);
            }
            path.truncate(length);
            path.extend_from_slice(&name);
            let found = files::facts(path, self.links.access(exchange, path), now);
            if let Err(missing @ Missing::Denied) = found {
                return refused(missing, path);
            }
            if found.is_ok() {
                let mut target = exchange.req.uri.path().to_vec();
                target.extend_from_slice(&name);
                return self.go_on(exchange, &target);
            }
        }
        path.truncate(length);
        let access = Access {
            reach: Reach::Anywhere,
            age: self.links.age(),
        };
        match (files::facts(path, access, now), &self.listing) {
            (Ok(facts), Some(listing))
                if exchange.req.method != Method::Post
                    && facts.kind == sluice_cache::Kind::Directory =>
            {
                let media_type = self.types.of(b"x.html").cloned();
                listing.response(exchange, path, media_type)
            }
            (Ok(facts), _) if facts.kind != sluice_cache::Kind::Directory => {
                Step::Fail(Fault::new(Status::NOT_FOUND, "a file is not a directory"))
            }
            (Ok(_), _) => {
                let path = String::from_utf8_lossy(path);
                let why = format!("directory index of \"{path}\" is forbidden");
                Step::Fail(Fault::new(Status::FORBIDDEN, why).caused_by(Cause::Error))
            }
            (Err(missing), _) => refused(missing, path),
        }
    }

    /// Continues with a path that is used literally, without a query.
    fn go_on(&self, exchange: &mut Exchange, target: &[u8]) -> Step {
        exchange.req.uri.set_path(target);
        exchange.context.nginx_mut().target.change();
        super::start_again(exchange)
    }

    fn file(&self, exchange: &mut Exchange, path: &[u8]) -> Step {
        let now = exchange.worker.clock.coarse();
        if self.compressed != Compressed::Off
            && let Some(step) = self.compressed(exchange, path, now)
        {
            return step;
        }
        match files::open(path, self.links.access(exchange, path), now) {
            Found::Missing(missing) => refused(missing, path),
            Found::Special => Step::Fail(Fault::new(Status::NOT_FOUND, "no regular file")),
            Found::Directory(_) => redirect::add_slash(&self.naming, exchange),
            Found::File(_) if exchange.req.method == Method::Post => not_allowed(),
            Found::File(file) => self.send(exchange, &file, now),
        }
    }

    /// Serves the precompressed file if it exists and the client accepts it.
    fn compressed(&self, exchange: &mut Exchange, path: &[u8], now: Moment) -> Option<Step> {
        let is_read = matches!(exchange.req.method, Method::Get | Method::Head);
        // Skip the lookup if the client cannot get the file and no `Vary` depends on it.
        let is_meant = self.compressed == Compressed::Always
            || self.clients.announces_variants()
            || self.clients.include(exchange);
        if !is_read || !is_meant {
            return None;
        }
        let beside = [path, b".gz"].concat();
        let access = self.links.access(exchange, &beside);
        let Found::File(file) = files::open(&beside, access, now) else {
            return None;
        };
        if self.compressed == Compressed::On {
            let is_meant = self.clients.include(exchange);
            // Both variants need `Vary`.
            self.clients.note_variants(&mut exchange.res.fields);
            if !is_meant {
                return None;
            }
        }
        exchange.res.fields.push(FieldId::ContentEncoding, b"gzip");
        Some(self.send(exchange, &file, now))
    }

    fn send(&self, exchange: &mut Exchange, file: &Rc<OpenFile>, _now: Moment) -> Step {
        exchange.res.status = Status::OK;
        set_status(exchange);
        let mut tag = [0; TAG_BYTES_MAX];
        let tag = match self.tags {
            Tags::Sent => written_tag(file, &mut tag),
            Tags::Off => &[][..],
        };
        // Conditional headers apply to the client's request, not to subrequests.
        if exchange.res.status == Status::OK && !exchange.context.nginx().is_subrequest() {
            match unchanged(exchange, file, tag, self.dates) {
                Verdict::Send => {}
                Verdict::NotModified => {
                    self.validators(exchange, file, tag);
                    exchange.res.status = Status::NOT_MODIFIED;
                    return Step::Done(Body::Empty);
                }
                Verdict::Failed => {
                    return Step::Fail(Fault::new(
                        Status::PRECONDITION_FAILED,
                        "a condition fails",
                    ));
                }
            }
        }
        // A `Content-Type` set earlier, such as by an upstream, wins.
        if !exchange.res.fields.has(FieldId::ContentType)
            && let Some(field) = self.types.of(base_name(exchange.req.uri.path()))
        {
            exchange.res.fields.push_fixed(field);
        }
        match exchange.res.status == Status::OK {
            true => {
                self.validators(exchange, file, tag);
                self.part(exchange, file, tag)
            }
            // An error page: no ranges, no `Last-Modified`.
            false => {
                if !tag.is_empty() {
                    exchange.res.fields.set_raw(FieldId::Etag, ETAG, tag);
                }
                Step::Done(send::whole(file))
            }
        }
    }

    fn validators(&self, exchange: &mut Exchange, file: &OpenFile, tag: &[u8]) {
        if let Some(modified) = &file.last_modified {
            exchange.res.fields.push(FieldId::LastModified, modified);
        }
        if !tag.is_empty() {
            exchange.res.fields.push_raw(FieldId::Etag, ETAG, tag);
        }
    }

    /// Serves the requested ranges, or the complete file.
    fn part(&self, exchange: &mut Exchange, file: &Rc<OpenFile>, tag: &[u8]) -> Step {
        let now = exchange.worker.clock.unix_seconds();
        let validators = Validators {
            etag: (!tag.is_empty()).then_some(tag),
            modified: file.last_modified.map(|_| file.facts.modified.seconds),
        };
        let size = file.facts.size;
        if self.ranges_max == Some(0)
            || exchange
                .context
                .dialect
                .leaves_ranges(&mut exchange.res.fields)
        {
            return Step::Done(send::whole(file));
        }
        let selection = match send::selection(exchange, validators, now, size) {
            Selection::Many(ranges)
                if self
                    .ranges_max
                    .is_some_and(|max| ranges.len() > max as usize) =>
            {
                Selection::Whole
            }
            selection => selection,
        };
        match selection {
            Selection::Whole => {
                exchange.res.fields.push(FieldId::AcceptRanges, b"bytes");
                Step::Done(send::whole(file))
            }
            Selection::One(range) => {
                exchange.res.status = Status::PARTIAL_CONTENT;
                send::set_content_range(exchange, range, size);
                Step::Done(send::part(file, range))
            }
            Selection::Many(ranges) => {
                exchange.res.status = Status::PARTIAL_CONTENT;
                let part_type = exchange
                    .res
                    .fields
                    .first(FieldId::ContentType)
                    .map(<[u8]>::to_vec);
                let parts = Multipart::new(exchange.worker.clone(), file, ranges, part_type);
                let media_type = parts.media_type();
                exchange
                    .res
                    .fields
                    .set(FieldId::ContentType, media_type.as_bytes());
                Step::Done(Body::Stream(Box::new(parts)))
            }
            Selection::Unsatisfiable | Selection::Malformed => {
                let text = format!("bytes */{size}");
                exchange
                    .res
                    .fields
                    .set(FieldId::ContentRange, text.as_bytes());
                let status = Status::RANGE_NOT_SATISFIABLE;
                Step::Fail(Fault::new(status, "the file has no such part"))
            }
        }
    }
}

/// Two numbers of 16 digits, a hyphen and quotes.
const TAG_BYTES_MAX: usize = 35;

/// nginx's ETag of a file: modification time and size in hexadecimal.
fn written_tag<'b>(file: &OpenFile, buf: &'b mut [u8; TAG_BYTES_MAX]) -> &'b [u8] {
    let mut rest = &mut buf[..];
    let (seconds, size) = (file.facts.modified.seconds, file.facts.size);
    write!(rest, "\"{seconds:x}-{size:x}\"").expect("two numbers fit");
    let left = rest.len();
    &buf[..TAG_BYTES_MAX - left]
}

/// The outcome of conditional headers.
enum Verdict {
    Send,
    NotModified,
    Failed,
}

/// The name of an arbitrary regular file of a directory. Names that begin with a dot are skipped.
fn any_file(folder: &[u8]) -> Option<Vec<u8>> {
    let entries = std::fs::read_dir(OsStr::from_bytes(folder)).ok()?;
    let is_file = |entry: &std::fs::DirEntry| {
        let is_hidden = entry.file_name().as_bytes().starts_with(b".");
        !is_hidden && std::fs::metadata(entry.path()).is_ok_and(|facts| facts.is_file())
    };
    let files = entries
        .flatten()
        .take(AUTOINDEX_ENTRIES_MAX)
        .filter(is_file);
    let mut names: Vec<_> = files.map(|entry| entry.file_name().into_vec()).collect();
    let count = u64::try_from(names.len()).ok().filter(|count| *count > 0)?;
    Some(names.swap_remove((sluice_observe::random::word() % count) as usize))
}

/// Evaluates the conditional headers of a request.
fn unchanged(exchange: &Exchange, file: &OpenFile, tag: &[u8], dates: Dates) -> Verdict {
    let fields = &exchange.req.fields;
    let now = exchange.worker.clock.unix_seconds();
    let modified = file.facts.modified.seconds;
    let time = |id| fields.first(id).map(|value| date::parse_http(value, now));
    let names = |id, matches: fn(&[u8], &[u8]) -> bool| {
        let mut values = fields.all(id);
        values.any(|value| {
            value.trim_ascii() == b"*" || etag::list(value).any(|one| matches(one, tag))
        })
    };
    if time(FieldId::IfUnmodifiedSince).is_some_and(|time| time.is_none_or(|time| modified > time))
    {
        return Verdict::Failed;
    }
    if fields.has(FieldId::IfMatch) && !names(FieldId::IfMatch, etag::matches_strongly) {
        return Verdict::Failed;
    }
    let since = time(FieldId::IfModifiedSince).filter(|_| dates != Dates::Ignored);
    let has_tags = fields.has(FieldId::IfNoneMatch);
    if since.is_none() && !has_tags {
        return Verdict::Send;
    }
    let is_current = |time: i64| match dates {
        Dates::Before => time >= modified,
        Dates::Exact | Dates::Ignored => time == modified,
    };
    if since.is_some_and(|time| !time.is_some_and(is_current)) {
        return Verdict::Send;
    }
    match has_tags && !names(FieldId::IfNoneMatch, etag::matches_weakly) {
        true => Verdict::Send,
        false => Verdict::NotModified,
    }
}

fn not_allowed() -> Step {
    Step::Fail(Fault::new(
        Status::METHOD_NOT_ALLOWED,
        "files are only read",
    ))
}

fn index_name(name: &Template, exchange: &Exchange) -> Result<Vec<u8>, UnfitPath> {
    let mut text = Vec::new();
    expand_path(name, exchange, &mut text)?;
    Ok(text)
}

/// Uses nginx's wording, which log analyzers match.
fn refused(missing: Missing, path: &[u8]) -> Step {
    let (status, why, cause) = match missing {
        Missing::NotFound | Missing::Impossible => (
            Status::NOT_FOUND,
            "failed (2: No such file or directory)",
            Cause::MissingFile,
        ),
        Missing::Denied => (
            Status::FORBIDDEN,
            "failed (13: Permission denied)",
            Cause::Error,
        ),
        Missing::Exhausted => (
            Status::SERVICE_UNAVAILABLE,
            "failed (24: Too many open files)",
            Cause::Error,
        ),
        Missing::Failed => (Status::INTERNAL_SERVER_ERROR, "failed", Cause::Error),
    };
    let path = String::from_utf8_lossy(path);
    let fault = Fault::new(status, format!("open() \"{path}\" {why}"));
    Step::Fail(fault.caused_by(cause))
}
