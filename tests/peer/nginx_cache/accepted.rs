//! Where sluice differs from nginx 1.22, and why.

/// The case, a prefix of the request, what differs, and why; an empty string matches everything. An entry that no
/// longer applies fails the run.
pub const ACCEPTED: &[(&str, &str, &str, &str)] = &[
    (
        "",
        "",
        "age",
        "an answer from a cache tells its age (RFC 9111, section 5.1)",
    ),
    // What is cached, and for how long.
    ("said", "GET /both", "", NEWER),
    ("said", "GET /accellast", "", NEWER),
    (
        "said",
        "GET /accelpast",
        "x-cache",
        "what is stale when it comes is not stored, so that nothing has expired (RFC 9111, section 3)",
    ),
    (
        "said",
        "GET /quoted",
        "",
        "values of directives may be quoted (RFC 9111, section 5.2)",
    ),
    (
        "said",
        "GET /part",
        "",
        "a part that nobody asked for is not taken for the whole (RFC 9111, section 3.3)",
    ),
    (
        "said",
        "GET /dated",
        "",
        "what was made long ago has an age (RFC 9111, section 4.2.3)",
    ),
    ("said", "GET /age?own", "", "RFC 9111, section 3.5"),
    (
        "said",
        "GET /age?no",
        "",
        "what a client forbids to store is not stored (RFC 9111, section 5.2.1.5)",
    ),
    (
        "methods",
        "GET /d | body=x",
        "x-cache",
        "no key has the content of a request, so that nothing is stored (RFC 9110, section 9.3.1)",
    ),
    (
        "uses",
        "HEAD /w",
        "content-length",
        "what is not to be stored is asked for as the client did",
    ),
    (
        "php",
        "GET /g",
        "body",
        "HEAD is asked for as GET also over FastCGI: nginx stores the answer without its content, and gives that to all",
    ),
    // Conditional and range requests.
    (
        "parts",
        "GET /w | If-None-Match: \"t\" | If-Modified-Since",
        "",
        "If-None-Match alone counts (RFC 9110, section 13.1.3)",
    ),
    ("parts", "GET /w | Range: bytes=400-", "x-cache", TWICE),
    (
        "parts",
        "GET /w | Range: bytes=400-",
        "cache-control",
        REFUSED,
    ),
    ("parts", "GET /w | Range: bytes=5-2", "x-cache", TWICE),
    (
        "parts",
        "GET /w | Range: bytes=5-2",
        "cache-control",
        REFUSED,
    ),
    ("parts", "GET /w | Range: bytes=a-b", "x-cache", TWICE),
    (
        "parts",
        "GET /w | Range: bytes=a-b",
        "cache-control",
        REFUSED,
    ),
    ("parts", "GET /plain | Range", "", RANGES),
    ("revalidate", "GET /dated | Range", "", RANGES),
    ("stale", "GET /500 | Range", "", RANGES),
    ("updating", "GET /back/f | Range", "", RANGES),
    ("bodies", "GET /large | Range", "", RANGES),
    ("bodies", "GET /chunked | Range", "", RANGES),
    ("php", "GET /i?size=300000 | Range", "", RANGES),
    (
        "several_parts",
        "GET /w | Range: bytes=0-1,3-4",
        "",
        "the boundary is another, and nginx begins with an empty line",
    ),
    // Stale responses.
    (
        "revalidate",
        "GET /longer",
        "",
        "a 304 says what has changed in the fields (RFC 9111, section 3.2)",
    ),
    (
        "stale",
        "GET /garbage",
        "",
        "an response without a head is not HTTP/0.9 but broken",
    ),
    (
        "stale",
        "GET /not/ife",
        "",
        "a status of 500 is an error, too (RFC 5861, section 4)",
    ),
    ("stale", "GET /strict", "", STRICT),
    ("stale", "GET /shared", "", STRICT),
    // Framing of responses.
    ("bodies", "GET /chunked", "content-length", LENGTH),
    ("bodies", "GET /chunked", "transfer-encoding", LENGTH),
    ("bodies", "GET /largechunked", "", LENGTH),
    ("bodies", "GET /eof", "", LENGTH),
    ("bodies", "GET /largeeof", "", LENGTH),
    ("php", "", "content-length", LENGTH),
    ("php", "", "transfer-encoding", LENGTH),
    (
        "hidden",
        "",
        "date",
        "what has no date gets one (RFC 9110, section 6.6.1)",
    ),
    (
        "hidden",
        "GET /a",
        "x-hop",
        "a field that Connection names is for us only (RFC 9110, section 7.6.1)",
    ),
];

const NEWER: &str = "X-Accel-Expires wins over Cache-Control and that over Expires, in whatever order they come \
    (RFC 9111, section 4.2.1); nginx does so since 1.23";

const TWICE: &str = "nginx adds the fields of `add_header` twice to a refusal of a range";

const REFUSED: &str =
    "a refusal of a range is not the answer that may be kept for so long (RFC 9111, section 3)";

const RANGES: &str = "parts of what is stored are given whether or not its upstream gives parts (RFC 9110, section 14.2)";

const STRICT: &str = "it forbids to be used when it is stale (RFC 9111, section 4.2.4)";

const LENGTH: &str = "what is stored as a whole is sent with its length";
