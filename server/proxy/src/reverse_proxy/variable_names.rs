//! The names of the CGI variables that `fastcgi` adds to requests, encoded once for the protocol of a transport. Their
//! values are up to `fastcgi`.

use std::sync::LazyLock;

use sluice_message::FieldId;
use sluice_wire::cgi::VariableName;
use sluice_wire::uwsgi::Modifiers;

use super::configured_variables::Taken;
use super::params::{CONTENT_LENGTH, Dialect, Name};

/// A CGI variable that does not stand for a request header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Variable {
    /// The folder of the scripts.
    DocumentRoot,
    /// The name of the script.
    DocumentUri,
    /// The name of the script, with a slash at its beginning.
    ScriptName,
    /// The file of the script.
    ScriptFilename,
    /// The path behind the script.
    PathInfo,
    /// The path info as a file.
    PathTranslated,
    /// The method.
    RequestMethod,
    /// Path and query as the client sent them.
    RequestUri,
    /// The query.
    QueryString,
    /// The media type of the body.
    ContentType,
    /// The length of the body.
    ContentLength,
    /// The same, as the variable of a header.
    HttpContentLength,
    /// The host without its port.
    ServerName,
    /// The port that the client named.
    ServerPort,
    /// The address that the client connected to.
    ServerAddr,
    /// The version of HTTP.
    ServerProtocol,
    /// `http` or `https`.
    RequestScheme,
    /// `on` with TLS.
    Https,
    /// The version of TLS.
    SslProtocol,
    /// The cipher suite.
    SslCipher,
    /// The host, which is not among the headers of a request.
    HttpHost,
    /// The address of the client.
    RemoteAddr,
    /// The same: its name is not looked up.
    RemoteHost,
    /// The port of the client.
    RemotePort,
    /// The authenticated user.
    RemoteUser,
}

impl Variable {
    /// All variables with their names, in the order of the enumeration.
    const ALL: [(Variable, &[u8]); 25] = [
        (Variable::DocumentRoot, b"DOCUMENT_ROOT"),
        (Variable::DocumentUri, b"DOCUMENT_URI"),
        (Variable::ScriptName, b"SCRIPT_NAME"),
        (Variable::ScriptFilename, b"SCRIPT_FILENAME"),
        (Variable::PathInfo, b"PATH_INFO"),
        (Variable::PathTranslated, b"PATH_TRANSLATED"),
        (Variable::RequestMethod, b"REQUEST_METHOD"),
        (Variable::RequestUri, b"REQUEST_URI"),
        (Variable::QueryString, b"QUERY_STRING"),
        (Variable::ContentType, b"CONTENT_TYPE"),
        (Variable::ContentLength, CONTENT_LENGTH),
        (Variable::HttpContentLength, b"HTTP_CONTENT_LENGTH"),
        (Variable::ServerName, b"SERVER_NAME"),
        (Variable::ServerPort, b"SERVER_PORT"),
        (Variable::ServerAddr, b"SERVER_ADDR"),
        (Variable::ServerProtocol, b"SERVER_PROTOCOL"),
        (Variable::RequestScheme, b"REQUEST_SCHEME"),
        (Variable::Https, b"HTTPS"),
        (Variable::SslProtocol, b"SSL_PROTOCOL"),
        (Variable::SslCipher, b"SSL_CIPHER"),
        (Variable::HttpHost, b"HTTP_HOST"),
        (Variable::RemoteAddr, b"REMOTE_ADDR"),
        (Variable::RemoteHost, b"REMOTE_HOST"),
        (Variable::RemotePort, b"REMOTE_PORT"),
        (Variable::RemoteUser, b"REMOTE_USER"),
    ];
}

/// The names of one transport. Variables that the configuration or the protocol sets have none here.
#[derive(Clone, Copy)]
pub struct VariableNames {
    encoded: &'static Encoded,
    /// The variables without a name here, as a set of bits.
    left_out: u32,
    /// The known request headers without a name here, as a set of bits.
    headers_left_out: u128,
}

/// All names in one protocol. Transports share them: a server may have one for each of ten thousand sites.
struct Encoded {
    variables: [Option<Name>; Variable::ALL.len()],
    /// Those of the known request headers, by their numbers.
    headers: [Option<Name>; FieldId::ALL.len() + 1],
}

const _: () = assert!(Variable::ALL.len() <= 32, "each variable has a bit");
const _: () = assert!(FieldId::ALL.len() < 128, "each known name has a bit");

impl VariableNames {
    /// The names in this protocol but for those in `taken`.
    pub fn new(dialect: Dialect, taken: &Taken) -> VariableNames {
        let is_left_out =
            |(_, name): &&(Variable, &[u8])| taken.has((*name).into()) || dialect.begins_with(name);
        let left_out = Variable::ALL.iter().filter(is_left_out);
        // The host and the length have variables of their own.
        let is_own = |id| matches!(id, FieldId::Host | FieldId::ContentLength);
        let headers_left_out = FieldId::ALL
            .iter()
            .filter(|id| is_own(**id) || taken.has(of_header(**id)));
        VariableNames {
            encoded: Encoded::of(dialect),
            left_out: left_out.fold(0, |set, (variable, _)| set | 1 << *variable as u8),
            headers_left_out: headers_left_out.fold(0, |set, id| set | 1 << *id as u8),
        }
    }

    /// The name of `variable`, unless it must not be added.
    pub fn of(&self, variable: Variable) -> Option<&'static Name> {
        match self.left_out >> variable as u8 & 1 {
            0 => self.encoded.variables[variable as usize].as_ref(),
            _ => None,
        }
    }

    /// The name of the variable of a known request header, unless it must not be added.
    pub fn of_header(&self, id: FieldId) -> Option<&'static Name> {
        match self.headers_left_out >> id as u8 & 1 {
            0 => self.encoded.headers[id as usize].as_ref(),
            _ => None,
        }
    }
}

impl Encoded {
    fn of(dialect: Dialect) -> &'static Encoded {
        static FASTCGI: LazyLock<Encoded> = LazyLock::new(|| Encoded::new(Dialect::FastCgi));
        static SCGI: LazyLock<Encoded> = LazyLock::new(|| Encoded::new(Dialect::Scgi));
        static UWSGI: LazyLock<Encoded> =
            LazyLock::new(|| Encoded::new(Dialect::Uwsgi(Modifiers::default())));
        match dialect {
            Dialect::FastCgi => &FASTCGI,
            Dialect::Scgi => &SCGI,
            // The names do not depend on its modifiers.
            Dialect::Uwsgi(_) => &UWSGI,
        }
    }

    fn new(dialect: Dialect) -> Encoded {
        let mut headers = [const { None }; FieldId::ALL.len() + 1];
        for id in FieldId::ALL {
            headers[*id as usize] = Name::encode(dialect, of_header(*id));
        }
        Encoded {
            variables: Variable::ALL.map(|(variable, name)| {
                debug_assert_eq!(Variable::ALL[variable as usize].0, variable);
                Name::encode(dialect, name.into())
            }),
            headers,
        }
    }
}

fn of_header(id: FieldId) -> VariableName<'static> {
    VariableName::OfHeader(id.as_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::params::Params;
    use super::*;

    /// A request with the variable of this name, as it is encoded without a table.
    fn plain(dialect: Dialect, name: VariableName<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut params = Params::begin(dialect, 0, &mut out);
        params.push(name, b"value");
        params.end().unwrap();
        out
    }

    fn named(dialect: Dialect, name: Option<&Name>) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut params = Params::begin(dialect, 0, &mut out);
        params.push_named(name?, b"value");
        params.end().unwrap();
        Some(out)
    }

    #[test]
    fn each_variable_has_its_own_name() {
        let uwsgi = Dialect::Uwsgi(Modifiers::default());
        for dialect in [Dialect::FastCgi, Dialect::Scgi, uwsgi] {
            let names = VariableNames::new(dialect, &Taken::default());
            for (variable, name) in Variable::ALL {
                let expected = match (dialect, variable) {
                    (Dialect::Scgi, Variable::ContentLength) => None,
                    _ => Some(plain(dialect, name.into())),
                };
                assert_eq!(named(dialect, names.of(variable)), expected, "{variable:?}");
            }
            for id in FieldId::ALL {
                let expected = match id {
                    FieldId::Host | FieldId::ContentLength => None,
                    id => Some(plain(dialect, of_header(*id))),
                };
                assert_eq!(named(dialect, names.of_header(*id)), expected, "{id:?}");
            }
            assert!(names.of_header(FieldId::Other).is_none());
        }
    }

    #[test]
    fn configured_names_are_left_out() {
        let taken = Taken::of([
            &b"REMOTE_ADDR"[..],
            b"HTTP_HOST",
            b"HTTP_USER_AGENT",
            b"COOKIE",
        ]);
        let names = VariableNames::new(Dialect::FastCgi, &taken);
        assert!(names.of(Variable::RemoteAddr).is_none());
        assert!(names.of(Variable::RemoteHost).is_some());
        assert!(names.of(Variable::HttpHost).is_none());
        assert!(names.of_header(FieldId::UserAgent).is_none());
        assert!(names.of_header(FieldId::Cookie).is_some());
    }
}
