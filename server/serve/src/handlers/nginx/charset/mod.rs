//! `nginx_charset`: which encoding texts are said to have that others answer. Files have it in their media types.

use sluice_message::FieldId;
use sluice_model::nginx::Charset as Config;
use sluice_net::Body;
use sluice_route::Template;

use super::types::Kinds;
use crate::build::{Builder, Refusal};
use crate::context::Exchange;
use crate::handler::{Filter, Filtering, Handler};
use crate::text::clean_value;
use crate::values::expanded;

struct Settings {
    name: Template,
    types: Kinds,
}

/// Builds the handler.
pub fn build(config: &Config, cx: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    Ok(Filtering::boxed(Settings {
        name: cx.template(&config.name)?,
        types: Kinds::build(&config.types),
    }))
}

/// Whether a media type says which encoding it has.
fn says_charset(value: &[u8]) -> bool {
    let mut parts = value.split(|byte| *byte == b';').skip(1);
    parts.any(|part| {
        let name = part.trim_ascii().get(..8);
        name.is_some_and(|name| name.eq_ignore_ascii_case(b"charset="))
    })
}

impl Filter for Settings {
    fn apply(&self, x: &mut Exchange, body: Body) -> Body {
        let Some(value) = x.res.fields.first(FieldId::ContentType) else {
            return body;
        };
        // Old browsers took that of a redirect for that of the next page: nginx says it of none.
        if matches!(x.res.status.code(), 301 | 302) || !self.types.include(&x.res.fields) {
            return body;
        }
        if says_charset(value) {
            return body;
        }
        let mut value = value.to_vec();
        let mut name = expanded(&self.name, x);
        clean_value(&mut name);
        if !name.is_empty() && name != b"off" {
            value.extend_from_slice(b"; charset=");
            value.extend_from_slice(&name);
            x.res.fields.set(FieldId::ContentType, &value);
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_type_says_of_its_encoding_is_found() {
        for (value, said) in [
            ("text/html", false),
            ("text/html; charset=utf-8", true),
            ("text/html;Charset=x; a=b", true),
            ("text/html; a=charset=x", false),
            ("charset=x", false),
        ] {
            assert_eq!(says_charset(value.as_bytes()), said, "{value}");
        }
    }
}
