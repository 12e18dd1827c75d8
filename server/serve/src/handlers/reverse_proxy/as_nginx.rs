//! How nginx passes requests on: it adds no field of its own, tells the name of the upstream as the host, and puts its
//! own `Server` and `Date` in place of the upstream's.

use std::sync::Arc;

use sluice_message::{FieldId, Fields, Method, Status, Uri};
use sluice_model::proxy::AsNginx as Config;
use sluice_net::upstream::Call;
use sluice_net::{Body, RequestBody};
use sluice_route::Template;

use super::buffering::{Ahead, Rules};
use super::cookies::{Change, Cookies};
use super::next_upstream::NextUpstream;
use super::replay::Replay;
use super::select::Tried;
use crate::build::{Builder, Refusal};
use crate::context::Exchange;
use crate::failure::Fault;
use crate::handler::Step;
use crate::handlers::cache::answer::part_by_force;
use crate::handlers::nginx;
use crate::handlers::nginx::charset;
use crate::handlers::nginx::keep::Keep;
use crate::handlers::nginx::redirect::Naming;
use crate::handlers::nginx::uri::escape;
use crate::handlers::nginx::variables::sent;
use crate::handlers::nginx::{TreeRef, rate};
use crate::limits::REPLAY_BYTES_MAX;
use crate::text::clean_value;
use crate::values::expanded;

/// The settings.
pub struct AsNginx {
    host: Template,
    target: Option<Target>,
    upgrade: bool,
    /// Fields that are not passed back, in lower case.
    hidden: Vec<Box<[u8]>>,
    /// Statuses that are taken for errors of our own.
    intercept: Box<[u16]>,
    redirects: Vec<Change>,
    cookies: Option<Box<Cookies>>,
    method: Option<Template>,
    /// What is sent in place of the request's content.
    body: Option<Template>,
    drops_fields: bool,
    /// Whether the request says that it is of HTTP/1.0.
    http10: bool,
    /// Whether trailer fields are taken from the upstream.
    trailers: bool,
    /// Hints are passed back where one of them is neither empty nor `0`.
    hints: Box<[Template]>,
    ignores_redirect: bool,
    /// Whether it goes on although the client is gone.
    stays: bool,
    ignores_rate: bool,
    ignores_charset: bool,
    tree: TreeRef,
    naming: Naming,
    /// When the next server of a group is asked.
    pub next: NextUpstream,
    /// What few places do with answers.
    rare: Option<Box<Rare>>,
}

/// What few places do with answers.
#[derive(Default)]
struct Rare {
    /// How fast they are read.
    rate: Option<Template>,
    /// They are files from then on.
    keep: Option<Keep>,
    forces_ranges: bool,
}

impl Rare {
    fn build(config: &Config, cx: &Builder<'_>) -> Result<Option<Box<Rare>>, Refusal> {
        let rate = match config.limit_rate.as_str() {
            "" | "0" => None,
            rate => Some(cx.template(rate)?),
        };
        let keep = config.keep.as_ref().map(|keep| Keep::build(keep, cx));
        let rare = Rare {
            rate,
            keep: keep.transpose()?,
            forces_ranges: config.force_ranges,
        };
        let is_any = rare.rate.is_some() || rare.keep.is_some() || rare.forces_ranges;
        Ok(is_any.then(|| Box::new(rare)))
    }
}

/// What stands in the target in place of its beginning.
struct Target {
    path: Template,
    extent: Extent,
}

/// How much of a target is replaced.
enum Extent {
    /// So many bytes of its path.
    Beginning(usize),
    /// All, query included, but by nothing.
    Whole,
}

impl AsNginx {
    /// Reads the settings; `servers` may be asked one after the other.
    pub fn build(config: &Config, servers: u32, cx: &Builder<'_>) -> Result<AsNginx, Refusal> {
        let target = config.target.as_ref().map(|target| {
            Ok(Target {
                path: cx.template(&target.path)?,
                extent: match target.whole {
                    true => Extent::Whole,
                    false => Extent::Beginning(target.cut as usize),
                },
            })
        });
        let redirects = config.redirects.iter();
        let redirects = redirects.map(|change| Change::build("proxy_redirect", change, cx));
        let ignores = |name: &str| config.ignore.iter().any(|ignored| ignored == name);
        Ok(AsNginx {
            host: cx.template(&config.host)?,
            target: target.transpose()?,
            upgrade: config.upgrade,
            hidden: config
                .hide
                .iter()
                .map(|name| name.to_ascii_lowercase().into_bytes().into())
                .collect(),
            redirects: redirects.collect::<Result<_, Refusal>>()?,
            cookies: Cookies::build(config, cx)?.map(Box::new),
            method: match config.method.as_str() {
                "" => None,
                method => Some(cx.template(method)?),
            },
            body: config
                .body
                .as_ref()
                .map(|body| cx.template(body))
                .transpose()?,
            drops_fields: config.drop_fields,
            http10: config.http10,
            trailers: config.trailers,
            hints: config
                .early_hints
                .iter()
                .map(|text| cx.template(text))
                .collect::<Result<_, _>>()?,
            stays: config.ignore_client_abort,
            ignores_redirect: ignores("X-Accel-Redirect"),
            ignores_rate: ignores("X-Accel-Limit-Rate"),
            ignores_charset: ignores("X-Accel-Charset"),
            tree: cx.nginx_tree.clone(),
            naming: Naming::build(&config.naming),
            intercept: config.intercept.as_slice().into(),
            next: NextUpstream::build(config, servers)?,
            rare: Rare::build(config, cx)?,
        })
    }

    /// Whether an answer with this status is taken for an error of our own, which then has a page.
    pub fn intercepts(&self, status: Status) -> bool {
        self.intercept.contains(&status.code())
    }

    /// Whether what an upstream hints at before its answer is passed back.
    pub fn passes_hints(&self, x: &Exchange) -> bool {
        let is_set = |text: &Template| !matches!(&expanded(text, x)[..], b"" | b"0");
        self.hints.iter().any(is_set)
    }

    /// Whether a client may switch to another protocol.
    pub fn passes_upgrades(&self) -> bool {
        self.upgrade
    }

    /// Sets the host; an empty one is left to whoever encodes the request.
    pub fn set_host(&self, x: &Exchange, out: &mut Fields) {
        match self.host.literal() {
            Some(b"") => {}
            Some(text) => out.set(FieldId::Host, text),
            None => {
                out.set(FieldId::Host, &expanded(&self.host, x));
            }
        }
    }

    /// What is sent in place of the request's content.
    pub fn body(&self, x: &Exchange) -> Option<Vec<u8>> {
        self.body.as_ref().map(|body| expanded(body, x))
    }

    /// Whether the request says that it is of HTTP/1.0, where content without a length is not known.
    pub fn is_http10(&self) -> bool {
        self.http10
    }

    /// Whether the fields of the request are sent.
    pub fn drops_fields(&self) -> bool {
        self.drops_fields
    }

    /// Says that trailer fields are taken, where they are.
    pub fn set_te(&self, out: &mut Fields) {
        out.remove(FieldId::Te);
        if self.trailers {
            out.push(FieldId::Te, b"trailers");
        }
    }

    /// Gives the request method and target that the upstream is asked with; gives what they were, if they may have
    /// changed. A method that comes to nothing is the client's; one that is not a token is refused.
    pub fn rewrite(&self, x: &mut Exchange) -> Result<Option<(Method, Uri)>, Fault> {
        let method = match self.method.as_ref().map(|method| expanded(method, x)) {
            None => None,
            Some(token) if token.is_empty() => None,
            Some(token) => Some(Method::from_token(&token).ok_or_else(|| {
                Fault::new(
                    Status::BAD_REQUEST,
                    "the method for the upstream is not a token",
                )
            })?),
        };
        let before = self.retarget(x);
        let Some(method) = method else {
            return Ok(before);
        };
        let before = before.unwrap_or_else(|| (x.req.method.clone(), x.req.uri.clone()));
        x.req.method = method;
        Ok(Some(before))
    }

    /// Makes the body of a request fit for being sent twice, if it may have to be: to another server, or to a location
    /// with a name that the answer sends it on to.
    pub fn begin(&self, x: &Exchange, body: RequestBody, tried: &Tried) -> RequestBody {
        let may_be_sent_on = || !body.is_none() && !self.ignores_redirect && self.tree.has_names(x);
        match may_be_sent_on() {
            true => Replay::body(body, REPLAY_BYTES_MAX),
            false => self.next.begin(x, body, tried),
        }
    }

    /// Where the upstream sends the request on to within this server (`X-Accel-Redirect`); the fields of its answer
    /// that stay are added to ours, hidden ones as well.
    pub fn sent_on(&self, x: &mut Exchange, fields: &Fields, call: &mut Call) -> Option<Step> {
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
        self.change_cookies(x, &mut kept);
        for id in KEPT
            .into_iter()
            .filter(|id| *id != FieldId::SetCookie && kept.has(*id))
        {
            x.res.fields.remove(id);
        }
        x.res.fields.append(&kept);
        self.heed_rate(x, fields);
        Some(self.tree.send_on(x, &target, call.take_body()))
    }

    /// Notes how fast an answer is to be sent (`X-Accel-Limit-Rate`); tells whether it says so.
    fn heed_rate(&self, x: &mut Exchange, fields: &Fields) -> bool {
        let told = fields.find_first(b"X-Accel-Limit-Rate");
        let Some(rate) = told.filter(|_| !self.ignores_rate) else {
            return false;
        };
        let name: Arc<str> = rate::VARIABLE.into();
        x.context.vars.slot(&name).extend_from_slice(rate);
        true
    }

    /// Gives the request the target that the upstream is asked for; gives what it was, if it may have changed.
    /// Whether an upstream is asked on although the client is gone.
    pub fn stays(&self) -> bool {
        self.stays
    }

    /// Where it is told what happens.
    pub fn tree(&self) -> &TreeRef {
        &self.tree
    }

    /// Whether trailer fields are taken from the upstream, as gRPC needs it.
    pub fn trailers(&self) -> bool {
        self.trailers
    }

    /// What the upstream is told as the host.
    pub fn host_text(&self, x: &Exchange) -> String {
        String::from_utf8_lossy(&expanded(&self.host, x)).into_owned()
    }

    /// The target that the upstream is asked for.
    pub fn target_text(&self, x: &mut Exchange) -> String {
        let before = self.retarget(x);
        let target = String::from_utf8_lossy(x.req.uri.as_bytes()).into_owned();
        if let Some((method, uri)) = before {
            x.req.method = method;
            x.req.uri = uri;
        }
        target
    }

    fn retarget(&self, x: &mut Exchange) -> Option<(Method, Uri)> {
        let has_final_path = x.context.nginx.has_final_path();
        let mut target = match &self.target {
            Some(new) if !has_final_path || matches!(new.extent, Extent::Whole) => {
                expanded(&new.path, x)
            }
            Some(_) | None => Vec::new(),
        };
        match self.target.as_ref().map(|new| &new.extent) {
            Some(Extent::Beginning(cut)) if !has_final_path => {
                let rest = x.req.uri.path().get(*cut..).unwrap_or_default();
                escape(rest, &mut target);
            }
            Some(Extent::Whole) if !target.is_empty() => {
                let before = (x.req.method.clone(), x.req.uri.clone());
                x.req.uri.set(&target);
                return Some(before);
            }
            _ if x.context.nginx.is_as_sent() && x.req.uri.as_bytes() == sent(x) => return None,
            _ if x.context.nginx.is_as_sent() => {
                let before = (x.req.method.clone(), x.req.uri.clone());
                let whole = sent(x).to_vec();
                x.req.uri.set(&whole);
                return Some(before);
            }
            _ => escape(x.req.uri.path(), &mut target),
        }
        if let Some(query) = x.req.uri.query() {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        let before = (x.req.method.clone(), x.req.uri.clone());
        x.req.uri.set(&target);
        Some(before)
    }

    /// What becomes of an answer whose head is in `x.res`: it is read no faster than it may be and ahead of its client,
    /// kept as a file, and given in part.
    pub fn pass_back(&self, x: &mut Exchange, mut body: Body, ahead: Option<Arc<Rules>>) -> Step {
        let rare = self.rare.as_ref();
        if let Some(rate) = rare.and_then(|rare| rare.rate.as_ref()) {
            let rate = rate::bytes(&expanded(rate, x));
            // The bytes of the first second may come at once, as in nginx.
            body = rate::paced(x, body, rate, rate);
        }
        body = match (body, ahead) {
            (Body::Stream(stream), Some(rules)) => {
                Body::Stream(Box::new(Ahead::new(&x.worker, &rules, stream)))
            }
            (body, _) => body,
        };
        let Some(rare) = rare else {
            return Step::Done(body);
        };
        if let Some(keep) = &rare.keep {
            body = keep.keep(x, body);
        }
        match rare.forces_ranges {
            true => part_by_force(x, body),
            false => Step::Done(body),
        }
    }

    /// Makes the fields of an answer those that are passed back.
    pub fn take_fields(&self, x: &mut Exchange, fields: &mut Fields) {
        if self.heed_rate(x, fields) {
            rate::pace(x);
        }
        if !self.ignores_charset {
            charset::heed(x, fields);
        }
        // What is added by status goes by that of the error whose page this is.
        nginx::set_status(x);
        fields.retain(|field| !self.hides(field.name));
        if fields.has(FieldId::Server) {
            x.res.fields.remove(FieldId::Server);
        }
        self.change_cookies(x, fields);
        if !self.redirects.is_empty()
            && let Some(location) = fields.first(FieldId::Location)
        {
            let location = location.to_vec();
            if let Some(new) = self.redirected(x, &location) {
                let mut new = self.naming.absolute(x, new);
                clean_value(&mut new);
                fields.set(FieldId::Location, &new);
            }
        }
    }

    fn change_cookies(&self, x: &mut Exchange, fields: &mut Fields) {
        let Some(cookies) = &self.cookies else { return };
        for index in 0..fields.len() {
            let cookie = fields.at(index);
            let Some(cookie) = cookie.filter(|field| field.id == FieldId::SetCookie) else {
                continue;
            };
            let cookie = cookie.value.to_vec();
            if let Some(mut new) = cookies.change(x, &cookie) {
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

    /// Where a redirect of the upstream leads instead, if it is one of those that are changed.
    fn redirected(&self, x: &mut Exchange, location: &[u8]) -> Option<Vec<u8>> {
        self.redirects
            .iter()
            .find_map(|change| change.beginning(x, location))
    }
}
