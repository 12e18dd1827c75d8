//! `sluice storage`: lists, exports, imports, moves and encrypts what a storage keeps. `sluice_store::transfer` copies; this module
//! opens storages and shows progress.

use std::fs::File;
use std::io::{BufReader, BufWriter, IsTerminal, Read, Write, stderr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use sluice_model::{Config, FileStorage, Storage as Module};
use sluice_store::transfer::{self, Existing, Outcome, Step, TransferError};
use sluice_store::{
    Entry, Fault, FileStore, Key, Reach, ResealOutcome, ResealStep, Store, StoreError,
};
use sluice_tls::storages;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::load::{Adapter, Source};
use crate::messages::{Failed, MessageFormat, print_bytes};
use crate::{Exit, folders};

/// What to do with a storage.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// List the keys below PREFIX, one a line.
    List {
        /// What the keys begin with, such as `certificates` (default: all keys).
        #[arg(default_value = "")]
        prefix: String,
        /// Print size and time of change before each key.
        #[arg(short, long)]
        long: bool,
        #[command(flatten)]
        of: Configured,
    },
    /// Write everything to a tar archive.
    ///
    /// The archive has the form of `caddy storage export`. It contains private keys.
    Export {
        /// Archive to write, or `-` for standard output.
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        #[command(flatten)]
        of: Configured,
    },
    /// Read everything from a tar archive, also from one of `caddy storage export`.
    Import {
        /// Archive to read, or `-` for standard input.
        #[arg(short, long, value_name = "FILE")]
        input: PathBuf,
        /// Replace values that the storage already has.
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        of: Configured,
    },
    /// Copy everything from another storage to the one of the configuration.
    ///
    /// Without `--from-config` and `--from-folder` it copies from the default folder of this user. A second run copies
    /// what has changed since.
    Migrate {
        /// Configuration whose storage to copy from.
        #[arg(long, value_name = "FILE", conflicts_with = "from_folder")]
        from_config: Option<PathBuf>,
        /// Folder to copy from, such as the data folder of Caddy.
        #[arg(long, value_name = "FOLDER")]
        from_folder: Option<PathBuf>,
        /// Replace values that the storage already has.
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        of: Configured,
    },
    /// Encrypt with the newest key what is stored in plain text or under an older key.
    ///
    /// Run it after `encryption_key` was set, or after a new key became the first line of `encryption_key_file`. Servers
    /// may use the storage meanwhile. Once it reports no further values, the older keys can be removed.
    Reseal {
        #[command(flatten)]
        of: Configured,
    },
    /// End a lock whose holder is gone, or list the locks that are held.
    ///
    /// Locks of dead processes end by themselves within 16 seconds. A process that still holds the lock cannot write
    /// under it any more.
    Unlock {
        /// Name of the lock; without one, all locks are listed.
        name: Option<String>,
        #[command(flatten)]
        of: Configured,
    },
}

/// Where the storage is configured.
#[derive(clap::Args, Debug)]
struct Configured {
    /// Configuration file that sets the storage (default: the default folder of this user).
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Configuration format: caddyfile, caddy1, json or nginx (default: detected from name and content).
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        hide_possible_values = true
    )]
    adapter: Option<Adapter>,
}

impl Configured {
    fn open(&self, format: MessageFormat) -> Result<Arc<dyn Store>, Failed> {
        opened(self.config.as_deref(), self.adapter, format)
    }
}

impl Args {
    /// Runs the command.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        match self.action {
            Action::List { prefix, long, of } => list(&*of.open(format)?, &prefix, long),
            Action::Export { output, of } => export(&*of.open(format)?, &output),
            Action::Import { input, replace, of } => {
                import(&*of.open(format)?, &input, existing(replace))
            }
            Action::Migrate {
                from_config,
                from_folder,
                replace,
                of,
            } => {
                let from: Arc<dyn Store> = match &from_folder {
                    Some(folder) => Arc::new(existing_folder(folder)?),
                    None => opened(from_config.as_deref(), None, format)?,
                };
                migrate(&*from, &*of.open(format)?, existing(replace))
            }
            Action::Reseal { of } => reseal(&*of.open(format)?),
            Action::Unlock { name, of } => unlock(&*of.open(format)?, name.as_deref()),
        }
    }
}

fn opened(
    config: Option<&Path>,
    adapter: Option<Adapter>,
    format: MessageFormat,
) -> Result<Arc<dyn Store>, Failed> {
    let config = match config {
        Some(path) => Source::required(Some(path), adapter)?.load(format)?.config,
        None => Config::default(),
    };
    match config.storage {
        Some(Module::FileSystem(FileStorage { root })) if root.is_empty() => Ok(default_folder()),
        None => Ok(default_folder()),
        Some(module) => storages::engine(&module).map_err(Failed::new),
    }
}

fn default_folder() -> Arc<dyn Store> {
    Arc::new(FileStore::new(folders::data()))
}

fn existing_folder(folder: &Path) -> Result<FileStore, Failed> {
    match folder.is_dir() {
        true => Ok(FileStore::new(folder)),
        false => Err(Failed::new(format!(
            "`{}` is not a folder",
            folder.display()
        ))),
    }
}

fn existing(replace: bool) -> Existing {
    match replace {
        true => Existing::Replaced,
        false => Existing::Kept,
    }
}

fn list(store: &dyn Store, prefix: &str, is_long: bool) -> Result<Exit, Failed> {
    let prefix = Key::new(prefix.trim_end_matches('/'))
        .map_err(|error| Failed::new(format!("`{prefix}` is not a key: {error}")))?;
    let mut text = String::new();
    for entry in store.list(&prefix, Reach::All).map_err(failed)? {
        let Entry::Value {
            key,
            size,
            modified,
        } = entry
        else {
            continue;
        };
        if is_long {
            text.push_str(&format!("{size:>8} {} ", seconds_of(modified)));
        }
        text.push_str(key.as_str());
        text.push('\n');
    }
    print_bytes(text.as_bytes())
}

/// A time as RFC 3339 has it, in whole seconds.
fn seconds_of(at: SystemTime) -> String {
    let at = OffsetDateTime::from(at).replace_nanosecond(0);
    let text = at.ok().and_then(|at| at.format(&Rfc3339).ok());
    text.unwrap_or_default()
}

fn export(store: &dyn Store, output: &Path) -> Result<Exit, Failed> {
    let mut progress = Progress::default();
    if output == Path::new("-") {
        if std::io::stdout().is_terminal() {
            return Err(Failed::new("an archive is not written to a terminal")
                .help("name a file: `--output FILE`"));
        }
        let out = BufWriter::new(std::io::stdout());
        transfer::export(store, out, |step| progress.show(&step)).map_err(of_transfer)?;
    } else {
        let file = private_file(output)?;
        let out = BufWriter::new(file);
        transfer::export(store, out, |step| progress.show(&step)).map_err(of_transfer)?;
    }
    clear_progress();
    eprintln!("exported {} values", progress.written);
    Ok(Exit::Done)
}

/// A new file that only its owner can read: it will contain private keys.
fn private_file(path: &Path) -> Result<File, Failed> {
    use std::os::unix::fs::OpenOptionsExt;
    let created = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    created.map_err(|error| {
        let failed = Failed::new(format!("cannot create `{}`: {error}", path.display()));
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => failed.help("name another file, or remove it"),
            _ => failed,
        }
    })
}

fn import(store: &dyn Store, input: &Path, existing: Existing) -> Result<Exit, Failed> {
    let archive: Box<dyn Read> = if input == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        let file = File::open(input)
            .map_err(|error| Failed::new(format!("cannot read `{}`: {error}", input.display())))?;
        Box::new(BufReader::new(file))
    };
    let mut progress = Progress::default();
    transfer::import(store, archive, existing, |step| progress.show(&step)).map_err(of_transfer)?;
    progress.conclude("imported");
    Ok(Exit::Done)
}

fn migrate(from: &dyn Store, to: &dyn Store, existing: Existing) -> Result<Exit, Failed> {
    if from.place() == to.place() {
        let what = format!("both storages are `{}`", from.place());
        return Err(Failed::new(what).help(
            "name the new one with `--config`, and the old one with `--from-config` or `--from-folder`",
        ));
    }
    let mut progress = Progress::default();
    transfer::copy(from, to, existing, |step| progress.show(&step)).map_err(of_transfer)?;
    progress.conclude("copied");
    Ok(Exit::Done)
}

fn reseal(store: &dyn Store) -> Result<Exit, Failed> {
    let mut done = Resealed::default();
    let ended = store.reseal(&mut |step| done.take(&step));
    clear_progress();
    ended.map_err(|error| match error.fault {
        Fault::Setting => failed(error).help(
            "set `encryption_key` or `encryption_key_file` of the storage; a folder is not encrypted",
        ),
        _ => failed(error),
    })?;
    let Resealed {
        sealed,
        current,
        busy,
        unusable,
    } = &done;
    say!("encrypted {sealed} values; {current} had the newest key already");
    if *busy > 0 {
        say!("{busy} values were being written at the same time; run the command again");
    }
    for problem in unusable.iter().take(SHOWN_MAX) {
        eprintln!("{problem}");
    }
    match unusable.len() {
        0 => Ok(Exit::Done),
        count => Err(Failed::new(format!(
            "{count} values cannot be decrypted, and stay as they are"
        ))
        .help(
            "add the keys that they are encrypted with to `encryption_key_file`, after the first",
        )),
    }
}

/// How many values that cannot be decrypted are named.
const SHOWN_MAX: usize = 20;

/// What `reseal` has done so far.
#[derive(Default)]
struct Resealed {
    sealed: usize,
    current: usize,
    busy: usize,
    unusable: Vec<StoreError>,
}

impl Resealed {
    fn take(&mut self, step: &ResealStep<'_>) {
        match &step.outcome {
            ResealOutcome::Sealed => self.sealed += 1,
            ResealOutcome::Current => self.current += 1,
            ResealOutcome::Busy => self.busy += 1,
            ResealOutcome::Unusable(error) => self.unusable.push(error.clone()),
        }
        let done = self.sealed + self.current + self.busy + self.unusable.len();
        show_progress(&format!("{done}/{} {}", step.total, step.key));
    }
}

fn unlock(store: &dyn Store, name: Option<&str>) -> Result<Exit, Failed> {
    let Some(name) = name else {
        for name in store.leases().map_err(failed)? {
            say!("{name}");
        }
        return Ok(Exit::Done);
    };
    if store.break_lease(name).map_err(failed)? {
        say!("the lock `{name}` is free");
        return Ok(Exit::Done);
    }
    let held = store.leases().map_err(failed)?;
    let failed = Failed::new(format!("there is no lock `{name}`"));
    Err(match held.is_empty() {
        true => failed.help("no lock is held"),
        false => failed.help(format!("these are held: {}", held.join(", "))),
    })
}

fn of_transfer(error: TransferError) -> Failed {
    match error {
        TransferError::Store(error) => failed(error),
        other => Failed::new(other),
    }
}

fn failed(error: StoreError) -> Failed {
    let help = match error.fault {
        Fault::Away => "check its address in the configuration, and whether it runs",
        Fault::Credentials => "check the user and the password in the configuration",
        Fault::ReadOnly => "check whether it is full or a replica",
        Fault::System => "run the command as the user of the server",
        Fault::Refused | Fault::Held | Fault::Foreign | Fault::Limit | Fault::Setting => "",
    };
    let failed = Failed::new(error);
    match help {
        "" => failed,
        help => failed.help(help),
    }
}

/// The progress of a transfer: one line on a terminal, and the numbers at the end.
#[derive(Default)]
struct Progress {
    written: usize,
    same: usize,
    kept: usize,
}

impl Progress {
    fn show(&mut self, step: &Step<'_>) {
        match step.outcome {
            Outcome::Written => self.written += 1,
            Outcome::Same => self.same += 1,
            Outcome::Kept => self.kept += 1,
        }
        let done = self.written + self.same + self.kept;
        let total = step
            .total
            .map_or_else(String::new, |total| format!("/{total}"));
        show_progress(&format!("{done}{total} {}", step.key));
    }

    fn conclude(&self, verb: &str) {
        clear_progress();
        let Progress {
            written,
            same,
            kept,
        } = self;
        say!("{verb} {written} values; {same} were there already");
        if *kept > 0 {
            say!(
                "{kept} values stay as they were, because the storage has others; `--replace` replaces them"
            );
        }
    }
}

/// Shows a line in the place of the one before, on a terminal.
fn show_progress(line: &str) {
    if stderr().is_terminal() {
        // The rest of a longer line before it is erased.
        let _ = write!(stderr(), "\r{line}\x1b[K");
    }
}

fn clear_progress() {
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\r\x1b[K");
    }
}
