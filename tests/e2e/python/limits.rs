//! The limits of processes: their user, their resources, their memory. An application that exceeds one harms itself.

use super::load::Load;
use super::{kill, lives, pid, setup_with_copies, start};
use crate::harness::{Server, eventually};
use crate::support::abilities::skipped;

/// An interpreter that every user may execute: the one of the tests may be in a home folder.
const PYTHON: &str = "/usr/bin/python3";

/// Whether this test can run applications as other users; if not, it is reported as skipped.
#[track_caller]
fn can_change_user() -> bool {
    if !sluice_net::sys::identity::is_root() {
        skipped("only root may start processes as another user");
        return false;
    }
    if !std::path::Path::new(PYTHON).exists() {
        skipped(format_args!("there is no {PYTHON}"));
        return false;
    }
    true
}

/// A server with `greedy.py`, run by all users' Python with these options, and at `/other` another application.
fn start_as(options: &str) -> Server {
    let one = |name: &str, options: &str| {
        format!(
            "python {{\nmodule_wsgi greedy:app\nname {name}\nworkers 1\npython_path {PYTHON}\n\
             working_dir {{folder}}/app\nenv_var PYTHONDONTWRITEBYTECODE 1\n{options}\n}}"
        )
    };
    let site = format!(
        "handle_path /other/* {{\n{}\n}}\n{}",
        one("other", ""),
        one("greedy", options)
    );
    let setup = setup_with_copies(&["greedy.py"], &site);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(setup.folder().path(), mode).expect("the folder is ours");
    setup.start()
}

/// The third and fourth column of a file like /etc/passwd.
fn ids(path: &str, name: &str) -> (String, String) {
    let text = std::fs::read_to_string(path).expect("it is there");
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{name}:")));
    let mut columns = line.expect("the name is known").split(':').skip(2);
    let mut next = || columns.next().unwrap_or_default().to_owned();
    (next(), next())
}

#[test]
fn processes_run_as_their_user() {
    if !can_change_user() {
        return;
    }
    let (uid, gid) = ids("/etc/passwd", "nobody");
    let server = start_as("user nobody");
    let said = server.ask("/user").text();
    assert!(said.starts_with(&format!("{uid} {gid} [")), "{said}");
    assert!(!said.contains("[0") && !said.contains(" 0"), "{said}");
    assert!(server.ask("/other/user").text().starts_with("0 0 "));
    let (group, _) = ids("/etc/group", "daemon");
    let server = start_as("user nobody:daemon");
    let said = server.ask("/user").text();
    assert!(said.starts_with(&format!("{uid} {group} [")), "{said}");
}

/// It is stopped by its limit and replaced for hanging; the server and another application never notice.
#[test]
fn an_application_that_forks_without_end_is_stopped() {
    if !can_change_user() {
        return;
    }
    // Root has no such limit. The user is one that has no other processes.
    let server = start_as("user games\nrlimit nproc 40\nrequest_timeout 2s\nthreads 1");
    let load = Load::start(server.port, "/other/pid", 2);
    load.wait_for(20);
    let before = pid(&server);
    let file = server.folder.write("forked", "");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(&file, mode).expect("the file is ours");
    let response = super::get(server.port, &format!("/forks?{}", file.display()), "");
    assert_eq!(response.status, 504, "{}", response.text());
    load.wait_for(20);
    let text = server.folder.read("forked");
    let forked: Vec<u32> = text.lines().filter_map(|pid| pid.parse().ok()).collect();
    assert!(text.ends_with("refused\n"), "{text}");
    assert!(!forked.is_empty() && forked.len() < 40, "{}", forked.len());
    let gone = || !lives(before) && forked.iter().all(|pid| !lives(*pid));
    eventually("all of them end", gone, || server.stderr());
    assert_ne!(pid(&server), before);
    assert!(load.end() > 40);
}

#[test]
fn open_files_are_limited() {
    let Some(server) = start("module_wsgi greedy:app\nrlimit nofile 64") else {
        return;
    };
    let count: u32 = server.ask("/files").text().parse().expect("a number");
    assert!(count < 64, "{count}");
    assert_eq!(server.ask("/pid").status, 200);
}

#[test]
fn memory_is_limited() {
    let Some(server) = start("module_wsgi greedy:app\nrlimit as 1GiB") else {
        return;
    };
    assert_eq!(server.ask("/memory?2000000000").text(), "refused");
    assert_eq!(server.ask("/memory?1000000").text(), "allocated");
    let server = start("module_wsgi greedy:app").expect("there is Python");
    assert_eq!(server.ask("/memory?2000000000").text(), "allocated");
}

#[test]
fn each_resource_can_be_limited() {
    let limits = [
        ("nproc", "4000", "4000"),
        ("as", "3GiB", "3221225472"),
        ("nofile", "300", "300"),
        ("cpu", "1000", "1000"),
        ("fsize", "64MiB", "67108864"),
        ("core", "0", "0"),
        ("stack", "4MiB", "4194304"),
        ("memlock", "32KiB", "32768"),
        ("data", "2GiB", "2147483648"),
    ];
    let lines = limits.map(|(name, value, _)| format!("rlimit {name} {value}\n"));
    let Some(server) = start(&format!("module_wsgi greedy:app\n{}", lines.concat())) else {
        return;
    };
    let said = server.ask("/limits").text();
    for (name, _, value) in limits {
        let line = format!("{name}={value},{value}");
        assert!(said.lines().any(|found| found == line), "{line} in {said}");
    }
}

/// A process that has used up its CPU time is killed by the kernel, and replaced.
#[test]
fn cpu_time_is_limited() {
    let Some(server) = start("module_wsgi bad:app\nrlimit cpu 2") else {
        return;
    };
    let spins = super::post(server.port, "/spins", b"");
    assert_eq!(spins.status, 502, "{}", spins.text());
    server.wait_for_words("SIGKILL");
    assert_eq!(server.ask("/fine").text(), "fine");
}

#[test]
fn a_leaking_application_is_replaced_and_no_request_fails() {
    let options = "module_wsgi greedy:app\nmax_rss 100MiB";
    let Some(server) = start(options) else { return };
    let first = pid(&server);
    // It keeps 600 MB at most, so it does not take the memory of the machine if nothing stops it.
    let load = Load::start(server.port, "/leak?1000000", 2);
    let replaced = || pid(&server) != first;
    eventually("it is replaced", replaced, || server.stderr());
    load.wait_for(50);
    load.end();
    server.wait_for_words("max_rss");
    eventually("it ends", || !lives(first), || server.stderr());
}

/// The processes that run requests, as the admin endpoint shows them.
fn workers(server: &Server) -> Vec<u32> {
    let shown = super::applications(server);
    let all = shown[0]["processes"].as_array().expect("a list").iter();
    let ready = all.filter(|process| process["state"] == "ready");
    ready
        .filter_map(|process| process["pid"].as_u64())
        .map(|pid| pid as u32)
        .collect()
}

/// Neither the workers nor their descendants nor the parents, whichever of them was killed before.
#[test]
fn nothing_of_a_preloaded_application_outlives_the_server() {
    let Some(mut server) = start("module_wsgi greedy:app\nworkers 2\npreload") else {
        return;
    };
    let parent = || -> u32 {
        let text = server.ask("/loaded").text();
        let (by, _) = text.split_once(' ').expect("two PIDs");
        by.parse().expect("a PID")
    };
    let first = parent();
    let mut all = workers(&server);
    assert_eq!(all.len(), 2);
    // The processes that it has forked go on without it; another one takes its place when one is needed.
    kill(first);
    eventually("it ends", || !lives(first), || first.to_string());
    assert_eq!(parent(), first, "those that it has forked still serve");
    kill(all[0]);
    let replaced = || workers(&server).len() == 2 && !workers(&server).contains(&all[0]);
    eventually("another forks", replaced, || server.stderr());
    all.extend(workers(&server));
    // Requests go to the first process unless it is busy, which is the older one.
    kill(all[1]);
    let others = || parent() != first;
    eventually("those of another parent serve", others, || server.stderr());
    all.push(parent());
    eventually(
        "all are replaced",
        || workers(&server).len() == 2,
        || server.stderr(),
    );
    all.extend(workers(&server));
    let descendant = server.ask("/descendant").text();
    all.push(descendant.parse().expect("a PID"));
    // One that does not run cannot notice that the server is gone.
    for pid in workers(&server) {
        let stop = std::process::Command::new("kill")
            .args(["-STOP", &pid.to_string()])
            .status();
        assert!(stop.expect("kill is there").success());
    }
    server.kill();
    let left = || all.iter().copied().filter(|pid| lives(*pid));
    let gone = || left().next().is_none();
    eventually("all end", gone, || {
        format!("{:?}", left().collect::<Vec<_>>())
    });
}
