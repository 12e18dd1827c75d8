//! The place of a piece within its message.

/// Whether a piece of a message is its last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessagePart {
    /// More pieces of the message follow.
    More,
    /// It is the last one, or the whole message.
    Last,
}

impl MessagePart {
    /// [`MessagePart::Last`] if `is_last`.
    pub fn last_if(is_last: bool) -> MessagePart {
        match is_last {
            true => MessagePart::Last,
            false => MessagePart::More,
        }
    }

    /// Whether it is the last one.
    pub fn is_last(self) -> bool {
        self == MessagePart::Last
    }
}
