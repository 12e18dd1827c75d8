//! The token that coordinator and agents share. It never crosses the network: each side sends a random number, and proves
//! with an HMAC over both that it knows the token, so a recorded conversation is of no use.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use aws_lc_rs::hmac;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};

/// The environment variable with the token.
pub const TOKEN_VARIABLE: &str = "SLUICE_LAB_TOKEN";

/// Shortest token: 96 random bits have 16 characters in base64.
const TOKEN_BYTES_MIN: usize = 16;

/// A shared secret. It does not appear in debug output.
#[derive(Clone)]
pub struct Token(hmac::Key);

impl fmt::Debug for Token {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Token")
    }
}

/// Which side proves: a proof of one cannot be sent back as that of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The coordinator.
    Coordinator,
    /// The agent.
    Agent,
}

impl Token {
    /// From a file that only its owner can read, else from the environment. `None` if there is neither.
    pub fn find(file: Option<&Path>) -> Result<Option<Self>, String> {
        let Some(path) = file else {
            return match std::env::var(TOKEN_VARIABLE) {
                Ok(text) => Token::new(&text)
                    .map(Some)
                    .map_err(|error| format!("{TOKEN_VARIABLE}: {error}")),
                Err(_) => Ok(None),
            };
        };
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let mode = fs::metadata(path).map_err(failed)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(format!(
                "{0}: others can read this token; use `chmod 600 {0}`",
                path.display()
            ));
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        let token = Token::new(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Some(token))
    }

    fn new(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.len() < TOKEN_BYTES_MIN {
            return Err(format!(
                "a token has at least {TOKEN_BYTES_MIN} characters; make one with `openssl rand -base64 24`"
            ));
        }
        Ok(Token(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes())))
    }

    /// The proof of a side in a conversation with these random numbers.
    pub fn prove(&self, side: Side, agent: &str, coordinator: &str) -> String {
        let tag = hmac::sign(&self.0, message(side, agent, coordinator).as_bytes());
        tag.as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// Whether a proof is right. The comparison takes the same time wherever it differs.
    pub fn accepts(&self, proof: &str, side: Side, agent: &str, coordinator: &str) -> bool {
        let Some(tag) = bytes(proof) else {
            return false;
        };
        let message = message(side, agent, coordinator);
        hmac::verify(&self.0, message.as_bytes(), &tag).is_ok()
    }
}

fn message(side: Side, agent: &str, coordinator: &str) -> String {
    let side = match side {
        Side::Coordinator => "coordinator",
        Side::Agent => "agent",
    };
    format!("sluice-lab/{side}/{agent}/{coordinator}")
}

/// A random number of 256 bits, in hexadecimal.
pub fn nonce() -> Result<String, String> {
    let mut bytes = [0; 32];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| "the system has no random numbers".to_string())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    if !hex.is_ascii() || !hex.len().is_multiple_of(2) {
        return None;
    }
    let pairs = (0..hex.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_token_one_side_and_one_conversation() {
        let token = Token::new("0123456789abcdef\n").unwrap();
        let other = Token::new("0123456789abcdeX").unwrap();
        let (agent, coordinator) = (nonce().unwrap(), nonce().unwrap());
        assert_ne!(agent, coordinator);
        let proof = token.prove(Side::Coordinator, &agent, &coordinator);
        let accepts =
            |token: &Token, side, one: &str, two: &str| token.accepts(&proof, side, one, two);
        assert!(accepts(&token, Side::Coordinator, &agent, &coordinator));
        assert!(!accepts(&other, Side::Coordinator, &agent, &coordinator));
        assert!(!accepts(&token, Side::Agent, &agent, &coordinator));
        assert!(!accepts(&token, Side::Coordinator, &coordinator, &agent));
        for bad in ["", "0", "zz", &proof[2..], "é0"] {
            assert!(!token.accepts(bad, Side::Coordinator, &agent, &coordinator));
        }
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[test]
    fn short_tokens_and_files_that_others_read_are_refused() {
        assert!(Token::new("short").unwrap_err().contains("at least 16"));
        let path = std::env::temp_dir().join(format!("lab-token-{}", std::process::id()));
        fs::write(&path, "0123456789abcdef0123").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let open = Token::find(Some(&path));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let closed = Token::find(Some(&path));
        fs::remove_file(&path).unwrap();
        assert!(open.unwrap_err().contains("chmod 600"));
        assert!(closed.unwrap().is_some());
        assert!(Token::find(Some(&path)).is_err());
    }
}
