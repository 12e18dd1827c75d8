//! `sluice push`: writes a configuration to the place that the nodes of a fleet share, and waits for their verdicts.

use std::io::{IsTerminal, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sluice_serve::fleet::{
    Checked, Layout, Location, NodeVerdict, Proposal, PushError, PushOutcome, Pushed, Share, Stage,
    Verdict, Wanted, before_last, check, push,
};
use sluice_serve::limits::CONFIG_BYTES_MAX;
use sluice_store::Store;

use super::fleet::table;
use super::status::text::clean;
use crate::differences::changes;
use crate::load::{Adapter, Source, detect, parse};
use crate::messages::{Failed, MessageFormat, print_report, write};
use crate::{Exit, envfile, remote, supervise};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Configuration file to push, or `-` for stdin.
    #[arg(required_unless_present = "rollback", conflicts_with = "rollback")]
    file: Option<PathBuf>,
    /// URL of the fleet's configuration, such as etcd://HOST/KEY.
    #[arg(long, value_name = "URL")]
    to: String,
    /// Configuration format: caddyfile, caddy1, json or nginx (default: detected from name and content).
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        hide_possible_values = true
    )]
    adapter: Option<Adapter>,
    /// Let some nodes take it first: `10%` of them, or a number.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    canary: Option<Share>,
    /// Push only if this revision is in effect; `none` if there must be none.
    #[arg(long, value_name = "REVISION")]
    if_revision: Option<String>,
    /// Push the configuration before the present one, or REVISION from the history.
    #[arg(long, value_name = "REVISION", num_args = 0..=1, default_missing_value = "")]
    rollback: Option<String>,
    /// Time to wait for the verdicts of the nodes.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    timeout: Duration,
    /// Time to observe the error rates of the nodes after each stage; 0 to skip it.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5s")]
    observe: Duration,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
    /// Show what would change, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print the outcome and the verdicts as JSON.
    #[arg(long)]
    json: bool,
    /// Only parse the configuration here, if its files are on the nodes alone.
    #[arg(long)]
    no_validate: bool,
    /// Load environment variables from FILE (repeatable).
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    envfile: Vec<PathBuf>,
}

fn share(text: &str) -> Result<Share, String> {
    Share::parse(text).ok_or_else(|| "use a percentage such as 10%, or a number from 1".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    let read = serde_json::from_value::<sluice_model::Duration>(text.into());
    let nanos = read.ok().and_then(|given| u64::try_from(given.0).ok());
    let duration = nanos.map(Duration::from_nanos);
    duration.ok_or_else(|| "use a duration such as 30s or 1m".to_owned())
}

/// What is pushed.
struct Text {
    /// Its name in messages.
    name: String,
    text: String,
    adapter: Adapter,
}

impl Args {
    /// Returns once all nodes have taken it, or the configuration before is in effect again.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        envfile::apply(&self.envfile)?;
        let (location, store, layout) = remote::store(&self.to)?;
        let text = self.text(&*store, &layout, &location)?;
        self.validate(&text, &location, format)?;
        let checked = check(&*store, &layout).map_err(Failed::new)?;
        self.check_revision(&checked, &location)?;
        let is_same = checked.text.as_deref() == Some(&text.text);
        if !self.json {
            let before = checked.text.as_deref().unwrap_or_default();
            print_text(&changes(before, &text.text))?;
        }
        if self.dry_run {
            let nodes = checked.fleet.living().count();
            if !self.json {
                say!("nothing was written; {} would take it", nodes_of(nodes));
            }
            return Ok(Exit::Done);
        }
        if !is_same {
            self.confirm(&checked, &location)?;
        }
        let proposal = Proposal {
            text: text.text,
            canary: self.canary,
            timeout: self.timeout,
            observe: self.observe,
        };
        let mut progress = Progress::new(self.json);
        let mut show = |stage, rows: &[NodeVerdict]| progress.show(stage, rows);
        let pushed = push(&*store, &layout, &checked, &proposal, &mut show);
        let pushed = pushed.map_err(|error| explain(error, &location))?;
        self.conclude(&pushed)
    }

    /// The text of the file, or of the history.
    fn text(
        &self,
        store: &dyn Store,
        layout: &Layout,
        location: &Location,
    ) -> Result<Text, Failed> {
        let (name, text, adapter) = match (&self.file, &self.rollback) {
            (Some(file), _) => {
                let source = Source::required(Some(file), self.adapter)?;
                let (name, text) = source.read()?;
                let adapter = source.adapter(&text);
                (name, text, adapter)
            }
            (None, digits) => {
                let digits = digits.as_deref().filter(|digits| !digits.is_empty());
                let text = before_last(store, layout, digits).map_err(Failed::new)?;
                let text = text.ok_or_else(|| match digits {
                    Some(digits) => Failed::new(format!(
                        "the history of {location} has no revision `{digits}`"
                    )),
                    None => Failed::new(format!("{location} has no earlier configuration")),
                })?;
                let name = location.name().to_owned();
                let adapter = self
                    .adapter
                    .unwrap_or_else(|| detect(Path::new(&name), &text));
                (name, text, adapter)
            }
        };
        if text.len() > CONFIG_BYTES_MAX {
            return Err(
                Failed::new(format!("{name} is larger than {CONFIG_BYTES_MAX} bytes"))
                    .help("move parts to files on the nodes, and import them"),
            );
        }
        Ok(Text {
            name,
            text,
            adapter,
        })
    }

    /// Refuses what no node could run, and warns of what the nodes may read differently.
    fn validate(
        &self,
        text: &Text,
        location: &Location,
        format: MessageFormat,
    ) -> Result<(), Failed> {
        let loaded = parse(&text.name, &text.text, text.adapter, format)?;
        print_report(&loaded.report, format);
        let imported = loaded.files.iter().filter(|file| **file != text.name);
        let imported: Vec<&str> = imported.map(String::as_str).collect();
        if !imported.is_empty() {
            let files = imported.join("`, `");
            write(&format!(
                "warning: each node reads `{files}` from its own disk\n"
            ));
        }
        let found = detect(Path::new(location.name()), &text.text);
        if found != text.adapter {
            write(&format!(
                "warning: nodes take this for {found:?}, not {:?}, unless they run with `--adapter`\n",
                text.adapter
            ));
        }
        match self.no_validate {
            true => Ok(()),
            false => supervise::validate(&loaded, format),
        }
    }

    fn check_revision(&self, checked: &Checked, location: &Location) -> Result<(), Failed> {
        let wanted = match self.if_revision.as_deref() {
            None => Wanted::Any,
            Some("none") => Wanted::Nothing,
            Some(digits) => Wanted::Revision(digits.to_owned()),
        };
        if wanted.is(checked.revision.as_ref()) {
            return Ok(());
        }
        let found = match &checked.revision {
            Some(revision) => format!("revision {revision}"),
            None => "no configuration".to_owned(),
        };
        Err(Failed::new(format!(
            "{location} has {found}, so nothing was pushed"
        )))
    }

    fn confirm(&self, checked: &Checked, location: &Location) -> Result<(), Failed> {
        if self.yes {
            return Ok(());
        }
        let is_input = self.file.as_deref() == Some(Path::new("-"));
        if is_input || !stdin().is_terminal() {
            return Err(
                Failed::new("nothing was pushed: there is nobody to confirm it")
                    .help("add `--yes`, or `--dry-run` to see the differences only"),
            );
        }
        let nodes = nodes_of(checked.fleet.living().count());
        print_text(&format!("Push this to {location} with {nodes}? [y/N] "))?;
        let mut reply = String::new();
        stdin().read_line(&mut reply).map_err(Failed::new)?;
        match reply.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failed::new("nothing was pushed")),
        }
    }

    fn conclude(&self, pushed: &Pushed) -> Result<Exit, Failed> {
        if self.json {
            say!("{}", serde_json::to_string(pushed).map_err(Failed::new)?);
        }
        let all = pushed.nodes.len();
        let took = pushed
            .nodes
            .iter()
            .filter(|row| row.verdict == Verdict::Took)
            .count();
        let revision = &pushed.revision;
        let failed = match &pushed.outcome {
            PushOutcome::Done if all == 0 => {
                self.say(&format!(
                    "revision {revision} is written; no node is running"
                ));
                return Ok(Exit::Done);
            }
            PushOutcome::Done => {
                self.say(&format!("{} run revision {revision}", nodes_of(all)));
                return Ok(Exit::Done);
            }
            PushOutcome::Unchanged if took == all => {
                self.say(&format!("revision {revision} was in effect already"));
                return Ok(Exit::Done);
            }
            PushOutcome::Unchanged => Failed::new(format!(
                "revision {revision} was in effect already, and {took} of {all} nodes run it"
            ))
            .help("`sluice fleet status URL` shows why"),
            PushOutcome::RolledBack {
                why, is_restored, ..
            } => {
                let before = pushed.previous.as_ref();
                let before = before.map_or("no configuration".to_owned(), ToString::to_string);
                let state = match is_restored {
                    true => "in effect again",
                    false => "written again, but not all nodes run it yet",
                };
                Failed::new(format!("{why}; {before} is {state}"))
            }
            PushOutcome::Stuck { why, problem } => Failed::new(format!(
                "{why}, and the configuration before could not be written again: {problem}"
            ))
            .help("`sluice push --rollback` writes it"),
        };
        Err(failed)
    }

    fn say(&self, text: &str) {
        if !self.json {
            say!("{text}");
        }
    }
}

fn print_text(text: &str) -> Result<(), Failed> {
    crate::messages::print_bytes(text.as_bytes())?;
    let _ = stdout().flush();
    Ok(())
}

fn nodes_of(count: usize) -> String {
    match count {
        0 => "no node".to_owned(),
        1 => "1 node".to_owned(),
        _ => format!("{count} nodes"),
    }
}

fn explain(error: PushError, location: &Location) -> Failed {
    match error {
        PushError::Store(error) => Failed::new(error).help(
            "`sluice fleet status URL` shows what is in effect when the store responds again",
        ),
        PushError::Changed(revision) => {
            let found = match revision {
                Some(revision) => format!("to revision {revision}"),
                None => "and deleted it".to_owned(),
            };
            Failed::new(format!(
                "somebody else has changed {location} {found}; nothing was pushed"
            ))
            .help("run the command again to see the differences to that")
        }
        PushError::InProgress => Failed::new(format!("another push to {location} is in progress"))
            .help("wait for it; if it was killed, its lock ends within 15 s"),
    }
}

/// Prints each verdict once.
struct Progress {
    is_quiet: bool,
    stage: Option<Stage>,
    shown: Vec<(String, Verdict)>,
}

impl Progress {
    fn new(is_quiet: bool) -> Progress {
        Progress {
            is_quiet,
            stage: None,
            shown: Vec::new(),
        }
    }

    fn show(&mut self, stage: Stage, rows: &[NodeVerdict]) {
        if self.is_quiet {
            return;
        }
        if self.stage != Some(stage) {
            self.stage = Some(stage);
            if stage == Stage::All {
                self.shown.clear();
            }
            say!(
                "{}",
                match stage {
                    Stage::Canary => "canary:",
                    Stage::All => "all nodes:",
                    Stage::RollBack => "rolling back ...",
                }
            );
        }
        let width = rows.iter().map(|row| row.node.chars().count()).max();
        for row in rows.iter().filter(|row| row.verdict != Verdict::Waiting) {
            let verdict = (row.node.clone(), row.verdict);
            if self.shown.contains(&verdict) {
                continue;
            }
            self.shown.push(verdict);
            let name = format!("{:<1$}", clean(&row.node), width.unwrap_or_default());
            let after = row
                .seconds
                .map_or(String::new(), |seconds| format!("{seconds:.2}s"));
            let line = table(vec![vec![
                format!("  {name}"),
                format!("{:<11}", row.verdict.as_str()),
                after,
            ]]);
            write_line(&line, row.error.as_deref());
        }
    }
}

fn write_line(line: &str, error: Option<&str>) {
    say!("{}", line.trim_end());
    for line in error.unwrap_or_default().lines() {
        say!("    {}", clean(line));
    }
}
