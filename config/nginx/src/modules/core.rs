//! `ngx_core_module`: the process, its workers and events.

use sluice_diag::Diagnostic;
use sluice_model::{Config, ProcessApp};

use crate::lower::Lowering;
use crate::lower::level::Level;
use crate::registry::Takes::{Block, Choice, Flag, Number, Size, Time, Words};
use crate::registry::Verdict::{Always, Idle, Partly, Refused};
use crate::registry::{MANY, Word};

/// The directives.
pub const WORDS: &[Word] = &[
    Word::once("accept_mutex", Flag).but(Always("each worker has a socket of its own")),
    Word::once("accept_mutex_delay", Time).but(Always("each worker has a socket of its own")),
    Word::once("daemon", Flag).but(Idle("`sluice run` stays, `sluice start` goes to the background")),
    Word::many("debug_connection", Words(1, 1))
        .but(Idle("`error_log … debug` shows all connections")),
    Word::once("debug_points", Choice(&["abort", "stop"])).but(Idle("there are none")),
    Word::many("env", Words(1, 1)).but(Idle("workers are threads, which keep the whole environment")),
    Word::once("events", Block(0, 0)),
    Word::once("error_log", Words(1, 2)).but(Partly(
        "the level and the file of the main context or of `http`; lines are those of sluice; servers and locations have \
         no file of their own",
    )),
    Word::many("include", Words(1, 1)),
    Word::many("load_module", Words(1, 1)).but(Idle("modules are part of the program")),
    Word::once("lock_file", Words(1, 1)).but(Always("nothing has to be locked")),
    Word::once("master_process", Flag).but(Idle("workers are threads of one process")),
    Word::once("multi_accept", Flag).but(Always("whatever waits is accepted")),
    Word::once("pcre_jit", Flag).but(Always("regular expressions run in linear time")),
    Word::once("pid", Words(1, 1)),
    Word::once("ssl_engine", Words(1, 1)).but(Refused("TLS is that of the program")),
    Word::once("ssl_object_cache_inheritable", Flag).but(Always("files are read with each reload")),
    Word::many("thread_pool", Words(2, 3)).but(Always("files are sent without threads")),
    Word::once("timer_resolution", Time).but(Always("the clock is read once a round")),
    Word::once("use", Choice(&["epoll"])).but(Partly("`epoll`, which is what Linux has")),
    Word::once("user", Words(1, 2)).but(Idle(
        "the process keeps the user that it was started as; `User=` of systemd or `setpriv` chooses it",
    )),
    Word::once("worker_aio_requests", Number).but(Always("there is no such queue")),
    Word::once("worker_connections", Number).but(Partly("those of clients, of all workers together; those to upstreams are not counted")),
    Word::once("worker_cpu_affinity", Words(1, MANY)).but(Idle("the system places the workers")),
    Word::once("worker_priority", Words(1, 1)).but(Idle("`Nice=` of systemd sets it")),
    Word::once("worker_processes", Words(1, 1)).but(Partly("workers are threads; a reload does not change their number")),
    Word::once("worker_rlimit_core", Size).but(Idle("`LimitCORE=` of systemd sets it")),
    Word::once("worker_rlimit_nofile", Number)
        .but(Idle("the limit is raised as far as the system lets it")),
    Word::once("worker_shutdown_timeout", Time),
    Word::once("working_directory", Words(1, 1)).but(Idle("the process stays where it was started")),
];

/// nginx's own number, which few servers get along with.
const CONNECTIONS: u32 = 512;

/// What holds for the process.
pub fn lower(cx: &mut Lowering<'_>, main: &Level<'_>, config: &mut Config) {
    if let Some(http) = &mut config.apps.http {
        http.grace_period = main.time("worker_shutdown_timeout").unwrap_or_default();
    }
    let workers = match main
        .find("worker_processes")
        .and_then(|line| line.args.first())
    {
        None => 1,
        Some(word) if word.text == "auto" => 0,
        Some(word) => match word.text.parse::<u32>() {
            Ok(count @ 1..=1024) => count,
            _ => cx
                .invalid(
                    word,
                    "worker_processes",
                    "`auto` or a number from 1 to 1024",
                )
                .unwrap_or(1),
        },
    };
    let events = main.own("events").next();
    let written = events.and_then(|events| {
        let found = events
            .body()
            .iter()
            .rfind(|line| line.name() == "worker_connections");
        found?.arg(0)?.parse().ok()
    });
    if let Some(events) = events.filter(|_| written.is_none()) {
        let title = format!("at most {CONNECTIONS} connections for each worker");
        cx.report.push(
            Diagnostic::warning("few-connections", title)
                .at(
                    events.name.span,
                    "no `worker_connections` stands here, and that is the default",
                )
                .imported(events.name.import)
                .help("add `worker_connections 10000;`"),
        );
    }
    config.apps.process = Some(ProcessApp {
        workers,
        worker_connections: written.unwrap_or(CONNECTIONS),
        pid_file: main
            .word("pid")
            .map(|path| cx.path(path))
            .unwrap_or_default(),
    });
}
