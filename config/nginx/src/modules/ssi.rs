//! `ngx_http_ssi_module`: server-side includes.

use std::collections::BTreeMap;

use sluice_model::Handler;
use sluice_model::nginx::Ssi;

use crate::definition::Takes::{Flag, Size, Words};
use crate::definition::Verdict::{Always, Partly};
use crate::definition::{Definition, MANY, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::Facts;
use crate::modules::gzip;
use crate::registry::variables::{FAMILIES, VARIABLES, Variable};

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("ssi", Flag).but(Partly(
        "`$request_body` is empty in pages, and upstream times have a value only if another setting uses them; an empty request variable counts as missing",
    )),
    once("ssi_last_modified", Flag),
    once("ssi_min_file_chunk", Size).but(Always("sluice sizes its own buffers")),
    once("ssi_silent_errors", Flag),
    many("ssi_types", Words(1, MANY)),
    once("ssi_value_length", Size),
];

/// The length that a value of a parameter may not reach where nothing is said.
const VALUE_LENGTH: u64 = 256;

/// Does what the commands in pages of a place say.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Option<Handler> {
    if !level.is_on("ssi", false) {
        return None;
    }
    let mut variables = BTreeMap::new();
    for (name, variable) in VARIABLES {
        if let Variable::OfPlace(which) = variable
            && let Some(text) = facts.placeholder(*which)
        {
            cx.note_use(&text, facts);
            variables.insert((*name).to_owned(), format!("={text}"));
        }
    }
    cx.has_pages = true;
    Some(Handler::NginxSsi(Box::new(Ssi {
        types: gzip::types(level, "ssi_types"),
        value_length: level.size("ssi_value_length").unwrap_or(VALUE_LENGTH),
        silent: level.is_on("ssi_silent_errors", false),
        keeps_last_modified: level.is_on("ssi_last_modified", false),
        variables,
    })))
}

/// The variables that all places have, and the beginnings of families of them.
pub fn variables() -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let single = VARIABLES.iter().filter_map(|(name, variable)| {
        let text = match variable {
            // The whole of a request is not read for a page that might show it.
            Variable::Placeholder("http.request.body") => return None,
            Variable::Placeholder(placeholder) => (*placeholder).to_owned(),
            Variable::Text(text) => format!("={text}"),
            Variable::OfPlace(_) | Variable::NotYet => return None,
        };
        Some(((*name).to_owned(), text))
    });
    let families = FAMILIES.iter().filter_map(|(beginning, placeholder)| {
        Some(((*beginning).to_owned(), (*placeholder)?.to_owned()))
    });
    (single.collect(), families.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_see_the_variables_of_the_file() {
        let (single, families) = variables();
        let text = |name: &str| single.get(name).map(String::as_str);
        assert_eq!(text("uri"), Some("http.request.uri.path"));
        assert_eq!(text("http3"), Some("nginx.http3"));
        assert_eq!(
            text("request_body"),
            None,
            "it would be read for each request"
        );
        assert_eq!(text("host"), None, "it follows from the place");
        assert_eq!(families.get("arg_").map(String::as_str), Some("nginx.arg."));
    }

    #[test]
    fn ssi_settings_are_lowered() {
        let conf = "events {} http { server { ssi on; ssi_types text/plain; ssi_value_length 1k; ssi_silent_errors on; ssi_last_modified on; } }";
        let adapted = crate::adapt("nginx.conf", conf, &crate::MemoryLoader::default());
        let config = adapted.config.expect("it is right");
        let text = serde_json::to_string(&config).expect("it is JSON");
        let from = text.find("\"nginx_ssi\"").expect("there is one");
        for part in [
            "\"keeps_last_modified\":true",
            "\"silent\":true",
            "\"types\":[\"text/html\",\"text/plain\"]",
            "\"value_length\":1024",
            "\"host\":\"={nginx.host/}\"",
        ] {
            assert!(text.contains(part), "{part}: {}", &text[from..]);
        }
    }
}
