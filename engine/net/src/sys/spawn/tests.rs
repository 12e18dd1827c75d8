use super::*;

use std::fs::File;

use crate::sys::identity::is_root;

fn shell(script: &str) -> Program {
    let text = |text: &str| CString::new(text).unwrap();
    Program {
        path: text("/bin/sh"),
        arguments: vec![text("sh"), text("-c"), text(script)],
        environment: vec![text("GREETING=hello"), text("PATH=/usr/bin:/bin")],
        directory: None,
        identity: None,
        limits: Vec::new(),
    }
}

/// Runs a program with one pipe as standard output and these descriptors; returns what it wrote, and how it ended.
fn run(program: &Program, passed: &[BorrowedFd<'_>]) -> Result<(String, Ended), NotStarted> {
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    let (mut output, write) = io::pipe().unwrap();
    let child = spawn(
        program,
        [null.as_fd(), write.as_fd(), write.as_fd()],
        passed,
    )?;
    drop(write);
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    let ended = loop {
        match child.try_wait().unwrap() {
            Some(ended) => break ended,
            None => wait_readable(child.descriptor()),
        }
    };
    assert!(child.try_wait().is_err(), "it was reaped");
    Ok((text, ended))
}

fn wait_readable(descriptor: &OwnedFd) {
    let mut poll = libc::pollfd {
        fd: descriptor.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: `poll` is one writable entry.
    assert_eq!(unsafe { libc::poll(&mut poll, 1, -1) }, 1);
}

#[test]
fn a_program_gets_its_environment_directory_and_group() {
    let program = Program {
        directory: Some(CString::new("/tmp").unwrap()),
        ..shell(
            "echo $GREETING; pwd; [ $(cut -d' ' -f5 /proc/$$/stat) = $$ ] && echo leads; exit 7",
        )
    };
    let (text, ended) = run(&program, &[]).unwrap();
    assert_eq!(text, "hello\n/tmp\nleads\n");
    assert_eq!(ended.status.code(), Some(7));
    assert!(ended.resident_bytes_max > 100_000);
}

#[test]
fn descriptors_have_their_numbers_and_no_others_are_open() {
    let pairs: Vec<(UnixStream, UnixStream)> =
        (0..5).map(|_| UnixStream::pair().unwrap()).collect();
    // As if it had been inherited from systemd.
    let stray = std::fs::File::open("/dev/zero").unwrap();
    // SAFETY: clears the flag of a descriptor of this test.
    unsafe { libc::fcntl(stray.as_raw_fd(), libc::F_SETFD, 0) };
    let passed: Vec<BorrowedFd<'_>> = pairs.iter().map(|(_, theirs)| theirs.as_fd()).collect();
    let script = "for n in 3 4 5 6 7; do echo $n >&$n; done; ls /proc/$$/fd";
    let (text, _) = run(&shell(script), &passed).unwrap();
    let open: Vec<&str> = text.split_whitespace().collect();
    // The last one is the leash.
    assert_eq!(&open[..9], ["0", "1", "2", "3", "4", "5", "6", "7", "8"]);
    // Debian's shell opens nothing else; others keep a descriptor of the script beyond 9.
    assert!(
        open[9..]
            .iter()
            .all(|number| number.parse::<u32>().unwrap() >= 10),
        "{text}"
    );
    for ((mut ours, theirs), number) in pairs.into_iter().zip(3..) {
        drop(theirs);
        let mut said = String::new();
        ours.read_to_string(&mut said).unwrap();
        assert_eq!(said, format!("{number}\n"));
    }
}

#[test]
fn a_failed_start_says_which_step_failed() {
    let missing = |path: &str| CString::new(path).unwrap();
    for (program, step, kind) in [
        (
            Program {
                path: missing("/no/such/program"),
                ..shell("")
            },
            Step::Execute,
            io::ErrorKind::NotFound,
        ),
        (
            Program {
                directory: Some(missing("/no/such/folder")),
                ..shell("")
            },
            Step::Directory,
            io::ErrorKind::NotFound,
        ),
        (
            Program {
                path: missing("/etc/passwd"),
                ..shell("")
            },
            Step::Execute,
            io::ErrorKind::PermissionDenied,
        ),
    ] {
        let failure = run(&program, &[]).map(|_| ()).unwrap_err();
        assert_eq!((failure.step, failure.error.kind()), (step, kind));
    }
}

#[test]
fn limits_hold() {
    let limits = vec![(Limited::OpenFiles, 33), (Limited::CoreFile, 0)];
    let program = Program {
        limits,
        ..shell("ulimit -n; ulimit -c")
    };
    assert_eq!(run(&program, &[]).unwrap().0, "33\n0\n");
}

#[test]
fn a_program_runs_as_another_user_with_its_groups_only() {
    if !is_root() {
        crate::sys::identity::abilities::skipped("only root may start programs as another user");
        return;
    }
    let identity = Some(Identity::of("nobody", "nogroup").unwrap());
    let program = Program {
        identity,
        ..shell("id -un; id -Gn; grep NoNewPrivs /proc/self/status")
    };
    let (text, _) = run(&program, &[]).unwrap();
    assert_eq!(text, "nobody\nnogroup\nNoNewPrivs:\t1\n");
}

#[test]
fn killing_a_group_kills_descendants() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    let standard = [null.as_fd(); 3];
    let script = "(echo x >&3; sleep 1000) & sleep 1000";
    let child = spawn(&shell(script), standard, &[theirs.as_fd()]).unwrap();
    drop(theirs);
    let mut byte = [0; 2];
    ours.read_exact(&mut byte).unwrap();
    assert!(!child.has_ended());
    assert!(child.try_wait().unwrap().is_none());
    child.kill_group();
    // End of file: nobody has the other end any more.
    assert_eq!(ours.read(&mut byte).unwrap(), 0);
    wait_readable(child.descriptor());
    let ended = child.try_wait().unwrap().unwrap();
    assert_eq!(ended.status.signal(), Some(libc::SIGKILL));
}

#[test]
fn descendants_of_a_process_that_has_ended_are_killed() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    let standard = [null.as_fd(); 3];
    let child = spawn(&shell("sleep 1000 & exit 3"), standard, &[theirs.as_fd()]).unwrap();
    drop(theirs);
    wait_readable(child.descriptor());
    assert_eq!(child.try_wait().unwrap().unwrap().status.code(), Some(3));
    assert_eq!(ours.read(&mut [0]).unwrap(), 0);
}

#[test]
fn children_die_with_the_thread_that_started_them() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let starting = std::thread::spawn(move || {
        let null = File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .unwrap();
        let standard = [null.as_fd(); 3];
        let child = spawn(&shell("exec sleep 1000"), standard, &[theirs.as_fd()]).unwrap();
        assert!(!child.has_ended());
        child
    });
    let child = starting.join().unwrap();
    assert_eq!(ours.read(&mut [0]).unwrap(), 0);
    wait_readable(child.descriptor());
    assert_eq!(
        child.try_wait().unwrap().unwrap().status.signal(),
        Some(libc::SIGKILL)
    );
}

#[test]
fn descendants_die_when_the_other_end_of_the_leash_is_closed() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    let standard = [null.as_fd(); 3];
    let script = "sleep 1000 & echo x >&3; sleep 1000";
    let child = spawn(&shell(script), standard, &[theirs.as_fd()]).unwrap();
    drop(theirs);
    let mut bytes = [0; 2];
    ours.read_exact(&mut bytes).unwrap();
    let copy = child.descriptor().try_clone().unwrap();
    let pid = child.pid;
    drop(child);
    wait_readable(&copy);
    assert_eq!(ours.read(&mut bytes).unwrap(), 0, "nobody is left");
    kill_and_reap(pid);
}

#[test]
fn signals_have_their_default_actions() {
    // The standard library ignores SIGPIPE in this process.
    let (text, _) = run(&shell("grep -E 'SigIgn|SigBlk' /proc/self/status"), &[]).unwrap();
    for line in text.lines() {
        let mask = line.split_whitespace().last().unwrap();
        // The C library keeps signals 32 and 33 to itself.
        let mask = u64::from_str_radix(mask, 16).unwrap() & !(0b11 << 31);
        assert_eq!(mask, 0, "{line}");
    }
}
