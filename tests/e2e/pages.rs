//! The pages of `docs/start/` and `docs/recipes/` and the readme, executed as printed: files are written, commands run
//! in order, and their output is compared. A page ends where a command needs a program that is not installed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::harness::{Folder, eventually, finish, free_port, sluice, text};
use crate::support::abilities::skipped_part;

/// Commands other than `sluice` that are not checked for.
const SHELL: [&str; 3] = ["printf", "sleep", "cd"];

/// A fenced block: its language, the file it represents, and its text.
struct Block {
    kind: String,
    file: Option<String>,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let (kind, file) = info.split_once(' ').unwrap_or((info, ""));
        let inner = lines.by_ref().take_while(|line| *line != "```");
        let text = inner.fold(String::new(), |text, line| text + line + "\n");
        blocks.push(Block {
            kind: kind.to_owned(),
            file: (!file.is_empty()).then(|| file.to_owned()),
            text,
        });
    }
    blocks
}

/// One page being executed.
struct Run {
    folder: Folder,
    /// The printed ports, with their replacements here.
    ports: BTreeMap<String, u16>,
    background: Vec<Child>,
    is_started: bool,
    /// How many commands have run.
    commands: usize,
}

impl Run {
    fn new() -> Run {
        Run {
            folder: Folder::new(),
            ports: BTreeMap::from([("2019".to_owned(), free_port())]),
            background: Vec::new(),
            is_started: false,
            commands: 0,
        }
    }

    /// Replaces all ports in the text: four digits after a colon, or after `listen`.
    fn with_ports(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
            let (before, after) = rest.split_at(at);
            out.push_str(before);
            let end = after.find(|c: char| !c.is_ascii_digit());
            let (digits, after) = after.split_at(end.unwrap_or(after.len()));
            let is_port = digits.len() == 4
                && [":", "listen ", "port "]
                    .iter()
                    .any(|mark| out.ends_with(mark));
            match is_port {
                true => {
                    let port = self
                        .ports
                        .entry(digits.to_owned())
                        .or_insert_with(free_port);
                    let _ = write!(out, "{port}");
                }
                false => out.push_str(digits),
            }
            rest = after;
        }
        out + rest
    }

    fn command(&self, line: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_sluice"));
        let mut path = program
            .parent()
            .expect("it lies in a folder")
            .as_os_str()
            .to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let template = sluice(&self.folder);
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .current_dir(self.folder.path())
            .env_clear();
        for (name, value) in template.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        let admin = format!("localhost:{}", self.ports["2019"]);
        command
            .env("PATH", path)
            .env("SLUICE_ADMIN", admin)
            .stdin(Stdio::null());
        command
    }

    /// Runs a block of commands. `Err` names a program that is not installed.
    fn console(&mut self, page: &Path, block: &str) -> Result<(), String> {
        let block = self.with_ports(block);
        for example in format!("\n{block}").split("\n$ ").skip(1) {
            let (line, expected) = example.split_once('\n').unwrap_or((example, ""));
            let (line, expected) = self.continued(line, expected);
            let program = line.split_whitespace().next().unwrap_or_default();
            if program != "sluice" && !SHELL.contains(&program) && !self.has(program) {
                return Err(program.to_owned());
            }
            if let Some(line) = line.strip_suffix(" &") {
                self.spawn(line);
                continue;
            }
            self.is_started |= line.starts_with("sluice start");
            let (stdout, stderr) = self.output(&line);
            let both = format!("{stderr}{stdout}");
            let fits = [&stdout, &stderr, &both]
                .iter()
                .any(|said| is_like(said, &expected));
            assert!(
                fits,
                "{}: $ {line}\nprinted:\n{stdout}\n{stderr}\nthe page says:\n{expected}",
                page.display()
            );
        }
        Ok(())
    }

    /// A command line continued after a backslash.
    fn continued(&self, line: &str, expected: &str) -> (String, String) {
        let (mut line, mut expected) = (line.to_owned(), expected.to_owned());
        while let Some(begun) = line.strip_suffix('\\') {
            let (next, rest) = expected.split_once('\n').unwrap_or((expected.as_str(), ""));
            let whole = format!("{begun}{}", next.trim_start());
            expected = rest.to_owned();
            line = whole;
        }
        (line, expected)
    }

    fn has(&self, program: &str) -> bool {
        let mut command = self.command(&format!("command -v {program}"));
        finish(&mut command).status.success()
    }

    /// The output of a command. It is redirected to files, since a background server keeps its descriptors open; and to
    /// other files for each command, since that server goes on writing to them, whenever it has something to log.
    fn output(&mut self, line: &str) -> (String, String) {
        self.commands += 1;
        let out = format!(".stdout-{}", self.commands);
        let err = format!(".stderr-{}", self.commands);
        let create = |name: &str| {
            let file = File::create(self.folder.path().join(name));
            file.expect("the folder is writable")
        };
        let mut child = self
            .command(line)
            .stdout(create(&out))
            .stderr(create(&err))
            .spawn()
            .expect("the shell starts");
        child.wait().expect("it can be waited for");
        (self.folder.read(&out), self.folder.read(&err))
    }

    /// Starts a command in the background and waits until it listens, if its line names a port.
    fn spawn(&mut self, line: &str) {
        let mut command = self.command(&format!("exec {line}"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.background
            .push(command.spawn().expect("the shell starts"));
        let port = self
            .ports
            .values()
            .find(|port| line.contains(&port.to_string()));
        if let Some(port) = port.copied() {
            let is_up = || TcpStream::connect(("127.0.0.1", port)).is_ok();
            eventually(line, is_up, || "nothing listens".to_owned());
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.is_started {
            let _ = self.command("sluice stop").output();
        }
        for child in &mut self.background {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether the output matches the page. `…` matches anything within a line, and on a line of its own any number of
/// lines. Widths are not compared, as ports have other lengths here.
fn is_like(said: &str, expected: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().map(squeezed).filter(|line| !line.is_empty());
        lines.collect()
    };
    fit(&lines(said), &lines(expected))
}

fn squeezed(line: &str) -> String {
    let mut out = String::new();
    for c in line.trim().chars().map(|c| if c == '\t' { ' ' } else { c }) {
        let repeats = matches!(c, ' ' | '^' | '-') && out.ends_with(c);
        if !repeats && c != '\r' {
            out.push(c);
        }
    }
    out
}

fn fit(said: &[String], expected: &[String]) -> bool {
    match expected.split_first() {
        None => said.is_empty(),
        Some((line, rest)) if line == "…" => (0..=said.len()).any(|at| fit(&said[at..], rest)),
        Some((line, rest)) => said
            .split_first()
            .is_some_and(|(first, others)| line_fits(first, line) && fit(others, rest)),
    }
}

fn line_fits(said: &str, expected: &str) -> bool {
    let mut parts = expected.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = said.strip_prefix(first) else {
        return false;
    };
    let mut is_open = false;
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
        is_open = part.is_empty();
    }
    is_open || rest.is_empty()
}

/// Executes a page, up to a command whose program is not installed, and returns the number of its commands and files.
fn execute(path: &Path) -> usize {
    let page = fs::read_to_string(path).expect("pages are UTF-8");
    let mut run = Run::new();
    let mut count = 0;
    let mut is_missing = false;
    for block in blocks(&page) {
        if is_missing {
            let runs = ["console", "caddyfile", "nginx"].contains(&&*block.kind);
            count += usize::from(block.file.is_some() || runs);
        } else if let Some(file) = block.file {
            let text = run.with_ports(&block.text);
            run.folder.write(&file, text);
            count += 1;
        } else if block.kind == "console" {
            count += 1;
            if let Err(program) = run.console(path, &block.text) {
                let name = path.file_name().unwrap_or_default().display();
                skipped_part(format_args!("{name} needs {program}: the rest is not run"));
                is_missing = true;
            }
        } else if block.kind == "caddyfile" || block.kind == "nginx" {
            let alone = Folder::new();
            alone.write("it", &block.text);
            let args = ["validate", "--config", "it", "--adapter", &block.kind];
            // Environment variables that a page leaves to the reader.
            let named = block.text.split("{env.").skip(1);
            let named = named
                .filter_map(|rest| rest.split_once('}'))
                .map(|(name, _)| (name, "x"));
            let output = finish(sluice(&alone).args(args).envs(named));
            assert!(
                output.status.success() && !text(&output.stderr).contains("warning"),
                "{}: {}",
                path.display(),
                text(&output.stderr)
            );
            count += 1;
        }
    }
    count
}

fn execute_all(folder: &str, least: usize) {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let entries = fs::read_dir(repository.join(folder)).expect("the folder is there");
    let mut pages: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    pages.sort();
    let wanted = std::env::var("PAGE").unwrap_or_default();
    pages.retain(|page| page.to_string_lossy().contains(&wanted));
    let count: usize = pages.iter().map(|page| execute(page)).sum();
    assert!(
        !wanted.is_empty() || count >= least,
        "only {count} blocks were executed"
    );
}

#[test]
fn the_start_pages_do_what_they_print() {
    execute_all("start", 20);
}

#[test]
fn the_recipes_do_what_they_print() {
    execute_all("recipes", 30);
}

#[test]
fn the_readme_does_what_it_prints() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    assert!(execute(&page) >= 5);
}

#[test]
fn differences_from_a_page_are_noticed() {
    assert!(is_like("a b\nc\nd\n", "a   b\n…\nd\n"));
    assert!(is_like("pid=12 on\n", "pid=… on\n"));
    assert!(!is_like("pid=12 off\n", "pid=… on\n"));
    assert!(!is_like("a\nb\n", "a\n"));
    assert!(!is_like("", "a\n"));
    let mut run = Run::new();
    let text = run.with_ports("http://localhost:8080/1234 8080 :8080\n");
    let port = run.ports["8080"];
    assert_eq!(text, format!("http://localhost:{port}/1234 8080 :{port}\n"));
}
