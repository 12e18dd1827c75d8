//! Priorities (RFC 9218): how soon an answer is wanted. Sending in that order is left to `conn`.

/// How soon the client wants an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Priority {
    /// 0 comes before 7 (RFC 9218, section 4.1).
    pub urgency: u8,
    /// Whether parts of the answer are of use, so that answers of one urgency share the way (section 4.2).
    pub incremental: bool,
}

impl Default for Priority {
    /// What holds if the client says nothing. RFC 9218, section 4.2 would have answers come one after the other
    /// then, which is right for browsers, and they do say so. A proxy or a program that shares a connection says
    /// nothing, and there one long answer would hold up all others.
    fn default() -> Self {
        Priority {
            urgency: 3,
            incremental: true,
        }
    }
}
