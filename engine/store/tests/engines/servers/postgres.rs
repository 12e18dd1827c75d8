//! PostgreSQL servers, which refuse to run as root.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use sluice_store::postgres::{PostgresOptions, PostgresStore};

use super::{Engine, SHORT_LEASE};
use crate::abilities::{skipped, tried};
use crate::ports::free_port;
use crate::temp_folder::TempFolder;
use crate::wait::{TIMEOUT, until};

/// The user `nobody` and its group, as Debian and others number them.
const NOBODY: u32 = 65_534;

/// Nothing of a test survives it: neither files that were not written yet, nor the shared memory of a server that was killed,
/// which would stay in `/dev/shm`.
const SETTINGS: [&str; 3] = [
    "fsync=off",
    "shared_buffers=16MB",
    "dynamic_shared_memory_type=mmap",
];

/// A server in a temporary folder. Its superuser is `admin`, who needs no password over its socket.
pub struct Server {
    engine: Engine,
    pub port: u16,
    folder: TempFolder,
    programs: PathBuf,
}

impl Server {
    /// A server with more settings; `None` if PostgreSQL is not installed, which is reported.
    #[track_caller]
    pub fn start(settings: &[&str]) -> Option<Server> {
        let Some(programs) = programs() else {
            skipped("PostgreSQL is not installed");
            return None;
        };
        let folder = TempFolder::in_memory();
        let path = folder.path();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        if is_root() {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let data = path.join("data");
        let made = lowered(&programs.join("initdb"))
            .args([
                "-U",
                "admin",
                "--auth-local=trust",
                "--auth-host=scram-sha-256",
            ])
            .args(["--no-sync", "-E", "UTF8", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        // The log file is opened by the test, in a folder that belongs to the other user.
        let port = free_port();
        let mut server = Server {
            engine: run(&programs, path, port, settings),
            port,
            folder,
            programs,
        };
        server.wait();
        server.sql("postgres", "create role web login password 'secret'");
        server.sql("postgres", "create database certs owner web");
        Some(server)
    }

    fn wait(&mut self) {
        let (programs, folder, port) = (&self.programs, self.folder.path(), self.port);
        let is_ready = || {
            let ready = Command::new(programs.join("pg_isready"))
                .arg("-q")
                .arg("-h")
                .arg(folder)
                .args(["-p", &port.to_string()])
                .status();
            ready.is_ok_and(|status| status.success())
        };
        self.engine.wait_until(is_ready);
    }

    /// Runs SQL as the superuser, and returns its output without headings.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let output = Command::new(self.programs.join("psql"))
            .args([
                "-qAt",
                "-v",
                "ON_ERROR_STOP=1",
                "-U",
                "admin",
                "-d",
                database,
                "-h",
            ])
            .arg(self.folder.path())
            .args(["-p", &self.port.to_string(), "-c", sql])
            .output()
            .unwrap();
        assert!(output.status.success(), "{sql}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A connection string for the user, with more parameters.
    pub fn place(&self, more: &str) -> String {
        let port = self.port;
        format!("host=127.0.0.1 port={port} user=web password=secret dbname=certs {more}")
    }

    pub fn options(&self) -> PostgresOptions {
        PostgresOptions::parse(&self.place("sslmode=disable")).unwrap()
    }

    pub fn store(&self) -> PostgresStore {
        PostgresStore::open(&self.options()).unwrap()
    }

    /// Ends it at once, and starts it again.
    pub fn crash(&mut self) {
        self.kill();
        self.restart();
    }

    pub fn id(&self) -> u32 {
        self.engine.id()
    }

    pub fn kill(&mut self) {
        self.engine.kill();
        // Its children end soon after it, and until then the data belongs to them.
        let data = self.folder.path().join("data");
        let have_ended = || (!is_entered(&data)).then_some(());
        until(TIMEOUT, "the sessions", have_ended, String::new);
    }

    /// Starts it again after it was killed, which replays its log.
    pub fn restart(&mut self) {
        self.engine = run(&self.programs, self.folder.path(), self.port, &[]);
        self.wait();
    }
}

/// Whether a process works in this folder, as those of PostgreSQL do.
fn is_entered(folder: &Path) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap();
    let folders = processes
        .flatten()
        .map(|process| process.path().join("cwd"));
    folders
        .filter_map(|link| std::fs::read_link(link).ok())
        .any(|found| found == folder)
}

/// Where the programs of the newest version are.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.flatten().map(|version| version.path().join("bin"));
    let folders = folders.filter(|folder| folder.join("initdb").is_file());
    folders.max_by_key(|folder| {
        let version = folder.parent().and_then(Path::file_name);
        version.and_then(|text| text.to_str()?.parse::<u32>().ok())
    })
}

fn is_root() -> bool {
    let id = tried("id", &["-u"]);
    id.is_some_and(|output| output.stdout == b"0\n")
}

/// A command that runs as `nobody` if this is root.
fn lowered(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    let id = NOBODY.to_string();
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]);
    command.arg(program);
    // Its home does not exist.
    command.current_dir("/");
    command
}

fn run(programs: &Path, folder: &Path, port: u16, settings: &[&str]) -> Engine {
    let mut command = lowered(&programs.join("postgres"));
    command.arg("-D").arg(folder.join("data"));
    command.args(["-p", &port.to_string(), "-h", "127.0.0.1", "-k"]);
    command.arg(folder);
    for setting in SETTINGS.iter().chain(settings) {
        command.args(["-c", setting]);
    }
    Engine::start(&mut command, &folder.join("postgres.log"))
}

/// A store at a connection string, with leases of a short time.
pub fn open(place: &str) -> PostgresStore {
    let mut options = PostgresOptions::parse(place).unwrap();
    options.lease_ttl = SHORT_LEASE;
    PostgresStore::open(&options).unwrap()
}
