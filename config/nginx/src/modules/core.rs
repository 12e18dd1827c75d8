//! `ngx_core_module`: the process, its workers and events.

use std::collections::BTreeMap;

use sluice_diag::Diagnostic;
use sluice_model::http::MEMORY_LIMIT_MIN;
use sluice_model::{Admin, Config, Dashboard, DashboardAction, ProcessApp};

use super::realip;
use crate::context::Context;
use crate::definition::Repeats::OncePerName;
use crate::definition::Takes::{Block, Choice, Flag, Number, Size, Time, Words};
use crate::definition::Verdict::{Always, Idle, Partly, Refused};
use crate::definition::{Definition, MANY, many, once};
use crate::definition::{Keywords, Wrong};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::syslog;
use crate::lower::values::size;
use crate::tree::Directive;

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("accept_mutex", Flag).but(Always("each worker has its own socket")),
    once("accept_mutex_delay", Time).but(Always("each worker has its own socket")),
    once("daemon", Flag).but(Partly(
        "only `sluice nginx` follows it; `sluice run` stays in the foreground, `sluice start` runs in the background",
    )),
    once("dashboard_actions", Words(1, 4))
        .but(Partly(
            "a directive of sluice, for `sluice run` and `sluice start`; `sluice nginx` does not open the admin endpoint",
        ))
        .checked(dashboard_actions),
    many("debug_connection", Words(1, 1))
        .but(Idle("`error_log … debug` logs all connections"))
        .checked(realip::check_network),
    once("debug_points", Choice(&["abort", "stop"])).but(Idle("there are none")),
    many("env", Words(1, 1)).but(Partly(
        "`NAME=value` sets a variable at the start; all other variables are kept",
    )),
    once("events", Block(0, 0)).holding(|_| Context::Events),
    many("error_log", Words(1, 2))
        .but(Partly(
            "files, `stderr` and `syslog:`, several in one block; `memory:` has no effect; sluice logs less than nginx at `info` and `debug`",
        ))
        .of(&LEVELS)
        .checked(error_log),
    many("include", Words(1, 1)),
    many("load_module", Words(1, 1)).but(Idle("modules are compiled in")),
    once("lock_file", Words(1, 1)).but(Always("no lock is needed")),
    once("master_process", Flag).but(Always(
        "workers are threads of one process without a master",
    )),
    once("memory_limit", Words(1, 1)).checked(memory_limit),
    once("multi_accept", Flag).but(Always("all waiting connections are accepted")),
    once("pcre_jit", Flag).but(Always("regular expressions are compiled; most run in linear time")),
    once("pid", Words(1, 1)),
    once("ssl_engine", Words(1, 1)).but(Refused("sluice has its own TLS library")),
    once("ssl_object_cache_inheritable", Flag).but(Always("files are read with each reload")),
    many("thread_pool", Words(2, 3))
        .but(Always("files are sent without separate threads"))
        .checked(thread_pool)
        .repeated(OncePerName),
    once("timer_resolution", Time).but(Always("the clock is read once per event loop iteration")),
    once("use", Choice(&["epoll"])).but(Partly("`epoll`, the method on Linux")),
    once("user", Words(1, 2)).but(Partly(
        "if root starts the server, the threads that serve run as this user; the threads that read configuration and keys, bind addresses and write logs stay root, as nginx's master does",
    )),
    once("worker_aio_requests", Number).but(Always("sluice has no such queue")),
    once("worker_connections", Number),
    once("worker_cpu_affinity", Words(1, MANY)),
    once("worker_priority", Words(1, 1)),
    once("worker_processes", Words(1, 1)).but(Partly(
        "workers are threads; a reload does not change how many there are",
    )),
    once("worker_rlimit_core", Size),
    once("worker_rlimit_nofile", Number),
    once("worker_shutdown_timeout", Time),
    once("working_directory", Words(1, 1)),
];

const LEVELS: Keywords = Keywords {
    from: 1,
    words: &[
        "debug", "info", "notice", "warn", "error", "crit", "alert", "emerg",
    ],
    wanted: "`debug`, `info`, `notice`, `warn`, `error`, `crit`, `alert` or `emerg`",
};

/// Processors that a mask has room for, as the kernel's sets have.
const PROCESSORS_MAX: usize = 1024;

/// nginx's own number, which few servers get along with.
const CONNECTIONS: u32 = 512;

/// The connections of each worker, with a warning where they are soon used up.
fn connections(cx: &mut Lowering<'_>, main: &Level<'_>) -> u32 {
    let events = main.own("events").next();
    let line = events.and_then(|events| {
        let mut lines = events.body().iter();
        lines.rfind(|line| line.name() == "worker_connections")
    });
    let written = line.and_then(|line| line.arg(0)?.parse().ok());
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
    let connections = written.unwrap_or(CONNECTIONS);
    let kept: u64 = main.own("http").map(kept_for_upstreams).sum();
    if let Some(line) = line.filter(|_| kept.saturating_mul(2) > u64::from(connections)) {
        let title = format!("unused connections to upstreams may be {kept} of {connections}");
        cx.report.push(
            Diagnostic::warning("few-connections", title)
                .at(line.span(), "clients and upstreams count together")
                .imported(line.name.import)
                .help("write a number that is at least twice what `keepalive` names, and more for clients"),
        );
    }
    connections
}

/// The connections that are kept for the groups of an `http` block while nobody uses them.
fn kept_for_upstreams(http: &Directive) -> u64 {
    let groups = http.body().iter().filter(|line| line.name() == "upstream");
    let lines = groups.flat_map(|group| group.body());
    let numbers = lines
        .filter(|line| line.name() == "keepalive")
        .filter_map(|line| line.arg(0)?.parse::<u64>().ok());
    numbers.fold(0, u64::saturating_add)
}

/// What holds for the process.
pub fn lower(cx: &mut Lowering<'_>, main: &Level<'_>, config: &mut Config) {
    if let Some(http) = &mut config.apps.http {
        http.grace_period = main.time("worker_shutdown_timeout").unwrap_or_default();
        http.memory_limit = main.size("memory_limit").unwrap_or_default();
    }
    config.admin = dashboard(main).map(|dashboard| Admin {
        dashboard: Some(dashboard),
        ..Admin::default()
    });
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
    let worker_connections = connections(cx, main);
    config.apps.process = Some(ProcessApp {
        workers,
        worker_connections,
        pid_file: match main.word("pid") {
            Some(path) => cx.prefixed(path),
            None => cx.invocation.pid_file.clone(),
        },
        background: main.word("daemon").map(|word| word == "on"),
        folder: main
            .word("working_directory")
            .map(|path| cx.prefixed(path))
            .unwrap_or_default(),
        variables: variables(main),
        ..rights(cx, main)
    });
}

/// Whom workers are taken for, where they run and how much they may take.
fn rights(cx: &mut Lowering<'_>, main: &Level<'_>) -> ProcessApp {
    let (user, group) = match main.find("user").map(|line| (line.arg(0), line.arg(1))) {
        None => ("", ""),
        Some((user, group)) => (user.unwrap_or_default(), group.unwrap_or_default()),
    };
    let priority = main.find("worker_priority").and_then(|line| {
        let word = line.args.first()?;
        let number = word.text.parse::<i64>().ok();
        let number = number.filter(|number| (-20..=20).contains(number));
        number.or_else(|| cx.invalid(word, "worker_priority", "a number from -20 to 20"))
    });
    ProcessApp {
        user: user.to_owned(),
        group: group.to_owned(),
        worker_processors: processors(cx, main),
        worker_priority: priority,
        open_files_max: main
            .word("worker_rlimit_nofile")
            .and_then(|word| word.parse().ok())
            .unwrap_or_default(),
        core_bytes_max: main.size("worker_rlimit_core"),
        ..ProcessApp::default()
    }
}

/// `worker_cpu_affinity`: `auto`, a mask, or both; else masks.
fn processors(cx: &mut Lowering<'_>, main: &Level<'_>) -> Vec<String> {
    let Some(line) = main.find("worker_cpu_affinity") else {
        return Vec::new();
    };
    let is_auto = line.arg(0) == Some("auto");
    let masks = line.args.iter().skip(usize::from(is_auto));
    for (index, word) in masks.enumerate() {
        let is_mask = word.text.bytes().all(|byte| matches!(byte, b'0' | b'1'))
            && word.text.contains('1')
            && word.text.len() <= PROCESSORS_MAX;
        if !is_mask || is_auto && index > 0 {
            let wanted = "`auto`, `auto` with a mask such as `0011`, or a mask for each worker";
            return cx
                .invalid(word, "worker_cpu_affinity", wanted)
                .unwrap_or_default();
        }
    }
    line.args.iter().map(|word| word.text.clone()).collect()
}

/// The variables that `env` gives a value.
fn variables(main: &Level<'_>) -> BTreeMap<String, String> {
    let lines = main
        .own("env")
        .filter_map(|line| line.arg(0)?.split_once('='));
    lines
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The dashboard, if its buttons may do something.
pub fn dashboard(main: &Level<'_>) -> Option<Dashboard> {
    let line = main.find("dashboard_actions")?;
    let actions = match line.arg(0)? {
        "off" => return None,
        "all" => DashboardAction::ALL.to_vec(),
        _ => {
            let words = line.args.iter();
            words
                .filter_map(|word| DashboardAction::named(&word.text))
                .collect()
        }
    };
    Some(Dashboard { actions })
}

fn dashboard_actions(directive: &Directive) -> Option<Wrong> {
    let is_alone = directive.args.len() == 1;
    let is_meant = |word: &str| {
        DashboardAction::named(word).is_some() || is_alone && matches!(word, "all" | "off")
    };
    let wrong = directive.args.iter().position(|word| !is_meant(&word.text));
    wrong.map(|at| {
        let wanted = "`reload`, `drain`, `eject` and `purge`; or only `all`, or only `off`";
        (at, wanted)
    })
}

fn memory_limit(directive: &Directive) -> Option<Wrong> {
    let word = directive.arg(0)?;
    let fits = word == "off" || size(word).is_some_and(|bytes| bytes >= MEMORY_LIMIT_MIN);
    (!fits).then_some((0, "a size of `16m` or more, or `off`"))
}

fn error_log(directive: &Directive) -> Option<Wrong> {
    let path = directive.arg(0)?;
    if let Some(params) = path.strip_prefix("syslog:") {
        return syslog::parse(params).err().map(|wanted| (0, wanted));
    }
    // nginx takes no ring of lines that is smaller.
    const RING_BYTES_MIN: u64 = 8 * 1024;
    let ring = path.strip_prefix("memory:").map(size)?;
    let fits = ring.is_some_and(|bytes| bytes >= RING_BYTES_MIN);
    (!fits).then_some((0, "`memory:` and a size of 8k or more"))
}

fn thread_pool(directive: &Directive) -> Option<Wrong> {
    let mut words = directive.args.iter().enumerate().skip(1);
    words.find_map(|(at, word)| {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        let number = value.parse::<u32>().ok();
        let fits = match name {
            "threads" => number.is_some_and(|count| count > 0),
            "max_queue" => number.is_some(),
            _ => false,
        };
        (!fits).then_some((at, "`threads=N` and `max_queue=N`"))
    })
}
