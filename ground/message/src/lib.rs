//! The semantics of HTTP requests and responses, independent of the protocol version. The wire formats are in
//! `sluice-wire`, routing is in `sluice-route`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod caching;
pub mod condition;
pub mod conn;
pub mod date;
pub mod decimal;
pub mod etag;
pub mod fields;
pub mod forwarded;
pub mod head;
pub mod hex;
pub mod hop_by_hop;
pub mod layout;
pub mod limits;
pub mod media_type;
pub mod method;
pub mod moment;
pub mod name;
pub mod negotiate;
pub mod path;
pub mod range;
pub mod span;
pub mod status;
pub mod structured;
pub mod uri;

pub use conn::{
    ConnFacts, ConnInfo, Early, IpText, Judged, LocalEnd, Offered, ProxiedAddresses, Remote,
    TlsInfo,
};
pub use fields::{Field, Fields, FixedField, Unfit};
pub use head::{RequestHead, ResponseHead, Scheme, UnknownLength, Version};
pub use method::Method;
pub use moment::Moment;
pub use name::{FieldId, FieldName};
pub use status::Status;
pub use uri::Uri;
