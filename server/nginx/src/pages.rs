//! Error responses: `error_page` and nginx's built-in pages.

use std::sync::{Arc, LazyLock};

use sluice_message::{FieldId, Method, ResponseHead, Status};
use sluice_model::http::RouteOrigin;
use sluice_model::nginx::Place as Config;
use sluice_net::Body;
use sluice_route::Template;

use super::state::{ErrorPage, OnPageError, REDIRECTS_MAX, set_status};
use super::{Query, Tree, error_log, explained, go_on_at, redirect, start_again};
use crate::state::NginxContext;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::{Cause, Fault};
use sluice_pipeline::handler::{Filter, Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::expanded;

/// Error handling of one scope.
pub struct Pages {
    pages: Vec<Page>,
    /// What happens to errors of an error page (`recursive_error_pages`).
    on_error: OnPageError,
    signature: Box<str>,
}

struct Page {
    origin: RouteOrigin,
    codes: Box<[u16]>,
    status: Option<u16>,
    uri: Template,
}

impl Pages {
    /// Parses the settings of a scope.
    pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Pages, Refusal> {
        let page = |page: &sluice_model::nginx::ErrorPage| {
            Ok(Page {
                origin: page.origin.clone(),
                codes: page.codes.as_slice().into(),
                status: page.status,
                uri: builder.template(&page.uri)?,
            })
        };
        Ok(Pages {
            pages: config
                .error_pages
                .iter()
                .map(page)
                .collect::<Result<_, Refusal>>()?,
            on_error: match config.recursive_error_pages {
                true => OnPageError::NextPage,
                false => OnPageError::BuiltInPage,
            },
            signature: config.signature.as_deref().unwrap_or("sluice").into(),
        })
    }

    fn of(&self, code: u16) -> Option<&Page> {
        self.pages.iter().find(|page| page.codes.contains(&code))
    }
}

/// Looks for an `error_page`.
struct Errors {
    tree: Arc<Tree>,
}

/// Writes a built-in page.
struct Own {
    tree: Arc<Tree>,
}

/// The error handlers: an `error_page` of the configuration, else the headers of the scope and a built-in page.
pub fn handlers(tree: &Arc<Tree>) -> Vec<Box<dyn Handler>> {
    vec![
        Box::new(Errors { tree: tree.clone() }),
        Box::new(Own { tree: tree.clone() }),
    ]
}

impl Handler for Errors {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        let Some(status) = exchange.context.error.as_ref().map(|error| error.status) else {
            return Step::Next;
        };
        self.note(exchange, status);
        exchange.context.nginx_mut().error_page.fail();
        // The handler that responds instead sets its own log values.
        exchange.context.log.late.clear();
        let place = self.tree.place(exchange);
        let state = *exchange.context.nginx();
        if state.error_page == ErrorPage::Unused
            && state.redirects < REDIRECTS_MAX
            && let Some(page) = place.pages.of(status.code())
            && let Some(step) = self.go_to(exchange, status, page, place.pages.on_error)
        {
            return step;
        }
        match place.errors {
            Some(list) => Step::Enter(list),
            None => Step::Next,
        }
    }
}

impl Errors {
    /// Logs the error. Responses requested by the configuration are not errors.
    fn note(&self, exchange: &mut Exchange, status: Status) {
        let Some(error) = exchange.context.log.error.take() else {
            return;
        };
        let (message, cause) = match (status, error.cause) {
            (Status::CONTENT_TOO_LARGE, Cause::ByStatus) => {
                (too_large(exchange).into(), Cause::Error)
            }
            (_, cause) => (error.text.clone(), cause),
        };
        if cause == Cause::Configured {
            return;
        }
        let is_hidden = cause == Cause::MissingFile && !self.tree.place(exchange).logs_missing;
        if let Some(severity) = error_log::severity_of(cause, status)
            && !is_hidden
        {
            self.tree.log_error(exchange, severity, &message, "");
        }
        exchange.context.log.error = Some(error);
        exchange.context.log.is_logged = true;
    }

    /// Goes to the page; `None` if it is an external address, which is sent as a redirect at once.
    fn go_to(
        &self,
        exchange: &mut Exchange,
        status: Status,
        page: &Page,
        on_error: OnPageError,
    ) -> Option<Step> {
        let target = expanded(&page.uri, exchange);
        explained::note_effect(exchange, &page.origin, |_| {
            format!(
                "the page of {} is {}",
                status.code(),
                explained::quoted(&target)
            )
        });
        // The scope of the error decides whether errors of its page are handled again.
        let code = page.status.unwrap_or(status.code());
        exchange.context.nginx_mut().error_page = ErrorPage::Chosen {
            status: code,
            on_error,
        };
        clear(exchange);
        match target.first() {
            Some(b'/') => {
                if exchange.req.method != Method::Head {
                    exchange.req.method = Method::Get;
                }
                Some(go_on_at(exchange, &target, Query::Goes))
            }
            Some(b'@') => {
                let name = std::str::from_utf8(&target).ok();
                let location = name.and_then(|name| self.tree.named(exchange, name));
                Some(match location {
                    Some(location) => {
                        exchange.context.nginx_mut().named = Some(location);
                        start_again(exchange)
                    }
                    None => Step::Fail(Fault::new(
                        Status::INTERNAL_SERVER_ERROR,
                        "`error_page` names a location that is not there",
                    )),
                })
            }
            _ => {
                let code = if redirect::is_redirect(code) {
                    code
                } else {
                    302
                };
                exchange.context.nginx_mut().error_page.fail();
                exchange
                    .res
                    .fields
                    .set(FieldId::Location, &redirect::as_value(target));
                if let Some(error) = &mut exchange.context.error {
                    error.status = Status::new(code).unwrap_or(Status::FOUND);
                }
                None
            }
        }
    }
}

/// nginx's message for a body above the limit.
fn too_large(exchange: &Exchange) -> String {
    let length = exchange.req.fields.find_first(b"content-length");
    match length.map(String::from_utf8_lossy) {
        Some(length) => format!("client intended to send too large body: {length} bytes"),
        None => "client intended to send too large chunked body".to_owned(),
    }
}

/// Removes the headers of a response that is not sent.
fn clear(exchange: &mut Exchange) {
    clear_content(exchange);
    exchange.res.fields.remove(FieldId::Location);
}

/// Removes the headers that describe its body.
fn clear_content(exchange: &mut Exchange) {
    for id in [
        FieldId::ContentType,
        FieldId::ContentEncoding,
        FieldId::LastModified,
        FieldId::Etag,
        FieldId::AcceptRanges,
    ] {
        exchange.res.fields.remove(id);
    }
}

impl Handler for Own {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        let status = exchange
            .context
            .error
            .as_ref()
            .map_or(exchange.res.status, |error| error.status);
        exchange.res.status = status;
        clear_content(exchange);
        let more = of_connection(status.code());
        if more.is_some() {
            exchange.res.status = Status::BAD_REQUEST;
        }
        let Some(heading) = title(exchange.res.status.code()) else {
            return Step::Done(Body::Empty);
        };
        let place = self.tree.place(exchange);
        // Built-in pages have the type of HTML files, with the charset of the scope.
        if let Some(field) = place.types.of(b"x.html") {
            exchange.res.fields.push_fixed(field);
        }
        let known = exchange.res.fields.first(FieldId::ContentType);
        if !known.is_some_and(|known| known.starts_with(b"text/html;")) {
            exchange.res.fields.set(FieldId::ContentType, b"text/html");
        }
        let title = more.map_or_else(|| heading.to_owned(), |more| format!("400 {more}"));
        let mut more = more.map_or_else(String::new, |more| format!("<center>{more}</center>\r\n"));
        // nginx's pages have no such line, and ours only with `request_id`. The ID needs no escapes.
        if let Some(id) = exchange
            .context
            .request_id
            .as_ref()
            .filter(|_| is_error(&exchange.res))
        {
            more = format!("{more}<center>Request ID: {}</center>\r\n", id.as_str());
        }
        let signature = &*place.pages.signature;
        let foot = match signature.is_empty() {
            true => String::new(),
            false => format!("<hr><center>{signature}</center>\r\n"),
        };
        let text = format!(
            "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{heading}</h1></center>\r\n\
             {more}{foot}</body>\r\n</html>\r\n"
        );
        exchange.inline.clear();
        exchange.inline.extend_from_slice(text.as_bytes());
        Step::Done(Body::Inline)
    }
}

/// Whether a built-in page reports an error, not a redirect.
fn is_error(head: &ResponseHead) -> bool {
    head.status.code() >= 400
}

/// The reason phrase in the status line of nginx's own responses: that of its page but for two, and the registered one
/// where it has none.
pub(crate) fn reason(status: Status) -> &'static str {
    match status.code() {
        302 => "Moved Temporarily",
        401 => "Unauthorized",
        code => title(code).map_or(status.reason(), |title| &title[4..]),
    }
}

/// The title of nginx's built-in page for a status; `None` if it has none.
fn title(code: u16) -> Option<&'static str> {
    Some(match code {
        301 => "301 Moved Permanently",
        302 => "302 Found",
        303 => "303 See Other",
        307 => "307 Temporary Redirect",
        308 => "308 Permanent Redirect",
        400 => "400 Bad Request",
        401 => "401 Authorization Required",
        402 => "402 Payment Required",
        403 => "403 Forbidden",
        404 => "404 Not Found",
        405 => "405 Not Allowed",
        406 => "406 Not Acceptable",
        408 => "408 Request Time-out",
        409 => "409 Conflict",
        410 => "410 Gone",
        411 => "411 Length Required",
        412 => "412 Precondition Failed",
        413 => "413 Request Entity Too Large",
        414 => "414 Request-URI Too Large",
        415 => "415 Unsupported Media Type",
        416 => "416 Requested Range Not Satisfiable",
        421 => "421 Misdirected Request",
        429 => "429 Too Many Requests",
        500 => "500 Internal Server Error",
        501 => "501 Not Implemented",
        502 => "502 Bad Gateway",
        503 => "503 Service Temporarily Unavailable",
        504 => "504 Gateway Time-out",
        505 => "505 HTTP Version Not Supported",
        507 => "507 Insufficient Storage",
        _ => return None,
    })
}

/// The texts of nginx's connection-level statuses, which are sent as 400.
fn of_connection(code: u16) -> Option<&'static str> {
    Some(match code {
        494 => "Request Header Or Cookie Too Large",
        495 => "The SSL certificate error",
        496 => "No required SSL certificate was sent",
        497 => "The plain HTTP request was sent to HTTPS port",
        _ => return None,
    })
}

/// Gives the response of an error page the status of the error.
struct KeepStatus;

impl Filter for KeepStatus {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        set_status(exchange);
        body
    }
}

/// The filter that gives the response of an error page the status of the error.
pub fn keep_status() -> Arc<dyn Filter> {
    static ONE: LazyLock<Arc<dyn Filter>> = LazyLock::new(|| Arc::new(KeepStatus));
    ONE.clone()
}
