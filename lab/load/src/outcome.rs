//! The outcome of a lab command: yes, no, or an error.

/// Why a command failed, as a message for the user.
#[derive(Debug)]
pub struct Refused(pub String);

impl Refused {
    /// An error with this message.
    pub fn new(text: impl Into<String>) -> Self {
        Refused(text.into())
    }
}

/// The result of a command.
pub type Outcome = Result<Completion, Refused>;

/// The result of a command that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Done, or yes. Exit code 0.
    Yes,
    /// The command ran, and the result is negative. Exit code 1.
    No,
    /// Ctrl-C ended it early; what was measured until then was printed or saved. Exit code 130, as in shells.
    Interrupted,
}
