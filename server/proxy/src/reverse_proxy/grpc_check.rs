//! The call of a gRPC health check (`grpc.health.v1.Health/Check`) and its result. `active` sends it.

use sluice_message::{FieldId, Fields, ResponseHead};
use sluice_model::proxy::GrpcCheck as Config;

/// The path of the method.
pub const TARGET: &str = "/grpc.health.v1.Health/Check";

/// The length of the prefix of a message: a flag for compression and four bytes of length.
const PREFIX: usize = 5;

/// `status: SERVING` of a `HealthCheckResponse`: field 1 as a variable-length number, and its value.
const SERVING: [u8; 2] = [0x08, 1];

/// A check of a gRPC server.
pub struct GrpcCheck {
    /// The encoded `HealthCheckRequest` with its prefix.
    message: Vec<u8>,
    status: u32,
}

impl GrpcCheck {
    /// Encodes the request.
    pub fn new(config: &Config) -> GrpcCheck {
        let name = config.service.as_bytes();
        let mut request = Vec::new();
        if !name.is_empty() {
            // Field 1, a text.
            request.push(0x0a);
            let mut left = name.len();
            while left >= 0x80 {
                request.push((left & 0x7f) as u8 | 0x80);
                left >>= 7;
            }
            request.push(left as u8);
            request.extend_from_slice(name);
        }
        let mut message = vec![0];
        let length = u32::try_from(request.len()).unwrap_or(u32::MAX);
        message.extend_from_slice(&length.to_be_bytes());
        message.append(&mut request);
        GrpcCheck {
            message,
            status: config.status,
        }
    }

    /// The body of the call.
    pub fn message(&self) -> Vec<u8> {
        self.message.clone()
    }

    /// Adds the headers of the call.
    pub fn add_headers(&self, fields: &mut Fields) {
        fields.set(FieldId::ContentType, b"application/grpc");
        fields.set(FieldId::Te, b"trailers");
    }

    /// Whether the server is healthy: the call ended with the expected status, and if that is 0, the service is serving.
    pub fn is_passed(&self, head: &ResponseHead, body: &[u8], trailers: Option<&Fields>) -> bool {
        // A response without a message has the status in its head.
        let status = trailers
            .and_then(status_in)
            .or_else(|| status_in(&head.fields));
        let is_serving = || body.get(PREFIX..) == Some(&SERVING[..]);
        status == Some(self.status) && (self.status != 0 || is_serving())
    }
}

fn status_in(fields: &Fields) -> Option<u32> {
    let text = fields.find_first(b"grpc-status")?;
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_message::FieldName;

    fn fields(status: &str) -> Fields {
        let mut fields = Fields::new();
        fields.push_name(&FieldName::new("grpc-status").unwrap(), status.as_bytes());
        fields
    }

    #[test]
    fn requests_name_the_service() {
        let of = |service: &str| {
            let service = service.to_owned();
            GrpcCheck::new(&Config { service, status: 0 }).message()
        };
        assert_eq!(of(""), [0, 0, 0, 0, 0]);
        assert_eq!(of("shop"), b"\0\0\0\0\x06\x0a\x04shop");
        let long = of(&"x".repeat(200));
        assert_eq!(long[..8], [0, 0, 0, 0, 203, 0x0a, 0xc8, 1]);
    }

    #[test]
    fn a_server_is_healthy_if_it_serves() {
        let check = |status| {
            GrpcCheck::new(&Config {
                service: String::new(),
                status,
            })
        };
        let head = ResponseHead::default();
        let (serving, not_serving) = (b"\0\0\0\0\x02\x08\x01", b"\0\0\0\0\x02\x08\x02");
        assert!(check(0).is_passed(&head, serving, Some(&fields("0"))));
        assert!(!check(0).is_passed(&head, not_serving, Some(&fields("0"))));
        assert!(!check(0).is_passed(&head, serving, Some(&fields("2"))));
        assert!(!check(0).is_passed(&head, serving, None));
        let refused = ResponseHead {
            fields: fields("12"),
            ..ResponseHead::default()
        };
        assert!(check(12).is_passed(&refused, b"", None));
        assert!(!check(0).is_passed(&refused, b"", None));
    }
}
