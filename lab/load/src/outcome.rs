//! What a command of the lab ends with: the answer to its question, or why there is none.

/// Why a command could not be carried out, in words for whoever typed it.
#[derive(Debug)]
pub struct Refused(pub String);

impl Refused {
    /// A refusal with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Refused(text.into())
    }
}

/// What a command gives.
pub type Outcome = Result<Answer, Refused>;

/// The answer of a command that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done, or yes. Exit code 0.
    Yes,
    /// The command ran, and its answer is no. Exit code 1.
    No,
}
