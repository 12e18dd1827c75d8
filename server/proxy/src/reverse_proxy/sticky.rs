//! `sticky`: session persistence in an nginx upstream group, by our cookie or by a session ID of the application. The
//! group decides whether the server can take the request.

use sluice_message::FieldId;
use sluice_message::date::format_http;
use sluice_model::proxy::{StickyCookie as Config, UpstreamGroup};
use sluice_route::Template;

use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use sluice_pipeline::text::clean_value;
use sluice_pipeline::values::expanded;

/// The sticky settings.
pub struct Sticky {
    /// Possible IDs of a server or session in a request.
    names: Box<[Template]>,
    cookie: Option<Cookie>,
    /// Possible IDs of a session created by a response, and whether the head alone creates it.
    created: Box<[Template]>,
    at_header: bool,
}

/// A cookie with the ID of a server.
struct Cookie {
    name: Box<str>,
    expires: Expires,
    domain: Template,
    path: Template,
    same_site: Template,
    flags: &'static str,
}

/// The lifetime of a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expires {
    /// The browser session.
    WithClient,
    /// In seconds.
    After(u64),
    /// The maximum.
    Never,
}

/// nginx's maximum date, which fits into 32 bits.
const FAR_AWAY: &str = "Thu, 31 Dec 2037 23:55:55 GMT";

impl Sticky {
    /// Parses the settings of a group; `None` without session persistence.
    pub fn build(config: &UpstreamGroup, builder: &Builder<'_>) -> Result<Option<Sticky>, Refusal> {
        let Some(sticky) = &config.sticky else {
            return Ok(None);
        };
        let names = sticky.names.iter().map(|name| builder.template(name));
        let learn = sticky.learn.as_ref();
        let created = learn.map_or(&[][..], |learn| &learn.create);
        let created = created.iter().map(|name| builder.template(name));
        Ok(Some(Sticky {
            names: names.collect::<Result<_, _>>()?,
            created: created.collect::<Result<_, _>>()?,
            at_header: learn.is_some_and(|learn| learn.at_header),
            cookie: match &sticky.cookie {
                None => None,
                Some(cookie) => Some(Cookie::build(cookie, builder)?),
            },
        }))
    }

    /// The server or session ID in a request.
    pub fn named(&self, exchange: &Exchange) -> Option<Vec<u8>> {
        let mut names = self
            .names
            .iter()
            .map(|name| expanded(name, exchange).to_vec());
        names.find(|name| !name.is_empty())
    }

    /// The ID of the session created by a response.
    pub fn created(&self, exchange: &Exchange) -> Option<Vec<u8>> {
        let mut names = self
            .created
            .iter()
            .map(|name| expanded(name, exchange).to_vec());
        names.find(|name| !name.is_empty())
    }

    /// Whether the response head creates sessions.
    pub fn learns_at_header(&self) -> bool {
        self.at_header
    }

    /// Sets the cookie for the server with the ID `route`, if there is one and the client does not have it.
    pub fn set_cookie(&self, exchange: &mut Exchange, route: Option<&[u8]>) {
        let (Some(cookie), Some(route)) = (&self.cookie, route) else {
            return;
        };
        if self.named(exchange).as_deref() != Some(route) {
            let line = cookie.line(exchange, route);
            exchange.res.fields.push(FieldId::SetCookie, &line);
        }
    }
}

impl Cookie {
    fn build(config: &Config, builder: &Builder<'_>) -> Result<Cookie, Refusal> {
        Ok(Cookie {
            name: config.name.as_str().into(),
            expires: match (config.expires_never, config.expires) {
                (true, _) => Expires::Never,
                (false, None) => Expires::WithClient,
                (false, Some(time)) => Expires::After(given(time).map_or(0, |time| time.as_secs())),
            },
            domain: builder.template(&config.domain)?,
            path: builder.template(&config.path)?,
            same_site: builder.template(&config.same_site)?,
            flags: match (config.http_only, config.secure) {
                (true, true) => "; HttpOnly; Secure",
                (true, false) => "; HttpOnly",
                (false, true) => "; Secure",
                (false, false) => "",
            },
        })
    }

    /// The value of Set-Cookie (RFC 6265, section 4.1).
    fn line(&self, exchange: &Exchange, route: &[u8]) -> Vec<u8> {
        let mut line = Vec::with_capacity(96);
        line.extend_from_slice(self.name.as_bytes());
        line.push(b'=');
        line.extend_from_slice(route);
        match self.expires {
            Expires::WithClient => {}
            Expires::Never => {
                line.extend_from_slice(b"; Expires=");
                line.extend_from_slice(FAR_AWAY.as_bytes());
            }
            Expires::After(seconds) => {
                let end = exchange.worker.clock.unix_seconds().saturating_add(seconds);
                line.extend_from_slice(b"; Expires=");
                line.extend_from_slice(&format_http(end));
                line.extend_from_slice(format!("; Max-Age={seconds}").as_bytes());
            }
        }
        for (name, value) in [
            ("; Domain=", &self.domain),
            ("; Path=", &self.path),
            ("; SameSite=", &self.same_site),
        ] {
            let value = expanded(value, exchange);
            if !value.is_empty() {
                line.extend_from_slice(name.as_bytes());
                line.extend_from_slice(&value);
            }
        }
        line.extend_from_slice(self.flags.as_bytes());
        clean_value(&mut line);
        line
    }
}
