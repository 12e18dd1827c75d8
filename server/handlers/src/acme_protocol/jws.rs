//! Signed requests of ACME clients: flattened JSON Web Signatures (RFC 7515, section 7.2.2) with the restrictions of
//! RFC 8555, section 6.2. The rest of `acme_server` processes the requests.

use aws_lc_rs::digest;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use super::problem::{ALGORITHMS, Problem};

/// A request whose signature has not been verified yet.
#[derive(Debug)]
pub(super) struct Jws {
    signed: String,
    signature: Vec<u8>,
    algorithm: String,
    /// The signer.
    pub(super) signer: Signer,
    /// The nonce, if present.
    pub(super) nonce: Option<String>,
    /// The URL that it was signed for.
    pub(super) url: String,
    /// The payload; empty for a POST-as-GET request (RFC 8555, section 6.3).
    pub(super) payload: Vec<u8>,
}

/// The signer of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Signer {
    /// The holder of this key.
    Key(Jwk),
    /// The account with this URL.
    Account(String),
}

/// A public key (RFC 7517), with the relevant members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Jwk {
    /// On an elliptic curve: the curve and the two coordinates.
    Ec {
        curve: Curve,
        x: Vec<u8>,
        y: Vec<u8>,
    },
    /// RSA: modulus and exponent.
    Rsa { n: Vec<u8>, e: Vec<u8> },
    /// Ed25519.
    Ed25519 { x: Vec<u8> },
}

/// An elliptic curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Curve {
    P256,
    P384,
    P521,
}

impl Curve {
    fn parse(name: &str) -> Option<Curve> {
        [Curve::P256, Curve::P384, Curve::P521]
            .into_iter()
            .find(|curve| curve.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Curve::P256 => "P-256",
            Curve::P384 => "P-384",
            Curve::P521 => "P-521",
        }
    }

    /// The length of one coordinate in bytes (RFC 7518, section 6.2.1.2).
    fn bytes(self) -> usize {
        match self {
            Curve::P256 => 32,
            Curve::P384 => 48,
            Curve::P521 => 66,
        }
    }
}

impl Jws {
    /// Parses a request body.
    ///
    /// # Errors
    /// The body is malformed, or the algorithm is not supported.
    pub(super) fn parse(body: &[u8]) -> Result<Jws, Problem> {
        let value: Value =
            serde_json::from_slice(body).map_err(|_| Problem::malformed("the body is not JSON"))?;
        Jws::from_value(&value)
    }

    /// Like [`Jws::parse`], for a JWS nested in another.
    pub(super) fn from_value(value: &Value) -> Result<Jws, Problem> {
        let text = |name: &'static str| {
            let found = value.get(name).and_then(Value::as_str);
            found.ok_or_else(|| Problem::malformed(format!("the signed request has no `{name}`")))
        };
        // Multiple signatures and unprotected headers are forbidden (RFC 8555, section 6.2).
        if value.get("signatures").is_some() || value.get("header").is_some() {
            return Err(Problem::malformed(
                "only one signature, and all of it protected",
            ));
        }
        let (protected, payload) = (text("protected")?, text("payload")?);
        let head: Map<String, Value> = serde_json::from_slice(&decode("protected", protected)?)
            .map_err(|_| Problem::malformed("the protected header is not a JSON object"))?;
        if head.contains_key("crit") || head.get("b64").is_some() {
            return Err(Problem::malformed(
                "extensions of signatures are not known here",
            ));
        }
        let of_head = |name: &str| head.get(name).and_then(Value::as_str).map(str::to_owned);
        let algorithm = of_head("alg").unwrap_or_default();
        if !ALGORITHMS.contains(&algorithm.as_str()) {
            return Err(Problem::bad_algorithm(&algorithm));
        }
        let signer = match (head.get("jwk"), of_head("kid")) {
            (Some(jwk), None) => Signer::Key(Jwk::parse(jwk)?),
            (None, Some(account)) => Signer::Account(account),
            _ => return Err(Problem::malformed("either `jwk` or `kid` says who signed")),
        };
        Ok(Jws {
            signed: format!("{protected}.{payload}"),
            signature: decode("signature", text("signature")?)?,
            algorithm,
            signer,
            nonce: of_head("nonce"),
            url: of_head("url").unwrap_or_default(),
            payload: decode("payload", payload)?,
        })
    }

    /// Verifies the signature with `key`.
    pub(super) fn verify(&self, key: &Jwk) -> Result<(), Problem> {
        let of_curve = |curve: Curve| -> (&str, &'static dyn VerificationAlgorithm) {
            match curve {
                Curve::P256 => ("ES256", &ECDSA_P256_SHA256_FIXED),
                Curve::P384 => ("ES384", &ECDSA_P384_SHA384_FIXED),
                Curve::P521 => ("ES512", &ECDSA_P521_SHA512_FIXED),
            }
        };
        let (wanted, verified) = match key {
            Jwk::Ec { curve, x, y } => {
                let (wanted, algorithm) = of_curve(*curve);
                // The uncompressed form of a point (SEC 1, section 2.3.3).
                let point = [&[4], x.as_slice(), y.as_slice()].concat();
                (wanted, self.check(algorithm, &point))
            }
            Jwk::Ed25519 { x } => ("EdDSA", self.check(&ED25519, x)),
            Jwk::Rsa { n, e } => {
                let key = RsaPublicKeyComponents { n, e };
                let signed = self.signed.as_bytes();
                let verified = key.verify(&RSA_PKCS1_2048_8192_SHA256, signed, &self.signature);
                ("RS256", verified.is_ok())
            }
        };
        if self.algorithm != wanted {
            return Err(Problem::malformed("the algorithm is not that of the key"));
        }
        match verified {
            true => Ok(()),
            false => Err(Problem::malformed("the signature is wrong")),
        }
    }

    fn check(&self, algorithm: &'static dyn VerificationAlgorithm, key: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(algorithm, key);
        key.verify(self.signed.as_bytes(), &self.signature).is_ok()
    }

    /// The payload as a JSON object.
    pub(super) fn json(&self) -> Result<Value, Problem> {
        let value: Value = serde_json::from_slice(&self.payload)
            .map_err(|_| Problem::malformed("the payload is not JSON"))?;
        match value {
            Value::Object(_) => Ok(value),
            _ => Err(Problem::malformed("the payload is not a JSON object")),
        }
    }
}

impl Jwk {
    /// Parses a key.
    ///
    /// # Errors
    /// The key type is not supported, or the key is malformed.
    pub(super) fn parse(value: &Value) -> Result<Jwk, Problem> {
        let bad = |what: &str| Problem::of("badPublicKey", 400, what);
        let bytes = |name: &str| {
            let text = value.get(name).and_then(Value::as_str).unwrap_or_default();
            match URL_SAFE_NO_PAD.decode(text) {
                Ok(bytes) if !bytes.is_empty() => Ok(bytes),
                Ok(_) | Err(_) => Err(bad(&format!("the key has no proper `{name}`"))),
            }
        };
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("kty") {
            "EC" => {
                let curve = Curve::parse(text("crv")).ok_or_else(|| bad("an unknown curve"))?;
                let (x, y) = (bytes("x")?, bytes("y")?);
                if x.len() != curve.bytes() || y.len() != curve.bytes() {
                    return Err(bad("a coordinate of the wrong length"));
                }
                Ok(Jwk::Ec { curve, x, y })
            }
            "RSA" => Ok(Jwk::Rsa {
                n: bytes("n")?,
                e: bytes("e")?,
            }),
            "OKP" if text("crv") == "Ed25519" => Ok(Jwk::Ed25519 { x: bytes("x")? }),
            _ => Err(bad("there are EC, RSA and Ed25519 keys")),
        }
    }

    /// The required members, in the order of RFC 7638, section 3.2.
    pub(super) fn to_json(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        // serde_json sorts the members of objects, as the thumbprint requires.
        match self {
            Jwk::Ec { curve, x, y } => {
                json!({"crv": curve.name(), "kty": "EC", "x": text(x), "y": text(y)})
            }
            Jwk::Rsa { n, e } => json!({"e": text(e), "kty": "RSA", "n": text(n)}),
            Jwk::Ed25519 { x } => json!({"crv": "Ed25519", "kty": "OKP", "x": text(x)}),
        }
    }

    /// The SHA-256 thumbprint (RFC 7638), as base64url.
    pub(super) fn thumbprint(&self) -> String {
        let text = self.to_json().to_string();
        URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, text.as_bytes()))
    }

    /// Whether `spki`, the public key of a certificate, is this very key: an account key must not be used for a
    /// certificate (RFC 8555, section 11.1).
    pub(super) fn is_within(&self, spki: &[u8]) -> bool {
        let holds = |part: &[u8]| spki.windows(part.len()).any(|window| window == part);
        match self {
            Jwk::Ec { x, y, .. } => holds(&[x.as_slice(), y.as_slice()].concat()),
            Jwk::Rsa { n, .. } => holds(n),
            Jwk::Ed25519 { x } => holds(x),
        }
    }
}

fn decode(name: &str, text: &str) -> Result<Vec<u8>, Problem> {
    let decoded = URL_SAFE_NO_PAD.decode(text);
    decoded.map_err(|_| Problem::malformed(format!("`{name}` is not base64url")))
}

#[cfg(test)]
pub(super) mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
        ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
        RsaKeyPair,
    };

    use super::*;

    /// A key that signs requests.
    pub(in crate::acme_protocol) enum Key {
        Ec(Curve, EcdsaKeyPair),
        Ed(Ed25519KeyPair),
        Rsa(RsaKeyPair),
    }

    impl Key {
        pub(in crate::acme_protocol) fn ec(curve: Curve) -> Key {
            let algorithm = match curve {
                Curve::P256 => &ECDSA_P256_SHA256_FIXED_SIGNING,
                Curve::P384 => &ECDSA_P384_SHA384_FIXED_SIGNING,
                Curve::P521 => &ECDSA_P521_SHA512_FIXED_SIGNING,
            };
            Key::Ec(curve, EcdsaKeyPair::generate(algorithm).unwrap())
        }

        pub(in crate::acme_protocol) fn jwk(&self) -> Jwk {
            match self {
                Key::Ec(curve, pair) => {
                    let (x, y) = pair.public_key().as_ref()[1..].split_at(curve.bytes());
                    Jwk::Ec {
                        curve: *curve,
                        x: x.to_vec(),
                        y: y.to_vec(),
                    }
                }
                Key::Ed(pair) => Jwk::Ed25519 {
                    x: pair.public_key().as_ref().to_vec(),
                },
                Key::Rsa(pair) => {
                    let key = pair.public_key();
                    Jwk::Rsa {
                        n: key.modulus().big_endian_without_leading_zero().to_vec(),
                        e: key.exponent().big_endian_without_leading_zero().to_vec(),
                    }
                }
            }
        }

        fn algorithm(&self) -> &'static str {
            match self {
                Key::Ec(Curve::P256, _) => "ES256",
                Key::Ec(Curve::P384, _) => "ES384",
                Key::Ec(Curve::P521, _) => "ES512",
                Key::Ed(_) => "EdDSA",
                Key::Rsa(_) => "RS256",
            }
        }

        /// A signed request; `head` contains the protected header except for the algorithm.
        pub(in crate::acme_protocol) fn sign(&self, mut head: Value, payload: &str) -> Value {
            head["alg"] = self.algorithm().into();
            let protected = URL_SAFE_NO_PAD.encode(head.to_string());
            let payload = URL_SAFE_NO_PAD.encode(payload);
            let text = format!("{protected}.{payload}");
            let signature = match self {
                Key::Ec(_, pair) => {
                    let signed = pair.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
                    signed.as_ref().to_vec()
                }
                Key::Ed(pair) => pair.sign(text.as_bytes()).as_ref().to_vec(),
                Key::Rsa(pair) => {
                    let mut signed = vec![0; pair.public_modulus_len()];
                    let random = SystemRandom::new();
                    pair.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signed)
                        .unwrap();
                    signed
                }
            };
            json!({"protected": protected, "payload": payload,
                "signature": URL_SAFE_NO_PAD.encode(signature)})
        }
    }

    #[test]
    fn every_algorithm_is_verified_and_only_by_its_own_key() {
        let keys = [
            Key::ec(Curve::P256),
            Key::ec(Curve::P384),
            Key::ec(Curve::P521),
            Key::Ed(Ed25519KeyPair::generate().unwrap()),
            Key::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()),
        ];
        for (at, key) in keys.iter().enumerate() {
            let head = json!({"jwk": key.jwk().to_json(), "nonce": "n", "url": "https://a/b"});
            let mut made = key.sign(head, r#"{"a":1}"#);
            let read = Jws::from_value(&made).unwrap();
            assert_eq!(read.signer, Signer::Key(key.jwk()));
            assert_eq!(read.json().unwrap(), json!({"a": 1}));
            read.verify(&key.jwk()).unwrap();
            for (other, wrong) in keys.iter().enumerate().filter(|(other, _)| *other != at) {
                assert!(read.verify(&wrong.jwk()).is_err(), "{at} by {other}");
            }
            assert!(read.verify(&Key::ec(Curve::P256).jwk()).is_err());
            made["payload"] = URL_SAFE_NO_PAD.encode(r#"{"a":2}"#).into();
            let forged = Jws::from_value(&made).unwrap();
            assert!(forged.verify(&key.jwk()).is_err(), "{at}");
        }
    }

    #[test]
    fn what_rfc_8555_forbids_is_refused() {
        let key = Key::ec(Curve::P256);
        let jwk = key.jwk().to_json();
        let kind = |value: &Value| Jws::from_value(value).unwrap_err().kind;
        let good = key.sign(json!({"jwk": jwk, "nonce": "n", "url": "u"}), "");
        assert!(Jws::from_value(&good).is_ok());
        for (name, value) in [("header", json!({})), ("signatures", json!([]))] {
            let mut bad = good.clone();
            bad[name] = value;
            assert_eq!(kind(&bad), "malformed", "{name}");
        }
        for head in [
            json!({"nonce": "n"}),
            json!({"jwk": jwk, "kid": "x"}),
            json!({"jwk": jwk, "crit": ["b64"], "b64": false}),
        ] {
            assert_eq!(kind(&key.sign(head, "")), "malformed");
        }
        let mac = URL_SAFE_NO_PAD.encode(json!({"alg": "HS256", "kid": "x"}).to_string());
        let mac = json!({"protected": mac, "payload": "", "signature": ""});
        assert_eq!(kind(&mac), "badSignatureAlgorithm");
        let none = URL_SAFE_NO_PAD.encode(json!({"alg": "none", "kid": "x"}).to_string());
        let none = json!({"protected": none, "payload": "", "signature": ""});
        assert_eq!(kind(&none), "badSignatureAlgorithm");
        let short = key.sign(
            json!({"jwk": {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}}),
            "",
        );
        assert_eq!(kind(&short), "badPublicKey");
        assert!(Jws::parse(b"{").is_err() && Jws::parse(b"[]").is_err());
    }

    #[test]
    fn the_thumbprint_is_that_of_the_rfc() {
        // RFC 7638, section 3.1.
        let n = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_\
            BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2\
            QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6W\
            eZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw";
        let key = Jwk::parse(&json!({"kty": "RSA", "n": n, "e": "AQAB", "alg": "RS256"})).unwrap();
        assert_eq!(
            key.thumbprint(),
            "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
        );
    }
}
