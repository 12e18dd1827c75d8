//! The global option `events`: handlers of what happens to the server.

use sluice_model::EventsApp;
use sluice_model::events::{EventHandler, ExecEvent, Subscription, WebhookEvent};

use crate::lower::Lowering;
use crate::lower::args::texts;
use crate::lower::definition::Read::{Flag, Text, Time, With};
use crate::lower::definition::{Block, OptionTable, Options, option};
use crate::lower::matchers::inner_line;
use crate::tree::Directive;

pub(super) static EVENTS: Options<EventsApp> = Options::new(
    "events",
    &[option(
        "on",
        "on <event> exec <command> [<args...>] | webhook <url> [{ … }]",
        With(|cx, line, app| cx.subscription(line, app)),
    )
    .holding(Block::Modules(HANDLERS))],
);

/// The options of handlers.
static HANDLERS: &[(&str, &dyn OptionTable)] = &[("exec", &EXEC), ("webhook", &WEBHOOK)];

/// Those of the Caddy plugin `mholt/caddy-events-exec`.
static EXEC: Options<ExecEvent> = Options::new(
    "events exec",
    &[
        option(
            "dir",
            "dir <path>",
            Text(|exec: &mut ExecEvent| &mut exec.dir),
        ),
        option(
            "timeout",
            "timeout <duration>",
            Time(|exec| &mut exec.timeout),
        ),
        option(
            "foreground",
            "foreground",
            Flag(|exec| &mut exec.foreground),
        ),
    ],
)
.own();

static WEBHOOK: Options<WebhookEvent> = Options::new(
    "events webhook",
    &[
        option(
            "header",
            "header <name> <value>",
            With(|cx, line, webhook: &mut WebhookEvent| {
                let [name, value] = cx.exact(line, &line.args)?;
                webhook
                    .headers
                    .insert(name.text.clone(), value.text.clone());
                Some(())
            }),
        ),
        option(
            "timeout",
            "timeout <duration>",
            Time(|webhook| &mut webhook.timeout),
        ),
        option(
            "foreground",
            "foreground",
            Flag(|webhook| &mut webhook.foreground),
        ),
    ],
)
.own();

impl Lowering<'_> {
    /// `on <event> <handler> …`
    fn subscription(&mut self, line: &Directive, app: &mut EventsApp) -> Option<()> {
        let handler = inner_line(line);
        let event = handler.as_ref().map(|handler| handler.name.text.clone());
        let handler = handler.as_ref().and_then(inner_line);
        let (Some(event), Some(handler)) = (event, handler) else {
            return self.missing(line, "an event and a handler");
        };
        let handler = match handler.name.text.as_str() {
            "exec" => self.exec_event(&handler)?,
            "webhook" => self.webhook_event(&handler)?,
            _ => return self.unknown_module(&handler.name, "event handler", &["exec", "webhook"]),
        };
        app.subscriptions.push(Subscription {
            events: vec![event],
            handlers: vec![handler],
            ..Subscription::default()
        });
        Some(())
    }

    fn exec_event(&mut self, line: &Directive) -> Option<EventHandler> {
        let Some((command, args)) = line.args.split_first() else {
            return self.missing(line, "a command");
        };
        let mut exec = ExecEvent {
            command: command.text.clone(),
            args: texts(args),
            ..ExecEvent::default()
        };
        self.read_options(&EXEC, line.lines(), &mut exec)?;
        Some(EventHandler::Exec(exec))
    }

    fn webhook_event(&mut self, line: &Directive) -> Option<EventHandler> {
        let [url] = self.exact(line, &line.args)?;
        let mut webhook = WebhookEvent {
            url: url.text.clone(),
            ..WebhookEvent::default()
        };
        self.read_options(&WEBHOOK, line.lines(), &mut webhook)?;
        Some(EventHandler::Webhook(webhook))
    }
}
