//! Starts worker processes: their command, environment, descriptors and first frames.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use sluice_net::sys::spawn::{Limited, NotStarted, Program, Step, spawn};
use sluice_wire::python::{Kind, encode_control, encode_sample};

use super::launched::Launched;
use super::messages;
use super::script;
use crate::failure::StartFailure;
use crate::interpreter::{self, Interpreter};
use crate::settings::{Resource, Settings};

/// What is needed to start the processes of a group.
pub(super) struct Launcher {
    interpreter: Interpreter,
    program: Program,
    script: File,
    null: File,
    /// Number of sluice's threads.
    workers: usize,
}

/// What a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It runs requests.
    Worker,
    /// It imports the application and forks the processes that run requests.
    Parent,
}

/// The ends of the lanes of one seat.
pub(super) struct Lanes {
    pub ours: Vec<OwnedFd>,
    pub theirs: Vec<OwnedFd>,
}

impl Lanes {
    /// One lane for each of sluice's threads.
    pub fn new(workers: usize) -> io::Result<Lanes> {
        let mut lanes = Lanes {
            ours: Vec::with_capacity(workers),
            theirs: Vec::with_capacity(workers),
        };
        for _ in 0..workers {
            let (ours, theirs) = UnixStream::pair()?;
            lanes.ours.push(ours.into());
            lanes.theirs.push(theirs.into());
        }
        Ok(lanes)
    }
}

/// Variables that concern this process only: sockets and reports of systemd.
const OWN_VARIABLES: [&str; 7] = [
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "INVOCATION_ID",
];

/// Variables that describe the user of this process.
const USER_VARIABLES: [&str; 4] = ["HOME", "USER", "LOGNAME", "MAIL"];

impl Launcher {
    /// Finds the interpreter, and prepares everything that all processes have in common. Done anew for each reload, since
    /// the interpreter may have changed.
    ///
    /// # Errors
    ///
    /// There is no interpreter.
    pub fn new(settings: &Settings, workers: usize) -> Result<Launcher, StartFailure> {
        let search = std::env::var_os("PATH").unwrap_or_default();
        let interpreter = interpreter::find(settings, &search)?;
        let not_ready =
            |error: io::Error| failure("spawn", format!("cannot start Python: {error}"));
        let path = c_string(interpreter.path.as_os_str().as_bytes())?;
        let descriptor = FIRST + workers + 1;
        let (lanes, descriptor) = (workers.to_string(), descriptor.to_string());
        let arguments = [
            interpreter.path.as_os_str().as_bytes(),
            b"-c",
            script::BOOTSTRAP.as_bytes(),
            lanes.as_bytes(),
            descriptor.as_bytes(),
        ];
        let arguments = arguments.into_iter().map(c_string);
        let directory = settings.working_dir.as_deref();
        let program = Program {
            path,
            arguments: arguments.collect::<Result<_, _>>()?,
            environment: environment(settings, &interpreter.path)?,
            directory: directory
                .map(|path| c_string(path.as_os_str().as_bytes()))
                .transpose()?,
            identity: settings.user.clone(),
            limits: settings.rlimits.iter().map(limited).collect(),
        };
        Ok(Launcher {
            interpreter,
            program,
            script: script::create().map_err(not_ready)?,
            null: File::options()
                .read(true)
                .write(true)
                .open("/dev/null")
                .map_err(not_ready)?,
            workers,
        })
    }

    /// Starts a process with these lanes, and sends it its settings.
    ///
    /// # Errors
    ///
    /// The step that failed.
    pub fn launch(
        &self,
        settings: &Settings,
        lanes: &Lanes,
        purpose: Purpose,
    ) -> Result<Launched, StartFailure> {
        self.try_launch(settings, lanes, purpose).map_err(|failed| {
            let what = match failed.step {
                Step::Directory => format!("`{}`", shown(settings.working_dir.as_deref())),
                Step::Execute => format!("`{}`", self.interpreter.path.display()),
                _ => String::new(),
            };
            let step = failed.step.as_str();
            failure(
                "spawn",
                format!("{step} {what}: {}", failed.error).replace(" :", ":"),
            )
        })
    }

    fn try_launch(
        &self,
        settings: &Settings,
        lanes: &Lanes,
        purpose: Purpose,
    ) -> Result<Launched, NotStarted> {
        let not_forked = |error| NotStarted {
            step: Step::Fork,
            error,
        };
        debug_assert_eq!(lanes.theirs.len(), self.workers);
        let (mut control, theirs) = UnixStream::pair().map_err(not_forked)?;
        let (stdout, stdout_end) = io::pipe().map_err(not_forked)?;
        let (stderr, stderr_end) = io::pipe().map_err(not_forked)?;
        // It fits into the socket's buffer, so this does not wait for the process.
        control
            .write_all(&self.first_frames(settings, purpose))
            .map_err(not_forked)?;
        let mut passed: Vec<BorrowedFd<'_>> = lanes.theirs.iter().map(AsFd::as_fd).collect();
        passed.extend([theirs.as_fd(), self.script.as_fd()]);
        let standard = [self.null.as_fd(), stdout_end.as_fd(), stderr_end.as_fd()];
        let spawned = spawn(&self.program, standard, &passed)?;
        Ok(Launched {
            spawned,
            control,
            stdout: stdout.into(),
            stderr: stderr.into(),
        })
    }

    fn first_frames(&self, settings: &Settings, purpose: Purpose) -> Vec<u8> {
        let mut frames = Vec::new();
        let config = messages::config(settings, &self.interpreter, purpose == Purpose::Parent);
        encode_control(Kind::Config, 0, &config, &mut frames);
        encode_sample(&mut frames);
        frames
    }
}

/// The first descriptor after the standard ones.
const FIRST: usize = 3;

/// The variables of a process: those of this one, and those of the settings.
fn environment(settings: &Settings, interpreter: &Path) -> Result<Vec<CString>, StartFailure> {
    let is_set = |name: &str| settings.env.iter().any(|(known, _)| known == name);
    let is_kept = |name: &OsString| {
        let name = name.to_string_lossy();
        let is_of_user = settings.user.is_some() && USER_VARIABLES.contains(&&*name);
        !OWN_VARIABLES.contains(&&*name) && !is_of_user && !is_set(&name)
    };
    let own = std::env::vars_os().filter(|(name, _)| is_kept(name));
    let own = own.map(|(name, value)| [name.into_vec(), value.into_vec()]);
    let configured = settings.env.iter();
    let configured = configured.map(|(name, value)| [name, value].map(|text| text.clone().into()));
    let mut all: Vec<[Vec<u8>; 2]> = own.chain(configured).collect();
    // As `activate` of a virtual environment does it, for applications that start its programs.
    if let Some(venv) = &settings.venv
        && interpreter.starts_with(venv)
    {
        let bin = venv.join("bin").into_os_string().into_vec();
        let value = venv.clone().into_os_string().into_vec();
        all.retain(|[name, _]| name != b"VIRTUAL_ENV" && name != b"PYTHONHOME");
        all.push([b"VIRTUAL_ENV".to_vec(), value]);
        if let Some([_, path]) = all.iter_mut().find(|[name, _]| name == b"PATH") {
            *path = [&bin[..], b":", path].concat();
        }
    }
    let joined = all
        .iter()
        .map(|[name, value]| [name, &b"="[..], value].concat());
    joined.map(|text| c_string(&text)).collect()
}

fn c_string(bytes: &[u8]) -> Result<CString, StartFailure> {
    CString::new(bytes).map_err(|_| {
        let shown = String::from_utf8_lossy(bytes).into_owned();
        failure(
            "spawn",
            format!("a zero byte in `{}`", shown.escape_debug()),
        )
    })
}

fn limited((resource, value): &(Resource, u64)) -> (Limited, u64) {
    let limited = match resource {
        Resource::Processes => Limited::Processes,
        Resource::AddressSpace => Limited::AddressSpace,
        Resource::OpenFiles => Limited::OpenFiles,
        Resource::CpuSeconds => Limited::CpuSeconds,
        Resource::FileSize => Limited::FileSize,
        Resource::CoreFile => Limited::CoreFile,
        Resource::Stack => Limited::Stack,
        Resource::LockedMemory => Limited::LockedMemory,
        Resource::Data => Limited::Data,
    };
    (limited, *value)
}

fn shown(path: Option<&Path>) -> String {
    path.map(|path| path.display().to_string())
        .unwrap_or_default()
}

fn failure(stage: &str, message: String) -> StartFailure {
    StartFailure {
        stage: stage.to_owned(),
        message,
        traceback: None,
        place: None,
    }
}
