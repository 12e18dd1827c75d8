//! Settings (RFC 9113, section 6.5): the parameters that each side announces and may change. `conn` applies them.

use alloc::vec::Vec;

use super::error::Reason;
use super::frame::{FrameHead, FrameKind};
use super::limits::{FRAME_BYTES_MAX, WINDOW_INITIAL, WINDOW_MAX};

/// The settings of one side. Those that neither side needs to know are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The dynamic table that the other side may use when it compresses.
    pub table_bytes_max: u32,
    /// Streams that the other side may open at a time.
    pub streams_max: u32,
    /// The window of each new stream.
    pub stream_window: u32,
    /// The largest frame taken.
    pub frame_bytes_max: u32,
    /// The largest decoded head taken; advice only.
    pub header_list_bytes_max: u32,
    /// Whether a server takes CONNECT with `:protocol` (RFC 8441, section 3).
    pub extended_connect: bool,
}

impl Default for Settings {
    /// What holds before anything was said.
    fn default() -> Self {
        Settings {
            table_bytes_max: 4096,
            streams_max: u32::MAX,
            stream_window: WINDOW_INITIAL,
            frame_bytes_max: FRAME_BYTES_MAX,
            header_list_bytes_max: u32::MAX,
            extended_connect: false,
        }
    }
}

const HEADER_TABLE_SIZE: u16 = 0x1;
const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const MAX_FRAME_SIZE: u16 = 0x5;
const MAX_HEADER_LIST_SIZE: u16 = 0x6;
const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
const NO_RFC7540_PRIORITIES: u16 = 0x9;

/// The largest value of MAX_FRAME_SIZE (RFC 9113, section 6.5.2).
const FRAME_BYTES_LIMIT: u32 = (1 << 24) - 1;

impl Settings {
    /// Takes the settings of a frame, whose length is a multiple of six. A setting that stands there twice has its
    /// last value, unknown ones are ignored.
    pub(crate) fn apply(&mut self, payload: &[u8], peer: Role) -> Result<(), Reason> {
        for entry in payload.as_chunks::<6>().0 {
            let id = u16::from_be_bytes([entry[0], entry[1]]);
            let value = u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]);
            self.set(id, value, peer)?;
        }
        Ok(())
    }

    fn set(&mut self, id: u16, value: u32, peer: Role) -> Result<(), Reason> {
        match id {
            HEADER_TABLE_SIZE => self.table_bytes_max = value,
            // RFC 9113, section 6.5.2: a server must not offer to be pushed to.
            ENABLE_PUSH if value > 1 || value == 1 && peer == Role::Server => {
                return Err(Reason::SettingValue);
            }
            MAX_CONCURRENT_STREAMS => self.streams_max = value,
            INITIAL_WINDOW_SIZE if value > WINDOW_MAX => return Err(Reason::SettingWindow),
            INITIAL_WINDOW_SIZE => self.stream_window = value,
            MAX_FRAME_SIZE if !(FRAME_BYTES_MAX..=FRAME_BYTES_LIMIT).contains(&value) => {
                return Err(Reason::SettingValue);
            }
            MAX_FRAME_SIZE => self.frame_bytes_max = value,
            MAX_HEADER_LIST_SIZE => self.header_list_bytes_max = value,
            // RFC 8441, section 3: once offered it must not be taken back.
            ENABLE_CONNECT_PROTOCOL if value > 1 || value == 0 && self.extended_connect => {
                return Err(Reason::SettingValue);
            }
            ENABLE_CONNECT_PROTOCOL => self.extended_connect = value == 1,
            NO_RFC7540_PRIORITIES if value > 1 => return Err(Reason::SettingValue),
            _ => {}
        }
        Ok(())
    }

    /// Appends a SETTINGS frame with those that differ from what holds anyway.
    pub(crate) fn encode(&self, us: Role, out: &mut Vec<u8>) {
        let start = out.len();
        let kind = FrameKind::SETTINGS;
        let mut head = FrameHead {
            len: 0,
            kind,
            flags: 0,
            stream: 0,
        };
        head.encode(out);
        let body = out.len();
        let mut put = |id: u16, value: u32| {
            out.extend_from_slice(&id.to_be_bytes());
            out.extend_from_slice(&value.to_be_bytes());
        };
        let initial = Settings::default();
        if self.table_bytes_max != initial.table_bytes_max {
            put(HEADER_TABLE_SIZE, self.table_bytes_max);
        }
        match us {
            Role::Client => put(ENABLE_PUSH, 0),
            Role::Server => {
                put(MAX_CONCURRENT_STREAMS, self.streams_max);
                put(NO_RFC7540_PRIORITIES, 1);
            }
        }
        if self.stream_window != initial.stream_window {
            put(INITIAL_WINDOW_SIZE, self.stream_window);
        }
        put(MAX_HEADER_LIST_SIZE, self.header_list_bytes_max);
        if self.extended_connect && us == Role::Server {
            put(ENABLE_CONNECT_PROTOCOL, 1);
        }
        head.len = (out.len() - body) as u32;
        out[start..body].copy_from_slice(&head.to_bytes());
    }
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(id: u16, value: u32) -> Vec<u8> {
        let mut bytes = id.to_be_bytes().to_vec();
        bytes.extend_from_slice(&value.to_be_bytes());
        bytes
    }

    fn applied(id: u16, value: u32) -> Result<Settings, Reason> {
        let mut settings = Settings::default();
        settings
            .apply(&setting(id, value), Role::Client)
            .map(|()| settings)
    }

    #[test]
    fn sent_bytes_equal_read_bytes() {
        let ours = Settings {
            table_bytes_max: 100,
            streams_max: 7,
            stream_window: 1,
            frame_bytes_max: FRAME_BYTES_MAX,
            header_list_bytes_max: 9,
            extended_connect: true,
        };
        let mut frame = Vec::new();
        ours.encode(Role::Server, &mut frame);
        let (head, payload) = frame.split_first_chunk().unwrap();
        assert_eq!(FrameHead::decode(head).len as usize, payload.len());
        let mut theirs = Settings::default();
        theirs.apply(payload, Role::Server).unwrap();
        assert_eq!(theirs, ours);
    }

    /// RFC 9113, section 6.5.2; RFC 8441, section 3; RFC 9218, section 2.1.
    #[test]
    fn values_out_of_range_are_refused() {
        assert_eq!(applied(ENABLE_PUSH, 2), Err(Reason::SettingValue));
        assert!(applied(ENABLE_PUSH, 1).is_ok());
        assert_eq!(
            Settings::default().apply(&setting(ENABLE_PUSH, 1), Role::Server),
            Err(Reason::SettingValue)
        );
        assert_eq!(
            applied(INITIAL_WINDOW_SIZE, 1 << 31),
            Err(Reason::SettingWindow)
        );
        assert!(applied(INITIAL_WINDOW_SIZE, WINDOW_MAX).is_ok());
        for size in [0, 16_383, 1 << 24] {
            assert_eq!(applied(MAX_FRAME_SIZE, size), Err(Reason::SettingValue));
        }
        assert!(applied(MAX_FRAME_SIZE, (1 << 24) - 1).is_ok());
        assert_eq!(
            applied(ENABLE_CONNECT_PROTOCOL, 2),
            Err(Reason::SettingValue)
        );
        assert_eq!(applied(NO_RFC7540_PRIORITIES, 2), Err(Reason::SettingValue));
        assert_eq!(applied(0xffff, 77), Ok(Settings::default()));
    }

    #[test]
    fn an_offer_of_extended_connect_is_not_taken_back() {
        let mut settings = Settings::default();
        let offer = |value| setting(ENABLE_CONNECT_PROTOCOL, value);
        assert!(settings.apply(&offer(0), Role::Server).is_ok());
        assert!(settings.apply(&offer(1), Role::Server).is_ok());
        assert_eq!(
            settings.apply(&offer(0), Role::Server),
            Err(Reason::SettingValue)
        );
    }
}
