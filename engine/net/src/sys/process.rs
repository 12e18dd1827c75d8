//! The process itself: signals, environment variables, terminal. The command line decides what a signal means.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// A signal that the process handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP
    Hangup,
    /// SIGINT
    Interrupt,
    /// SIGQUIT
    Quit,
    /// SIGTERM
    Terminate,
    /// SIGUSR1
    User1,
    /// SIGUSR2
    User2,
    /// SIGWINCH
    Window,
}

impl Signal {
    const ALL: [Signal; 7] = [
        Signal::Hangup,
        Signal::Interrupt,
        Signal::Quit,
        Signal::Terminate,
        Signal::User1,
        Signal::User2,
        Signal::Window,
    ];

    /// The name as in `kill -l`, with `SIG`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Signal::Hangup => "SIGHUP",
            Signal::Interrupt => "SIGINT",
            Signal::Quit => "SIGQUIT",
            Signal::Terminate => "SIGTERM",
            Signal::User1 => "SIGUSR1",
            Signal::User2 => "SIGUSR2",
            Signal::Window => "SIGWINCH",
        }
    }

    /// The system's signal number.
    pub const fn number(self) -> i32 {
        match self {
            Signal::Hangup => libc::SIGHUP,
            Signal::Interrupt => libc::SIGINT,
            Signal::Quit => libc::SIGQUIT,
            Signal::Terminate => libc::SIGTERM,
            Signal::User1 => libc::SIGUSR1,
            Signal::User2 => libc::SIGUSR2,
            Signal::Window => libc::SIGWINCH,
        }
    }
}

/// Permits waiting for signals. They are blocked in all threads, so that none terminates the process and no code runs
/// in a signal handler.
#[derive(Debug)]
pub struct Signals(());

impl Signals {
    /// Blocks all [`Signal`]s in this thread and in those started from now on: call it before starting the first. The
    /// standard library clears the signal mask of child processes.
    pub fn hold() -> io::Result<Signals> {
        let set = set_of_all();
        // SAFETY: `set` is an initialized set; a null pointer means that the old mask is not wanted.
        let code = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
        if code == 0 {
            Ok(Signals(()))
        } else {
            Err(io::Error::from_raw_os_error(code))
        }
    }

    /// Waits for the next signal.
    pub fn wait(&self) -> Signal {
        let set = set_of_all();
        loop {
            let mut number = 0;
            // SAFETY: `set` is initialized and `number` is writable for the duration of the call.
            let code = unsafe { libc::sigwait(&set, &mut number) };
            let known = Signal::ALL
                .into_iter()
                .find(|signal| signal.number() == number);
            if let (0, Some(signal)) = (code, known) {
                return signal;
            }
        }
    }
}

fn set_of_all() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initializes the set it is given before sigaddset reads it; the numbers are valid signals, so
    // neither call can fail.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in Signal::ALL {
            libc::sigaddset(set.as_mut_ptr(), signal.number());
        }
        set.assume_init()
    }
}

/// Turns exceeding the file size limit (`RLIMIT_FSIZE`) into a write error; by default the signal would kill the
/// process, whichever of its files it is.
pub fn report_size_limit() {
    // SAFETY: the call takes integers only, and ignoring a signal runs no code of ours.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Sends a signal to another process.
pub fn send(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // 0 and negative numbers would address process groups.
    if pid < 1 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: kill takes integers only.
    result(unsafe { libc::kill(pid, signal.number()) })
}

/// Sets environment variables of this process. Fails once there is a second thread, because it might be reading the
/// environment, which the C library does not synchronize.
pub fn set_variables(variables: &[(String, String)]) -> io::Result<()> {
    be_alone()?;
    for (name, value) in variables {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(io::Error::other(
                "a name or value contains bytes that an environment variable cannot hold",
            ));
        }
        // SAFETY: this is the only thread, so nothing else reads or writes the environment.
        unsafe { std::env::set_var(name, value) };
    }
    Ok(())
}

/// Removes a variable from the environment of this process and returns it. Fails once there is a second thread, as
/// above.
pub fn take_variable(name: &str) -> io::Result<Option<String>> {
    be_alone()?;
    let value = std::env::var(name).ok();
    // SAFETY: this is the only thread, so nothing else reads or writes the environment.
    unsafe { std::env::remove_var(name) };
    Ok(value)
}

/// Starts a program that inherits these files under the same descriptor numbers; they are closed in this process.
pub fn start_with(mut command: Command, files: Vec<OwnedFd>) -> io::Result<Child> {
    let numbers: Vec<i32> = files.iter().map(AsRawFd::as_raw_fd).collect();
    let keep_open = move || {
        for number in &numbers {
            // SAFETY: the call takes integers only, and is async-signal-safe.
            if unsafe { libc::fcntl(*number, libc::F_SETFD, 0) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the function calls only fcntl, and takes no locks and allocates no memory if that succeeds.
    unsafe { command.pre_exec(keep_open) };
    let child = command.spawn();
    drop(files);
    child
}

/// Kills a child process that leads a process group, with the whole group, and takes its status.
pub fn kill_group(child: &mut Child) {
    if let Ok(pid) = libc::pid_t::try_from(child.id()) {
        // SAFETY: kill takes integers only. The status of the child was not taken, so its number, which is that of the group,
        // belongs to nobody else.
        unsafe { libc::kill(-pid, libc::SIGKILL) };
    }
    let _ = child.wait();
}

/// Waits until a child process has ended, and leaves it to the caller to ask for its status: until then its number belongs
/// to no other process.
pub fn await_end(child: u32) -> io::Result<()> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOWAIT;
    loop {
        // SAFETY: `info` is writable for the duration of the call; the other arguments are integers.
        if unsafe { libc::waitid(libc::P_PID, child, info.as_mut_ptr(), options) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Fails if this process has more than one thread.
fn be_alone() -> io::Result<()> {
    match std::fs::read_dir("/proc/self/task")?.count() {
        1 => Ok(()),
        _ => Err(io::Error::other("threads are already running")),
    }
}

/// The process that [`split`] returns in.
#[derive(Debug)]
pub enum Half {
    /// The original process.
    Before(Watch),
    /// The new process, in its own session, so that closing the terminal does not affect it.
    Behind(Ready),
}

/// The new process, from the point of view of the original one.
#[derive(Debug)]
pub struct Watch {
    child: libc::pid_t,
    reports: io::PipeReader,
}

/// Reports to the original process that this one is ready.
#[derive(Debug)]
pub struct Ready(io::PipeWriter);

/// Forks; the new process goes to the background. Fails once there is a second thread, since the new process would have
/// its memory and locks without the thread.
pub fn split() -> io::Result<Half> {
    be_alone()?;
    let (reports, report) = io::pipe()?;
    // SAFETY: this is the only thread, so the new process has no half-finished state in memory.
    match unsafe { libc::fork() } {
        0 => {
            drop(reports);
            leave_terminal()?;
            Ok(Half::Behind(Ready(report)))
        }
        child if child > 0 => Ok(Half::Before(Watch { child, reports })),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Watch {
    /// Waits until the new process is ready or has exited; in the latter case, returns its exit code.
    pub fn wait(mut self) -> io::Result<Result<(), i32>> {
        if io::Read::read(&mut self.reports, &mut [0])? > 0 {
            return Ok(Ok(()));
        }
        let mut status = 0;
        loop {
            // SAFETY: the PID is that of a child that nothing else waits for, and `status` is writable.
            if unsafe { libc::waitpid(self.child, &mut status, 0) } >= 0 {
                break;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(Err(match libc::WIFEXITED(status) {
            true => libc::WEXITSTATUS(status),
            false => 1,
        }))
    }
}

impl Ready {
    /// Reports readiness. The original process may be gone, which changes nothing here.
    pub fn report(mut self) {
        let _ = io::Write::write_all(&mut self.0, &[1]);
    }
}

/// A standard stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
    /// Standard input.
    Input,
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// Redirects a standard stream of this process to `file`.
pub fn redirect(stream: Standard, file: &std::fs::File) -> io::Result<()> {
    let number = match stream {
        Standard::Input => libc::STDIN_FILENO,
        Standard::Output => libc::STDOUT_FILENO,
        Standard::Error => libc::STDERR_FILENO,
    };
    // SAFETY: both are descriptor numbers; nothing owns that of the standard stream and could close it.
    match unsafe { libc::dup2(file.as_raw_fd(), number) } {
        done if done >= 0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Disables the echo of a terminal on standard input while `read` runs, if standard input is a terminal.
pub fn without_echo<T>(read: impl FnOnce() -> T) -> T {
    let mut settings = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: tcgetattr fills `settings` if it returns 0.
    if unsafe { libc::tcgetattr(libc::STDIN_FILENO, settings.as_mut_ptr()) } != 0 {
        return read();
    }
    // SAFETY: tcgetattr returned 0, so the settings are initialized.
    let before = unsafe { settings.assume_init() };
    let mut silent = before;
    silent.c_lflag &= !libc::ECHO;
    // SAFETY: both settings come from tcgetattr.
    unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSAFLUSH, &silent) };
    let value = read();
    // SAFETY: as above.
    unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSAFLUSH, &before) };
    value
}

/// Starts a new session, so that closing the terminal no longer affects this process.
pub fn leave_terminal() -> io::Result<()> {
    // SAFETY: setsid takes no arguments.
    if unsafe { libc::setsid() } < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Exits immediately, without running exit handlers.
pub fn exit_now(code: u8) -> ! {
    // SAFETY: _exit takes an integer and does not return.
    unsafe { libc::_exit(i32::from(code)) }
}

fn result(code: libc::c_int) -> io::Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Microseconds of the monotonic clock (`CLOCK_MONOTONIC`), which is the same for all processes of a machine.
pub fn monotonic_micros() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call only writes to the given value; the clock exists on every Linux, so it cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
    u64::try_from(micros).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_signal_is_waited_for() {
        // In a separate thread, so that the signal mask of the test's thread is unchanged.
        let waiting = std::thread::spawn(|| {
            let signals = Signals::hold().expect("signals can be held back");
            // SAFETY: raises a signal in this very thread, where it is blocked.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2) };
            signals.wait()
        });
        assert_eq!(waiting.join().expect("it ends"), Signal::User2);
    }

    #[test]
    fn the_end_of_a_child_is_seen_before_its_status_is_taken() {
        let mut child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        await_end(child.id()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(3));
        assert!(
            await_end(child.id()).is_err(),
            "the child was reaped before"
        );
    }

    #[test]
    fn variables_are_not_set_while_threads_run() {
        // The test harness runs each test in its own thread.
        assert!(set_variables(&[("SLUICE_TEST".into(), "1".into())]).is_err());
    }

    #[test]
    fn a_process_with_threads_is_not_split() {
        assert!(split().is_err());
    }

    #[test]
    fn only_single_processes_can_be_sent_signals() {
        assert!(send(0, Signal::User2).is_err());
        assert!(send(u32::MAX, Signal::User2).is_err());
    }
}
