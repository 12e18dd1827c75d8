//! The process itself: signals, its variables, its terminal. What a signal means is left to the command line.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// A signal that the process waits for.
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

    /// The name as `kill -l` spells it, with `SIG`.
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

    /// The number that the system knows it by.
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

/// The right to wait for signals. They are held back in all threads, so that none ends the process and nothing runs
/// in a handler.
#[derive(Debug)]
pub struct Signals(());

impl Signals {
    /// Holds back all [`Signal`]s in this thread and in those started from now on: call it before the first one.
    /// Programs that are started get a clear mask from the standard library.
    pub fn hold() -> io::Result<Signals> {
        let set = set_of_all();
        // SAFETY: `set` is an initialised set; a null pointer means that the old mask is not wanted.
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
            // SAFETY: `set` is initialised and `number` is writable for the duration of the call.
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
    // SAFETY: sigemptyset initialises the set it is given before sigaddset reads it; the numbers are valid signals,
    // so neither call can fail.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in Signal::ALL {
            libc::sigaddset(set.as_mut_ptr(), signal.number());
        }
        set.assume_init()
    }
}

/// Sends a signal to another process.
pub fn send(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // 0 and negative numbers would mean groups of processes.
    if pid < 1 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: kill takes numbers only.
    result(unsafe { libc::kill(pid, signal.number()) })
}

/// Sets environment variables of this process. Refused once there is a second thread, since others may be reading
/// the environment then, which the C library does not guard.
pub fn set_variables(variables: &[(String, String)]) -> io::Result<()> {
    be_alone()?;
    for (name, value) in variables {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(io::Error::other(
                "a name or value holds what no variable can hold",
            ));
        }
        // SAFETY: this is the only thread, so nobody else reads or writes the environment.
        unsafe { std::env::set_var(name, value) };
    }
    Ok(())
}

/// Takes a variable out of the environment of this process. Refused once there is a second thread, as above.
pub fn take_variable(name: &str) -> io::Result<Option<String>> {
    be_alone()?;
    let value = std::env::var(name).ok();
    // SAFETY: this is the only thread, so nobody else reads or writes the environment.
    unsafe { std::env::remove_var(name) };
    Ok(value)
}

/// Starts a program that finds these files open under their numbers here; they are closed here.
pub fn start_with(mut command: Command, files: Vec<OwnedFd>) -> io::Result<Child> {
    let numbers: Vec<i32> = files.iter().map(AsRawFd::as_raw_fd).collect();
    let keep_open = move || {
        for number in &numbers {
            // SAFETY: the call takes numbers only, and is safe between fork and exec.
            if unsafe { libc::fcntl(*number, libc::F_SETFD, 0) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the function calls nothing but fcntl, and neither takes locks nor memory where it succeeds.
    unsafe { command.pre_exec(keep_open) };
    let child = command.spawn();
    drop(files);
    child
}

/// An error if this process has more than one thread.
fn be_alone() -> io::Result<()> {
    match std::fs::read_dir("/proc/self/task")?.count() {
        1 => Ok(()),
        _ => Err(io::Error::other("threads are already running")),
    }
}

/// One of the two processes that [`split`] leaves.
#[derive(Debug)]
pub enum Half {
    /// The one that was there before.
    Before(Watch),
    /// The new one, in a session of its own: the end of a terminal does not matter to it.
    Behind(Ready),
}

/// The new process, as the one before sees it.
#[derive(Debug)]
pub struct Watch {
    child: libc::pid_t,
    told: io::PipeReader,
}

/// Tells the process before that this one does its work.
#[derive(Debug)]
pub struct Ready(io::PipeWriter);

/// Splits the process in two, of which the new one goes to the background. Refused once there is a second thread, since
/// the new process would have its memory and its locks without it.
pub fn split() -> io::Result<Half> {
    be_alone()?;
    let (told, tell) = io::pipe()?;
    // SAFETY: this is the only thread, so nothing in the memory of the new process is half done.
    match unsafe { libc::fork() } {
        0 => {
            drop(told);
            leave_terminal()?;
            Ok(Half::Behind(Ready(tell)))
        }
        child if child > 0 => Ok(Half::Before(Watch { child, told })),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Watch {
    /// Waits until the new process is ready or has ended; with which code it ended in that case.
    pub fn wait(mut self) -> io::Result<Result<(), i32>> {
        if io::Read::read(&mut self.told, &mut [0])? > 0 {
            return Ok(Ok(()));
        }
        let mut status = 0;
        loop {
            // SAFETY: the number is that of a child of ours that nobody else waits for, and `status` is writable.
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
    /// Tells it. Whoever waited may be gone, which changes nothing here.
    pub fn tell(mut self) {
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

/// Makes a standard stream of this process lead to `file`.
pub fn redirect(stream: Standard, file: &std::fs::File) -> io::Result<()> {
    let number = match stream {
        Standard::Input => libc::STDIN_FILENO,
        Standard::Output => libc::STDOUT_FILENO,
        Standard::Error => libc::STDERR_FILENO,
    };
    // SAFETY: both are numbers of descriptors; that of the stream belongs to nobody who could close it.
    match unsafe { libc::dup2(file.as_raw_fd(), number) } {
        done if done >= 0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Switches the echo of a terminal on standard input off while `read` runs, if standard input is a terminal.
pub fn without_echo<T>(read: impl FnOnce() -> T) -> T {
    let mut settings = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: tcgetattr fills `settings` if it returns 0.
    if unsafe { libc::tcgetattr(libc::STDIN_FILENO, settings.as_mut_ptr()) } != 0 {
        return read();
    }
    // SAFETY: tcgetattr returned 0, so the settings are initialised.
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

/// Starts a session of its own, so that the end of a terminal no longer matters to this process.
pub fn leave_terminal() -> io::Result<()> {
    // SAFETY: setsid takes nothing.
    if unsafe { libc::setsid() } < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Ends the process at once, without running what is registered for a regular exit.
pub fn exit_now(code: u8) -> ! {
    // SAFETY: _exit takes a number and does not return.
    unsafe { libc::_exit(i32::from(code)) }
}

fn result(code: libc::c_int) -> io::Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Microseconds of the clock that only runs forward (`CLOCK_MONOTONIC`), by which processes of one machine agree.
pub fn monotonic_micros() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call only writes to the value that it is given; the clock is there on every Linux, so it cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
    u64::try_from(micros).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_signal_is_waited_for() {
        // In a thread of its own, since the mask of the test's thread stays as it is.
        let waiting = std::thread::spawn(|| {
            let signals = Signals::hold().expect("signals can be held back");
            // SAFETY: raises a signal in this very thread, where it is held back.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2) };
            signals.wait()
        });
        assert_eq!(waiting.join().expect("it ends"), Signal::User2);
    }

    #[test]
    fn variables_are_not_set_while_threads_run() {
        // The test harness runs tests in threads of its own.
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
