//! `sluice hash-password`: hashes a password for `basic_auth`.

use std::io::{BufRead, IsTerminal, Read, Write};

use argon2::password_hash::{PasswordHasher, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use clap::ValueEnum;
use sluice_net::sys::process::without_echo;

use crate::Exit;
use crate::messages::Failed;

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Password to hash (default: read from stdin).
    #[arg(short, long)]
    plaintext: Option<String>,
    /// Hash algorithm.
    #[arg(short, long, value_enum, default_value_t = Hash::Bcrypt)]
    algorithm: Hash,
    /// Cost of bcrypt, 4 to 31.
    #[arg(long, default_value_t = 14, value_parser = clap::value_parser!(u32).range(4..=31))]
    bcrypt_cost: u32,
    /// Passes of Argon2id over its memory.
    #[arg(long, default_value_t = 1)]
    argon2id_time: u32,
    /// Memory of Argon2id in KiB.
    #[arg(long, default_value_t = 47_104)]
    argon2id_memory: u32,
    /// Threads of Argon2id.
    #[arg(long, default_value_t = 1)]
    argon2id_threads: u8,
    /// Length of the Argon2id hash in bytes.
    #[arg(long, default_value_t = 32)]
    argon2id_keylen: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Hash {
    Bcrypt,
    Argon2id,
}

impl Args {
    /// Prints the hash.
    pub fn run(self) -> Result<Exit, Failed> {
        let password = match &self.plaintext {
            Some(password) => password.clone(),
            None => read_password()?,
        };
        if password.is_empty() {
            return Err(Failed::new("the password is empty"));
        }
        let hash = match self.algorithm {
            Hash::Bcrypt => hash_bcrypt(&password, self.bcrypt_cost)?,
            Hash::Argon2id => self.hash_argon2id(&password)?,
        };
        say!("{hash}");
        Ok(Exit::Done)
    }

    fn hash_argon2id(&self, password: &str) -> Result<String, Failed> {
        let failed = |error: &dyn std::fmt::Display| Failed::new(format!("argon2id: {error}"));
        let length = usize::try_from(self.argon2id_keylen).ok();
        let threads = u32::from(self.argon2id_threads);
        let params = Params::new(self.argon2id_memory, self.argon2id_time, threads, length)
            .map_err(|error| failed(&error))?;
        let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let salt =
            SaltString::encode_b64(&random_bytes::<16>()?).map_err(|error| failed(&error))?;
        let hash = hasher.hash_password(password.as_bytes(), &salt);
        hash.map(|hash| hash.to_string())
            .map_err(|error| failed(&error))
    }
}

/// Cryptographically secure random bytes.
fn random_bytes<const N: usize>() -> Result<[u8; N], Failed> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| Failed::new(format!("cannot read /dev/urandom: {error}")))?;
    Ok(bytes)
}

/// The bcrypt hash of a password.
pub fn hash_bcrypt(password: &str, cost: u32) -> Result<String, Failed> {
    // bcrypt ignores everything after the 72nd byte, so long passwords with the same beginning would be equivalent.
    let parts = bcrypt::non_truncating_hash_with_result(password, cost).map_err(|error| {
        Failed::new(format!("bcrypt: {error}"))
            .help("use at most 71 bytes, or `--algorithm argon2id`")
    })?;
    Ok(parts.format_for_version(bcrypt::Version::TwoA))
}

/// Reads one line; from a terminal, twice and without echo.
fn read_password() -> Result<String, Failed> {
    if !std::io::stdin().is_terminal() {
        return read_line();
    }
    let ask = |prompt: &str| {
        eprint!("{prompt}");
        let line = without_echo(read_line);
        eprintln!();
        line
    };
    let first = ask("Enter password: ")?;
    let second = ask("Confirm password: ")?;
    if first == second {
        Ok(first)
    } else {
        Err(Failed::new("the passwords differ"))
    }
}

fn read_line() -> Result<String, Failed> {
    std::io::stderr().flush().map_err(Failed::new)?;
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| Failed::new(format!("cannot read the password: {error}")))?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bcrypt_hash_verifies_and_looks_like_caddys() {
        let hash = hash_bcrypt("hiccup", 4).expect("it is short enough");
        assert!(hash.starts_with("$2a$04$"), "{hash}");
        assert!(bcrypt::verify("hiccup", &hash).expect("a hash"));
        assert!(hash_bcrypt(&"x".repeat(80), 4).is_err());
    }

    #[test]
    fn an_argon2id_hash_has_the_parameters() {
        let args = Args {
            plaintext: None,
            algorithm: Hash::Argon2id,
            bcrypt_cost: 4,
            argon2id_time: 2,
            argon2id_memory: 64,
            argon2id_threads: 1,
            argon2id_keylen: 32,
        };
        let hash = args
            .hash_argon2id("hiccup")
            .expect("the parameters are valid");
        assert!(hash.starts_with("$argon2id$v=19$m=64,t=2,p=1$"), "{hash}");
    }
}
