//! Groups over time: reloads, recycling, autoreload, the queue, further threads, and ends of all kinds.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use sluice_net::body::RequestBody;
use sluice_python::{GroupState, Interface, ProcessState, Refusal, Settings, Why};

use crate::support::*;

fn wsgi(folder: &Folder, change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = app_in(folder, Interface::Wsgi, WSGI);
    change(&mut settings);
    settings
}

fn pids(app: &sluice_python::Application) -> Vec<u32> {
    let processes = app.snapshot().processes.into_iter();
    let ready = processes.filter(|process| process.state == ProcessState::Ready);
    ready.map(|process| process.pid).collect()
}

#[test]
fn equal_settings_share_a_group_and_it_ends_with_its_last_handle() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let first = host.start(wsgi(&folder, |settings| settings.workers = 2));
    let before = pids(&first);
    assert_eq!(before.len(), 2);
    // As a reload does it: the new configuration asks before the old one is dropped.
    let second = host.start(wsgi(&folder, |settings| settings.workers = 2));
    drop(first);
    assert_eq!(pids(&second), before);
    let changed = host.start(wsgi(&folder, |settings| {
        settings.workers = 2;
        settings.env.push(("A".to_owned(), "1".to_owned()));
    }));
    assert_eq!(host.groups.snapshot().len(), 2);
    drop(second);
    on_worker(0, 1, async |worker| {
        eventually("end of the old group", || {
            (host.groups.snapshot().len() == 1).then_some(())
        })
        .await;
        assert!(before.iter().all(|pid| !is_alive(*pid)));
        assert_eq!(get(&changed, &worker, "/env?name=A").await, "1");
    });
    assert_eq!(host.log.count("Python worker ended unexpectedly"), 0);
    assert_eq!(host.log.count("did not end in time"), 0);
}

#[test]
fn a_call_in_progress_outlives_its_application() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(wsgi(&folder, |_| {}));
    let gate = path_of(folder.path(), "gate");
    on_worker(0, 1, async |worker| {
        let target = format!("/wait?file={gate}");
        let mut call = begin(&app, &worker, "GET", &target, RequestBody::None)
            .await
            .ok()
            .unwrap();
        drop(app);
        eventually("draining group", || {
            let all = host.groups.snapshot();
            (all.len() == 1 && all[0].state == GroupState::Draining).then_some(())
        })
        .await;
        std::fs::write(&gate, "").unwrap();
        assert_eq!(
            responded(&mut call).await.ok().unwrap().head.status.code(),
            200
        );
        drop(call);
        eventually("end of the group", || {
            host.groups.snapshot().is_empty().then_some(())
        })
        .await;
    });
}

#[test]
fn a_restart_replaces_all_processes_and_loses_no_request() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(wsgi(&folder, |settings| settings.workers = 2));
    let before = pids(&app);
    on_worker(0, 1, async |worker| {
        let is_over = std::rc::Rc::new(std::cell::Cell::new(false));
        let (load_app, load_worker, load_over) = (app.clone(), worker.clone(), is_over.clone());
        let load = beside(async move {
            let mut count = 0;
            while !load_over.get() {
                get(&load_app, &load_worker, "/").await;
                count += 1;
            }
            count
        });
        for round in 1..=3 {
            assert_eq!(host.groups.restart("test"), 1);
            eventually("reload", || (app.snapshot().reloads == round).then_some(())).await;
        }
        is_over.set(true);
        assert!(load.await.unwrap() > 0);
        assert!(pids(&app).iter().all(|pid| !before.contains(pid)));
        eventually("end of the old processes", || {
            before.iter().all(|pid| !is_alive(*pid)).then_some(())
        })
        .await;
    });
    assert_eq!(host.groups.restart("other"), 0);
    assert_eq!(host.log.count("Python worker ended unexpectedly"), 0);
    assert_eq!(host.log.count("did not end in time"), 0);
}

#[test]
fn autoreload_follows_changes_and_keeps_the_old_processes_after_a_mistake() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let text = |word: &str| {
        format!(
            "def app(environ, start_response):\n    start_response('200 OK', [])\n    return [b'{word}']\n"
        )
    };
    let mut settings = app_in(&folder, Interface::Wsgi, &text("one"));
    settings.autoreload = true;
    let app = host.start(settings);
    on_worker(0, 1, async |worker| {
        assert_eq!(get(&app, &worker, "/").await, "one");
        folder.write("app.py", "def broken(:\n");
        let message = "the new Python workers could not start; the old ones stay";
        host.log.seen(message).await;
        host.log.seen("SyntaxError").await;
        assert_eq!(get(&app, &worker, "/").await, "one");
        let snapshot = app.snapshot();
        assert_eq!((snapshot.state, snapshot.reloads), (GroupState::Ready, 0));
        assert!(snapshot.last_failure.is_some());
        folder.write("app.py", text("three"));
        eventually("reload", || (app.snapshot().reloads == 1).then_some(())).await;
        assert_eq!(get(&app, &worker, "/").await, "three");
    });
}

#[test]
fn a_process_is_recycled_after_its_requests_without_a_gap() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(wsgi(&folder, |settings| settings.max_requests = Some(10)));
    on_worker(0, 1, async |worker| {
        let first = pid(&app, &worker).await;
        let mut seen = vec![first];
        while seen.len() < 3 {
            let now = pid(&app, &worker).await;
            if !seen.contains(&now) {
                seen.push(now);
            }
        }
        assert!(app.snapshot().recycled >= 2);
        eventually("end of the first", || (!is_alive(first)).then_some(())).await;
    });
    assert_eq!(host.log.count("Python worker ended unexpectedly"), 0);
    assert_eq!(host.log.count("did not end in time"), 0);
}

#[test]
fn a_process_that_has_grown_is_recycled() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(wsgi(&folder, |settings| {
        settings.max_rss = Some(100_000_000)
    }));
    on_worker(0, 1, async |worker| {
        let first = pid(&app, &worker).await;
        get(&app, &worker, "/grow?bytes=150000000").await;
        eventually("recycling", || (app.snapshot().recycled > 0).then_some(())).await;
        host.log.seen("max_rss").await;
        eventually("replacement", || {
            pids(&app).into_iter().find(|pid| *pid != first)
        })
        .await;
    });
}

#[test]
fn further_threads_start_when_requests_are_slow_and_not_before() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(wsgi(&folder, |settings| settings.threads = 4));
    let gate = path_of(folder.path(), "gate");
    on_worker(0, 1, async |worker| {
        for _ in 0..100 {
            get(&app, &worker, "/").await;
        }
        assert_eq!(app.snapshot().processes[0].seats, 1);
        // Slow enough that none is sent ahead behind another.
        for _ in 0..20 {
            get(&app, &worker, "/sleep?s=0.005").await;
        }
        let calls: Vec<_> = (0..4)
            .map(|_| {
                let (app, worker) = (app.clone(), worker.clone());
                let target = format!("/wait?file={gate}");
                beside(async move { get(&app, &worker, &target).await })
            })
            .collect();
        // All four run at a time: each has a thread of its own.
        eventually("four threads", || {
            (app.snapshot().processes[0].seats == 4).then_some(())
        })
        .await;
        eventually("four requests", || {
            (app.snapshot().processes[0].in_flight == 4).then_some(())
        })
        .await;
        std::fs::write(&gate, "").unwrap();
        for call in calls {
            assert_eq!(call.await.unwrap(), "seen");
        }
    });
}

#[test]
fn requests_beyond_the_queue_are_refused_and_those_in_it_time_out() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(wsgi(&folder, |settings| {
        settings.threads = 1;
        settings.queue_size = 2;
        settings.queue_timeout = Duration::from_millis(300);
    }));
    let gate = path_of(folder.path(), "gate");
    on_worker(0, 1, async |worker| {
        let target = format!("/wait?file={gate}");
        let start = || {
            let (app, worker, target) = (app.clone(), worker.clone(), target.clone());
            beside(async move { fetch(&app, &worker, "GET", &target, RequestBody::None).await })
        };
        let running = start();
        eventually("running request", || {
            (app.snapshot().processes[0].in_flight == 1).then_some(())
        })
        .await;
        let waiting = [start(), start()];
        eventually("full queue", || (app.snapshot().queued == 2).then_some(())).await;
        match fetch(&app, &worker, "GET", "/", RequestBody::None).await {
            Err(Why::Refused(Refusal::QueueFull)) => {}
            other => panic!("{other:?}"),
        }
        for call in waiting {
            match call.await.unwrap() {
                Err(Why::Refused(Refusal::QueueTimeout)) => {}
                other => panic!("{other:?}"),
            }
        }
        let snapshot = app.snapshot();
        assert_eq!((snapshot.queue_full, snapshot.queue_timeouts), (1, 2));
        std::fs::write(&gate, "").unwrap();
        assert!(running.await.unwrap().is_ok());
    });
}

#[test]
fn a_client_that_leaves_the_queue_makes_room_at_once() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(wsgi(&folder, |settings| {
        settings.threads = 1;
        settings.queue_size = 1;
        settings.queue_timeout = WAIT_TIMEOUT;
    }));
    let (gate, mark) = (
        path_of(folder.path(), "gate"),
        path_of(folder.path(), "mark"),
    );
    on_worker(0, 1, async |worker| {
        let start = |target: String| {
            let (app, worker) = (app.clone(), worker.clone());
            beside(async move { fetch(&app, &worker, "GET", &target, RequestBody::None).await })
        };
        let running = start(format!("/wait?file={gate}"));
        eventually("running request", || {
            (app.snapshot().processes[0].in_flight == 1).then_some(())
        })
        .await;
        let leaving = start(format!("/touch?file={mark}"));
        eventually("queue", || (app.snapshot().queued == 1).then_some(())).await;
        leaving.abort();
        eventually("empty queue", || (app.snapshot().queued == 0).then_some(())).await;
        let waiting = start("/".to_owned());
        eventually("queue", || (app.snapshot().queued == 1).then_some(())).await;
        std::fs::write(&gate, "").unwrap();
        assert!(running.await.unwrap().is_ok());
        assert!(waiting.await.unwrap().is_ok());
        assert!(
            !std::fs::exists(&mark).unwrap(),
            "nobody ran what nobody waits for"
        );
    });
}

#[test]
fn waiting_requests_of_other_threads_get_their_turn() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(2), Folder::new());
    let app = host.start(wsgi(&folder, |settings| {
        settings.threads = 1;
        settings.queue_timeout = WAIT_TIMEOUT;
    }));
    let threads: Vec<_> = (0..2)
        .map(|index| {
            let app = app.clone();
            std::thread::spawn(move || {
                on_worker(index, 2, async |worker| {
                    let calls: Vec<_> = (0..20)
                        .map(|_| {
                            let (app, worker) = (app.clone(), worker.clone());
                            beside(async move { get(&app, &worker, "/sleep?s=0.002").await })
                        })
                        .collect();
                    for call in calls {
                        // Never more than one at a time.
                        assert_eq!(call.await.unwrap(), "1");
                    }
                });
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(app.snapshot().requests, 40);
}

#[test]
fn a_drained_application_is_shut_down_properly() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let mark = path_of(folder.path(), "shutdown");
    let mut settings = app_in(&folder, Interface::Asgi, ASGI);
    settings.lifespan = sluice_python::Lifespan::On;
    settings
        .env
        .push(("SHUTDOWN_FILE".to_owned(), mark.clone()));
    let app = host.start(settings);
    on_worker(0, 1, async |worker| {
        assert_eq!(get(&app, &worker, "/").await, "hello")
    });
    host.groups.shutdown(WAIT_TIMEOUT);
    assert!(std::fs::exists(&mark).unwrap());
    assert!(host.groups.snapshot().is_empty());
    on_worker(0, 1, async |worker| {
        match fetch(&app, &worker, "GET", "/", RequestBody::None).await {
            Err(Why::Refused(Refusal::Stopped)) => {}
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_process_with_a_request_that_never_ends_is_killed_at_the_end_of_the_grace() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let app = host.start(wsgi(&folder, |_| {}));
    on_worker(0, 1, async |worker| {
        let process = pid(&app, &worker).await;
        let call = begin(
            &app,
            &worker,
            "GET",
            "/wait?file=/no/such",
            RequestBody::None,
        )
        .await;
        let _call = call.ok().unwrap();
        eventually("running request", || {
            (app.snapshot().processes[0].in_flight == 1).then_some(())
        })
        .await;
        host.groups.shutdown(Duration::from_millis(100));
        assert!(!is_alive(process));
    });
}

#[test]
fn preloaded_processes_share_one_import_and_are_supervised_as_others() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let mark = path_of(folder.path(), "imports");
    let text = format!("open({mark:?}, 'a').write('x')\n{WSGI}");
    let mut settings = app_in(&folder, Interface::Wsgi, &text);
    settings.preload = true;
    settings.workers = 3;
    let app = host.start(settings);
    assert_eq!(std::fs::read_to_string(&mark).unwrap(), "x");
    let before = pids(&app);
    assert_eq!(before.len(), 3);
    on_worker(0, 1, async |worker| {
        assert!(before.contains(&pid(&app, &worker).await));
        match fetch(&app, &worker, "GET", "/exit?code=7", RequestBody::None).await {
            Err(Why::Died { started: true, .. }) => {}
            other => panic!("{other:?}"),
        }
        let ended = host.log.seen("Python worker ended unexpectedly").await;
        assert!(ended.text.contains("exited with code 7"), "{}", ended.text);
        eventually("replacement", || (pids(&app).len() == 3).then_some(())).await;
        // The parent has forked it: nothing was imported again.
        assert_eq!(std::fs::read_to_string(&mark).unwrap(), "x");
        host.groups.restart("test");
        eventually("reload", || (app.snapshot().reloads == 1).then_some(())).await;
        assert_eq!(std::fs::read_to_string(&mark).unwrap(), "xx");
        eventually("end of the old processes", || {
            before.iter().all(|pid| !is_alive(*pid)).then_some(())
        })
        .await;
        assert_eq!(host.log.count("did not end in time"), 0);
    });
}

#[test]
fn a_preloaded_application_that_cannot_be_imported_fails_once() {
    if !has_python() {
        return;
    }
    let (host, folder) = (Host::new(1), Folder::new());
    let mut settings = app_in(&folder, Interface::Wsgi, "import no_such_module_at_all\n");
    settings.preload = true;
    settings.workers = 3;
    let failure = host.groups.obtain(settings).wait_ready().unwrap_err();
    assert_eq!(failure.stage, "import");
    assert!(
        failure.message.contains("no_such_module_at_all"),
        "{failure:?}"
    );
}

/// Starts an application and prints the PIDs of its processes, then waits to be killed. Run by the test below as a
/// program of its own.
#[test]
fn helper_that_is_killed() {
    let Ok(folder) = std::env::var("SLUICE_TEST_HELPER") else {
        return;
    };
    let host = Host::new(1);
    let mut settings = Settings::new("test", Interface::Wsgi, "app:app");
    settings.working_dir = Some(folder.into());
    settings.workers = 2;
    let app = host.start(settings);
    on_worker(0, 1, async |worker| {
        let child = get(&app, &worker, "/child").await;
        let all: Vec<String> = pids(&app).iter().map(u32::to_string).collect();
        println!("PIDS {} {child}", all.join(" "));
        std::future::pending::<()>().await;
    });
}

#[test]
fn no_process_outlives_a_server_that_is_killed() {
    if !has_python() {
        return;
    }
    let folder = Folder::new();
    folder.write("app.py", WSGI);
    let mut helper = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "supervision::helper_that_is_killed",
            "--nocapture",
        ])
        .env("SLUICE_TEST_HELPER", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(helper.stdout.take().unwrap());
    let mut lines = output.lines().map(Result::unwrap);
    let line = lines.find_map(|line| line.split_once("PIDS ").map(|(_, pids)| pids.to_owned()));
    let all: Vec<u32> = line
        .unwrap()
        .split(' ')
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert_eq!(all.len(), 3, "two processes and a descendant");
    assert!(all.iter().all(|pid| is_alive(*pid)));
    helper.kill().unwrap();
    helper.wait().unwrap();
    on_worker(0, 1, async |_| {
        eventually("end of all processes", || {
            all.iter().all(|pid| !is_alive(*pid)).then_some(())
        })
        .await;
    });
}
