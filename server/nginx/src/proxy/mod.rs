//! How nginx proxies: it adds no field of its own, sends the name of the upstream as the host, and puts its own `Server` and
//! `Date` in place of the upstream's.

mod buffering;
mod cookies;
mod failures;
pub mod language;
mod next_upstream;

use std::sync::Arc;

use sluice_message::{FieldId, Fields, Method, Moment, ResponseHead, Status, Uri, Version};
use sluice_model::nginx::NginxProxy as Config;
use sluice_net::tunnel::IdleTimeouts;
use sluice_net::{Body, Failure, FailureKind, RequestBody};
use sluice_policy::retry::Others;
use sluice_route::Template;
use sluice_upstream::{Call, Response, Timeouts};
use sluice_wire::h1::TargetBytes;

use super::charset;
use super::proxy_store::Keep;
use super::redirect::Naming;
use super::uri::escape;
use super::variables::sent;
use super::{TreeRef, rate};
use crate::shared::Shared;
use crate::spelling::WWW_AUTHENTICATE;
use crate::state::NginxContext;
use cookies::{Change, Cookies};
use next_upstream::NextUpstream;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::{Cause, Fault};
use sluice_pipeline::handler::Step;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::text::clean_value;
use sluice_pipeline::values::expanded;
use sluice_proxy::cache::cached_response::part_by_force;
use sluice_proxy::limits::REPLAY_BYTES_MAX;
use sluice_proxy::reverse_proxy::buffering::{Ahead, Rules};
use sluice_proxy::reverse_proxy::dialect::{Destination, Dialect, FailedTry, Original, Reported};
use sluice_proxy::reverse_proxy::replay::Replay;
use sluice_proxy::reverse_proxy::tried::Tried;
use sluice_proxy::reverse_proxy::upstream::Upstream;
use sluice_proxy::reverse_proxy::upstream_response::merge;

/// The settings.
pub struct NginxProxy {
    host: Template,
    target: Option<Target>,
    upgrade: bool,
    /// Headers not sent to the client (`proxy_hide_header`), in lower case.
    hidden: Vec<Box<[u8]>>,
    /// Statuses handled by `error_page` (`proxy_intercept_errors`).
    intercept: Box<[u16]>,
    redirects: Vec<Change>,
    cookies: Option<Box<Cookies>>,
    method: Option<Template>,
    /// The body to send instead of the client's (`proxy_set_body`).
    body: Option<Template>,
    drops_fields: bool,
    /// Whether to send requests as HTTP/1.0.
    http10: bool,
    /// Whether to accept trailers from the upstream.
    trailers: bool,
    /// Forward 103 (Early Hints) if one of these is neither empty nor `0`.
    hints: Box<[Template]>,
    ignores_redirect: bool,
    /// Whether to continue after the client disconnects (`proxy_ignore_client_abort`).
    stays: bool,
    ignores_rate: bool,
    ignores_charset: bool,
    tree: TreeRef,
    naming: Naming,
    /// When to try the next server of a group.
    next: NextUpstream,
    /// Settings that few locations have.
    rare: Option<Box<Rare>>,
}

/// Settings that few locations have.
#[derive(Default)]
struct Rare {
    /// The rate at which responses are read (`proxy_limit_rate`).
    rate: Option<Template>,
    /// Stores responses as files (`proxy_store`).
    keep: Option<Keep>,
    forces_ranges: bool,
}

impl Rare {
    fn build(config: &Config, builder: &Builder<'_>) -> Result<Option<Box<Rare>>, Refusal> {
        let rate = match config.limit_rate.as_str() {
            "" | "0" => None,
            rate => Some(builder.template(rate)?),
        };
        let keep = config.keep.as_ref().map(|keep| Keep::build(keep, builder));
        let rare = Rare {
            rate,
            keep: keep.transpose()?,
            forces_ranges: config.force_ranges,
        };
        let is_any = rare.rate.is_some() || rare.keep.is_some() || rare.forces_ranges;
        Ok(is_any.then(|| Box::new(rare)))
    }
}

/// The replacement for a part of the target.
struct Target {
    path: Template,
    extent: Extent,
}

/// Which part of the target is replaced.
enum Extent {
    /// This many bytes of the path, from its start.
    Beginning(usize),
    /// All of it, including the query, unless the replacement is empty.
    Whole,
}

impl NginxProxy {
    /// Parses the settings; `servers` is the number of servers that may be tried.
    pub fn build(
        config: &Config,
        servers: u32,
        builder: &Builder<'_>,
    ) -> Result<NginxProxy, Refusal> {
        let target = config.target.as_ref().map(|target| {
            Ok(Target {
                path: builder.template(&target.path)?,
                extent: match target.whole {
                    true => Extent::Whole,
                    false => Extent::Beginning(target.cut as usize),
                },
            })
        });
        let redirects = config.redirects.iter();
        let redirects = redirects.map(|change| Change::build("proxy_redirect", change, builder));
        let ignores = |name: &str| config.ignore.iter().any(|ignored| ignored == name);
        Ok(NginxProxy {
            host: builder.template(&config.host)?,
            target: target.transpose()?,
            upgrade: config.upgrade,
            hidden: config
                .hide
                .iter()
                .map(|name| name.to_ascii_lowercase().into_bytes().into())
                .collect(),
            redirects: redirects.collect::<Result<_, Refusal>>()?,
            cookies: Cookies::build(config, builder)?.map(Box::new),
            method: match config.method.as_str() {
                "" => None,
                method => Some(builder.template(method)?),
            },
            body: config
                .body
                .as_ref()
                .map(|body| builder.template(body))
                .transpose()?,
            drops_fields: config.drop_fields,
            http10: config.http10,
            trailers: config.trailers,
            hints: config
                .early_hints
                .iter()
                .map(|text| builder.template(text))
                .collect::<Result<_, _>>()?,
            stays: config.ignore_client_abort,
            ignores_redirect: ignores("X-Accel-Redirect"),
            ignores_rate: ignores("X-Accel-Limit-Rate"),
            ignores_charset: ignores("X-Accel-Charset"),
            tree: Shared::of(builder).tree,
            naming: Naming::build(&config.naming),
            intercept: config.intercept.as_slice().into(),
            next: NextUpstream::build(config, servers)?,
            rare: Rare::build(config, builder)?,
        })
    }

    /// Applies `X-Accel-Limit-Rate`; returns whether the response has it.
    fn heed_rate(&self, exchange: &mut Exchange, fields: &Fields) -> bool {
        let rate = fields.find_first(b"X-Accel-Limit-Rate");
        let Some(rate) = rate.filter(|_| !self.ignores_rate) else {
            return false;
        };
        let name: Arc<str> = rate::VARIABLE.into();
        exchange.context.vars.slot(&name).extend_from_slice(rate);
        true
    }

    /// The host sent to the upstream.
    pub fn host_text(&self, exchange: &Exchange) -> String {
        String::from_utf8_lossy(&expanded(&self.host, exchange)).into_owned()
    }

    /// The target sent to the upstream.
    pub fn target_text(&self, exchange: &mut Exchange) -> String {
        let before = self.retarget(exchange);
        let target = String::from_utf8_lossy(exchange.req.uri.as_bytes()).into_owned();
        if let Some((method, uri)) = before {
            exchange.req.method = method;
            exchange.req.uri = uri;
        }
        target
    }

    fn retarget(&self, exchange: &mut Exchange) -> Option<(Method, Uri)> {
        let has_final_path = exchange.context.nginx().has_final_path();
        let mut target = match &self.target {
            Some(new) if !has_final_path || matches!(new.extent, Extent::Whole) => {
                expanded(&new.path, exchange)
            }
            Some(_) | None => Vec::new(),
        };
        match self.target.as_ref().map(|new| &new.extent) {
            Some(Extent::Beginning(cut)) if !has_final_path => {
                let rest = exchange.req.uri.path().get(*cut..).unwrap_or_default();
                // As nginx does, a path that came without escapes leaves without them.
                match exchange.context.nginx().is_as_sent() && !sent(exchange).contains(&b'%') {
                    true => target.extend_from_slice(rest),
                    false => escape(rest, &mut target),
                }
            }
            Some(Extent::Whole) if !target.is_empty() => {
                let before = (exchange.req.method.clone(), exchange.req.uri.clone());
                exchange.req.uri.set(&target);
                return Some(before);
            }
            _ if exchange.context.nginx().is_as_sent()
                && exchange.req.uri.as_bytes() == sent(exchange) =>
            {
                return None;
            }
            _ if exchange.context.nginx().is_as_sent() => {
                let before = (exchange.req.method.clone(), exchange.req.uri.clone());
                let whole = sent(exchange).to_vec();
                exchange.req.uri.set(&whole);
                return Some(before);
            }
            _ => escape(exchange.req.uri.path(), &mut target),
        }
        if let Some(query) = exchange.req.uri.query() {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        let before = (exchange.req.method.clone(), exchange.req.uri.clone());
        exchange.req.uri.set(&target);
        Some(before)
    }

    /// Makes the fields of a response those that are forwarded.
    fn change_fields(&self, exchange: &mut Exchange, fields: &mut Fields) {
        if self.heed_rate(exchange, fields) {
            rate::pace(exchange);
        }
        if !self.ignores_charset {
            charset::heed(exchange, fields);
        }
        // `add_header` depends on the status of the error for which this response is a page.
        super::set_status(exchange);
        fields.retain(|field| !self.hides(field.name));
        if fields.has(FieldId::Server) {
            exchange.res.fields.remove(FieldId::Server);
        }
        self.change_cookies(exchange, fields);
        if !self.redirects.is_empty()
            && let Some(location) = fields.first(FieldId::Location)
        {
            let location = location.to_vec();
            if let Some(new) = self.redirected(exchange, &location) {
                let mut new = self.naming.absolute(exchange, new);
                clean_value(&mut new);
                fields.set(FieldId::Location, &new);
            }
        }
        if !self.redirects.is_empty() {
            self.change_refresh(exchange, fields);
        }
    }

    /// Rewrites the URL of a `Refresh` header, as that of a `Location`.
    fn change_refresh(&self, exchange: &mut Exchange, fields: &mut Fields) {
        const NAME: &[u8] = b"Refresh";
        let Some(value) = fields.find_first(NAME).map(<[u8]>::to_vec) else {
            return;
        };
        let url = value
            .windows(4)
            .position(|word| word.eq_ignore_ascii_case(b"url="));
        let Some(start) = url.map(|at| at + 4) else {
            return;
        };
        if let Some(new) = self.redirected(exchange, &value[start..]) {
            let mut whole = value[..start].to_vec();
            whole.extend_from_slice(&new);
            clean_value(&mut whole);
            fields.set_raw(FieldId::of(NAME), NAME, &whole);
        }
    }

    fn change_cookies(&self, exchange: &mut Exchange, fields: &mut Fields) {
        let Some(cookies) = &self.cookies else { return };
        for index in 0..fields.len() {
            let cookie = fields.at(index);
            let Some(cookie) = cookie.filter(|field| field.id == FieldId::SetCookie) else {
                continue;
            };
            let cookie = cookie.value.to_vec();
            if let Some(mut new) = cookies.change(exchange, &cookie) {
                clean_value(&mut new);
                fields.replace_at(index, &new);
            }
        }
    }

    fn hides(&self, name: &[u8]) -> bool {
        self.hidden
            .iter()
            .any(|hidden| hidden.len() == name.len() && hidden.eq_ignore_ascii_case(name))
    }

    /// Rewrites a `Location` according to `proxy_redirect`; `None` if no rule matches.
    fn redirected(&self, exchange: &mut Exchange, location: &[u8]) -> Option<Vec<u8>> {
        self.redirects
            .iter()
            .find_map(|change| change.beginning(exchange, location))
    }
}

impl Dialect for NginxProxy {
    fn outlives_client(&self) -> bool {
        self.stays
    }

    fn begin(&self, exchange: &Exchange, body: RequestBody, tried: &Tried) -> RequestBody {
        let may_be_sent_on =
            || !body.is_none() && !self.ignores_redirect && self.tree.has_names(exchange);
        match may_be_sent_on() {
            true => Replay::body(body, REPLAY_BYTES_MAX),
            false => self.next.begin(exchange, body, tried),
        }
    }

    fn next(
        &self,
        exchange: &Exchange,
        failed: &FailedTry<'_>,
        tried: &Tried,
        _others: &mut dyn FnMut() -> Others,
    ) -> Option<Moment> {
        // A response is only given up where there is another upstream.
        let is_unwanted = failed.was_asked && failed.call.failure.kind == FailureKind::Unavailable;
        let is_next = is_unwanted || self.next.after(exchange, failed.call, tried);
        is_next.then(|| exchange.worker.clock.coarse())
    }

    fn retry_instead(
        &self,
        exchange: &mut Exchange,
        call: &mut Call,
        response: &Response,
        tried: &Tried,
    ) -> Option<RequestBody> {
        self.next.instead(exchange, call, response, tried)
    }

    fn classify(&self, failure: &mut Failure) {
        failures::classify(failure);
    }

    // To nginx it is all the same why no upstream responds.
    fn unavailable(&self) -> Status {
        Status::BAD_GATEWAY
    }

    fn report_failure(
        &self,
        exchange: &mut Exchange,
        failure: &Failure,
        of: &Destination<'_>,
    ) -> Reported {
        failures::report(self, exchange, failure, of)
    }

    fn replaced_body(&self, exchange: &Exchange) -> Option<Vec<u8>> {
        self.body.as_ref().map(|body| expanded(body, exchange))
    }

    fn rewrite(&self, exchange: &mut Exchange) -> Result<Option<Original>, Fault> {
        let method = match self
            .method
            .as_ref()
            .map(|method| expanded(method, exchange))
        {
            None => None,
            Some(token) if token.is_empty() => None,
            Some(token) => Some(Method::from_token(&token).ok_or_else(|| {
                Fault::new(
                    Status::BAD_REQUEST,
                    "the method for the upstream is not a token",
                )
                .caused_by(Cause::Client)
            })?),
        };
        let before = self.retarget(exchange);
        let Some(method) = method else {
            return Ok(before);
        };
        let before =
            before.unwrap_or_else(|| (exchange.req.method.clone(), exchange.req.uri.clone()));
        exchange.req.method = method;
        Ok(Some(before))
    }

    fn forwards_fields(&self) -> bool {
        !self.drops_fields
    }

    fn forwards_upgrades(&self) -> bool {
        self.upgrade
    }

    fn tunnel_timeouts(&self, exchange: &Exchange, upstream: &Timeouts) -> IdleTimeouts {
        IdleTimeouts {
            upstream_read: upstream.read,
            upstream_write: upstream.write,
            client_write: self.tree.send_timeout(exchange),
        }
    }

    fn forwards_interims(&self, exchange: &Exchange) -> bool {
        let is_set = |text: &Template| !matches!(&expanded(text, exchange)[..], b"" | b"0");
        self.hints.iter().any(is_set)
    }

    fn targets(&self) -> TargetBytes {
        TargetBytes::Raw
    }

    fn version(&self) -> Version {
        match self.http10 {
            true => Version::Http10,
            false => Version::Http11,
        }
    }

    fn set_fields(&self, exchange: &Exchange, _upstream: &Upstream, out: &mut Fields) {
        // Clients of gRPC ask for trailers themselves, and nginx asks only if they do.
        if !self.trailers {
            out.remove(FieldId::Te);
        }
        // An empty host is left to the codec.
        match self.host.literal() {
            Some(b"") => {}
            Some(text) => out.set(FieldId::Host, text),
            None => {
                out.set(FieldId::Host, &expanded(&self.host, exchange));
            }
        }
    }

    fn redirect_internally(
        &self,
        exchange: &mut Exchange,
        fields: &Fields,
        call: &mut Call,
    ) -> Option<Step> {
        if self.ignores_redirect {
            return None;
        }
        let target = fields.find_first(b"X-Accel-Redirect")?.to_vec();
        const KEPT: [FieldId; 6] = [
            FieldId::ContentType,
            FieldId::SetCookie,
            FieldId::ContentDisposition,
            FieldId::CacheControl,
            FieldId::Expires,
            FieldId::AcceptRanges,
        ];
        let mut kept = Fields::new();
        for field in fields.iter().filter(|field| KEPT.contains(&field.id)) {
            match field.id {
                FieldId::SetCookie => kept.push_raw(field.id, field.name, field.value),
                _ => kept.set_raw(field.id, field.name, field.value),
            }
        }
        self.change_cookies(exchange, &mut kept);
        for id in KEPT
            .into_iter()
            .filter(|id| *id != FieldId::SetCookie && kept.has(*id))
        {
            exchange.res.fields.remove(id);
        }
        exchange.res.fields.append(&kept);
        self.heed_rate(exchange, fields);
        Some(self.tree.send_on(exchange, &target, call.take_body()))
    }

    fn intercepts(&self, status: Status) -> bool {
        self.intercept.contains(&status.code())
    }

    fn keep_of_intercepted(&self, exchange: &mut Exchange, head: &ResponseHead) {
        if head.status == Status::UNAUTHORIZED {
            for challenge in head.fields.all(FieldId::WwwAuthenticate) {
                let fields = &mut exchange.res.fields;
                fields.push_raw(FieldId::WwwAuthenticate, WWW_AUTHENTICATE, challenge);
            }
        }
    }

    fn keeps_upgrade_offers(&self, exchange: &Exchange) -> bool {
        // In other versions a response with this header is malformed (RFC 9113, section 8.2.2).
        matches!(exchange.req.version, Version::Http10 | Version::Http11)
    }

    fn take_fields(&self, exchange: &mut Exchange, head: &mut ResponseHead, is_shown: bool) {
        // Those of a cached response as well.
        if exchange.context.nginx().is_subrequest() || is_shown {
            // `auth_request_set` looks at them.
            (*exchange.context.upstream.fields).clone_from(&head.fields);
        }
        self.change_fields(exchange, &mut head.fields);
        merge(&mut exchange.res.fields, &mut head.fields);
    }

    fn add_type(&self, exchange: &mut Exchange) {
        self.tree.add_type(exchange);
    }

    fn forward(&self, exchange: &mut Exchange, mut body: Body, ahead: Option<Arc<Rules>>) -> Step {
        let rare = self.rare.as_ref();
        if let Some(rate) = rare.and_then(|rare| rare.rate.as_ref()) {
            let rate = rate::bytes(&expanded(rate, exchange));
            // As in nginx, the bytes of the first second may be read at once.
            body = rate::paced(exchange, body, rate, rate);
        }
        body = match (body, ahead) {
            (Body::Stream(stream), Some(rules)) => {
                Body::Stream(Box::new(Ahead::new(&exchange.worker, &rules, stream)))
            }
            (body, _) => body,
        };
        let Some(rare) = rare else {
            return Step::Done(body);
        };
        if let Some(keep) = &rare.keep {
            body = keep.keep(exchange, body);
        }
        match rare.forces_ranges {
            true => part_by_force(exchange, body),
            false => Step::Done(body),
        }
    }
}
