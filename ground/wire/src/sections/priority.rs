//! Priorities (RFC 9218): how urgently the client needs a response. `conn` sends in that order.

/// How urgently the client needs a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Priority {
    /// 0 comes before 7 (RFC 9218, section 4.1).
    pub urgency: u8,
    /// Whether the client can process the response incrementally, so that responses of the same urgency share the
    /// connection (section 4.2).
    pub incremental: bool,
}

/// Urgencies go from 0 to 7.
pub(crate) const URGENCIES: usize = 8;

impl Default for Priority {
    /// The priority if the client sends none. RFC 9218, section 4.2 makes responses non-incremental by default, which
    /// suits browsers, and they do send priorities. A proxy, or a program that shares a connection, sends none, and one
    /// long response would hold up all others.
    fn default() -> Self {
        Priority {
            urgency: 3,
            incremental: true,
        }
    }
}

impl Priority {
    /// Reads a Priority field or what a PRIORITY_UPDATE frame holds: a dictionary of which only `u` and `i` count.
    /// What is malformed is left out, as if the client had not said it (RFC 9218, section 4).
    pub fn parse(value: &[u8]) -> Priority {
        let mut priority = Priority {
            urgency: 3,
            incremental: false,
        };
        for item in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            match item {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_are_read_and_faults_left_out() {
        for (text, urgency, incremental) in [
            (&b"u=0"[..], 0, false),
            (b"u=7, i", 7, true),
            (b"i=?1,u=1", 1, true),
            (b"i, i=?0", 3, false),
            (b"u=8", 3, false),
            (b"u=-1, i=1", 3, false),
            (b"u = 2", 3, false),
            (b"x=1;u=2, u=2", 2, false),
            (b"", 3, false),
        ] {
            let expected = Priority {
                urgency,
                incremental,
            };
            assert_eq!(Priority::parse(text), expected);
        }
    }
}
