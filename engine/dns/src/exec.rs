//! DNS records set by a user-defined command, for providers without built-in support.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::limits::{EXEC_OUTPUT_BYTES_MAX, EXEC_PAUSE, EXEC_TIMEOUT};

/// Runs `command` with its own arguments and `args`; it must succeed within the time limit.
pub(crate) fn run(command: &[String], args: &[&str]) -> Result<(), String> {
    let Some((program, own)) = command.split_first() else {
        return Err("the command is missing".to_owned());
    };
    let mut child = Command::new(program)
        .args(own)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start `{program}`: {error}"))?;
    // Read concurrently: a command that writes much would block otherwise.
    let said = child.stderr.take().map(|stderr| {
        std::thread::spawn(move || {
            let mut said = Vec::new();
            let mut first = stderr.take(EXEC_OUTPUT_BYTES_MAX);
            let _ = first.read_to_end(&mut said);
            // Discard the rest, so that the command never blocks.
            let _ = std::io::copy(&mut first.into_inner(), &mut std::io::sink());
            String::from_utf8_lossy(&said).trim().to_owned()
        })
    });
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if begun.elapsed() > EXEC_TIMEOUT => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("`{program}` timed out"));
            }
            None => std::thread::sleep(EXEC_PAUSE),
        }
    };
    if status.success() {
        return Ok(());
    }
    let said = said
        .and_then(|thread| thread.join().ok())
        .unwrap_or_default();
    Err(format!("`{program}` ended with {status}: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_gets_its_arguments_and_its_failure_is_reported() {
        let command = |script: &str| ["/bin/sh", "-c", script, "x"].map(str::to_owned).to_vec();
        let wanted = "[ \"$1 $2 $3\" = 'present a.test text' ]";
        run(&command(wanted), &["present", "a.test", "text"]).unwrap();
        let error = run(&command("echo no rights >&2; exit 3"), &["cleanup"]).unwrap_err();
        assert!(error.contains("no rights"), "{error}");
        let loud = "head -c 300000 /dev/zero >&2; exit 0";
        run(&command(loud), &[]).unwrap();
        assert!(run(&["/nonexistent".to_owned()], &[]).is_err());
        assert!(run(&[], &[]).is_err());
    }
}
