//! `ngx_http_index_module`, `ngx_http_autoindex_module`, `ngx_http_dav_module`: serving files.

use sluice_model::Handler;
use sluice_model::nginx::{Autoindex, GzipClients, NginxFiles, Redirects};

use crate::definition::Takes::{Choice, Flag, Number, Words};
use crate::definition::Verdict::{NotYet, OnlyAs};
use crate::definition::{Definition, MANY, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::Facts;
use crate::modules::gzip;
use crate::modules::http_core::file_lookup;

/// Those of `index`.
pub const INDEX: &[Definition] = &[many("index", Words(1, MANY))];

/// Those of `autoindex`.
pub const AUTOINDEX: &[Definition] = &[
    once("autoindex", Flag),
    once("autoindex_exact_size", Flag),
    once(
        "autoindex_format",
        Choice(&["html", "xml", "json", "jsonp"]),
    ),
    once("autoindex_localtime", Flag),
];

/// Those of `random_index`.
pub const RANDOM_INDEX: &[Definition] = &[once("random_index", Flag)];

/// Those of WebDAV.
pub const DAV: &[Definition] = &[
    once("create_full_put_path", Flag).but(OnlyAs(&["off"])),
    once("dav_methods", Words(1, MANY)).but(OnlyAs(&["off"])),
    once("min_delete_depth", Number).but(NotYet),
];

/// Static files, the content of a location that sets no other content handler.
pub fn lower(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    facts: &Facts,
    types: u32,
    redirects: &Redirects,
) -> Handler {
    let mut index = Vec::new();
    for directive in level.nearest(&["index"]) {
        for word in &directive.args {
            index.push(cx.text(word, facts));
        }
    }
    if index.is_empty() {
        index.push("index.html".to_owned());
    }
    let autoindex = level.is_on("autoindex", false).then(|| Autoindex {
        rounded: !level.is_on("autoindex_exact_size", true),
        format: match level.word("autoindex_format") {
            None | Some("html") => String::new(),
            Some(word) => word.to_owned(),
        },
        local_times: level.is_on("autoindex_localtime", false),
    });
    Handler::NginxFiles(Box::new(NginxFiles {
        path: facts.file.clone().unwrap_or_default(),
        types,
        index,
        autoindex,
        etag: (!level.is_on("etag", true)).then_some(false),
        if_modified_since: match level.word("if_modified_since") {
            None | Some("exact") => String::new(),
            Some(word) => word.to_owned(),
        },
        max_ranges: level
            .word("max_ranges")
            .and_then(|number| number.parse().ok()),
        random_index: level.is_on("random_index", false),
        gzip_static: match level.word("gzip_static") {
            None | Some("off") => String::new(),
            Some(word) => word.to_owned(),
        },
        gzip_clients: match level.word("gzip_static") {
            Some("on") => gzip::clients(cx, level),
            _ => GzipClients::default(),
        },
        redirects: redirects.clone(),
        links: file_lookup(cx, level, facts),
    }))
}
