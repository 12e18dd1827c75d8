//! `sluice start`: starts a server in the background.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;

use crate::Exit;
use crate::load::Adapter;
use crate::messages::{Failed, MessageFormat};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Configuration file, or the URL of a fleet's configuration (default: `./Caddyfile`).
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Name of this node in its fleet (default: the host name).
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Configuration format: caddyfile, caddy1, json or nginx (default: detected from name and content).
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        hide_possible_values = true
    )]
    adapter: Option<Adapter>,
    /// Load environment variables from FILE (repeatable).
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    envfile: Vec<PathBuf>,
    /// Reload the configuration when one of its files changes.
    #[arg(short, long)]
    watch: bool,
    /// Write the PID to FILE.
    #[arg(long, value_name = "FILE")]
    pidfile: Option<PathBuf>,
}

/// How often the new process is polled while it starts.
const PAUSE: Duration = Duration::from_millis(10);

/// How long a connecting process may take to prove that it is the one started here.
const PROOF_TIMEOUT: Duration = Duration::from_secs(1);

impl Args {
    /// Returns once the server is ready, or has failed and printed why.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(Failed::new)?;
        let address = listener.local_addr().map_err(Failed::new)?;
        let secret = secret().map_err(Failed::new)?;
        let mut child = self
            .command(format)?
            .args(["--pingback", &address.to_string()])
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|error| Failed::new(format!("cannot start the server: {error}")))?;
        let mut input = child.stdin.take().expect("standard input was piped above");
        input.write_all(&secret).map_err(Failed::new)?;
        drop(input);
        wait_for(&listener, &secret, &mut child)?;
        say!(
            "Successfully started sluice (pid={}) - sluice is running in the background",
            child.id()
        );
        Ok(Exit::Done)
    }

    fn command(&self, format: MessageFormat) -> Result<Command, Failed> {
        let program = std::env::current_exe().map_err(Failed::new)?;
        let mut command = Command::new(program);
        command.arg("run");
        if let Some(format) = format.to_possible_value() {
            command.args(["--message-format", format.get_name()]);
        }
        for (flag, path) in [("--config", &self.config), ("--pidfile", &self.pidfile)] {
            if let Some(path) = path {
                command.arg(flag).arg(path);
            }
        }
        if let Some(adapter) = self.adapter.and_then(|adapter| adapter.to_possible_value()) {
            command.args(["--adapter", adapter.get_name()]);
        }
        if let Some(node) = &self.node {
            command.args(["--node", node]);
        }
        for path in &self.envfile {
            command.arg("--envfile").arg(path);
        }
        if self.watch {
            command.arg("--watch");
        }
        Ok(command)
    }
}

/// Waits until the process proves that it is ready, or exits.
fn wait_for(listener: &TcpListener, secret: &[u8], child: &mut Child) -> Result<(), Failed> {
    listener.set_nonblocking(true).map_err(Failed::new)?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                if proves(stream, secret) {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(Failed::new(error)),
        }
        if let Some(status) = child.try_wait().map_err(Failed::new)? {
            return Err(Failed::new(format!("the server did not start ({status})")));
        }
        thread::sleep(PAUSE);
    }
}

fn proves(mut stream: TcpStream, secret: &[u8]) -> bool {
    let mut said = vec![0; secret.len()];
    stream.set_nonblocking(false).is_ok()
        && stream.set_read_timeout(Some(PROOF_TIMEOUT)).is_ok()
        && stream.read_exact(&mut said).is_ok()
        && said == secret
}

/// Bytes that no other process on the machine can guess.
fn secret() -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
