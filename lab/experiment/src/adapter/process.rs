//! Runs a program to its end, with limits on time and output.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::tools::Steps;
use crate::limits::{TOOL_OUTPUT_BYTES_MAX, TOOL_OVERTIME};
use sluice_load::result::Asked;

/// The output of a program.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// Standard output of the last run.
    pub output: String,
    /// Standard error of the last run.
    pub complaint: String,
}

/// A temporary folder, removed on drop.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates an empty folder in the system's temporary directory.
    pub fn new() -> Result<Self, String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!(
            "sluice-lab-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Folder(path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // An error leaves a temporary folder behind; there is nobody to report it to.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the program once per line of arguments.
pub fn carry_out(program: &Path, steps: &Steps, asked: &Asked) -> Result<Ran, String> {
    let limit = Duration::from_secs_f64(asked.duration_s + asked.warmup_s + asked.timeout_s)
        + TOOL_OVERTIME;
    carry_out_within(program, steps, limit)
}

/// Like `carry_out`, with this timeout for each run.
pub fn carry_out_within(program: &Path, steps: &Steps, limit: Duration) -> Result<Ran, String> {
    let mut ran = Ran::default();
    for (at, args) in steps.runs.iter().enumerate() {
        let input = steps.input.as_deref().filter(|_| at == 0);
        ran = once(program, args, input, limit)?;
    }
    Ok(ran)
}

fn once(
    program: &Path,
    args: &[String],
    input: Option<&str>,
    limit: Duration,
) -> Result<Ran, String> {
    let name = program.display();
    let mut child = Command::new(program)
        .args(args)
        .stdin(if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("`{name}` is not installed"),
            _ => format!("{name}: {error}"),
        })?;
    if let (Some(text), Some(mut pipe)) = (input, child.stdin.take()) {
        // A program that exits without reading gives its reason on standard error, reported below.
        let _ = pipe.write_all(text.as_bytes());
    }
    let output = reader(child.stdout.take());
    let complaint = reader(child.stderr.take());
    let ended = wait(&mut child, limit);
    let ran = Ran {
        output: output.join().unwrap_or_default(),
        complaint: complaint.join().unwrap_or_default(),
    };
    let last = ran
        .complaint
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("nothing")
        .to_string();
    match ended {
        Err(error) => Err(format!("{name}: {error}")),
        Ok(None) => Err(format!(
            "{name} did not exit within {} s and was stopped",
            limit.as_secs()
        )),
        Ok(Some(status)) if !status.success() => {
            Err(format!("{name} ended with {status} and printed: {last}"))
        }
        Ok(Some(_)) => Ok(ran),
    }
}

/// Waits for the program to exit; `None` if it had to be killed.
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<std::process::ExitStatus>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Reads a pipe to its end. Output beyond the limit is read and discarded, so that the program does not block.
fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let kept = (&mut pipe)
                .take(TOOL_OUTPUT_BYTES_MAX)
                .read_to_end(&mut bytes);
            if kept.is_ok() {
                let _ = std::io::copy(&mut pipe, &mut std::io::sink());
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The text of a file that the program wrote.
pub fn text_of(path: &Path) -> Result<String, String> {
    let with_path = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = std::fs::File::open(path).map_err(with_path)?;
    let mut text = String::new();
    file.take(TOOL_OUTPUT_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(with_path)?;
    Ok(text)
}

/// The first line of the program's version output.
pub fn version(program: &Path, args: &[&str]) -> Option<String> {
    if args.is_empty() {
        return None;
    }
    // wrk exits with 1 when it prints its version.
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .map(str::to_string)
}
