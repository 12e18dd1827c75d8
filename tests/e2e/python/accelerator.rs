//! The wheel `sluice-worker` in a virtual environment, and the worker that uses it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{apps, caddyfile};
use crate::client::Client;
use crate::harness::{Server, Setup, text};
use crate::support::python::{Python, accelerator_wheel};

/// A virtual environment that has the wheel, and the packages of the tests' own environment.
fn environment(python: &Python, wheel: &Path, folder: &Path) -> PathBuf {
    let venv = folder.join("venv");
    let run = |arguments: &[&std::ffi::OsStr]| {
        let output = Command::new(python.program("python"))
            .args(arguments)
            .output();
        let output = output.expect("python runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let arguments = ["-m", "venv", "--without-pip"].map(AsRef::as_ref);
    run(&[&arguments[..], &[venv.as_os_str()]].concat());
    let packages = run(&[
        "-c",
        "import sysconfig; print(sysconfig.get_path('purelib'))",
    ]
    .map(AsRef::as_ref));
    let name = packages
        .trim()
        .rsplit_once("/lib/")
        .expect("an environment has lib/")
        .1;
    let own = venv.join("lib").join(name);
    std::fs::write(own.join("packages.pth"), packages).expect("the file is written");
    let (pip, target) = (venv.join("bin/python"), wheel.as_os_str());
    let arguments = ["-m", "pip", "--python"].map(AsRef::as_ref);
    let install = ["install", "--no-index", "--no-deps", "--quiet"].map(AsRef::as_ref);
    run(&[&arguments[..], &[pip.as_os_str()], &install[..], &[target]].concat());
    venv
}

#[test]
fn flask_and_fastapi_run_with_the_accelerator_of_the_wheel() {
    let Some(python) = Python::find() else { return };
    let Some(wheel) = accelerator_wheel() else {
        return;
    };
    let setup = Setup::new("");
    let venv = environment(&python, &wheel, setup.folder().path());
    let application = |path: &str, module: &str| {
        format!(
            "handle_path /{path}/* {{\npython {{\n{module}\nname {path}\nworkers 1\naccelerator on\n\
             venv {}\nworking_dir {}\nenv_var PYTHONDONTWRITEBYTECODE 1\n}}\n}}\n",
            venv.display(),
            apps().display()
        )
    };
    let site = application("flask", "module_wsgi app_flask:app")
        + &application("fastapi", "module_asgi app_fastapi:app");
    let server = Server::start(&caddyfile(&site));
    let mut client = Client::connect(server.port);
    for path in ["/flask/hello", "/fastapi/hello"] {
        for _ in 0..20 {
            let response = client.get(path);
            assert_eq!(response.status, 200, "{}", response.text());
            let body: serde_json::Value = serde_json::from_slice(&response.body).expect("JSON");
            assert_eq!(body, serde_json::json!({"message": "Hello, World!"}));
        }
        assert_eq!(client.get(&format!("{path}/nothing")).status, 404);
    }
    // Not for the accelerator: it leaves what has a body to the worker.
    client.send("POST /flask/hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody");
    assert_eq!(client.response().status, 405);
    let page = server.metrics();
    for app in ["flask", "fastapi"] {
        let start = format!("sluice_python_accelerated{{app=\"{app}\"");
        let sample = page.lines().find(|line| line.starts_with(&start));
        assert!(sample.is_some_and(|line| line.ends_with(" 1")), "{page}");
    }
    let request = format!(
        "GET /python/applications HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n\r\n",
        server.admin
    );
    let shown = crate::client::exchange(server.admin, request);
    let shown: serde_json::Value = serde_json::from_slice(&shown.body).expect("it is JSON");
    for application in shown.as_array().expect("a list of applications") {
        assert_eq!(application["processes"][0]["accelerated"], true, "{shown}");
    }
}
