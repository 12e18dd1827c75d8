//! Folder listings (`browse`): selection, order and format. `entries` reads folders; `page` and `text` format listings.

mod entries;
mod listing;
mod order;
pub(super) mod page;
mod template;
mod text;

use std::rc::Rc;

use sluice_cache::Facts;
use sluice_message::condition::{self, Validators, Verdict};
use sluice_message::date::format_http;
use sluice_message::uri::decode_percent;
use sluice_message::{FieldId, Status, negotiate};
use sluice_model::handler::Browse as Config;
use sluice_net::Body;
use sluice_net::body::SharedSlice;

use super::hide::Hidden;
use crate::limits::LISTING_ENTRIES_MAX;
use sluice_observe::random;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::Step;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::subrequests::ServerRef;

use entries::Entry;
use listing::{Listing, Totals};
use order::{Order, SortBy};
use template::Template;

/// Creates folder listings.
pub(super) struct Browse {
    links: Links,
    sort: Option<SortBy>,
    order: Option<Order>,
    entries_max: usize,
    /// The template for HTML listings, instead of the built-in page.
    template: Option<Template>,
    /// The layout of times in plain text.
    time_layout: String,
    site: ServerRef,
}

/// The layout of times in plain text where the configuration gives none, as in Caddy.
const PLAIN_TIME_LAYOUT: &str = "January 2, 2006 at 15:04:05";

/// Whether listings show the targets of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    Followed,
    Revealed,
}

/// The folder to list.
pub(super) struct Folder<'a> {
    /// Its path in the file system.
    pub path: &'a [u8],
    /// The root of the site.
    pub root: &'a [u8],
    /// Whether it is the root, so that it does not have a parent.
    pub is_root: bool,
    /// Its metadata.
    pub facts: Facts,
}

/// The requested page; 0 if not specified.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Page {
    pub offset: usize,
    pub limit: usize,
}

impl SortBy {
    const ALL: [SortBy; 4] = [
        SortBy::Name,
        SortBy::NameFoldersFirst,
        SortBy::Size,
        SortBy::Time,
    ];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            SortBy::Name => "name",
            SortBy::NameFoldersFirst => "namedirfirst",
            SortBy::Size => "size",
            SortBy::Time => "time",
        }
    }

    fn parse(text: &[u8]) -> Option<SortBy> {
        SortBy::ALL
            .into_iter()
            .find(|sort| sort.as_str().as_bytes() == text)
    }
}

impl Order {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Order::Ascending => "asc",
            Order::Descending => "desc",
        }
    }

    fn parse(text: &[u8]) -> Option<Order> {
        [Order::Ascending, Order::Descending]
            .into_iter()
            .find(|o| o.as_str().as_bytes() == text)
    }
}

impl Browse {
    pub(super) fn build(config: &Config, site: ServerRef) -> Result<Browse, Refusal> {
        let template = match config.template_file.as_str() {
            "" => None,
            path => Some(Template::new(path).map_err(|error| {
                Refusal::new(format!("the template `{path}` has no place: {error}"))
            })?),
        };
        let mut browse = Browse {
            links: if config.reveal_symlinks {
                Links::Revealed
            } else {
                Links::Followed
            },
            sort: None,
            order: None,
            entries_max: usize::try_from(config.file_limit).unwrap_or(0),
            template,
            time_layout: match config.plain_time_format.as_str() {
                "" => PLAIN_TIME_LAYOUT.to_owned(),
                layout => layout.to_owned(),
            },
            site,
        };
        if browse.entries_max == 0 {
            browse.entries_max = LISTING_ENTRIES_MAX;
        }
        for word in &config.sort {
            match (
                SortBy::parse(word.as_bytes()),
                Order::parse(word.as_bytes()),
            ) {
                (Some(sort), _) => browse.sort = Some(sort),
                (None, Some(order)) => browse.order = Some(order),
                (None, None) => {
                    return Err(Refusal::new(format!("`{word}` is not a sort order"))
                        .with_help("write name, namedirfirst, size or time, then asc or desc"));
                }
            }
        }
        Ok(browse)
    }

    /// Responds with the listing of `folder`.
    pub(super) fn list(
        &self,
        exchange: &mut Exchange,
        hidden: &Hidden,
        folder: Folder<'_>,
    ) -> Step {
        let read = entries::read(exchange, folder.path, self.entries_max, self.links, hidden);
        let (mut entries, mut cut) = match read {
            Ok(read) => read,
            Err(error) => {
                let status = match error.kind() {
                    std::io::ErrorKind::NotFound => Status::NOT_FOUND,
                    std::io::ErrorKind::PermissionDenied => Status::FORBIDDEN,
                    _ => Status::INTERNAL_SERVER_ERROR,
                };
                return Step::Fail(Fault::new(status, "the folder cannot be read"));
            }
        };
        let latest = entries.iter().map(|entry| entry.modified).max();
        let modified = latest
            .unwrap_or(folder.facts.modified)
            .max(folder.facts.modified)
            .seconds;
        let (sort, order, remembered) = self.choose_order(exchange);
        exchange
            .res
            .fields
            .push(FieldId::Vary, b"Accept, Accept-Encoding");
        if let Ok(seconds) = u64::try_from(modified) {
            exchange
                .res
                .fields
                .set(FieldId::LastModified, &format_http(seconds));
        }
        let validators = Validators {
            etag: None,
            modified: Some(modified),
        };
        let now = exchange.worker.clock.unix_seconds();
        // A sort order from a cookie changes the listing without changing the folder.
        let verdict = match remembered {
            true => Verdict::Proceed,
            false => {
                condition::evaluate(&exchange.req.method, &exchange.req.fields, validators, now)
            }
        };
        match verdict {
            Verdict::NotModified => return bare(exchange, Status::NOT_MODIFIED),
            Verdict::Failed => return bare(exchange, Status::PRECONDITION_FAILED),
            Verdict::Proceed => {}
        }
        entries::sort(&mut entries, sort, order);
        let totals = Totals::of(&entries);
        let page = cut_to_page(exchange, &mut entries);
        cut |= page.limit > 0;
        let listing = Listing {
            entries,
            sort,
            order,
            is_root: folder.is_root,
            cut,
            path: shown_path(exchange),
            totals,
            page,
        };
        match self.write(exchange, &listing, folder.root) {
            Ok(body) => Step::Done(body),
            Err(fault) => Step::Fail(fault),
        }
    }

    /// The requested sort order, which is remembered in cookies as Caddy does, otherwise the configured one. Also
    /// returns whether a cookie was used.
    fn choose_order(&self, exchange: &mut Exchange) -> (SortBy, Order, bool) {
        let asked_sort = parameter(exchange, b"sort").and_then(|text| SortBy::parse(&text));
        let asked_order = parameter(exchange, b"order").and_then(|text| Order::parse(&text));
        let kept_sort = cookie(exchange, b"sort").and_then(SortBy::parse);
        let kept_order = cookie(exchange, b"order").and_then(Order::parse);
        let remembered = kept_sort.is_some() || kept_order.is_some();
        let sort = asked_sort.or(kept_sort).or(self.sort);
        let order = asked_order.or(kept_order).or(self.order);
        let worth_keeping = |asked: bool, configured: bool| asked || configured && !remembered;
        if worth_keeping(asked_sort.is_some(), self.sort.is_some()) {
            remember(exchange, "sort", sort.map_or("", SortBy::as_str));
        }
        if worth_keeping(asked_order.is_some(), self.order.is_some()) {
            remember(exchange, "order", order.map_or("", Order::as_str));
        }
        let sort = sort.unwrap_or(SortBy::NameFoldersFirst);
        (sort, order.unwrap_or(Order::Ascending), remembered)
    }
}

fn bare(exchange: &mut Exchange, status: Status) -> Step {
    exchange.res.status = status;
    Step::Done(Body::Empty)
}

/// A query parameter, decoded.
fn parameter(exchange: &Exchange, name: &[u8]) -> Option<Vec<u8>> {
    let query = exchange.req.uri.query()?;
    query.split(|&b| b == b'&').find_map(|pair| {
        let value = pair.strip_prefix(name)?.strip_prefix(b"=")?;
        let mut decoded = Vec::new();
        decode_percent(value, &mut decoded);
        Some(decoded)
    })
}

fn cookie<'a>(exchange: &'a Exchange, name: &[u8]) -> Option<&'a [u8]> {
    exchange
        .req
        .fields
        .all(FieldId::Cookie)
        .flat_map(|value| value.split(|&b| b == b';'))
        .find_map(|pair| pair.trim_ascii().strip_prefix(name)?.strip_prefix(b"="))
}

fn remember(exchange: &mut Exchange, name: &str, value: &str) {
    let secure = if exchange.conn.tls.is_some() {
        "; Secure"
    } else {
        ""
    };
    let cookie = format!("{name}={value}; HttpOnly{secure}; SameSite=Lax");
    exchange
        .res
        .fields
        .push(FieldId::SetCookie, cookie.as_bytes());
}

/// Applies `offset` and `limit`; invalid numbers are ignored.
fn cut_to_page(exchange: &Exchange, entries: &mut Vec<Entry>) -> Page {
    let number = |name| -> Option<usize> {
        std::str::from_utf8(&parameter(exchange, name)?)
            .ok()?
            .parse()
            .ok()
            .filter(|number| *number > 0)
    };
    let offset = number(b"offset").filter(|offset| *offset < entries.len());
    entries.drain(..offset.unwrap_or(0));
    let limit = number(b"limit").filter(|limit| *limit < entries.len());
    entries.truncate(limit.unwrap_or(entries.len()));
    Page {
        offset: offset.unwrap_or(0),
        limit: limit.unwrap_or(0),
    }
}

/// The path as the client knows it, before rewrites.
fn shown_path(exchange: &Exchange) -> Vec<u8> {
    let mut clean = Vec::new();
    sluice_message::path::clean(&super::redirect::original_path(exchange), &mut clean);
    clean
}

impl Browse {
    /// Formats the listing according to `Accept`.
    fn write(
        &self,
        exchange: &mut Exchange,
        listing: &Listing,
        root: &[u8],
    ) -> Result<Body, Fault> {
        let mut out = std::mem::take(&mut exchange.inline);
        out.clear();
        let media_type: &[u8] =
            if negotiate::accepts_by_name(&exchange.req.fields, b"application/json") {
                text::write_json(listing, &mut out);
                b"application/json; charset=utf-8"
            } else if negotiate::accepts_by_name(&exchange.req.fields, b"text/plain") {
                text::write_plain(listing, &self.time_layout, &mut out);
                b"text/plain; charset=utf-8"
            } else if let Some(template) = &self.template {
                out = template.write(exchange, listing, root, &self.site)?;
                b"text/html; charset=utf-8"
            } else {
                write_page(exchange, listing, &mut out);
                b"text/html; charset=utf-8"
            };
        exchange.res.fields.set(FieldId::ContentType, media_type);
        exchange.res.status = exchange
            .context
            .error
            .as_ref()
            .map_or(Status::OK, |error| error.status);
        // Do not keep a long listing in the connection's buffer for short bodies.
        if out.len() > sluice_net::limits::BODY_BUFFER_BYTES {
            return Ok(Body::Shared(SharedSlice::new(Rc::from(out))));
        }
        exchange.inline = out;
        Ok(Body::Inline)
    }
}

/// The built-in page, with a Content-Security-Policy that forbids scripts.
fn write_page(exchange: &mut Exchange, listing: &Listing, out: &mut Vec<u8>) {
    let nonce = format!("{:032x}", random::bits());
    page::write(listing, &nonce, out);
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; img-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'self'"
    );
    exchange
        .res
        .fields
        .set(FieldId::ContentSecurityPolicy, policy.as_bytes());
}
