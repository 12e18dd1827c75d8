//! `ngx_http_core_module`: servers, locations, roots, error pages, request limits. The addresses of servers are in
//! `lower::listen`, locations in `lower::locations`.

use std::collections::BTreeMap;

use sluice_diag::Diagnostic;
use sluice_model::handler::Subroute;
use sluice_model::http::MinDataRate;
use sluice_model::matcher::{Matcher, MatcherSet};
use sluice_model::nginx::{
    BodyFile, ClientLimits, ErrorPage, FileLookup, HeadLimits, MediaTypes, PostAction, Redirects,
    TryFiles,
};
use sluice_model::{Handler, Route, Server};

mod checks;

use checks::{
    KEEPALIVE_DISABLE, aio, directio, keepalive_timeout, listen, open_file_cache, server_name,
};

use super::{buffering, resolver};
use crate::arguments::{self, buffers};
use crate::context::Context;
use crate::definition::Repeats;
use crate::definition::Takes::{Block, Choice, Flag, Nothing, Number, Size, Time, Words};
use crate::definition::Verdict::{self, Always, Idle, Partly};
use crate::definition::{Definition, MANY, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::reached::Reached;
use crate::lower::text::Facts;
use crate::tree::{Directive, Word as Text};

const BUFFERS: Verdict = Always("sluice sizes its own buffers");
const TABLES: Verdict = Always("tables grow as needed");

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("absolute_redirect", Flag),
    once("aio", Words(1, 1))
        .but(Always(
            "the kernel sends files; workers do not wait for the disk",
        ))
        .checked(aio),
    once("aio_write", Flag).but(Always("a separate thread writes temporary files")),
    once("alias", Words(1, 1)).repeated(Repeats::NotBeside("root")),
    once("auth_delay", Time),
    once("chunked_transfer_encoding", Flag),
    once("client_body_buffer_size", Size).but(buffering::REQUEST),
    once("client_body_in_file_only", Choice(&["on", "clean", "off"])),
    once("client_body_in_single_buffer", Flag).but(buffering::PIECES),
    once("client_body_temp_path", Words(1, 4)).but(Partly(
        "levels apply to `client_body_in_file_only`: other temporary files have no names",
    )),
    once("client_body_timeout", Time),
    once("client_header_buffer_size", Size).but(BUFFERS),
    once("client_header_timeout", Time),
    once("client_max_body_size", Size),
    once("connection_pool_size", Size).but(BUFFERS),
    once("default_type", Words(1, 1)),
    once("directio", Words(1, 1))
        .but(Idle("files are read through the page cache"))
        .checked(directio),
    once("directio_alignment", Size).but(BUFFERS),
    once("disable_symlinks", Words(1, 2)).but(Partly(
        "for files, indexes, `try_files` and `if (-f …)`; not for log files and user files",
    )),
    many("early_hints", Words(1, MANY)),
    many("error_page", Words(2, MANY)),
    once("etag", Flag),
    once("http", Block(0, 0)).holding(|_| Context::Http),
    once("if_modified_since", Choice(&["off", "exact", "before"])),
    once("ignore_invalid_headers", Flag).but(Partly(
        "with `off` names must still be tokens (RFC 9110); a name that could be mistaken for a framing header gets 400, and over HTTP/2 any invalid name",
    )),
    once("internal", Nothing),
    once("keepalive_disable", Words(1, MANY)).of(&KEEPALIVE_DISABLE),
    once("keepalive_min_timeout", Time),
    once("keepalive_requests", Number),
    once("keepalive_time", Time),
    once("keepalive_timeout", Words(1, 2)).checked(keepalive_timeout),
    once("large_client_header_buffers", Words(2, 2))
        .but(Partly(
            "the size limits a request line and each header, the product of both the head; a target has at most 65,535 bytes",
        ))
        .checked(buffers),
    once("limit_except", Block(1, MANY)).holding(|_| Context::LimitExcept),
    once("limit_rate", Words(1, 1)),
    once("limit_rate_after", Words(1, 1)),
    once("lingering_close", Choice(&["on", "off", "always"])),
    once("lingering_time", Time),
    once("lingering_timeout", Time),
    many("listen", Words(1, MANY))
        .but(Partly(
            "all except `multipath`, `setfib=` and `accept_filter=`; `bind` and `reuseport` are always in effect; keep-alive probes start after 15 s unless `so_keepalive` sets a time",
        ))
        .checked(listen),
    many("location", Block(1, 2))
        .checked(arguments::pattern)
        .holding(|_| Context::Location),
    once("log_not_found", Flag),
    once("log_subrequest", Flag).but(Partly(
        "lines have the variables of the subrequest; `$body_bytes_sent` and `$bytes_sent` are 0",
    )),
    once("max_headers", Number).but(Partly(
        "at most 65534; over HTTP/2 each part of a cookie counts",
    )),
    once("max_ranges", Number),
    once("merge_slashes", Flag),
    once("min_data_rate", Words(1, 2)),
    once("msie_padding", Flag).but(Always("such browsers no longer exist")),
    once("msie_refresh", Flag).but(Always("such browsers no longer exist")),
    once("open_file_cache", Words(1, 2))
        .but(Partly(
            "whether lookups are cached for `open_file_cache_valid`; `max` and `inactive` have no effect, the cache is bounded. Without it each request looks at the file, but one that has not changed is not read again",
        ))
        .checked(open_file_cache),
    once("open_file_cache_errors", Flag),
    once("open_file_cache_events", Flag).but(Always(
        "`open_file_cache_valid` says when a file is looked at again",
    )),
    once("open_file_cache_min_uses", Number).but(Always(
        "the first use counts; the cache is bounded",
    )),
    once("open_file_cache_valid", Time),
    once("output_buffers", Words(2, 2))
        .but(BUFFERS)
        .checked(buffers),
    once("port_in_redirect", Flag),
    once("post_action", Words(1, 1)).but(Partly(
        "it does not delay the next request of the connection; the access log shows the original request",
    )),
    once("postpone_output", Size).but(BUFFERS),
    once("read_ahead", Size).but(BUFFERS),
    once("recursive_error_pages", Flag),
    once("request_pool_size", Size).but(BUFFERS),
    once("reset_timedout_connection", Flag).but(Partly(
        "only over HTTP/1: over HTTP/2 it would reset other streams too",
    )),
    once("resolver", Words(1, MANY))
        .but(resolver::VERDICT)
        .checked(resolver::check),
    once("resolver_timeout", Time),
    once("root", Words(1, 1)),
    once("satisfy", Choice(&["all", "any"])),
    once("send_lowat", Size).but(BUFFERS),
    once("send_timeout", Time),
    once("sendfile", Flag).but(Always(
        "large files are sent by the kernel, small ones from memory",
    )),
    once("sendfile_max_chunk", Size).but(Always("connections do not block each other")),
    many("server", Block(0, 0)).holding(|_| Context::Server),
    many("server_name", Words(1, MANY)).checked(server_name),
    once("server_name_in_redirect", Flag),
    once("server_names_hash_bucket_size", Size).but(TABLES),
    once("server_names_hash_max_size", Size).but(TABLES),
    once("server_tokens", Words(1, 1)).but(Partly(
        "the `Server` header and error pages show `sluice`, or a text in quotes",
    )),
    once("subrequest_output_buffer_size", Size).but(BUFFERS),
    once("tcp_nodelay", Flag).but(Always("small pieces are sent immediately")),
    once("tcp_nopush", Flag).but(Always("head and body are sent together")),
    once("try_files", Words(2, MANY)),
    many("types", Block(0, 0)),
    once("types_hash_bucket_size", Size).but(TABLES),
    once("types_hash_max_size", Size).but(TABLES),
    once("underscores_in_headers", Flag),
    once("variables_hash_bucket_size", Size).but(TABLES),
    once("variables_hash_max_size", Size).but(TABLES),
];

/// What the default server of an address says of its connections. All but the model's other readers look at what servers
/// and places say themselves.
pub fn connections(level: &Level<'_>, server: &mut Server) {
    use sluice_model::Duration;
    server.read_header_timeout = level
        .time("client_header_timeout")
        .unwrap_or(Duration::seconds(60));
    server.read_timeout = level
        .time("client_body_timeout")
        .unwrap_or(Duration::seconds(60));
    server.write_timeout = level.time("send_timeout").unwrap_or(Duration::seconds(60));
    server.idle_timeout = match level.time("keepalive_timeout") {
        None => Duration::seconds(75),
        // Zero would be the default of the model; the shortest time comes as near to none as it gets.
        Some(Duration(0)) => Duration(1),
        Some(time) => time,
    };
    server.max_header_bytes = head_bytes_max(level);
}

/// The most bytes that a head may have; 0 where nothing is said.
fn head_bytes_max(level: &Level<'_>) -> u64 {
    let Some((count, size)) = large_buffers(level) else {
        return match level.size("client_header_buffer_size") {
            Some(first) if first > 4 * LARGE_BUFFER_BYTES => first,
            Some(_) | None => 0,
        };
    };
    count.saturating_mul(size).max(first_buffer(level))
}

/// The most bytes that a request line or a header may have; 0 where nothing is said. One of them has to fit into one
/// buffer.
fn line_bytes_max(level: &Level<'_>) -> u64 {
    match large_buffers(level) {
        Some((_, size)) => size.max(first_buffer(level)),
        None if first_buffer(level) > LARGE_BUFFER_BYTES => first_buffer(level),
        None => 0,
    }
}

/// nginx's sizes of a buffer for a long line and of the one that each request begins with.
const LARGE_BUFFER_BYTES: u64 = 8 * 1024;
const FIRST_BUFFER_BYTES: u64 = 1024;

fn first_buffer(level: &Level<'_>) -> u64 {
    level
        .size("client_header_buffer_size")
        .unwrap_or(FIRST_BUFFER_BYTES)
}

/// Number and size of the buffers for long lines, where they are given.
fn large_buffers(level: &Level<'_>) -> Option<(u64, u64)> {
    let directive = level.find("large_client_header_buffers")?;
    let count = directive.arg(0).and_then(|count| count.parse::<u64>().ok());
    let size = directive.arg(1).and_then(crate::lower::values::size);
    count.zip(size)
}

/// What holds for the heads of a server.
pub fn heads(level: &Level<'_>) -> HeadLimits {
    HeadLimits {
        timeout: level.time("client_header_timeout"),
        bytes_max: head_bytes_max(level),
        line_bytes_max: line_bytes_max(level),
        headers_max: level.word("max_headers").and_then(|word| word.parse().ok()),
        streams_max: level
            .word("http2_max_concurrent_streams")
            .and_then(|word| word.parse().ok()),
        body_ahead: level.size("http2_body_preread_size"),
    }
}

/// The number of what holds for clients in a place.
pub fn client_limits(cx: &mut Lowering<'_>, level: &Level<'_>) -> u32 {
    let number = |name: &str| level.word(name).and_then(|word| word.parse().ok());
    let disabled = level.find("keepalive_disable").map(|directive| {
        let mut browsers = Vec::new();
        for word in &directive.args {
            match word.text.as_str() {
                "none" => {}
                "msie6" | "safari" => browsers.push(word.text.clone()),
                _ => {
                    let wanted = "`none`, `msie6` or `safari`";
                    let _: Option<()> = cx.invalid(word, "keepalive_disable", wanted);
                }
            }
        }
        browsers
    });
    let announced = level.find("keepalive_timeout").and_then(|directive| {
        let word = directive.args.get(1)?;
        let Some(time) = crate::lower::values::time(&word.text) else {
            return cx.invalid(
                word,
                "keepalive_timeout",
                "two lengths of time, such as `75s 60s`",
            );
        };
        u32::try_from(time.0 / 1_000_000_000).ok()
    });
    let lingering = level.word("lingering_close").filter(|word| *word != "on");
    let limits = ClientLimits {
        body_timeout: level.time("client_body_timeout"),
        send_timeout: level.time("send_timeout"),
        min_data_rate: min_data_rate(cx, level),
        keepalive_timeout: level.time("keepalive_timeout"),
        keepalive_announced: announced.unwrap_or_default(),
        keepalive_min: level.time("keepalive_min_timeout").unwrap_or_default(),
        keepalive_requests: number("keepalive_requests"),
        keepalive_time: level.time("keepalive_time"),
        keepalive_disable: disabled,
        lingering: lingering.unwrap_or_default().to_owned(),
        lingering_time: level.time("lingering_time"),
        lingering_timeout: level.time("lingering_timeout"),
        reset_timed_out: level.is_on("reset_timedout_connection", false),
    };
    cx.client_limits_number(limits)
}

/// The lowest rate at which clients may send and take (`min_data_rate <bytes a second> [<grace>] | off`, ours).
fn min_data_rate(cx: &mut Lowering<'_>, level: &Level<'_>) -> Option<MinDataRate> {
    let directive = level.find("min_data_rate")?;
    let (word, grace) = (directive.args.first()?, directive.args.get(1));
    if word.text == "off" && grace.is_none() {
        return Some(MinDataRate::default());
    }
    let rate = crate::lower::values::size(&word.text);
    let Some(rate) = rate.filter(|rate| (1..=u64::from(u32::MAX)).contains(rate)) else {
        return cx.invalid(
            word,
            "min_data_rate",
            "bytes a second, such as `240`, or `off`",
        );
    };
    let grace = match grace {
        None => sluice_model::Duration::default(),
        Some(grace) => match crate::lower::values::time(&grace.text) {
            Some(time) => time,
            None => return cx.invalid(grace, "min_data_rate", "a length of time behind the rate"),
        },
    };
    Some(MinDataRate { rate, grace })
}

/// Where request bodies are stored as files, if they are.
pub fn body_file(cx: &mut Lowering<'_>, level: &Level<'_>) -> Option<Handler> {
    let keep = match level.word("client_body_in_file_only") {
        Some("on") => true,
        Some("clean") => false,
        _ => return None,
    };
    let buffers = buffering::requests(cx, level, "");
    let words = level.find("client_body_temp_path");
    let levels = words.into_iter().flat_map(|line| line.args.iter().skip(1));
    Some(Handler::NginxBodyFile(BodyFile {
        folder: buffers.folder,
        // Others were reported.
        levels: levels
            .filter_map(|word| word.text.parse().ok())
            .filter(|level| *level > 0)
            .collect(),
        keep,
        origin: buffers.origin,
    }))
}

/// The request that follows those of a place.
pub fn post_action(cx: &mut Lowering<'_>, level: &Level<'_>) -> Option<Handler> {
    let word = level.find("post_action")?.args.first()?;
    match word.text.as_str() {
        "off" => None,
        uri if uri.len() > 1 && uri.starts_with(['/', '@']) => {
            Some(Handler::NginxPostAction(PostAction {
                uri: uri.to_owned(),
            }))
        }
        _ => cx.invalid(
            word,
            "post_action",
            "a path, `@` and the name of a location, or `off`",
        ),
    }
}

/// How redirects name the server.
pub fn redirects(level: &Level<'_>, server_name: &str) -> Redirects {
    Redirects {
        relative: !level.is_on("absolute_redirect", true),
        without_port: !level.is_on("port_in_redirect", true),
        name: match level.is_on("server_name_in_redirect", false) {
            true => server_name.to_owned(),
            false => String::new(),
        },
    }
}

/// The media types that hold in a place, by number.
pub fn types(cx: &mut Lowering<'_>, level: &Level<'_>) -> u32 {
    let mut found = MediaTypes {
        default: level
            .word("default_type")
            .unwrap_or("text/plain")
            .to_owned(),
        ..MediaTypes::default()
    };
    let written = level.nearest(&["types"]);
    for row in written.iter().flat_map(|types| types.body()) {
        for extension in &row.args {
            let key = extension.text.to_ascii_lowercase();
            found.by_extension.insert(key, row.name().to_owned());
        }
    }
    if written.is_empty() {
        for (extension, media_type) in [
            ("html", "text/html"),
            ("gif", "image/gif"),
            ("jpg", "image/jpeg"),
        ] {
            found
                .by_extension
                .insert(extension.into(), media_type.into());
        }
    }
    let with_charset = |text: &String| super::charset::with_charset(level, text);
    found.default = with_charset(&found.default);
    for media_type in found.by_extension.values_mut() {
        *media_type = with_charset(media_type);
    }
    cx.types_number(found)
}

/// The methods that `limit_except` names, as the model writes them. Who may ask for a page may ask for its head.
pub fn methods(cx: &mut Lowering<'_>, directive: &Directive) -> Vec<String> {
    const KNOWN: [&str; 14] = [
        "GET",
        "HEAD",
        "POST",
        "PUT",
        "DELETE",
        "MKCOL",
        "COPY",
        "MOVE",
        "OPTIONS",
        "PROPFIND",
        "PROPPATCH",
        "LOCK",
        "UNLOCK",
        "PATCH",
    ];
    let mut methods: Vec<String> = Vec::new();
    for word in &directive.args {
        let name = word.text.to_ascii_uppercase();
        if !KNOWN.contains(&name.as_str()) {
            let wanted = format!("methods: {}", KNOWN.join(", "));
            let _: Option<()> = cx.invalid(word, "limit_except", &wanted);
            continue;
        }
        if name == "GET" {
            methods.push("HEAD".to_owned());
        }
        methods.push(name);
    }
    methods.sort();
    methods.dedup();
    methods
}

/// The pages for errors that hold in a place.
pub fn error_pages(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Vec<ErrorPage> {
    let mut pages = Vec::new();
    for directive in level.nearest(&["error_page"]) {
        pages.extend(error_page(cx, directive, facts));
    }
    pages
}

/// The statuses of upstream responses that are replaced by error pages, if a directive such as `proxy_intercept_errors`
/// is on.
pub fn intercepted(level: &Level<'_>, switch: &str) -> Vec<u16> {
    if !level.is_on(switch, false) {
        return Vec::new();
    }
    let pages = level.nearest(&["error_page"]);
    let words = pages.iter().flat_map(|page| &page.args);
    words.filter_map(|word| word.text.parse().ok()).collect()
}

fn error_page(cx: &mut Lowering<'_>, directive: &Directive, facts: &Facts) -> Option<ErrorPage> {
    let (uri, before) = directive.args.split_last()?;
    let (codes, status) = match before.split_last() {
        Some((word, codes)) if word.text.starts_with('=') => match &word.text[1..] {
            "" => (codes, Some(0)),
            number => match number.parse() {
                Ok(status) => (codes, Some(status)),
                Err(_) => return cx.invalid(word, "error_page", "`=` or `=` and a status"),
            },
        },
        _ => (before, None),
    };
    let mut page = ErrorPage {
        codes: Vec::new(),
        status,
        uri: cx.text(uri, facts),
        origin: cx.origin(directive),
    };
    if let Some(word) = codes.iter().find(|word| word.text == "=") {
        return cx.invalid(word, "error_page", "`=200` without a blank behind `=`");
    }
    for word in codes {
        match word.text.parse::<u16>() {
            Ok(code @ 300..=599) if code != 499 => page.codes.push(code),
            _ => return cx.invalid(word, "error_page", "a status from 300 to 599, but not 499"),
        }
    }
    if page.codes.is_empty() {
        return cx.invalid(uri, "error_page", "statuses, then a path");
    }
    Some(page)
}

/// How files are looked up.
pub fn file_lookup(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> FileLookup {
    let caches = level
        .find("open_file_cache")
        .is_some_and(|directive| directive.args.iter().all(|word| word.text != "off"));
    let usual = sluice_model::Duration::seconds(60);
    FileLookup {
        cached_for: match caches {
            true => level.time("open_file_cache_valid").unwrap_or(usual),
            false => sluice_model::Duration::default(),
        },
        caches_errors: caches && level.is_on("open_file_cache_errors", false),
        ..followed_links(cx, level, facts)
    }
}

/// Which links are followed.
fn followed_links(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> FileLookup {
    let Some(directive) = level.find("disable_symlinks") else {
        return FileLookup::default();
    };
    let (mut links, mut is_off) = (FileLookup::default(), false);
    for word in &directive.args {
        match (word.text.as_str(), word.text.strip_prefix("from=")) {
            ("off", _) => is_off = true,
            (word @ ("on" | "if_not_owner"), _) => links.disabled = word.to_owned(),
            (_, Some(from)) => {
                let from = Text {
                    text: from.to_owned(),
                    ..word.clone()
                };
                links.from = cx.text(&from, facts);
            }
            _ => {
                let wanted = "`off`, `on` or `if_not_owner`, and `from=PART`";
                return cx
                    .invalid(word, "disable_symlinks", wanted)
                    .unwrap_or_default();
            }
        }
    }
    match is_off {
        true => FileLookup::default(),
        false => links,
    }
}

/// `try_files`, which is not inherited by locations. `tried` has its folder.
pub fn try_files(
    cx: &mut Lowering<'_>,
    directive: &Directive,
    facts: &Facts,
    mut tried: TryFiles,
) -> Option<Handler> {
    let (last, files) = directive.args.split_last()?;
    for file in files {
        let text = cx.text(file, facts);
        tried.files.push(text);
    }
    match last.text.strip_prefix('=') {
        None => tried.fallback = cx.text(last, facts),
        Some(status) => match status.parse::<u16>() {
            Ok(status @ 100..=999) => tried.status = status,
            _ => return cx.invalid(last, "try_files", "`=` and a status"),
        },
    }
    Some(Handler::NginxTryFiles(Box::new(tried)))
}

/// The largest body; nothing where there is no limit. As in nginx a declared length is compared with that of the location
/// that the path leads to: where one sends requests on by name, only bodies of unknown length have the limit of the other.
pub fn body_limit(level: &Level<'_>, reached: Reached) -> Option<Handler> {
    let max = level.size("client_max_body_size").unwrap_or(1 << 20);
    let max_size = i64::try_from(max).unwrap_or(i64::MAX);
    if max_size <= 0 {
        return None;
    }
    let limit = Handler::RequestBody(sluice_model::handler::RequestBody {
        max_size,
        ..sluice_model::handler::RequestBody::default()
    });
    if reached == Reached::ByPath {
        return Some(limit);
    }
    let is_of_unknown_length = BTreeMap::from([("Content-Length".to_owned(), None)]);
    Some(Handler::Subroute(Subroute {
        routes: vec![Route {
            r#match: vec![MatcherSet(vec![Matcher::Header(is_of_unknown_length)])],
            handle: vec![limit],
            ..Route::default()
        }],
        errors: None,
    }))
}

/// What the field `Server` and the foot of pages say, where that is not our own name.
pub fn signature(level: &Level<'_>) -> Option<String> {
    match level.word("server_tokens") {
        None | Some("on" | "off" | "build") => None,
        Some(text) => Some(text.to_owned()),
    }
}

/// Reports a server name that is not valid.
pub fn bad_name(name: &str) -> Diagnostic {
    Diagnostic::error("invalid-value", format!("`{name}` is not a server name"))
        .help("write `a.example`, `*.a.example`, `a.*` or `~pattern`")
}
