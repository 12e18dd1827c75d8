//! `sluice python` and `sluice python-server`.

use super::apps;
use crate::client::Client;
use crate::harness::{Server, Setup, run_to_end, text};
use crate::support::python::Python;

/// Starts a command in a folder with copies of these applications and a `.venv`.
fn start(python: &Python, names: &[&str], args: &[&str]) -> Server {
    let mut setup = folder(python, names);
    setup = setup.args(args);
    setup.start()
}

fn folder(python: &Python, names: &[&str]) -> Setup {
    let setup = Setup::bare();
    for name in names {
        let app = std::fs::read_to_string(apps().join(name)).expect("the application is there");
        setup.folder().write(name, app);
    }
    let venv = setup.folder().path().join(".venv");
    std::os::unix::fs::symlink(python.folder(), venv).expect("the folder is writable");
    setup
}

fn says_hello(server: &Server) {
    let response = Client::connect(server.port).get("/hello");
    assert_eq!(
        response.status,
        200,
        "{} {}",
        response.head,
        response.text()
    );
    assert!(response.text().contains("Hello, World!"));
}

#[test]
fn python_with_an_application() {
    let Some(python) = Python::find() else { return };
    for app in ["app_flask:app", "app_fastapi:app"] {
        let args = [
            "python",
            app,
            "--bind",
            "127.0.0.1:{port}",
            "--workers",
            "1",
        ];
        let server = start(&python, &["app_flask.py", "app_fastapi.py"], &args);
        says_hello(&server);
        let said = server.stdout() + &server.stderr();
        assert!(
            said.contains(&format!("http://127.0.0.1:{}", server.port)),
            "{said}"
        );
    }
}

#[test]
fn python_finds_the_project() {
    let Some(python) = Python::find() else { return };
    let args = ["python", "--port", "{port}"];
    for name in ["app_flask.py", "app_fastapi.py"] {
        let server = start(&python, &[name], &args);
        says_hello(&server);
        let module = name.trim_end_matches(".py");
        let said = server.stdout() + &server.stderr();
        assert!(said.contains(&format!("{module}:app")), "{said}");
    }
}

#[test]
fn python_listens_on_the_port_of_the_environment() {
    let Some(python) = Python::find() else { return };
    let setup = folder(&python, &["app_flask.py"]);
    let port = setup.fill("{port}");
    let server = setup
        .args(&["python", "app_flask:app"])
        .env("PORT", &port)
        .env("WEB_CONCURRENCY", "1")
        .start();
    says_hello(&server);
}

#[test]
fn python_without_an_application_lists_what_it_looked_for() {
    let Some(python) = Python::find() else { return };
    let setup = folder(&python, &[]);
    let output = run_to_end(setup.folder(), &["python"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("MODULE:APP"), "{said}");
}

#[test]
fn python_with_an_application_that_does_not_start_says_why_and_nothing_about_configurations() {
    let Some(python) = Python::find() else { return };
    let setup = folder(&python, &["app_flask.py"]);
    let args = ["python", "--port", "0", "app_flask:ap"];
    let output = run_to_end(setup.folder(), &args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("did you mean `app`?"), "{said}");
    assert!(!said.contains("sluice adapt"), "{said}");
}

#[test]
fn python_server_with_the_flags_of_caddy_snake() {
    let Some(python) = Python::find() else { return };
    let setup = folder(
        &python,
        &["app_flask.py", "app_fastapi.py", "app_esgi.py", "wsgi.py"],
    );
    setup.folder().write("public/a.txt", "static");
    setup.folder().write("settings.env", "FROM_FILE=file\n");
    let args = [
        "python-server",
        "--server-type",
        "wsgi",
        "--app",
        "wsgi:app",
        "--listen",
        "127.0.0.1:{port}",
        "--workers",
        "1",
        "--venv",
        ".venv",
        "--working-dir",
        ".",
        "--env-var",
        "FROM_FLAG=flag",
        "--env-file",
        "settings.env",
        "--static-path",
        "public",
        "--static-route",
        "/files/*",
        "--start-timeout",
        "60s",
        "--access-logs",
    ];
    let server = setup.args(&args).start();
    let mut client = Client::connect(server.port);
    assert_eq!(client.get("/variable?FROM_FLAG").text(), "flag");
    assert_eq!(client.get("/variable?FROM_FILE").text(), "file");
    assert_eq!(client.get("/files/a.txt").text(), "static");
    server.wait_for_words("/files/a.txt");
    for (kind, app) in [
        ("asgi", "app_fastapi:app"),
        ("esgi", "app_esgi:application"),
    ] {
        let args = [
            "python-server",
            "-t",
            kind,
            "-a",
            app,
            "-l",
            "127.0.0.1:{port}",
            "-w",
            "1",
        ];
        let names = ["app_fastapi.py", "app_esgi.py"];
        says_hello(&start(&python, &names, &args));
    }
}

#[test]
fn python_server_refuses_what_it_does_not_have() {
    let Some(python) = Python::find() else { return };
    let setup = folder(&python, &["app_flask.py"]);
    let run = |args: &[&str]| run_to_end(setup.folder(), args);
    let output = run(&[
        "python-server",
        "-t",
        "wsgi",
        "-a",
        "app_flask:app",
        "--isolation",
        "docker",
    ]);
    assert!(
        text(&output.stderr).contains("container"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(
        run(&["python-server", "--app", "x:y"]).status.code(),
        Some(2)
    );
    let output = run(&["python-server", "-t", "cgi", "-a", "x:y"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}
