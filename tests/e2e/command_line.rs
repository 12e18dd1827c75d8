//! Commands that run to their end: their output and exit codes.

use std::io::Write;
use std::process::Stdio;

use crate::harness::{Folder, Setup, finish, run_to_end, sluice, text};

#[test]
fn exit_codes_distinguish_bad_usage_from_a_refusal() {
    let folder = Folder::new();
    for (args, code) in [
        (&["--nonsense"][..], 2),
        (&["nonsense"], 2),
        (&["run", "--nonsense"], 2),
        (&[], 2),
        (&["help"], 0),
        (&["run", "--help"], 0),
        (&["--version"], 0),
        (&["version"], 0),
        (&["validate"], 1),
        (&["validate", "--config", "missing"], 1),
        (&["run", "--config", "missing"], 1),
        (&["explain", "nonsense"], 1),
    ] {
        let output = run_to_end(&folder, args);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{args:?}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn validate_reports_all_mistakes_at_once() {
    let folder = Folder::new();
    folder.write("Caddyfile", ":1 {\n\treverse_prxy a\n\trespnd b\n}\n");
    let output = run_to_end(&folder, &["validate"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    for words in [
        "error[unknown-directive]: unknown directive `reverse_prxy`",
        " --> Caddyfile:2:2",
        "help: did you mean `reverse_proxy`?",
        " --> Caddyfile:3:2",
    ] {
        assert!(said.contains(words), "{words}\n{said}");
    }
    let output = run_to_end(&folder, &["validate", "--message-format", "short"]);
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(
        said.starts_with("Caddyfile:2:2: error[unknown-directive]: "),
        "{said}"
    );
    let output = run_to_end(&folder, &["validate", "--message-format", "json"]);
    for line in text(&output.stderr).lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        assert_eq!(value["slug"], "unknown-directive");
    }
}

#[test]
fn unsupported_features_are_refused_by_name() {
    let folder = Folder::new();
    folder.write(
        "Caddyfile",
        "http://a.test {\n\tbind udp/127.0.0.1\n\trespond ok\n}\n",
    );
    assert_eq!(
        run_to_end(&folder, &["adapt"]).status.code(),
        Some(0),
        "it is known"
    );
    let output = run_to_end(&folder, &["validate"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("listening on network `udp`"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_valid_configuration_opens_no_port() {
    let setup = Setup::new(":{port} {\n\trespond ok\n}\n");
    let port = setup.fill("0.0.0.0:{port}");
    let _taken = std::net::TcpListener::bind(port).expect("it is free");
    let output = run_to_end(setup.folder(), &["validate", "--config", "Caddyfile"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).trim(), "Valid configuration");
}

#[test]
fn adapt_prints_json_that_is_a_configuration_again() {
    let folder = Folder::new();
    folder.write("Caddyfile", ":8080 {\n\trespond ok\n}\n");
    let output = run_to_end(&folder, &["adapt"]);
    assert_eq!(output.status.code(), Some(0));
    let expected = r#"{"apps":{"http":{"servers":{"srv0":{"listen":[":8080"],"routes":[{"handle":[{"body":"ok","handler":"static_response"}]}]}}}}}"#;
    assert_eq!(text(&output.stdout).trim(), expected);
    folder.write("again.json", &output.stdout);
    let again = run_to_end(&folder, &["adapt", "--config", "again.json", "--pretty"]);
    assert!(
        text(&again.stdout).starts_with("{\n\t\"apps\": {\n"),
        "{}",
        text(&again.stdout)
    );
}

#[test]
fn a_configuration_is_read_from_standard_input() {
    let folder = Folder::new();
    let mut child = sluice(&folder)
        .args(["adapt", "--config", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(b":81\nrespond piped\n").expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(text(&output.stdout).contains("\"body\":\"piped\""));
}

#[test]
fn fmt_prints_overwrites_and_compares() {
    let folder = Folder::new();
    let (ugly, neat) = (":80 {\nrespond   ok\n}\n", ":80 {\n\trespond ok\n}\n");
    folder.write("Caddyfile", ugly);
    let output = run_to_end(&folder, &["fmt"]);
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(1), neat)
    );
    let output = run_to_end(&folder, &["fmt", "--diff"]);
    assert_eq!(
        text(&output.stdout),
        "  :80 {\n- respond   ok\n+ \trespond ok\n  }\n"
    );
    assert_eq!(
        run_to_end(&folder, &["fmt", "--overwrite"]).status.code(),
        Some(0)
    );
    assert_eq!(folder.read("Caddyfile"), neat);
    assert_eq!(run_to_end(&folder, &["fmt"]).status.code(), Some(0));
}

#[test]
fn passwords_are_hashed() {
    let folder = Folder::new();
    let args = [
        "hash-password",
        "--plaintext",
        "hiccup",
        "--bcrypt-cost",
        "4",
    ];
    let output = run_to_end(&folder, &args);
    assert!(
        text(&output.stdout).starts_with("$2a$04$"),
        "{}",
        text(&output.stdout)
    );
    let args = [
        "hash-password",
        "-p",
        "x",
        "-a",
        "argon2id",
        "--argon2id-memory",
        "64",
    ];
    let output = run_to_end(&folder, &args);
    assert!(text(&output.stdout).starts_with("$argon2id$v=19$m=64,t=1,p=1$"));
}

#[test]
fn manual_pages_and_completions_are_written() {
    let folder = Folder::new();
    assert_eq!(
        run_to_end(&folder, &["manpage", "--directory", "man"])
            .status
            .code(),
        Some(0)
    );
    assert!(folder.read("man/sluice-run.8").contains("\\-\\-config"));
    assert!(folder.read("man/sluice.8").contains(".TH"));
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let output = run_to_end(&folder, &["completion", shell]);
        assert!(text(&output.stdout).contains("reverse-proxy"), "{shell}");
    }
}

#[test]
fn messages_are_explained() {
    let folder = Folder::new();
    let output = run_to_end(&folder, &["explain", "unknown-directive"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).starts_with("unknown-directive\n"));
    let output = run_to_end(&folder, &["explain", "unknown-directiv"]);
    assert!(text(&output.stderr).contains("did you mean `unknown-directive`?"));
}

#[test]
fn the_environment_is_shown() {
    let folder = Folder::new();
    folder.write("env", "GREETING=hello\n");
    let output = finish(sluice(&folder).args(["environ", "--envfile", "env"]));
    let said = text(&output.stdout);
    assert!(
        said.contains("\nGREETING=hello\n") && said.contains("runtime.Workers=2"),
        "{said}"
    );
    folder.write("env", "no equals sign\n");
    let output = run_to_end(&folder, &["environ", "--envfile", "env"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("env:1: "),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn quick_servers_serve() {
    let server = Setup::bare()
        .args(&[
            "respond",
            "--listen",
            "127.0.0.1:{port}",
            "--status",
            "201",
            "-H",
            "X-A: b",
            "body of {{.Port}}",
        ])
        .start();
    let response = server.ask("/");
    assert_eq!((response.status, response.field("X-A")), (201, Some("b")));
    assert_eq!(response.text(), format!("body of {}", server.port));
    drop(server);

    let setup = Setup::bare();
    setup.folder().write("public/a.txt", "file");
    let files = setup
        .args(&[
            "file-server",
            "--root",
            "public",
            "--listen",
            ":{port}",
            "--browse",
        ])
        .start();
    assert_eq!(files.ask("/a.txt").text(), "file");
    assert!(files.ask("/").text().contains("a.txt"));
    assert_eq!(files.ask("/missing").status, 404);

    let to = files.port.to_string();
    let proxy = Setup::bare()
        .args(&[
            "reverse-proxy",
            "--from",
            ":{port}",
            "--to",
            &format!("localhost:{to}"),
            "-d",
            "X-Via: us",
        ])
        .start();
    let response = proxy.ask("/a.txt");
    assert_eq!(
        (response.text().as_str(), response.field("X-Via")),
        ("file", Some("us"))
    );
}

#[test]
fn a_file_of_caddy_1_is_translated() {
    let folder = Folder::new();
    let old = "localhost:8080\ngzip\nlog / access.log \"{combined}\"\nproxy /api {$BACKEND} {\n\ttransparent\n}\n";
    folder.write("Caddyfile", old);
    let arguments = [
        "adapt",
        "--from",
        "caddy1",
        "--to",
        "caddyfile",
        "Caddyfile",
    ];
    let output = run_to_end(&folder, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let expected = "http://localhost:8080 {\n\t# log format `{combined}` has no equivalent: entries are JSON, or readable text \
        with `format console`.\n\tlog {\n\t\toutput file access.log\n\t}\n\tencode gzip\n\treverse_proxy /api* \
        {$BACKEND} {\n\t\theader_up X-Real-IP {remote_host}\n\t}\n\tfile_server\n}\n";
    assert_eq!(text(&output.stdout), expected);
    let said = text(&output.stderr);
    assert!(said.contains("warning[caddy1-differs]"), "{said}");
    // The output is a formatted Caddyfile of Caddy 2.
    folder.write("Caddyfile", text(&output.stdout));
    assert_eq!(run_to_end(&folder, &["fmt"]).status.code(), Some(0));
    let output = run_to_end(&folder, &["adapt", "--to", "caddyfile"]);
    assert_eq!(output.status.code(), Some(1), "it is no longer of Caddy 1");
    let said = text(&output.stderr);
    assert!(said.contains("--from caddy1"), "{said}");
}

#[test]
fn flags_of_caddy_1_are_refused_by_name() {
    let folder = Folder::new();
    for (args, help) in [
        (
            &["-conf=Caddyfile_proxy"][..],
            "`sluice run --config Caddyfile_proxy`",
        ),
        (&["-version"], "`sluice version`"),
        (&["-agree", "-conf", "a"], "agreeing to the CA's terms"),
    ] {
        let output = run_to_end(&folder, args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(help), "{said}");
    }
}

#[test]
fn passwords_of_caddy_1_are_hashed() {
    let server =
        Setup::new("http://:{port} {\n\tbasicauth /secret Bob hiccup\n\tstatus 404 /secret\n}\n")
            .start();
    let ask = |field: &str| {
        let request =
            format!("GET /secret HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{field}\r\n");
        crate::client::exchange(server.port, &request).status
    };
    assert_eq!(ask(""), 401);
    assert_eq!(ask("Authorization: Basic Qm9iOmhpY2N1cA==\r\n"), 404);
    assert_eq!(ask("Authorization: Basic Qm9iOmhpY2N1cB==\r\n"), 401);
}
