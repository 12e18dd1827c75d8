//! How nginx passes requests on: it adds no field of its own, tells the name of the upstream as the host, and puts its
//! own `Server` and `Date` in place of the upstream's.

use sluice_message::{FieldId, Fields, Method, Status, Uri};
use sluice_model::proxy::AsNginx as Config;
use sluice_route::{Template, Unknown};

use super::next_upstream::NextUpstream;
use crate::build::{Builder, Refusal};
use crate::context::Exchange;
use crate::handlers::nginx;
use crate::handlers::nginx::groups::Pattern;
use crate::handlers::nginx::redirect::Naming;
use crate::handlers::nginx::uri::escape;
use crate::handlers::nginx::variables::sent;
use crate::text::{clean_value, push_value};
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
    naming: Naming,
    /// When the next server of a group is asked.
    pub next: NextUpstream,
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

/// A redirect of the upstream that is changed.
struct Change {
    from: From,
    to: Template,
}

enum From {
    Text(Template),
    Pattern(Pattern),
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
        let redirects = config.redirects.iter().map(|change| {
            let from = match change.pattern.as_str() {
                "" => From::Text(cx.template(&change.from)?),
                pattern => From::Pattern(nginx::pattern(pattern, "")?),
            };
            Ok(Change {
                from,
                to: cx.template(&change.to)?,
            })
        });
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
            naming: Naming::build(&config.naming),
            intercept: config.intercept.as_slice().into(),
            next: NextUpstream::build(config, servers)?,
        })
    }

    /// Whether an answer with this status is taken for an error of our own, which then has a page.
    pub fn intercepts(&self, status: Status) -> bool {
        self.intercept.contains(&status.code())
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
                let mut text = Vec::new();
                push_value(&self.host, Unknown::Empty, x, &mut text);
                out.set(FieldId::Host, &text);
            }
        }
    }

    /// Gives the request the target that the upstream is asked for; gives what it was, if it may have changed.
    pub fn retarget(&self, x: &mut Exchange) -> Option<(Method, Uri)> {
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

    /// Makes the fields of an answer those that are passed back.
    pub fn take_fields(&self, x: &mut Exchange, fields: &mut Fields) {
        // What is added by status goes by that of the error whose page this is.
        nginx::set_status(x);
        fields.retain(|field| !self.hides(field.name));
        if fields.has(FieldId::Server) {
            x.res.fields.remove(FieldId::Server);
        }
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

    fn hides(&self, name: &[u8]) -> bool {
        self.hidden
            .iter()
            .any(|hidden| hidden.len() == name.len() && hidden.eq_ignore_ascii_case(name))
    }

    /// Where a redirect of the upstream leads instead, if it is one of those that are changed.
    fn redirected(&self, x: &mut Exchange, location: &[u8]) -> Option<Vec<u8>> {
        self.redirects.iter().find_map(|change| match &change.from {
            From::Text(from) => {
                let from = expanded(from, x);
                let rest = location.strip_prefix(&from[..])?;
                let mut new = expanded(&change.to, x);
                new.extend_from_slice(rest);
                Some(new)
            }
            From::Pattern(pattern) => pattern
                .matches(x, location)
                .then(|| expanded(&change.to, x)),
        })
    }
}
