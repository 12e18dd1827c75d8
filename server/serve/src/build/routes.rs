//! Builds routes and their handlers. `matchers` compiles matchers; each handler parses its own settings.

use sluice_model::Handler as Config;
use sluice_route::{MatcherSets, RouteIndex};

use super::{Builder, matchers, trace};
use crate::handler::Handler;
use crate::handlers;
use crate::pipeline::{List, Route};
use crate::refusal::Refusal;

type Built = Result<Box<dyn Handler>, Refusal>;

impl<'m> Builder<'m> {
    pub(super) fn list(&mut self, routes: &'m [sluice_model::Route]) -> List {
        let mut built = Vec::with_capacity(routes.len());
        for (index, route) in routes.iter().enumerate() {
            let route = self.within(&format!("[{index}]"), |b| b.route(route));
            built.push(route);
        }
        let keys: Vec<_> = built.iter().map(|route| route.matchers.key()).collect();
        List {
            routes: built,
            index: RouteIndex::build(&keys),
            errors: None,
        }
    }

    fn route(&mut self, config: &'m sluice_model::Route) -> Route {
        let mut sets = Vec::with_capacity(config.r#match.len());
        for (index, set) in config.r#match.iter().enumerate() {
            let built = self.within(&format!(".match[{index}]"), |b| {
                if b.body_is_asked && asks_for_body(set) {
                    b.refuse(body_in_condition());
                    return None;
                }
                matchers::set(set).map_err(|refusal| b.refuse(refusal)).ok()
            });
            sets.extend(built);
        }
        let mut built = Vec::with_capacity(config.handle.len());
        for (index, handler) in config.handle.iter().enumerate() {
            let done = self.within(&format!(".handle[{index}]"), |b| {
                let nests = matches!(handler, Config::Subroute(_) | Config::Nginx(_));
                let asks = b.body_is_asked && !nests && asks_for_body(handler);
                if let Config::Nginx(nginx) = handler {
                    match handlers::nginx::build(nginx, b) {
                        Ok(several) => built.extend(several),
                        Err(refusal) => b.refuse(refusal),
                    }
                    return None;
                }
                match b.handler(handler) {
                    Ok(built) if asks => Some(handlers::body_text::before(built)),
                    Ok(built) => Some(built),
                    Err(refusal) => {
                        b.refuse(refusal);
                        None
                    }
                }
            });
            let traced = self.server.logs.as_ref().is_some_and(|logs| logs.trace);
            match (done, self.recorder.filter(|_| traced)) {
                (Some(done), Some(recorder)) => built.push(trace::tell(done, handler, recorder)),
                (done, _) => built.extend(done),
            }
        }
        Route {
            matchers: MatcherSets::new(sets),
            handlers: built,
            group: self.group(&config.group),
            terminal: config.terminal,
            kind: None,
        }
    }

    fn handler(&mut self, config: &'m Config) -> Built {
        match config {
            Config::AcmeServer(config) => handlers::acme_server::build(config, self),
            Config::Authentication(config) => handlers::authentication::build(config, self),
            Config::Cache(config) => handlers::cache::build(config, self),
            Config::Encode(config) => handlers::encode::build(config, self),
            Config::Error(config) => handlers::error::build(config, self),
            Config::FileServer(config) => handlers::file_server::build(config, self),
            Config::Headers(config) => handlers::headers::build(config, self),
            Config::InFlight(config) => handlers::in_flight::build(config, self),
            Config::Invoke(config) => handlers::subroute::build_invoke(config, self),
            Config::LogAppend(config) => handlers::log_append::build(config, self),
            Config::Map(config) => handlers::map::build(config, self),
            Config::Metrics(config) => Ok(handlers::metrics::build(config, self)),
            Config::RateLimit(config) => match config.nginx {
                true => handlers::nginx::limit_req::build(config, self),
                false => handlers::rate_limit::build(config, self),
            },
            Config::RequestBody(config) => handlers::request_body::build(config, self),
            Config::ReverseProxy(config) => handlers::reverse_proxy::build(config, self),
            Config::Rewrite(config) => handlers::rewrite::build(config, self),
            Config::StaticResponse(config) => handlers::static_response::build(config, self),
            Config::Subroute(config) => Ok(handlers::subroute::build(config, self)),
            Config::Templates(config) => handlers::templates::build(config, self),
            Config::Tracing(config) => handlers::tracing::build(config, self),
            Config::Vars(config) => handlers::vars::build(config, self),
            Config::CopyResponse(config) => handlers::copy_response::build(config, self),
            Config::CopyResponseHeaders(config) => {
                Ok(handlers::copy_response::build_headers(config))
            }
            Config::Intercept(config) => handlers::intercept::build(config, self),
            // Expands to two handlers; handled above.
            Config::Nginx(_) => Err(Refusal::new("`nginx` stands alone in its route")),
            Config::NginxAccess(config) => handlers::nginx::access::build(config, self),
            Config::NginxAddition(config) => handlers::nginx::addition::build(config, self),
            Config::NginxCharset(config) => handlers::nginx::charset::build(config, self),
            Config::NginxConnections(config) => handlers::nginx::limit_conn::build(config, self),
            Config::NginxContent(config) => handlers::nginx::content::build(config, self),
            Config::NginxRanges(config) => Ok(handlers::nginx::ranges::build(config)),
            Config::NginxRate(config) => handlers::nginx::rate::build(config, self),
            Config::NginxRealIp(config) => handlers::nginx::realip::build(config),
            Config::NginxExpires(config) => handlers::nginx::expires::build(config, self),
            Config::NginxFiles(config) => handlers::nginx::files::build(config, self),
            Config::NginxGunzip(config) => handlers::nginx::gunzip::build(config, self),
            Config::NginxGzip(config) => handlers::nginx::gzip::build(config, self),
            Config::NginxLog(config) => handlers::nginx::log::build(config, self),
            Config::NginxMirror(config) => handlers::nginx::mirror::build(config, self),
            Config::NginxPass(config) => handlers::nginx::pass::build(config, self),
            Config::NginxSlice(config) => handlers::nginx::slice::build(config, self),
            Config::NginxSsi(config) => handlers::nginx::ssi::build(config, self),
            Config::NginxSub(config) => handlers::nginx::substitute::build(config, self),
            Config::NginxTrailers(config) => handlers::nginx::trailers::build(config, self),
            Config::NginxTryFiles(config) => handlers::nginx::try_files::build(config, self),
            Config::NginxUserId(config) => handlers::nginx::user_id::build(config, self),
            Config::Push(_) => Ok(Box::new(handlers::push::Push)),
            Config::Other(_) => Err(
                Refusal::new(format!("unknown handler `{}`", config.module()))
                    .with_help("remove it, or serve this site with the server that has it"),
            ),
        }
    }

    /// Builds a list whose errors are handled by another list.
    pub(crate) fn add_list_with_errors(
        &mut self,
        routes: &'m [sluice_model::Route],
        errors: &'m [sluice_model::Route],
    ) -> usize {
        let number = self.add_list(routes);
        let errors = self.within(".errors", |b| b.add_list(errors));
        self.lists[number].errors = Some(errors);
        number
    }
}

/// Whether a part of a configuration uses a placeholder for the request body.
pub(super) fn asks_for_body(config: &impl serde::Serialize) -> bool {
    serde_json::to_string(config).is_ok_and(|text| text.contains("{http.request.body"))
}

/// Whether a part of a configuration uses a placeholder for [`crate::context::ProxyFacts`].
pub(super) fn asks_for_proxy_facts(config: &impl serde::Serialize) -> bool {
    const NAMES: [&str; 6] = [
        "duration",
        "upstream.duration",
        "upstream.fails",
        "upstream.latency",
        "upstream.max_requests",
        "upstream.requests",
    ];
    let asks = |text: String| {
        text.match_indices("http.reverse_proxy.")
            .any(|(at, start)| {
                let name = &text[at + start.len()..];
                NAMES.iter().any(|known| name.starts_with(known))
            })
    };
    let shows_tries = |text: &str| text.contains("{nginx.upstream.") || text.contains("_trailer.");
    serde_json::to_string(config).is_ok_and(|text| shows_tries(&text) || asks(text))
}

/// Whether a configuration uses a placeholder for upstream response headers.
pub(super) fn asks_for_upstream_fields(config: &impl serde::Serialize) -> bool {
    let names = ["{http.reverse_proxy.header.", "{nginx.upstream_cookie."];
    serde_json::to_string(config).is_ok_and(|text| names.iter().any(|name| text.contains(name)))
}

fn body_in_condition() -> Refusal {
    Refusal::not_yet(
        "`{http.request.body}` in a condition",
        "ask for header fields, the path or the query",
    )
}
