//! Encodes the variables of a request for FastCGI, SCGI or uwsgi. `fastcgi` determines the variables.

use sluice_message::Status;
use sluice_wire::cgi::VariableName;
use sluice_wire::fastcgi::{self, ParamsRefused, WhenDone, encode_begin};
use sluice_wire::uwsgi::Modifiers;
use sluice_wire::{scgi, uwsgi};

use sluice_pipeline::failure::Fault;

/// The name of the variable with the length of the body.
pub const CONTENT_LENGTH: &[u8] = b"CONTENT_LENGTH";

/// The protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// FastCGI.
    FastCgi,
    /// SCGI.
    Scgi,
    /// uwsgi, with its modifiers.
    Uwsgi(Modifiers),
}

/// The variables encoded so far.
pub enum Params<'a> {
    /// In records.
    FastCgi(fastcgi::Params<'a>),
    /// In a netstring.
    Scgi(scgi::Params<'a>),
    /// In a packet.
    Uwsgi(uwsgi::Params<'a>),
}

impl<'a> Params<'a> {
    /// Starts a request with a body of this length at the end of `out`.
    pub fn begin(dialect: Dialect, length: u64, out: &'a mut Vec<u8>) -> Params<'a> {
        match dialect {
            Dialect::FastCgi => {
                encode_begin(WhenDone::Keep, out);
                Params::FastCgi(fastcgi::Params::new(out))
            }
            Dialect::Scgi => Params::Scgi(scgi::Params::new(out, length)),
            Dialect::Uwsgi(modifiers) => Params::Uwsgi(uwsgi::Params::new(out, modifiers)),
        }
    }

    /// Adds a variable.
    pub fn push<'n>(&mut self, name: impl Into<VariableName<'n>>, value: &[u8]) {
        match self {
            Params::FastCgi(params) => params.push(name, value),
            Params::Scgi(params) => params.push(name, value),
            Params::Uwsgi(params) => params.push(name, value),
        }
    }

    /// Adds a variable with the value that `write` appends. It must not change what is there already.
    pub fn push_with<'n>(
        &mut self,
        name: impl Into<VariableName<'n>>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        match self {
            Params::FastCgi(params) => params.push_with(name, write),
            Params::Scgi(params) => params.push_with(name, write),
            Params::Uwsgi(params) => params.push_with(name, write),
        }
    }

    /// Adds a variable with a name that was encoded for this protocol.
    pub fn push_named(&mut self, name: &Name, value: &[u8]) {
        match self {
            Params::FastCgi(params) => params.push_named(&name.0, value),
            Params::Scgi(params) => params.push_named(&name.0, value),
            Params::Uwsgi(params) => params.push_named(&name.0, value),
        }
    }

    /// As [`Params::push_named`] with the value that `write` appends. It must not change what is there already.
    pub fn push_named_with(&mut self, name: &Name, write: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Params::FastCgi(params) => params.push_named_with(&name.0, write),
            Params::Scgi(params) => params.push_named_with(&name.0, write),
            Params::Uwsgi(params) => params.push_named_with(&name.0, write),
        }
    }

    /// Adds all variables of `run`, which was encoded for this protocol.
    pub fn push_run(&mut self, run: &Run) {
        match self {
            Params::FastCgi(params) => params.push_encoded(&run.0),
            Params::Scgi(params) => params.push_encoded(&run.0),
            Params::Uwsgi(params) => params.push_encoded(&run.0),
        }
    }

    /// Ends the variables. Fails if they exceed a limit of the protocol.
    pub fn end(self) -> Result<(), Fault> {
        match self {
            Params::FastCgi(params) => params.end().map_err(|refused| {
                let status = match refused {
                    ParamsRefused::ZeroByte(_) => Status::BAD_REQUEST,
                    ParamsRefused::TooLong => Status::HEADERS_TOO_LARGE,
                };
                Fault::new(status, refused.to_string())
            }),
            Params::Scgi(params) => params
                .end()
                .map_err(|zero| Fault::new(Status::BAD_REQUEST, zero.to_string())),
            Params::Uwsgi(params) => params.end().map_err(|refused| {
                let status = match refused {
                    uwsgi::Refused::ZeroByte(_) => Status::BAD_REQUEST,
                    uwsgi::Refused::TooLong => Status::HEADERS_TOO_LARGE,
                };
                Fault::new(status, refused.to_string())
            }),
        }
    }
}

/// The name of a variable, encoded once for one protocol.
#[derive(Debug, PartialEq, Eq)]
pub struct Name(Box<[u8]>);

impl Name {
    /// Encodes `name`; `None` if the protocol cannot carry it.
    pub fn encode(dialect: Dialect, name: VariableName<'_>) -> Option<Name> {
        let mut out = Vec::new();
        let is_encoded = match dialect {
            Dialect::FastCgi => fastcgi::encode_name(name, &mut out).is_ok(),
            Dialect::Scgi => scgi::encode_name(name, &mut out).is_ok(),
            Dialect::Uwsgi(_) => uwsgi::encode_name(name, &mut out).is_ok(),
        };
        is_encoded.then(|| Name(out.into()))
    }
}

/// Variables that are the same in each request, encoded once for one protocol.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Run(Vec<u8>);

impl Run {
    /// Adds a variable; returns whether the protocol can carry it. Otherwise nothing was added.
    pub fn push(&mut self, dialect: Dialect, name: &[u8], value: &[u8]) -> bool {
        let (plain, out) = (VariableName::Plain(name), &mut self.0);
        let write = |out: &mut Vec<u8>| out.extend_from_slice(value);
        match dialect {
            Dialect::FastCgi => fastcgi::encode_param(plain, value, out).is_ok(),
            Dialect::Scgi => scgi::encode_variable(plain, write, out).is_ok(),
            Dialect::Uwsgi(_) => uwsgi::encode_variable(plain, write, out).is_ok(),
        }
    }
}

impl Dialect {
    /// Whether this protocol writes the variable `name` itself, so that it must not be added.
    pub fn begins_with(self, name: &[u8]) -> bool {
        match self {
            Dialect::Scgi => matches!(name, b"CONTENT_LENGTH" | b"SCGI"),
            Dialect::FastCgi | Dialect::Uwsgi(_) => false,
        }
    }

    /// The value of the variable `name` in an encoded request.
    pub fn find(self, request: &[u8], name: &[u8]) -> Option<Vec<u8>> {
        let at = memchr::memmem::find(request, name)?;
        let (before, after) = (&request[..at], &request[at + name.len()..]);
        let value = match self {
            Dialect::FastCgi => after.get(..length_before(before, name.len())?),
            Dialect::Scgi => {
                let value = after.strip_prefix(&[0])?;
                value.get(..memchr::memchr(0, value)?)
            }
            Dialect::Uwsgi(_) => {
                let (length, value) = after.split_first_chunk()?;
                value.get(..usize::from(u16::from_le_bytes(*length)))
            }
        };
        value.map(<[u8]>::to_vec)
    }
}

/// The length of a FastCGI value: the name is preceded by its own length and that of the value, each in one or four
/// bytes (FastCGI specification, section 3.4).
fn length_before(before: &[u8], name_length: usize) -> Option<usize> {
    let name_length = u8::try_from(name_length).ok()?;
    match before {
        [.., own, length] if *own == name_length && *length < 0x80 => Some(usize::from(*length)),
        [.., own, a, b, c, d] if *own == name_length => {
            Some(u32::from_be_bytes([a & 0x7f, *b, *c, *d]) as usize)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_in_each_protocol() {
        let long = "/".repeat(300);
        for dialect in [
            Dialect::FastCgi,
            Dialect::Scgi,
            Dialect::Uwsgi(Modifiers::default()),
        ] {
            for value in ["/a.php", &long, ""] {
                let mut out = Vec::new();
                let mut params = Params::begin(dialect, 7, &mut out);
                params.push(b"A", b"b");
                params.push(b"SCRIPT_FILENAME", value.as_bytes());
                params.push(b"C", b"d");
                params.end().unwrap();
                let found = dialect.find(&out, b"SCRIPT_FILENAME");
                assert_eq!(found.as_deref(), Some(value.as_bytes()), "{dialect:?}");
                assert_eq!(dialect.find(&out, b"MISSING"), None);
            }
            assert_eq!(dialect.find(b"SCRIPT_FILENAME", b"SCRIPT_FILENAME"), None);
        }
    }

    #[test]
    fn a_run_is_what_its_variables_are_one_by_one() {
        let long = "/".repeat(300);
        let pairs = [("A", "b"), ("DOCUMENT_ROOT", &*long), ("EMPTY", "")];
        for dialect in [
            Dialect::FastCgi,
            Dialect::Scgi,
            Dialect::Uwsgi(Modifiers::default()),
        ] {
            let mut run = Run::default();
            for (name, value) in pairs {
                assert!(run.push(dialect, name.as_bytes(), value.as_bytes()));
            }
            let before = run.0.clone();
            assert!(!run.push(dialect, b"ZERO", b"a\0b"), "{dialect:?}");
            assert_eq!(run.0, before);
            let (mut at_once, mut one_by_one) = (Vec::new(), Vec::new());
            let mut params = Params::begin(dialect, 7, &mut at_once);
            params.push_run(&run);
            params.end().unwrap();
            let mut params = Params::begin(dialect, 7, &mut one_by_one);
            for (name, value) in pairs {
                params.push(name.as_bytes(), value.as_bytes());
            }
            params.end().unwrap();
            assert_eq!(at_once, one_by_one, "{dialect:?}");
        }
        let uwsgi = Dialect::Uwsgi(Modifiers::default());
        assert!(!Run::default().push(uwsgi, b"LONG", &[b'x'; 0x10000]));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let end = |dialect, value: &[u8]| {
            let mut out = Vec::new();
            if dialect == Dialect::FastCgi {
                encode_begin(WhenDone::Keep, &mut out);
            }
            let before = out.len();
            out.clear();
            let mut params = Params::begin(dialect, 0, &mut out);
            params.push(b"A", value);
            let ended = params.end().map_err(|fault| fault.status.code());
            (ended, out.len() == before)
        };
        let uwsgi = Dialect::Uwsgi(Modifiers::default());
        for dialect in [Dialect::FastCgi, Dialect::Scgi, uwsgi] {
            assert_eq!(end(dialect, b"a\0b"), (Err(400), true), "{dialect:?}");
        }
        assert_eq!(end(uwsgi, &[b'x'; 0x10000]), (Err(431), true));
        assert_eq!(end(uwsgi, &[b'x'; 0xffff]), (Err(431), true));
        assert_eq!(end(uwsgi, &[b'x'; 0xff00]), (Ok(()), false));
    }
}
