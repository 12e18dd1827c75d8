//! Starts programs in process groups of their own, as other users, with resource limits, and with descriptors under
//! given numbers. The standard library's `Command` cannot do the last: its own descriptors may be in the way.

use std::ffi::{CStr, CString};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use tokio::io::Interest;

use super::identity::Identity;
use super::readiness;

/// A program to start.
#[derive(Debug)]
pub struct Program {
    /// The path of the executable.
    pub path: CString,
    /// The arguments, beginning with the program's name.
    pub arguments: Vec<CString>,
    /// The environment: `NAME=value`.
    pub environment: Vec<CString>,
    /// The working directory; `None` for that of this process.
    pub directory: Option<CString>,
    /// The user; `None` for that of the calling thread. The program cannot gain privileges then.
    pub identity: Option<Identity>,
    /// Resource limits (soft and hard).
    pub limits: Vec<(Limited, u64)>,
}

/// A limited resource (setrlimit(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    /// Processes and threads of the user.
    Processes,
    /// Address space in bytes.
    AddressSpace,
    /// Open files.
    OpenFiles,
    /// CPU time in seconds.
    CpuSeconds,
    /// Size of a file in bytes.
    FileSize,
    /// Size of a core file in bytes.
    CoreFile,
    /// Stack in bytes.
    Stack,
    /// Locked memory in bytes.
    LockedMemory,
    /// Data segment in bytes.
    Data,
}

impl Limited {
    const fn resource(self) -> libc::__rlimit_resource_t {
        match self {
            Limited::Processes => libc::RLIMIT_NPROC,
            Limited::AddressSpace => libc::RLIMIT_AS,
            Limited::OpenFiles => libc::RLIMIT_NOFILE,
            Limited::CpuSeconds => libc::RLIMIT_CPU,
            Limited::FileSize => libc::RLIMIT_FSIZE,
            Limited::CoreFile => libc::RLIMIT_CORE,
            Limited::Stack => libc::RLIMIT_STACK,
            Limited::LockedMemory => libc::RLIMIT_MEMLOCK,
            Limited::Data => libc::RLIMIT_DATA,
        }
    }
}

/// A running child process. Dropping it kills the process and its group, and does not reap the process.
#[derive(Debug)]
pub struct Spawned {
    pid: libc::pid_t,
    pidfd: OwnedFd,
    /// Our end of the leash.
    _leash: OwnedFd,
}

/// How a process has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Its exit code, or the signal that killed it.
    pub status: ExitStatus,
    /// CPU time in user mode, in microseconds.
    pub user_micros: u64,
    /// CPU time in the kernel, in microseconds.
    pub system_micros: u64,
    /// The most resident memory that it had at a time, in bytes.
    pub resident_bytes_max: u64,
}

/// The step at which a start failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Making the process, or the descriptors for it.
    Fork,
    /// Entering its working directory.
    Directory,
    /// Setting a resource limit.
    Limit,
    /// Becoming its user.
    Identity,
    /// Placing its descriptors.
    Descriptors,
    /// Executing the program.
    Execute,
}

impl Step {
    const ALL: [Step; 6] = [
        Step::Fork,
        Step::Directory,
        Step::Limit,
        Step::Identity,
        Step::Descriptors,
        Step::Execute,
    ];

    /// What failed, as the beginning of a message.
    pub const fn as_str(self) -> &'static str {
        match self {
            Step::Fork => "cannot start a process",
            Step::Directory => "cannot enter the working directory",
            Step::Limit => "cannot set a resource limit",
            Step::Identity => "cannot become the configured user",
            Step::Descriptors => "cannot pass descriptors",
            Step::Execute => "cannot execute the program",
        }
    }
}

/// Why a program was not started.
#[derive(Debug)]
pub struct NotStarted {
    /// The step that failed.
    pub step: Step,
    /// The system's error.
    pub error: io::Error,
}

/// The number of the first descriptor that is passed.
const FIRST: RawFd = 3;

/// Starts `program`. The descriptors in `passed` are its descriptors from 3 on, in this order; `standard` are standard
/// input, output and error. It inherits no others.
///
/// The process leads a process group of its own, all signals have their default actions, and it is killed when the
/// *calling thread* ends (PR_SET_PDEATHSIG): start children from a thread that lives as long as they do. Its descendants
/// in the group are killed as well when this *process* ends, however it does: the descriptor after those in `passed` is a
/// socket that nothing is written to, and the kernel sends SIGKILL to the group when its other end is closed
/// (F_SETSIG, fcntl(2)).
///
/// # Errors
///
/// The step that failed, also those in the new process.
pub fn spawn(
    program: &Program,
    standard: [BorrowedFd<'_>; 3],
    passed: &[BorrowedFd<'_>],
) -> Result<Spawned, NotStarted> {
    let not_forked = |error| NotStarted {
        step: Step::Fork,
        error,
    };
    // Nothing that is placed may lie where another is placed later, so all are first moved beyond the last place.
    let (leash, leash_end) = UnixStream::pair().map_err(not_forked)?;
    let beyond = FIRST + 1 + RawFd::try_from(passed.len()).unwrap_or(RawFd::MAX / 2);
    let last = [leash_end.as_fd()];
    let all = standard.iter().chain(passed).chain(&last);
    let moved: Vec<OwnedFd> = all
        .map(|descriptor| duplicate(descriptor.as_raw_fd(), beyond))
        .collect::<io::Result<_>>()
        .map_err(not_forked)?;
    let (report, writer) = io::pipe().map_err(not_forked)?;
    let reporter = duplicate(writer.as_raw_fd(), beyond).map_err(not_forked)?;
    drop(writer);
    let child = Child::new(program, &moved, reporter.as_raw_fd());
    // SAFETY: the child calls only async-signal-safe functions and system calls, on memory prepared above, and ends in
    // exec or _exit.
    let pid = match unsafe { libc::fork() } {
        0 => child.run(),
        pid if pid > 0 => pid,
        _ => return Err(not_forked(io::Error::last_os_error())),
    };
    drop((reporter, moved));
    let pidfd = pidfd_open(pid);
    let failure = read_report(report);
    match (failure, pidfd) {
        (None, Ok(pidfd)) => Ok(Spawned {
            pid,
            pidfd,
            _leash: leash.into(),
        }),
        (failure, pidfd) => {
            kill_and_reap(pid);
            Err(failure.unwrap_or_else(|| {
                not_forked(pidfd.err().unwrap_or_else(|| io::ErrorKind::Other.into()))
            }))
        }
    }
}

/// What a new process needs, in memory that is not allocated after the fork.
struct Child<'a> {
    program: &'a Program,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    moved: Vec<RawFd>,
    reporter: RawFd,
    parent: libc::pid_t,
    /// The highest descriptor that is open.
    highest: RawFd,
}

impl<'a> Child<'a> {
    fn new(program: &'a Program, moved: &[OwnedFd], reporter: RawFd) -> Child<'a> {
        Child {
            program,
            arguments: pointers(&program.arguments),
            environment: pointers(&program.environment),
            moved: moved.iter().map(AsRawFd::as_raw_fd).collect(),
            reporter,
            // SAFETY: getpid has no arguments and cannot fail.
            parent: unsafe { libc::getpid() },
            highest: highest_descriptor(),
        }
    }

    /// Runs in the new process.
    fn run(&self) -> ! {
        let (step, code) = self.prepare();
        let mut message = [0; 5];
        message[0] = step as u8;
        message[1..].copy_from_slice(&code.to_le_bytes());
        // SAFETY: the pointer and length describe `message`; _exit does not return. Both are async-signal-safe.
        unsafe {
            libc::write(self.reporter, message.as_ptr().cast(), message.len());
            libc::_exit(127)
        }
    }

    /// Becomes the program; returns only if that fails, with the step and the error number.
    fn prepare(&self) -> (Step, i32) {
        reset_signals();
        // SAFETY: the calls take integers only. setpgid on itself cannot fail in a new child.
        unsafe { libc::setpgid(0, 0) };
        if let Some(directory) = &self.program.directory {
            // SAFETY: the path is a C string that lives through the call.
            if unsafe { libc::chdir(directory.as_ptr()) } != 0 {
                return (Step::Directory, errno());
            }
        }
        for (what, value) in &self.program.limits {
            if super::limits::limit(what.resource(), *value).is_err() {
                return (Step::Limit, errno());
            }
        }
        if let Some(identity) = &self.program.identity
            && let Err(code) = identity.assume_for_exec()
        {
            return (Step::Identity, code);
        }
        // After the change of the user, which clears the setting.
        // SAFETY: prctl takes integers here.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        // SAFETY: getppid has no arguments.
        if unsafe { libc::getppid() } != self.parent {
            // SAFETY: _exit does not return.
            unsafe { libc::_exit(127) };
        }
        if let Err(code) = self.place() {
            return (Step::Descriptors, code);
        }
        // SAFETY: the arrays end in null pointers, and their strings live in `program`.
        unsafe {
            libc::execve(
                self.program.path.as_ptr(),
                self.arguments.as_ptr(),
                self.environment.as_ptr(),
            )
        };
        (Step::Execute, errno())
    }

    /// Gives the descriptors their numbers, and lets exec close all others.
    fn place(&self) -> Result<(), i32> {
        for (target, source) in self.moved.iter().enumerate() {
            // SAFETY: dup2 takes integers. All sources are beyond all targets.
            if unsafe { libc::dup2(*source, target as RawFd) } < 0 {
                return Err(errno());
            }
        }
        self.attach_leash()?;
        let first = self.moved.len() as libc::c_uint;
        let flags = CLOSE_RANGE_CLOEXEC;
        // SAFETY: the call takes integers only.
        if unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, flags) } == 0 {
            return Ok(());
        }
        // Before Linux 5.11. Descriptors opened by other threads since `highest` was found have the flag already.
        for number in self.moved.len() as RawFd..=self.highest {
            // SAFETY: fcntl takes integers here; numbers that are not open give an error.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
        Ok(())
    }
}

impl Child<'_> {
    /// Lets the kernel kill the process group when the other end of the last descriptor is closed.
    fn attach_leash(&self) -> Result<(), i32> {
        let leash = self.moved.len() as RawFd - 1;
        // SAFETY: the calls take integers only. A negative owner is a process group, here that of this process.
        unsafe {
            if libc::fcntl(leash, libc::F_SETOWN, -libc::getpid()) != 0
                || libc::fcntl(leash, F_SETSIG, libc::SIGKILL) != 0
                || libc::fcntl(leash, libc::F_SETFL, libc::O_ASYNC) != 0
            {
                return Err(errno());
            }
        }
        Ok(())
    }
}

/// `F_SETSIG` of fcntl(2): the signal to send instead of SIGIO.
const F_SETSIG: libc::c_int = 10;

const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;

/// Unblocks all signals and gives those that this process ignores or handles their default actions.
fn reset_signals() {
    // SAFETY: the set is initialized by sigemptyset; the other arguments are integers or null.
    unsafe {
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        for number in 1..32 {
            // SIGKILL and SIGSTOP give an error.
            libc::signal(number, libc::SIG_DFL);
        }
    }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    let texts = texts.iter().map(|text| CStr::as_ptr(text));
    texts.chain([std::ptr::null()]).collect()
}

fn highest_descriptor() -> RawFd {
    let names = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let numbers = names.filter_map(|name| name.ok()?.file_name().to_str()?.parse().ok());
    numbers.max().unwrap_or(65_536)
}

fn duplicate(descriptor: RawFd, least: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl takes integers here.
    let copy = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, least) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just opened it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// What the new process reports before it becomes the program: nothing if all went well.
fn read_report(mut report: io::PipeReader) -> Option<NotStarted> {
    let mut message = [0; 5];
    report.read_exact(&mut message).ok()?;
    let [step, code @ ..] = message;
    Some(NotStarted {
        step: *Step::ALL.get(usize::from(step))?,
        error: io::Error::from_raw_os_error(i32::from_le_bytes(code)),
    })
}

fn pidfd_open(pid: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: the call takes integers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = RawFd::try_from(fd).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just opened it, with close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn kill_and_reap(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: the PID is that of a child that was not reaped, and `status` is writable.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, &mut status, 0);
    }
}

impl Spawned {
    /// Takes charge of a process that a child of ours has started and that leads a process group. It cannot be reaped
    /// here: [`Spawned::try_wait`] fails. `leash` is our end of the socket with which the process does what [`spawn`]
    /// does for others.
    ///
    /// # Errors
    ///
    /// There is no such process any more.
    pub fn adopt(pid: u32, leash: OwnedFd) -> io::Result<Spawned> {
        let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
        if pid < 2 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let pidfd = pidfd_open(pid)?;
        Ok(Spawned {
            pid,
            pidfd,
            _leash: leash,
        })
    }

    /// Its PID.
    pub fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// A descriptor that becomes readable when the process has ended.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.pidfd
    }

    /// Kills the process and everything in its process group. It must not have been reaped.
    pub fn kill_group(&self) {
        // SAFETY: kill takes integers only. The group is that of a process that was not reaped, so no other group can
        // have its number.
        unsafe { libc::kill(-self.pid, libc::SIGKILL) };
    }

    /// Sends the process a signal. It is safe after the process was reaped: nothing happens then.
    pub fn signal(&self, signal: super::process::Signal) {
        let (fd, number) = (self.pidfd.as_raw_fd(), signal.number());
        let info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the descriptor is open, and a null pointer stands for default information.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, number, info, 0) };
    }

    /// Waits until the process has ended, and reaps it as [`Spawned::try_wait`] does.
    ///
    /// # Errors
    ///
    /// Those of [`Spawned::try_wait`] and of registering the descriptor with the runtime.
    pub async fn wait(&self) -> io::Result<Ended> {
        let registered = readiness::register(self.pidfd.try_clone()?, Interest::READABLE)?;
        loop {
            let mut guard = registered.readable().await?;
            if let Some(ended) = self.try_wait()? {
                return Ok(ended);
            }
            guard.clear_ready();
        }
    }

    /// Whether the process has ended. It is not reaped by this.
    pub fn has_ended(&self) -> bool {
        let mut poll = libc::pollfd {
            fd: self.pidfd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: `poll` is one writable entry.
        unsafe { libc::poll(&mut poll, 1, 0) == 1 }
    }

    /// Reaps the process if it has ended. Before that, everything else in its process group is killed: afterwards, the
    /// number of the group may belong to others.
    ///
    /// # Errors
    ///
    /// It is not a child of this process, or was reaped.
    pub fn try_wait(&self) -> io::Result<Option<Ended>> {
        if !self.has_ended() {
            return Ok(None);
        }
        self.kill_group();
        let mut status = 0;
        // SAFETY: all fields are integers.
        let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
        // SAFETY: both pointers refer to writable memory of the right types.
        match unsafe { libc::wait4(self.pid, &mut status, libc::WNOHANG, &mut usage) } {
            0 => Ok(None),
            pid if pid > 0 => Ok(Some(Ended {
                status: ExitStatus::from_raw(status),
                user_micros: micros(usage.ru_utime),
                system_micros: micros(usage.ru_stime),
                resident_bytes_max: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
            })),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn micros(time: libc::timeval) -> u64 {
    u64::try_from(time.tv_sec * 1_000_000 + time.tv_usec).unwrap_or(0)
}

#[cfg(test)]
mod tests;
