//! Privileges of the server: `user`, and resource limits.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::prefix::{Prefix, SITE};
use crate::client::ask;
use crate::harness::eventually;
use crate::support::abilities::skipped;

/// The values of a line in /proc/PID/task/TID/status, for threads whose names have this prefix.
fn of_threads(pid: u32, thread: &str, name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let statuses = tasks.flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("status")).ok()?;
        let of = |name: &str| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
            line.map(str::to_owned)
        };
        of("Name")?.starts_with(thread).then(|| of(name))?
    });
    statuses.collect()
}

fn is_root() -> bool {
    sluice_net::sys::identity::is_root()
}

fn conf(main: &str) -> String {
    SITE.replace(
        "pid logs/nginx.pid;",
        &format!("pid logs/nginx.pid;\n{main}"),
    )
}

#[test]
fn workers_are_another_user_and_a_reload_still_reads_what_is_roots() {
    if !is_root() {
        skipped("only root can serve as another user");
        return;
    }
    let prefix = Prefix::new();
    prefix.configure(&conf("user nobody nogroup; worker_processes 2;"), "one");
    let secret = prefix.folder.write("html/secret.txt", "secret");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&secret, mode).expect("it is ours");
    let (code, said) = prefix.said(&[]);
    assert_eq!(code, Some(0), "{said}");
    let pid = prefix.pid().expect("it runs");
    let users = || of_threads(pid, "worker-", "Uid");
    eventually(
        "two workers",
        || users().len() == 2,
        || format!("{:?}", users()),
    );
    for id in ["Uid", "Gid"] {
        let ids = of_threads(pid, "worker-", id);
        assert!(
            ids.iter().all(|ids| ids == "65534\t65534\t65534\t65534"),
            "{ids:?}"
        );
    }
    let capabilities = of_threads(pid, "worker-", "CapEff");
    assert!(
        capabilities.iter().all(|set| set == "0000000000000000"),
        "{capabilities:?}"
    );
    assert_eq!(ask(prefix.port, "/files/a.txt").status, 200);
    assert_eq!(ask(prefix.port, "/files/secret.txt").status, 403);
    let denied = "secret.txt\" failed (13: Permission denied), client: 127.0.0.1, server: ";
    eventually(
        "the error",
        || prefix.errors().contains(denied),
        || prefix.errors(),
    );
    // From now on only root can read the configuration and the log files.
    prefix.configure(&conf("user nobody nogroup; worker_processes 2;"), "two");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(prefix.conf(), mode).expect("it is ours");
    assert_eq!(prefix.said(&["-s", "reload"]).0, Some(0));
    eventually(
        "the reload",
        || ask(prefix.port, "/").text() == "two",
        || prefix.errors(),
    );
}

#[test]
fn a_user_that_is_not_there_is_refused() {
    let prefix = Prefix::new();
    prefix.configure(&conf("user no-such-user;"), "one");
    for words in [&["-t"][..], &[]] {
        let (code, said) = prefix.said(words);
        assert_eq!(code, Some(1));
        assert!(
            said.contains("nginx: [emerg] getpwnam(\"no-such-user\") failed\n"),
            "{said}"
        );
    }
}

#[test]
fn the_process_has_the_limits_that_are_asked_for() {
    let prefix = Prefix::new();
    let main = "worker_rlimit_nofile 1000; worker_rlimit_core 0; worker_priority 7; worker_cpu_affinity auto;\n\
                working_directory html; env SLUICE_TEST=seen;";
    prefix.configure(&conf(main), "one");
    let (code, said) = prefix.said(&[]);
    assert_eq!(code, Some(0), "{said}");
    let pid = prefix.pid().expect("it runs");
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
    let has = |name: &str, value: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name));
        let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
        assert_eq!(words[..2], [value, value], "{name}");
    };
    has("Max open files", "1000");
    has("Max core file size", "0");
    let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).expect("it runs");
    assert_eq!(folder, prefix.folder.path().join("html"));
    let processors = of_threads(pid, "worker-", "Cpus_allowed_list");
    assert!(
        processors.iter().all(|list| list.parse::<u32>().is_ok()),
        "{processors:?}"
    );
    let priorities: Vec<String> = std::fs::read_dir(format!("/proc/{pid}/task"))
        .expect("it runs")
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok())
        .filter(|stat| stat.contains("(worker-"))
        .filter_map(|stat| {
            stat.rsplit(')')
                .next()?
                .split_whitespace()
                .nth(16)
                .map(str::to_owned)
        })
        .collect();
    assert!(
        !priorities.is_empty() && priorities.iter().all(|nice| nice == "7"),
        "{priorities:?}"
    );
}

/// Paths influenced by clients are not opened as root.
#[test]
fn logs_that_requests_name_are_the_users() {
    if !is_root() {
        skipped("only root can serve as another user");
        return;
    }
    let prefix = Prefix::new();
    let conf = conf("user nobody nogroup;").replace("logs/access.log", "./$arg_n/b.log");
    prefix.configure(&conf.replace("listen", "root html;\nlisten"), "one");
    for (name, mode) in [("open", 0o777), ("closed", 0o700)] {
        prefix.folder.write(&format!("{name}/there"), "");
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(prefix.folder.path().join(name), mode).expect("it is ours");
    }
    let (code, said) = prefix.said(&[]);
    assert_eq!(code, Some(0), "{said}");
    for name in ["open", "closed"] {
        assert_eq!(ask(prefix.port, &format!("/?n={name}")).status, 200);
    }
    let path = |name: &str| prefix.folder.path().join(name);
    let errors = || prefix.errors();
    eventually("a log", || path("open/b.log").exists(), errors);
    let owner = std::fs::metadata(path("open/b.log"))
        .expect("it is there")
        .uid();
    assert_ne!(owner, 0, "root made it");
    let is_refused = || {
        errors().contains("/closed/b.log\" failed (13: Permission denied) while logging request")
    };
    eventually("a refusal", is_refused, errors);
    assert!(!path("closed/b.log").exists());
}
