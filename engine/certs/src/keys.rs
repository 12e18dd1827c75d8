//! Key types of certificates, and key generation. `storage` stores the keys.

use rcgen::{
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256,
    RsaKeySize,
};

use crate::failure::CertsError;

/// A key type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// Ed25519, which public CAs and browsers do not accept.
    Ed25519,
    /// ECDSA on P-256: small, fast and accepted everywhere.
    #[default]
    P256,
    /// ECDSA on P-384.
    P384,
    /// RSA with 2048 bits, for old clients.
    Rsa2048,
    /// RSA with 4096 bits.
    Rsa4096,
}

impl KeyType {
    /// Parses the name used in configurations; the default if empty.
    pub fn parse(name: &str) -> Option<KeyType> {
        match name {
            "" | "p256" => Some(KeyType::P256),
            "ed25519" => Some(KeyType::Ed25519),
            "p384" => Some(KeyType::P384),
            "rsa2048" => Some(KeyType::Rsa2048),
            "rsa4096" => Some(KeyType::Rsa4096),
            _ => None,
        }
    }

    /// Generates a key pair.
    pub fn generate(self) -> Result<KeyPair, CertsError> {
        let made = match self {
            KeyType::Ed25519 => KeyPair::generate_for(&PKCS_ED25519),
            KeyType::P256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
            KeyType::P384 => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
            KeyType::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
            KeyType::Rsa4096 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_4096),
        };
        made.map_err(|error| CertsError::Signing(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_makes_a_key_that_can_be_read_again() {
        for name in ["", "p256", "p384", "ed25519", "rsa2048"] {
            let key = KeyType::parse(name).unwrap().generate().unwrap();
            let again = KeyPair::from_pem(&key.serialize_pem()).unwrap();
            assert_eq!(again.public_key_raw(), key.public_key_raw(), "{name}");
        }
        assert_eq!(KeyType::parse("p521"), None);
    }
}
