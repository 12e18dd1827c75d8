//! `*_buffering`, `*_buffers`, `*_busy_buffers_size`, `client_body_buffer_size` and `client_body_temp_path`: buffering
//! of bodies. Each module with upstreams has its directives under its own prefix.

use sluice_model::nginx::NginxProxy;
use sluice_model::proxy::BodyBuffers;

use crate::arguments;
use crate::definition::Takes::{Flag, Size, Words};
use crate::definition::Verdict::{self, Always, Partly};
use crate::definition::{Definition, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::has_variables;
use crate::lower::values;

/// What holds for `*_temp_path`.
pub const FOLDER: Verdict =
    Partly("the folder; levels have no effect, because temporary files have no names");
/// What holds for `client_body_buffer_size`.
pub const REQUEST: Verdict = Partly("default: 64k");
/// What holds for `client_body_in_single_buffer`.
pub const PIECES: Verdict = Always("bodies are read in buffers of 64 or 128 KiB");

/// The directives of modules whose responses wait in buffers.
pub const DIRECTIVES: &[Definition] = &[
    once("buffer_size", Size).but(Partly(
        "is part of the memory that buffers a response; heads may have 32 KiB",
    )),
    once("buffering", Flag),
    once("buffers", Words(2, 2)).checked(arguments::buffers),
    once("busy_buffers_size", Size).but(Always("up to 128 KiB stay in memory while they are sent")),
    once("max_temp_file_size", Size),
    once("request_buffering", Flag),
    once("temp_file_write_size", Size).but(Partly("from 4k to 1m (default: 64k)")),
    once("temp_path", Words(1, 4)).but(FOLDER),
];

/// `*_buffer_size` of modules whose responses never wait.
pub const HEAD_SIZE: Definition = once("buffer_size", Size).but(Always(
    "heads may have 32 KiB; responses are forwarded as they arrive, as in nginx",
));

/// `*_send_lowat`.
pub const SEND_LOWAT: Definition =
    once("send_lowat", Size).but(Always("available data is sent together"));

/// nginx's usual page.
const PAGE: u64 = 4096;
/// nginx's usual number of buffers.
const BUFFERS: u64 = 8;

/// How requests wait.
pub fn requests(cx: &mut Lowering<'_>, level: &Level<'_>, module: &str) -> BodyBuffers {
    let mut buffers = BodyBuffers {
        off: !level.is_on(&format!("{module}_request_buffering"), true),
        memory: level.size("client_body_buffer_size").unwrap_or_default(),
        ..BodyBuffers::default()
    };
    folder(cx, level, "client_body_temp_path", &mut buffers);
    buffers
}

/// How responses wait.
pub fn responses(cx: &mut Lowering<'_>, level: &Level<'_>, module: &str) -> BodyBuffers {
    let of = |name: &str| format!("{module}_{name}");
    let mut buffers = BodyBuffers {
        off: !level.is_on(&of("buffering"), true),
        memory: memory(cx, level, &of("buffer_size"), &of("buffers")),
        write: level.size(&of("temp_file_write_size")).unwrap_or_default(),
        file_max: level.size(&of("max_temp_file_size")),
        ..BodyBuffers::default()
    };
    folder(cx, level, &of("temp_path"), &mut buffers);
    buffers
}

/// How bodies wait in a place of `module`.
pub fn both(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    module: &str,
    proxying: NginxProxy,
) -> NginxProxy {
    NginxProxy {
        request_buffers: requests(cx, level, module),
        response_buffers: responses(cx, level, module),
        ..proxying
    }
}

/// The memory in which a response waits; 0 where nothing is said.
fn memory(cx: &mut Lowering<'_>, level: &Level<'_>, first: &str, more: &str) -> u64 {
    let head = level.size(first);
    let line = level.find(more);
    if head.is_none() && line.is_none() {
        return 0;
    }
    let mut total = BUFFERS * PAGE;
    if let Some(line) = line {
        let number = line.arg(0).and_then(|word| word.parse::<u64>().ok());
        let size = line.arg(1).and_then(values::size);
        match number.zip(size) {
            Some((number @ 2.., size @ 1..)) => total = number.saturating_mul(size),
            Some(_) | None => {
                let wanted = "a number of 2 or more and a size, as in `8 4k`";
                let _: Option<()> = cx.invalid(&line.args[0], more, wanted);
            }
        }
    }
    total.saturating_add(head.unwrap_or(PAGE))
}

fn folder(cx: &mut Lowering<'_>, level: &Level<'_>, name: &str, buffers: &mut BodyBuffers) {
    let Some(line) = level.find(name) else { return };
    let (path, levels) = (&line.args[0], &line.args[1..]);
    if has_variables(&path.text) {
        let _: Option<()> = cx.invalid(path, name, "a folder without variables");
        return;
    }
    for word in levels {
        if !matches!(word.text.as_str(), "0" | "1" | "2" | "3") {
            let _: Option<()> =
                cx.invalid(word, name, "a folder and up to three levels, as in `1 2`");
        }
    }
    buffers.folder = cx.prefixed(&path.text);
    buffers.origin = cx.origin(line);
}
