//! Processes that crash, hang, misbehave or are killed: what their calls see, what is logged, and that others go on.

use std::time::Duration;

use sluice_net::body::RequestBody;
use sluice_python::{GroupState, Interface, Level, ProcessState, Resource, Settings, Why};

use crate::support::*;

fn wsgi(folder: &Folder, change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = app_in(folder, Interface::Wsgi, WSGI);
    change(&mut settings);
    settings
}

fn kill(pid: u32) {
    let killed = std::process::Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status();
    assert!(killed.expect("`kill` can be started").success());
}

#[test]
fn a_process_that_is_killed_while_idle_is_replaced() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(wsgi(&folder, |_| {}));
    on_worker(0, 1, async |worker| {
        let first = pid(&app, &worker).await;
        kill(first);
        let ended = host.log.seen("Python worker ended unexpectedly").await;
        assert_eq!((ended.level, ended.pid), (Level::Error, Some(first)));
        assert!(ended.text.contains("killed by SIGKILL"), "{}", ended.text);
        assert_ne!(pid(&app, &worker).await, first);
        assert_eq!(app.snapshot().restarts, 1);
        assert_eq!(app.snapshot().requests, 2);
    });
}

#[test]
fn calls_to_a_process_that_exits_learn_whether_they_had_begun() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(wsgi(&folder, |settings| settings.threads = 1));
    on_worker(0, 1, async |worker| {
        match fetch(&app, &worker, "GET", "/exit?code=7", RequestBody::None).await {
            Err(Why::Died { started: true, .. }) => {}
            other => panic!("{other:?}"),
        }
        let ended = host.log.seen("Python worker ended unexpectedly").await;
        assert!(ended.text.contains("exited with code 7"), "{}", ended.text);
        // The next one waits for the replacement.
        assert_eq!(get(&app, &worker, "/").await, "hello GET");
    });
}

#[test]
fn a_segmentation_fault_is_named() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(wsgi(&folder, |settings| {
        settings.rlimits = vec![(Resource::CoreFile, 0)];
    }));
    on_worker(0, 1, async |worker| {
        match fetch(&app, &worker, "GET", "/segfault", RequestBody::None).await {
            Err(Why::Died { started: true, .. }) => {}
            other => panic!("{other:?}"),
        }
        let ended = host.log.seen("SIGSEGV (segmentation fault)").await;
        assert_eq!(ended.message, "Python worker ended unexpectedly");
        assert_eq!(get(&app, &worker, "/").await, "hello GET");
    });
}

#[test]
fn an_import_error_fails_the_start_with_its_traceback() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let mut settings = app_in(&folder, Interface::Wsgi, "import no_such_module_at_all\n");
    settings.workers = 3;
    let app = host.groups.obtain(settings.clone());
    let failure = app.wait_ready().unwrap_err();
    assert_eq!(failure.stage, "import");
    assert!(
        failure.message.contains("no_such_module_at_all"),
        "{failure:?}"
    );
    let traceback = failure.traceback.unwrap();
    assert!(traceback.contains("app.py\", line 1"), "{traceback}");
    let (file, line) = failure.place.unwrap();
    assert!(file.ends_with("app.py"), "{file}");
    assert_eq!(line, 1);
    on_worker(0, 1, async |worker| {
        match fetch(&app, &worker, "GET", "/", RequestBody::None).await {
            Err(Why::Refused(sluice_python::Refusal::Failed)) => {}
            other => panic!("{other:?}"),
        }
        eventually("end of all processes", || {
            app.snapshot().processes.is_empty().then_some(())
        })
        .await;
    });
    assert_eq!(app.snapshot().state, GroupState::Failed);
    // The same settings start again, now that the mistake is mended.
    folder.write("app.py", WSGI);
    let again = host.groups.obtain(settings);
    again.wait_ready().unwrap();
}

#[test]
fn what_is_missing_is_one_clear_message() {
    let (host, folder) = (Host::new(1), Folder::new());
    let failed = |change: fn(&mut Settings)| {
        let app = host.groups.obtain(wsgi(&folder, change));
        app.wait_ready().unwrap_err()
    };
    let failure = failed(|settings| settings.python = Some("/no/such/python3".into()));
    assert_eq!(failure.stage, "interpreter");
    assert!(
        failure.message.contains("`/no/such/python3`"),
        "{failure:?}"
    );
    let failure = failed(|settings| settings.venv = Some("/no/such/venv".into()));
    assert!(
        failure.message.contains("`/no/such/venv` does not exist"),
        "{failure:?}"
    );
    if !has_python() {
        return;
    }
    let failure = failed(|settings| settings.working_dir = Some("/no/such/folder".into()));
    assert_eq!(failure.stage, "spawn");
    let said = "cannot enter the working directory `/no/such/folder`: No such file or directory";
    assert!(failure.message.starts_with(said), "{failure:?}");
    let failure = failed(|settings| settings.module = "app:missing".to_owned());
    assert!(failure.message.contains("missing"), "{failure:?}");
}

#[test]
fn a_start_that_takes_too_long_is_given_up() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let mut settings = app_in(&folder, Interface::Wsgi, "import time\ntime.sleep(1000)\n");
    settings.start_timeout = Some(Duration::from_millis(500));
    let failure = host.groups.obtain(settings).wait_ready().unwrap_err();
    assert_eq!(failure.stage, "timeout");
}

#[test]
fn a_process_that_exits_at_its_start_is_a_failure_with_its_output() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let text =
        "import os, sys\nprint('ERROR: no database', file=sys.stderr, flush=True)\nos._exit(9)\n";
    let failure = host
        .groups
        .obtain(app_in(&folder, Interface::Wsgi, text))
        .wait_ready()
        .unwrap_err();
    assert_eq!(failure.stage, "exit");
    assert!(
        failure.message.contains("exited with code 9"),
        "{failure:?}"
    );
    assert_eq!(host.log.wait_for("no database").level, Level::Error);
}

#[test]
fn a_request_that_takes_too_long_ends_and_its_thread_is_shown_and_replaced() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(wsgi(&folder, |settings| {
        settings.request_timeout = Some(Duration::from_millis(500));
        settings.threads = 2;
    }));
    let gate = path_of(folder.path(), "never");
    on_worker(0, 1, async |worker| {
        let first = pid(&app, &worker).await;
        let target = format!("/wait?file={gate}");
        match fetch(&app, &worker, "GET", &target, RequestBody::None).await {
            Err(Why::TimedOut) => {}
            other => panic!("{other:?}"),
        }
        host.log.seen("longer than request_timeout").await;
        let stacks = host.log.seen("in app").await;
        assert!(stacks.text.contains("app.py"), "{}", stacks.text);
        host.log.seen("the hanging worker is killed").await;
        let second = pid(&app, &worker).await;
        assert_ne!(first, second);
        eventually("end of the process", || (!is_alive(first)).then_some(())).await;
    });
}

#[test]
fn an_event_loop_that_hangs_is_replaced_and_one_that_cancels_is_not() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let mut settings = app_in(&folder, Interface::Asgi, ASGI);
    settings.request_timeout = Some(Duration::from_millis(500));
    let app = host.start(settings);
    let gate = path_of(folder.path(), "never");
    on_worker(0, 1, async |worker| {
        let first = pid(&app, &worker).await;
        // It ends when the client is gone.
        let target = format!("/disconnect?begun={gate}-begun&file={gate}");
        match fetch(&app, &worker, "GET", &target, RequestBody::None).await {
            Err(Why::TimedOut) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(pid(&app, &worker).await, first);
        match fetch(&app, &worker, "GET", "/block", RequestBody::None).await {
            Err(Why::TimedOut) => {}
            other => panic!("{other:?}"),
        }
        // The next request waits for the replacement rather than behind the one that hangs.
        assert_ne!(pid(&app, &worker).await, first);
        host.log.seen("the worker hangs and is replaced").await;
        eventually("end of the process", || (!is_alive(first)).then_some(())).await;
    });
}

#[test]
fn output_is_logged_with_its_level() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(wsgi(&folder, |_| {}));
    on_worker(0, 1, async |worker| {
        let process = pid(&app, &worker).await;
        get(&app, &worker, "/print").await;
        let output = host.log.seen("on standard output").await;
        assert_eq!((output.level, output.pid), (Level::Info, Some(process)));
        let error = host.log.seen("on standard error").await;
        assert_eq!(error.level, Level::Warn);
    });
}

#[test]
fn descendants_of_a_process_end_with_it() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(wsgi(&folder, |_| {}));
    on_worker(0, 1, async |worker| {
        let process = pid(&app, &worker).await;
        let child: u32 = get(&app, &worker, "/child").await.parse().unwrap();
        assert!(is_alive(child));
        kill(process);
        eventually("end of the descendant", || (!is_alive(child)).then_some(())).await;
    });
}

/// Forks without end, stopped by the limit of its user's processes. Only as root, so that the user can be one that has
/// no other processes.
#[test]
fn a_process_that_forks_without_end_is_stopped_by_its_limit() {
    if !has_python() || !is_root() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    open_to_all(&folder);
    let app = host.start(wsgi(&folder, |settings| {
        settings.user = Some(user());
        settings.python = system_python();
        settings.rlimits = vec![(Resource::Processes, 20)];
    }));
    on_worker(0, 1, async |worker| {
        let text = get(&app, &worker, "/fork").await;
        let count: u32 = text.split(' ').next().unwrap().parse().unwrap();
        assert!(
            count < 20 && text.contains("temporarily unavailable"),
            "{text}"
        );
    });
}

#[test]
fn a_process_runs_as_the_configured_user() {
    if !has_python() || !is_root() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    open_to_all(&folder);
    let app = host.start(wsgi(&folder, |settings| {
        settings.user = Some(user());
        settings.python = system_python();
    }));
    on_worker(0, 1, async |worker| {
        assert_eq!(get(&app, &worker, "/id").await, "65534 65534 [65534]");
        assert_eq!(get(&app, &worker, "/env?name=HOME").await, "missing");
    });
}

fn user() -> sluice_net::sys::identity::Identity {
    sluice_net::sys::identity::Identity::of("nobody", "nogroup").expect("Debian has both")
}

/// An interpreter that every user may execute; one in a home folder is not.
fn system_python() -> Option<std::path::PathBuf> {
    let path = std::path::PathBuf::from("/usr/bin/python3");
    path.exists().then_some(path)
}

fn open_to_all(folder: &Folder) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), mode).expect("the folder is ours");
}

#[test]
fn processes_that_are_killed_under_load_lose_no_repeatable_request() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(wsgi(&folder, |settings| {
        settings.workers = 2;
        settings.queue_timeout = WAIT_TIMEOUT;
    }));
    on_worker(0, 1, async |worker| {
        let is_over = std::rc::Rc::new(std::cell::Cell::new(false));
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let (app, worker, is_over) = (app.clone(), worker.clone(), is_over.clone());
                beside(async move {
                    let (mut served, mut repeated) = (0, 0);
                    while !is_over.get() {
                        match fetch(&app, &worker, "GET", "/pid", RequestBody::None).await {
                            Ok((200, _)) => served += 1,
                            Err(Why::Died { .. } | Why::Body(_)) => repeated += 1,
                            other => panic!("{other:?}"),
                        }
                    }
                    (served, repeated)
                })
            })
            .collect();
        let mut killed = Vec::new();
        for _ in 0..10 {
            let ready = |killed: &Vec<u32>| {
                let snapshot = app.snapshot();
                let mut processes = snapshot.processes.into_iter();
                processes.find(|p| p.state == ProcessState::Ready && !killed.contains(&p.pid))
            };
            let process = eventually("process to kill", || ready(&killed)).await;
            kill(process.pid);
            killed.push(process.pid);
        }
        eventually("restarts", || (app.snapshot().restarts >= 10).then_some(())).await;
        is_over.set(true);
        let mut all = 0;
        for client in clients {
            let (served, _repeated) = client.await.unwrap();
            all += served;
        }
        assert!(all > 0);
        assert_eq!(app.snapshot().state, GroupState::Ready);
    });
    assert_eq!(host.log.count("killed by SIGKILL"), 10);
}
