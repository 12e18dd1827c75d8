//! `python`: a Python application. The options of Caddy Snake's directive, and sluice's own.

use sluice_model::handler::python::{Interface, Python, PythonIsolation};
use sluice_model::handler::{FileServer, Rewrite};
use sluice_model::{Handler, Matcher, MatcherSet, Route, TimeLimit};

use super::file_server::hidden;
use super::rewrite::rewrite_handler;
use crate::lower::Lowering;
use crate::lower::definition::Read::{MoreTexts, Text, Time, With};
use crate::lower::definition::{
    Definition, OptionDefinition, Options, Verdict, directive, option, refused,
};
use crate::lower::outcome::{Outcome, Outcomes};
use crate::lower::routes::{route, subroute};
use crate::tree::{Directive, Token};

/// `python`.
pub(super) static PYTHON: Definition = directive(
    "python",
    "python [<matcher>] [<module>:<variable>] [{ … }]",
    |cx, line| cx.python(line),
)
.with(&OPTIONS)
.own();

/// The most processes that Caddy Snake takes.
const WORKERS_MAX: u32 = 256;

/// Resource limits, as `ulimit` and systemd call them.
const RESOURCES: [&str; 9] = [
    "nproc", "as", "nofile", "cpu", "fsize", "core", "stack", "memlock", "data",
];

static OPTIONS: Options<Settings> = Options::<Settings>::new("python", OF_CADDY_SNAKE)
    .more(OF_SLUICE)
    .own();

/// What the block of a directive says.
#[derive(Default)]
struct Settings {
    python: Python,
    /// The line that names the application.
    module: Option<Token>,
    runtime: Option<Token>,
    lifespan: Option<Token>,
    /// Paths that sluice serves from folders.
    files: Vec<(String, String)>,
}

const OF_CADDY_SNAKE: &[OptionDefinition<Settings>] = &[
    option(
        "module_wsgi",
        "module_wsgi <module>:<variable>",
        With(|cx, line, read| cx.python_module(line, read, Interface::Wsgi)),
    ),
    option(
        "module_asgi",
        "module_asgi <module>:<variable>",
        With(|cx, line, read| cx.python_module(line, read, Interface::Asgi)),
    ),
    option(
        "module_esgi",
        "module_esgi <module>:<variable>",
        With(|cx, line, read| cx.python_module(line, read, Interface::Esgi)),
    ),
    option(
        "runtime",
        "runtime sync|gevent|uvloop|native",
        With(|cx, line, read| {
            let word = cx.single(line)?;
            read.runtime = Some(word.clone());
            Some(())
        }),
    ),
    option(
        "lifespan",
        "lifespan on|off|auto",
        With(|cx, line, read| {
            let word = cx.single(line)?;
            read.python.lifespan = cx.one_of(word, &["on", "off", "auto"])?;
            read.lifespan = Some(line.name.clone());
            Some(())
        }),
    ),
    option(
        "working_dir",
        "working_dir <folder>",
        Text(|read| &mut read.python.working_dir),
    ),
    option(
        "venv",
        "venv <folder>",
        Text(|read| &mut read.python.venv_path),
    ),
    option(
        "python_path",
        "python_path <interpreter>",
        Text(|read| &mut read.python.python_path),
    ),
    option(
        "env_file",
        "env_file <files...>",
        MoreTexts(|read| &mut read.python.env_files),
    ),
    option(
        "env_var",
        "env_var <name> <value>",
        With(|cx, line, read| cx.python_variable(line, &mut read.python)),
    ),
    option(
        "workers",
        "workers <n>",
        With(|cx, line, read| {
            let word = cx.single(line)?;
            let count: u32 = cx.number(word, "a number of processes")?;
            if count > WORKERS_MAX {
                let title = format!("invalid number `{}` for `workers`", word.text);
                let label = format!("at most {WORKERS_MAX} processes");
                return cx.refuse(word.error("invalid-number", title, label));
            }
            read.python.workers = word.text.as_str().into();
            Some(())
        }),
    ),
    option(
        "start_timeout",
        "start_timeout <duration>|none",
        With(|cx, line, read| {
            let word = cx.single(line)?;
            read.python.start_timeout = match TimeLimit::is_none(&word.text) {
                true => TimeLimit::NONE,
                false => TimeLimit(cx.duration(word)?),
            };
            Some(())
        }),
    ),
    option(
        "autoreload",
        "autoreload",
        With(|cx, line, read| {
            cx.flag(line)?;
            read.python.autoreload = "on".into();
            Some(())
        }),
    ),
    option(
        "isolation",
        "isolation none",
        With(|cx, line, read| cx.python_isolation(line, &mut read.python)),
    ),
    option(
        "max_dynamic_apps",
        "max_dynamic_apps <n>",
        With(|cx, line, read| {
            let count: u32 = cx.single_number(line, "a number of applications")?;
            read.python.max_dynamic_apps = i64::from(count);
            Some(())
        }),
    ),
    refused(
        "workers_runtime",
        "workers_runtime process|thread",
        Verdict::Unsupported(
            "remove the line: applications run in processes, and `threads` sets the threads of each",
        ),
    ),
];

const OF_SLUICE: &[OptionDefinition<Settings>] = &[
    option::<Settings>(
        "module",
        "module <module>:<variable>",
        With(|cx, line, read| cx.python_module(line, read, Interface::Auto)),
    )
    .own(),
    option::<Settings>(
        "module_rsgi",
        "module_rsgi <module>:<variable>",
        With(|cx, line, read| cx.python_module(line, read, Interface::Rsgi)),
    )
    .own(),
    option::<Settings>("name", "name <text>", Text(|read| &mut read.python.name)).own(),
    option::<Settings>(
        "threads",
        "threads <n>",
        With(|cx, line, read| {
            read.python.threads = cx.positive(line, "a number of threads, 1 or more")?;
            Some(())
        }),
    )
    .own(),
    option::<Settings>(
        "concurrency",
        "concurrency <n>",
        With(|cx, line, read| {
            read.python.concurrency = cx.positive(line, "a number of requests, 1 or more")?;
            Some(())
        }),
    )
    .own(),
    option::<Settings>(
        "queue_size",
        "queue_size <n>",
        With(|cx, line, read| {
            read.python.queue_size = Some(cx.single_number(line, "a number of requests")?);
            Some(())
        }),
    )
    .own(),
    option::<Settings>(
        "queue_timeout",
        "queue_timeout <duration>",
        Time(|read| &mut read.python.queue_timeout),
    )
    .own(),
    option::<Settings>(
        "request_timeout",
        "request_timeout <duration>",
        Time(|read| &mut read.python.request_timeout),
    )
    .own(),
    option::<Settings>(
        "max_requests",
        "max_requests <n> [<jitter>]",
        With(|cx, line, read| {
            cx.no_block(line)?;
            cx.between(line, &line.args, 1, 2)?;
            read.python.max_requests = cx.number(&line.args[0], "a number of requests")?;
            if let Some(word) = line.args.get(1) {
                read.python.max_requests_jitter = cx.number(word, "a number of requests")?;
            }
            Some(())
        }),
    )
    .own(),
    option::<Settings>(
        "max_rss",
        "max_rss <size>",
        With(|cx, line, read| {
            read.python.max_rss = cx.positive_size(line)?;
            Some(())
        }),
    )
    .own(),
    option::<Settings>(
        "preload",
        "preload",
        With(|cx, line, read| {
            cx.flag(line)?;
            read.python.preload = true;
            Some(())
        }),
    )
    .own(),
    option::<Settings>(
        "accelerator",
        "accelerator auto|on|off",
        With(|cx, line, read| {
            let word = cx.single(line)?;
            read.python.accelerator = cx.one_of(word, &["auto", "on", "off"])?;
            Some(())
        }),
    )
    .own(),
    option::<Settings>(
        "root_path",
        "root_path <path>",
        Text(|read| &mut read.python.root_path),
    )
    .own(),
    option::<Settings>(
        "static",
        "static <path> <folder>",
        With(|cx, line, read| cx.python_files(line, read)),
    )
    .own(),
    option::<Settings>(
        "user",
        "user <user>[:<group>]",
        Text(|read| &mut read.python.user),
    )
    .own(),
    option::<Settings>(
        "rlimit",
        "rlimit <resource> <value>",
        With(|cx, line, read| cx.python_limit(line, &mut read.python)),
    )
    .own(),
    option::<Settings>(
        "max_message_size",
        "max_message_size <size>",
        With(|cx, line, read| {
            read.python.max_message_size = cx.positive_size(line)?;
            Some(())
        }),
    )
    .own(),
    option::<Settings>(
        "max_message_memory",
        "max_message_memory <size>",
        With(|cx, line, read| {
            read.python.max_message_memory = cx.positive_size(line)?;
            Some(())
        }),
    )
    .own(),
    option::<Settings>(
        "permessage_deflate",
        "permessage_deflate on|off",
        With(|cx, line, read| {
            let word = cx.single(line)?;
            read.python.permessage_deflate = cx.one_of(word, &["on", "off"])?;
            Some(())
        }),
    )
    .own(),
    option::<Settings>(
        "drain_timeout",
        "drain_timeout <duration>",
        Time(|read| &mut read.python.drain_timeout),
    )
    .own(),
    option::<Settings>(
        "dynamic_idle_timeout",
        "dynamic_idle_timeout <duration>",
        Time(|read| &mut read.python.dynamic_idle_timeout),
    )
    .own(),
    option::<Settings>(
        "response_buffers",
        "response_buffers <size>|off",
        With(|cx, line, read| {
            let word = cx.single(line)?;
            match word.text.as_str() {
                "off" => read.python.response_buffers.off = true,
                _ => read.python.response_buffers.memory = cx.positive_size(line)?,
            }
            Some(())
        }),
    )
    .own(),
    option::<Settings>(
        "request_buffers",
        "request_buffers <size>",
        With(|cx, line, read| {
            read.python.request_buffers.memory = cx.positive_size(line)?;
            Some(())
        }),
    )
    .own(),
    option::<Settings>(
        "buffer_folder",
        "buffer_folder <folder>",
        With(|cx, line, read| {
            let folder = cx.single_text(line)?;
            read.python.request_buffers.folder.clone_from(&folder);
            read.python.response_buffers.folder = folder;
            Some(())
        }),
    )
    .own(),
];

impl Lowering<'_> {
    fn python(&mut self, line: &Directive) -> Outcomes {
        let (matcher, args) = self.matched(line)?;
        self.between(line, args, 0, 1)?;
        let mut read = Settings::default();
        if let Some(word) = args.first() {
            self.check_application(word)?;
            read.python.module_wsgi.clone_from(&word.text);
            read.module = Some(word.clone());
        }
        self.read_options(&OPTIONS, line.lines(), &mut read)?;
        if read.module.is_none() {
            return self.missing(line, "an application");
        }
        self.check_runtime(&mut read)?;
        let mut routes: Vec<Route> = (read.files.iter())
            .map(|(path, folder)| files(path, folder, &self.site_files))
            .collect();
        let handler = Handler::Python(Box::new(read.python));
        if routes.is_empty() {
            return Some(vec![Outcome::Route(route(matcher, handler))]);
        }
        routes.push(route(Vec::new(), handler));
        // Without a matcher the routes need no wrapping, but they must stay together.
        if matcher.is_empty() {
            return Some(vec![Outcome::Routes(routes)]);
        }
        Some(vec![Outcome::Route(route(matcher, subroute(routes)))])
    }

    fn python_module(
        &mut self,
        line: &Directive,
        read: &mut Settings,
        interface: Interface,
    ) -> Option<()> {
        let word = self.single(line)?;
        if let Some(first) = &read.module {
            if first.text == line.name.text {
                return self.duplicate(line);
            }
            let title = "`python` with two applications".to_string();
            let diagnostic = line.name.error("duplicate-option", title, "the second one");
            return self.refuse(
                diagnostic.help("keep one of them: each application has a directive of its own"),
            );
        }
        read.module = Some(line.name.clone());
        self.check_application(word)?;
        let python = &mut read.python;
        let field = match interface {
            Interface::Auto => &mut python.module,
            Interface::Wsgi => &mut python.module_wsgi,
            Interface::Asgi => &mut python.module_asgi,
            Interface::Esgi => &mut python.module_esgi,
            Interface::Rsgi => &mut python.module_rsgi,
        };
        field.clone_from(&word.text);
        Some(())
    }

    /// Refuses what is not `module:variable`, unless placeholders make it.
    fn check_application(&mut self, word: &Token) -> Option<()> {
        let text = &word.text;
        let is_path = text.contains('/') || text.ends_with(".py");
        let has_parts = text
            .split_once(':')
            .is_some_and(|(module, variable)| !module.is_empty() && !variable.is_empty());
        if text.contains('{') || has_parts && !is_path {
            return Some(());
        }
        let title = format!("invalid application `{text}`");
        let label = match is_path {
            true => "a file, not a module",
            false => "no variable is named",
        };
        let module = text.rsplit('/').next().unwrap_or(text);
        let module = module.split(':').next().unwrap_or(module);
        let module = module.trim_end_matches(".py");
        let example = format!("write a module and a variable in it, such as `{module}:app`");
        self.refuse(word.error("invalid-value", title, label).help(example))
    }

    /// Checks what depends on the interface.
    fn check_runtime(&mut self, read: &mut Settings) -> Option<()> {
        let (interface, _) = read.python.modules().next()?;
        if let Some(word) = &read.runtime {
            // What old versions of Caddy Snake called uvloop.
            let is_old = word.text == "libuv" && interface.runtimes().contains(&"uvloop");
            if !is_old && interface.runtimes().is_empty() {
                let title = "`runtime` needs an interface".to_string();
                let diagnostic = word.error("invalid-value", title, "of which one?");
                return self.refuse(diagnostic.help(
                    "name the application with `module_wsgi`, `module_asgi` or `module_esgi`",
                ));
            }
            if !is_old {
                self.subject = format!("runtime` of `{}", interface.setting());
                self.one_of(word, interface.runtimes())?;
            }
            read.python.runtime.clone_from(&word.text);
        }
        let has_lifespan = matches!(interface, Interface::Asgi | Interface::Auto);
        if let Some(name) = read.lifespan.as_ref().filter(|_| !has_lifespan) {
            let title = format!("`lifespan` has no effect for `{}`", interface.setting());
            let diagnostic = name.warning("no-effect", title, "only ASGI has it");
            self.report.push(diagnostic);
        }
        Some(())
    }

    fn python_variable(&mut self, line: &Directive, python: &mut Python) -> Option<()> {
        self.no_block(line)?;
        let [name, value] = self.exact::<2>(line, &line.args)?;
        let loads = ["LD_", "DYLD_", "CADDYSNAKE_"];
        let is_refused = loads.iter().any(|start| name.text.starts_with(start))
            || name.text == "PYTHONUNBUFFERED";
        if is_refused || name.text.is_empty() || name.text.contains('=') {
            let title = format!("invalid variable `{}`", name.text);
            let label = match is_refused {
                true => "cannot be set for an application",
                false => "not the name of a variable",
            };
            return self.refuse(name.error("invalid-value", title, label));
        }
        let values = &mut python.env_vars;
        values.insert(name.text.clone(), value.text.clone());
        Some(())
    }

    fn python_isolation(&mut self, line: &Directive, python: &mut Python) -> Option<()> {
        let Some(backend) = line.args.first() else {
            return self.missing(line, "`none`");
        };
        if backend.text == "docker" {
            let title = "`isolation docker` is not supported".to_string();
            let diagnostic = backend.error("unsupported-option", title, "not supported by sluice");
            return self.refuse(diagnostic.help(
                "run sluice with its applications in a container, or limit the processes with `user` and `rlimit`",
            ));
        }
        let word = self.single(line)?;
        python.isolation = Some(PythonIsolation {
            backend: self.one_of(word, &["none"])?,
            docker: None,
        });
        Some(())
    }

    fn python_files(&mut self, line: &Directive, read: &mut Settings) -> Option<()> {
        self.no_block(line)?;
        let [path, folder] = self.exact::<2>(line, &line.args)?;
        let prefix = path.text.trim_end_matches(['*', '/']);
        if !prefix.starts_with('/') {
            let title = format!("invalid path `{}`", path.text);
            let diagnostic = path.error("invalid-value", title, "does not begin with a slash");
            return self.refuse(diagnostic.help("write a path such as `/static/`"));
        }
        read.files.push((prefix.to_owned(), folder.text.clone()));
        Some(())
    }

    fn python_limit(&mut self, line: &Directive, python: &mut Python) -> Option<()> {
        self.no_block(line)?;
        let [resource, value] = self.exact::<2>(line, &line.args)?;
        let resource = self.one_of(resource, &RESOURCES)?;
        let value = match resource.as_str() {
            "as" | "fsize" | "core" | "stack" | "memlock" | "data" => {
                u64::try_from(self.size(value)?).unwrap_or_default()
            }
            _ => self.number(value, "a number")?,
        };
        python.rlimits.insert(resource, value);
        Some(())
    }

    /// The number above zero that is the one word of a line.
    fn positive(&mut self, line: &Directive, expected: &str) -> Option<u32> {
        let word = self.single(line)?;
        let number: std::num::NonZeroU32 = self.number(word, expected)?;
        Some(number.get())
    }

    /// The size above zero that is the one word of a line.
    fn positive_size(&mut self, line: &Directive) -> Option<u64> {
        let word = self.single(line)?;
        match u64::try_from(self.size(word)?) {
            Ok(size) if size > 0 => Some(size),
            Ok(_) | Err(_) => {
                let title = format!("invalid size `{}`{}", word.text, self.about());
                self.refuse(word.error("invalid-size", title, "expected one above zero"))
            }
        }
    }
}

/// The route of a path that is served from a folder, in which files of the configuration are hidden.
fn files(prefix: &str, folder: &str, hidden_files: &[String]) -> Route {
    let mut paths = route(
        vec![MatcherSet::of(Matcher::Path(vec![format!("{prefix}/*")]))],
        rewrite_handler(Rewrite {
            strip_path_prefix: prefix.to_owned(),
            ..Rewrite::default()
        }),
    );
    paths.handle.push(Handler::FileServer(Box::new(FileServer {
        root: folder.to_owned(),
        hide: hidden_files.iter().map(|name| hidden(name)).collect(),
        ..FileServer::default()
    })));
    paths
}
