//! `protocols`: the HTTP versions enabled on each address. `sluice-net` implements them.

use sluice_model::Server;
use sluice_net::Protocols;

use sluice_pipeline::refusal::Refusal;

/// The versions where none are named: Caddy's.
const USUAL: Protocols = Protocols {
    h1: true,
    h2: true,
    h2c: false,
    h3: true,
};

/// The versions enabled on the listen entry `index`: its own, or else those of the server.
pub fn on_entry(server: &Server, index: usize) -> Result<Protocols, Refusal> {
    let own = server.listen_protocols.get(index).and_then(Option::as_ref);
    read(own.unwrap_or(&server.protocols))
}

/// Parses a list of versions; an empty list means the default versions.
fn read(names: &[String]) -> Result<Protocols, Refusal> {
    if names.is_empty() {
        return Ok(USUAL);
    }
    let mut protocols = Protocols {
        h1: false,
        h2: false,
        h2c: false,
        h3: false,
    };
    for name in names {
        match name.as_str() {
            "h1" => protocols.h1 = true,
            "h2" => protocols.h2 = true,
            "h2c" => protocols.h2c = true,
            "h3" => protocols.h3 = true,
            other => {
                return Err(Refusal::new(format!("unknown protocol `{other}`"))
                    .with_help("the protocols are `h1`, `h2`, `h2c` and `h3`"));
            }
        }
    }
    Ok(protocols)
}

/// The ALPN protocols to offer: those in the configuration, or else the defaults, without those that are disabled.
pub fn alpn(asked: &[String], protocols: Protocols) -> Vec<String> {
    let usual = ["h2", "http/1.1"].map(str::to_owned);
    let offered = if asked.is_empty() { &usual[..] } else { asked };
    let is_spoken = |name: &&String| match name.as_str() {
        "h2" => protocols.h2,
        "http/1.1" | "http/1.0" => protocols.h1,
        // Not supported over TCP: a client must not be able to select it.
        _ => false,
    };
    offered.iter().filter(is_spoken).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_ascii_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn each_entry_has_its_own_or_those_of_the_server() {
        let server = Server {
            protocols: words("h1 h2c"),
            listen_protocols: vec![None, Some(words("h2"))],
            ..Server::default()
        };
        let spoken = |index| {
            let found = on_entry(&server, index).unwrap();
            (found.h1, found.h2, found.h2c)
        };
        assert_eq!(spoken(0), (true, false, true));
        assert_eq!(spoken(1), (false, true, false));
        assert_eq!(spoken(2), (true, false, true));
        assert_eq!(on_entry(&Server::default(), 0), Ok(USUAL));
        assert_eq!(read(&words("h3 h1 h2")), Ok(USUAL));
        let only = read(&words("h3")).unwrap();
        assert!(only.h3 && !only.uses_connections());
        assert!(read(&words("spdy")).unwrap_err().message.contains("spdy"));
    }

    #[test]
    fn handshakes_offer_what_is_spoken() {
        let of = |asked: &str, spoken: &str| {
            let protocols = read(&words(spoken)).unwrap();
            alpn(&words(asked), protocols).join(" ")
        };
        assert_eq!(of("", ""), "h2 http/1.1");
        assert_eq!(of("", "h1"), "http/1.1");
        assert_eq!(of("", "h2 h2c"), "h2");
        assert_eq!(of("http/1.1 h2 h3 x", "h1 h2 h3"), "http/1.1 h2");
        assert_eq!(of("", "h2c"), "");
    }
}
