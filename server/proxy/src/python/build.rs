//! Builds the handler from the model: checks the settings, and starts the application.

use std::thread::available_parallelism;
use std::time::Duration;

use sluice_model::handler::python::{Interface as Written, Python as Config};
use sluice_net::sys::identity::Identity;
use sluice_python::{Accelerator, EventLoop, Interface, Lifespan, Resource, Settings};
use sluice_route::placeholder::NoValues;
use sluice_wire::websocket as codec;

use super::dynamic::{self, Dynamic};
use super::host::{self, Durations, Starting};
use super::recipe::{Recipe, is_module};
use super::{Chosen, Messages, Python, Source};
use crate::limits::{
    BUFFER_FILE_BYTES_MAX, BUFFER_REQUEST_BYTES, PYTHON_DYNAMIC_APPS, PYTHON_DYNAMIC_IDLE,
    PYTHON_WORKERS_MAX,
};
use crate::reverse_proxy::buffering::{Buffering, ReadAhead, Rules, Spooling};
use sluice_pipeline::build::Builder;
use sluice_pipeline::handler::Handler;
use sluice_pipeline::refusal::Refusal;

/// Builds the handler, and starts its application if the configuration is to serve.
///
/// # Errors
///
/// The setting that cannot be used, with the place of the directive.
pub fn build(config: &Config, builder: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let written = builder.written();
    handler(config, builder).map_err(|refusal| Refusal { written, ..refusal })
}

fn handler(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let (written, module) = one_module(config)?;
    let interface = interface(written);
    let recipe = Recipe::build(config, module, settings(config, written)?)?;
    let source = source(config, builder, recipe, (interface, module))?;
    let name = match (&source, config.name.as_str()) {
        (Source::One(chosen), _) => chosen.name.to_string(),
        (Source::Dynamic(_) | Source::Unstarted(..), "") => module.to_owned(),
        (Source::Dynamic(_) | Source::Unstarted(..), name) => name.to_owned(),
    };
    let websocket = Messages {
        limits: codec::Limits {
            message_bytes_max: message_bytes_max(config)?,
        },
        compression: match config.permessage_deflate.as_str() {
            "" => true,
            text => is_on("permessage_deflate", text)?,
        },
    };
    Ok(Box::new(Python {
        durations: Durations::build(builder, &name),
        source,
        buffering: buffering(config, builder)?,
        websocket,
        is_logged: builder.server.logs.is_some(),
    }))
}

fn source(
    config: &Config,
    builder: &Builder<'_>,
    recipe: Recipe,
    (interface, module): (Interface, &str),
) -> Result<Source, Refusal> {
    let live = builder.recorder.filter(|_| builder.is_live());
    let groups = live.map(host::groups).transpose()?;
    if recipe.is_dynamic() {
        let max = match usize::try_from(config.max_dynamic_apps) {
            Ok(0) => PYTHON_DYNAMIC_APPS,
            Ok(max) => max,
            Err(_) => return Err(Refusal::new("`max_dynamic_apps` is negative")),
        };
        let idle = or(config.dynamic_idle_timeout, PYTHON_DYNAMIC_IDLE)?;
        let log = builder.log.cloned();
        let dynamic = Dynamic::new(recipe, &config.name, groups, (max, idle), log);
        return Ok(Source::Dynamic(dynamic));
    }
    if !is_module(module) && !module.contains('{') {
        let message = format!("`{module}` does not name a Python application");
        return Err(Refusal::new(message)
            .with_help("write a module and a variable in it, such as `main:app`"));
    }
    let texts = recipe
        .expand(&NoValues)
        .map_err(|fault| Refusal::new(fault.message))?;
    let settings = recipe.settings(&texts, &dynamic::name(&config.name, &texts))?;
    if let Some(folder) = &texts.working_dir
        && !folder.is_dir()
    {
        let message = format!("working_dir `{}` is not a folder", folder.display());
        return Err(Refusal::new(message));
    }
    let Some(groups) = groups else {
        return Ok(Source::Unstarted(interface, module.into()));
    };
    let application = groups.obtain(settings);
    Starting::add(builder, &application);
    Ok(Source::One(Box::new(Chosen::new(application))))
}

/// The size of a WebSocket message.
fn message_bytes_max(config: &Config) -> Result<usize, Refusal> {
    let most = codec::Limits::default().message_bytes_max;
    match usize::try_from(config.max_message_size) {
        Ok(0) => Ok(most),
        Ok(size) if size <= most => Ok(size),
        Ok(_) | Err(_) => Err(Refusal::new(format!(
            "`max_message_size` is above the maximum of {} MiB",
            most >> 20
        ))),
    }
}

/// The bytes of WebSocket messages that processes hold, at least those of the largest one.
fn messages_bytes_max(config: &Config) -> Result<u64, Refusal> {
    let usual = sluice_python::limits::MESSAGES_BYTES_MAX;
    let most = match config.max_message_memory {
        0 => usual,
        most => most,
    };
    match message_bytes_max(config)? as u64 {
        size if size <= most => Ok(most),
        size => Err(Refusal::new(format!(
            "`max_message_memory` is below the {size} bytes of the largest message"
        ))
        .with_help("raise it, or lower `max_message_size`")),
    }
}

/// The application that is named, which is exactly one.
fn one_module(config: &Config) -> Result<(Written, &str), Refusal> {
    let mut named = config.modules();
    match (named.next(), named.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(Refusal::new("`python` without an application").with_help(
            "add one of `module_wsgi`, `module_asgi` and `module_esgi`, such as `module_wsgi main:app`",
        )),
        (Some((first, _)), Some((second, _))) => {
            let message = format!(
                "`python` with two applications: `{}` and `{}`",
                first.setting(),
                second.setting()
            );
            Err(Refusal::new(message).with_help("keep one of them; each application has a directive"))
        }
    }
}

const fn interface(written: Written) -> Interface {
    match written {
        Written::Auto => Interface::Auto,
        Written::Wsgi => Interface::Wsgi,
        Written::Asgi => Interface::Asgi,
        Written::Esgi => Interface::Esgi,
        Written::Rsgi => Interface::Rsgi,
    }
}

/// The settings that no placeholder changes.
fn settings(config: &Config, written: Written) -> Result<Settings, Refusal> {
    let mut settings = Settings::new("", interface(written), "");
    settings.workers = workers(config)?;
    if config.threads > 0 {
        settings.threads = config.threads as usize;
    }
    if config.concurrency > 0 {
        settings.concurrency = config.concurrency as usize;
    }
    if let Some(size) = config.queue_size {
        settings.queue_size = size as usize;
    }
    settings.queue_timeout = or(config.queue_timeout, settings.queue_timeout)?;
    settings.start_timeout = match config.start_timeout.0.to_std() {
        None => None,
        Some(Duration::ZERO) => settings.start_timeout,
        limit => limit,
    };
    settings.request_timeout =
        Some(or(config.request_timeout, Duration::ZERO)?).filter(|timeout| !timeout.is_zero());
    settings.max_requests = Some(config.max_requests).filter(|max| *max > 0);
    settings.max_requests_jitter = config.max_requests_jitter;
    settings.messages_bytes_max = messages_bytes_max(config)?;
    settings.max_rss = Some(config.max_rss).filter(|max| *max > 0);
    settings.preload = config.preload;
    settings.lifespan = lifespan(&config.lifespan)?;
    settings.event_loop = event_loop(config, written)?;
    settings.accelerator = accelerator(&config.accelerator)?;
    settings.autoreload = is_on("autoreload", config.autoreload.as_str())?;
    settings.drain_timeout = or(config.drain_timeout, settings.drain_timeout)?;
    settings.root_path = config.root_path.trim_end_matches('/').to_owned();
    settings.user = user(&config.user)?;
    for (name, value) in &config.rlimits {
        settings.rlimits.push((resource(name)?, *value));
    }
    isolation(config)?;
    Ok(settings)
}

fn workers(config: &Config) -> Result<usize, Refusal> {
    let text = config.workers.as_str();
    let number = match text {
        "" => 0,
        text => text
            .parse()
            .map_err(|_| Refusal::new(format!("`workers {text}` is not a number of processes")))?,
    };
    match number {
        0 => Ok(available_parallelism().map_or(1, usize::from)),
        1..=PYTHON_WORKERS_MAX => Ok(number),
        _ => Err(Refusal::new(format!(
            "`workers {number}` is above the maximum of {PYTHON_WORKERS_MAX}"
        ))),
    }
}

fn accelerator(text: &str) -> Result<Accelerator, Refusal> {
    match text {
        "" | "auto" => Ok(Accelerator::Auto),
        "on" => Ok(Accelerator::On),
        "off" => Ok(Accelerator::Off),
        other => Err(unknown("accelerator", other, "auto, on, off")),
    }
}

fn lifespan(text: &str) -> Result<Lifespan, Refusal> {
    match text {
        "" | "off" => Ok(Lifespan::Off),
        "on" => Ok(Lifespan::On),
        "auto" => Ok(Lifespan::Auto),
        other => Err(unknown("lifespan", other, "on, off, auto")),
    }
}

fn event_loop(config: &Config, written: Written) -> Result<EventLoop, Refusal> {
    let known = written.runtimes();
    match config.runtime.as_str() {
        "" => Ok(EventLoop::Auto),
        // The name that old versions of Caddy Snake had for it.
        "uvloop" | "libuv" if known.contains(&"uvloop") => Ok(EventLoop::Uvloop),
        "native" if known.contains(&"native") => Ok(EventLoop::Asyncio),
        "gevent" if known.contains(&"gevent") => Ok(EventLoop::Gevent),
        runtime if known.contains(&runtime) => Ok(EventLoop::Auto),
        other if known.is_empty() => Err(Refusal::new(format!(
            "`runtime {other}` needs an interface"
        ))
        .with_help("name the application with `module_wsgi`, `module_asgi` or `module_esgi`")),
        other => {
            let name = format!("runtime of {}", written.as_str().to_uppercase());
            Err(unknown(&name, other, &known.join(", ")))
        }
    }
}

fn is_on(name: &str, text: &str) -> Result<bool, Refusal> {
    match text {
        "" | "off" | "false" => Ok(false),
        "on" | "true" => Ok(true),
        other => Err(unknown(name, other, "on, off")),
    }
}

fn isolation(config: &Config) -> Result<(), Refusal> {
    match config.isolation.as_ref().map(|isolation| isolation.backend.as_str()) {
        None | Some("" | "none") => Ok(()),
        Some("docker") => Err(Refusal::new("`isolation docker` is not supported").with_help(
            "run sluice with its applications in a container, or limit the processes with `user` and `rlimit`",
        )),
        Some(other) => Err(unknown("isolation", other, "none")),
    }
}

fn user(text: &str) -> Result<Option<Identity>, Refusal> {
    if text.is_empty() {
        return Ok(None);
    }
    let identity = match text.split_once(':') {
        Some((user, group)) => Identity::of(user, group),
        None => Identity::of_user(text),
    };
    match identity {
        Ok(identity) => Ok(Some(identity)),
        Err(error) => Err(Refusal::new(error.to_string())
            .with_help("name a user of this machine, or `user:group`")),
    }
}

fn resource(name: &str) -> Result<Resource, Refusal> {
    Ok(match name {
        "nproc" => Resource::Processes,
        "as" => Resource::AddressSpace,
        "nofile" => Resource::OpenFiles,
        "cpu" => Resource::CpuSeconds,
        "fsize" => Resource::FileSize,
        "core" => Resource::CoreFile,
        "stack" => Resource::Stack,
        "memlock" => Resource::LockedMemory,
        "data" => Resource::Data,
        other => {
            let known = "nproc, as, nofile, cpu, fsize, core, stack, memlock, data";
            return Err(unknown("rlimit", other, known));
        }
    })
}

fn unknown(name: &str, found: &str, known: &str) -> Refusal {
    Refusal::new(format!("unknown {name} `{found}`")).with_help(format!("one of: {known}"))
}

/// A duration, or the usual one where it is zero.
fn or(span: sluice_model::Duration, usual: Duration) -> Result<Duration, Refusal> {
    match span.to_std() {
        Some(Duration::ZERO) => Ok(usual),
        Some(span) => Ok(span),
        None => Err(Refusal::new(format!("`{span}` is negative"))),
    }
}

fn buffering(config: &Config, builder: &Builder<'_>) -> Result<Buffering, Refusal> {
    let (requests, responses) = (&config.request_buffers, &config.response_buffers);
    let usual = (BUFFER_REQUEST_BYTES, u64::MAX);
    let spooling = Spooling {
        rules: Rules::build(requests, usual, builder)?,
        always: true,
    };
    let usual = (BUFFER_REQUEST_BYTES, BUFFER_FILE_BYTES_MAX);
    let ahead = match responses.off {
        true => None,
        false => Some(ReadAhead {
            rules: Rules::build(responses, usual, builder)?,
            usually: true,
            obeys: false,
        }),
    };
    Ok(Buffering {
        spooling: Some(spooling),
        ahead,
        ..Buffering::default()
    })
}
