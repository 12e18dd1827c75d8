//! ACME accounts: one for each CA and email address, created once and stored where Caddy stores its own. Orders are in
//! `order`.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use instant_acme::{Account, Error, ExternalAccountKey, Key, NewAccount};
use pki_types::pem::PemObject;
use pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use sluice_dns::fetch::escaped;
use sluice_dns::limits::REQUEST_TIMEOUT;
use ureq::http::Request;

use super::transport::Transport;
use super::{AcmeIssuer, Authority};
use crate::failure::CertsError;
use crate::storage::SharedLock;

/// ZeroSSL's ACME directory; external account bindings are available for an email address.
pub const ZEROSSL: &str = "https://acme.zerossl.com/v2/DV90";
const ZEROSSL_BINDINGS: &str = "https://api.zerossl.com/acme/eab-credentials-email";

/// The stored account, by the common prefix of its two file names.
struct Stored {
    name: String,
}

impl AcmeIssuer {
    /// The account at `authority`: the stored one, or a new one.
    pub(super) async fn account(
        &self,
        authority: &Authority,
        transport: &Transport,
    ) -> Result<Account, Error> {
        if let Some(account) = self.stored_account(authority, transport).await? {
            return Ok(account);
        }
        let stored = self.place(authority);
        // Concurrent orders or processes must not create two accounts.
        let lock = format!("acme_account_{}", stored.name.replace('/', "_"));
        let lock = self
            .storage
            .shared_lock(&lock, REQUEST_TIMEOUT)
            .map_err(other)?;
        match self.stored_account(authority, transport).await? {
            Some(account) => Ok(account),
            None => self.new_account(authority, transport, &lock).await,
        }
    }

    /// The stored account, if there is one.
    pub(super) async fn stored_account(
        &self,
        authority: &Authority,
        transport: &Transport,
    ) -> Result<Option<Account>, Error> {
        let stored = self.place(authority);
        let read = |ending: &str| self.storage.read(&format!("{}{ending}", stored.name));
        let (about, key) = (read(".json").map_err(other)?, read(".key").map_err(other)?);
        let (Some(about), Some(key)) = (about, key) else {
            return Ok(None);
        };
        // A damaged account is registered again: the CA recognizes the key, if that is still there.
        let about: Value = serde_json::from_slice(&about).unwrap_or_default();
        let (Some(location), Ok(key)) = (about["location"].as_str(), pkcs8(&key)) else {
            return Ok(None);
        };
        let builder = Account::builder_with_http(Box::new(transport.clone()));
        let directory = authority.directory.clone();
        builder
            .from_parts(location.to_owned(), key, directory)
            .await
            .map(Some)
    }

    /// Deletes the stored account, which the CA no longer knows.
    pub(super) fn forget_account(&self, authority: &Authority) -> Result<(), CertsError> {
        let stored = self.place(authority);
        self.storage.remove(&format!("{}.json", stored.name))
    }

    async fn new_account(
        &self,
        authority: &Authority,
        transport: &Transport,
        lock: &SharedLock,
    ) -> Result<Account, Error> {
        let builder = || Account::builder_with_http(Box::new(transport.clone()));
        let directory = authority.directory.clone();
        let contact = match self.options.email.as_str() {
            "" => None,
            email => Some(format!("mailto:{email}")),
        };
        let contacts: Vec<&str> = contact.as_deref().into_iter().collect();
        let (account, key) = if self.options.account_key.is_empty() {
            let binding = self.binding(authority)?;
            let wanted = NewAccount {
                contact: &contacts,
                terms_of_service_agreed: true,
                only_return_existing: false,
            };
            let (account, credentials) = builder()
                .create(&wanted, directory, binding.as_ref())
                .await?;
            (account, credentials.private_key().clone_key())
        } else {
            let key = pkcs8(self.options.account_key.as_bytes()).map_err(other)?;
            let pair = (
                Key::from_pkcs8_der(key.clone_key())?,
                PrivateKeyDer::Pkcs8(key.clone_key()),
            );
            let (account, _) = builder().create_from_key(pair, directory).await?;
            if !contacts.is_empty() {
                account.update_contacts(&contacts).await?;
            }
            (account, key)
        };
        self.store(authority, &account, (&contacts, &key), lock)
            .map_err(other)?;
        Ok(account)
    }

    /// Stores an account as Caddy does. The key goes first: it is enough to find the account again.
    fn store(
        &self,
        authority: &Authority,
        account: &Account,
        (contacts, key): (&[&str], &PrivatePkcs8KeyDer<'_>),
        lock: &SharedLock,
    ) -> Result<(), CertsError> {
        let name = self.place(authority).name;
        let about = json!({
            "status": "valid",
            "contact": contacts,
            "termsOfServiceAgreed": true,
            "location": account.id(),
        });
        let (about, key) = (format!("{about:#}"), pem(key.secret_pkcs8_der()));
        let [about_name, key_name] = [format!("{name}.json"), format!("{name}.key")];
        let values = [(&*key_name, &*key), (&*about_name, about.as_bytes())];
        self.storage.write_all(&values, lock.guard())
    }

    /// The storage name of the key of the account at `authority`.
    pub(super) fn account_key_name(&self, authority: &Authority) -> String {
        format!("{}.key", self.place(authority).name)
    }

    fn place(&self, authority: &Authority) -> Stored {
        let email = match self.options.email.to_ascii_lowercase() {
            email if email.is_empty() => "default".to_owned(),
            email => email,
        };
        let user = match email.split_once('@') {
            Some(("", rest)) => rest.to_owned(),
            Some((user, _)) => user.to_owned(),
            None => email.clone(),
        };
        let (ca, email, user) = (&authority.key, safe(&email), safe(&user));
        Stored {
            name: format!("acme/{ca}/users/{email}/{user}"),
        }
    }

    /// The external account binding (RFC 8555, section 7.3.4), if one is configured or can be obtained.
    fn binding(&self, authority: &Authority) -> Result<Option<ExternalAccountKey>, Error> {
        let bound = |id: &str, key: &str| {
            let key = URL_SAFE_NO_PAD
                .decode(key.trim_end_matches('='))
                .map_err(|_| Error::Str("the MAC key of the external account, as base64url"))?;
            Ok(Some(ExternalAccountKey::new(id.to_owned(), &key)))
        };
        match &self.options.eab {
            Some(eab) => bound(&eab.key_id, &eab.mac_key),
            None if authority.directory == ZEROSSL && !self.options.email.is_empty() => {
                let (id, key) = self.zerossl_binding()?;
                bound(&id, &key)
            }
            None => Ok(None),
        }
    }

    /// Obtains a binding from ZeroSSL, which issues one for any email address.
    fn zerossl_binding(&self) -> Result<(String, String), Error> {
        let email = escaped(&self.options.email);
        let request = Request::post(ZEROSSL_BINDINGS)
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(format!("email={email}").into_bytes())?;
        let response = self
            .fetcher
            .send(request)
            .map_err(|e| Error::Other(e.into()))?;
        let response: Value = serde_json::from_slice(response.body())?;
        match (
            response["eab_kid"].as_str(),
            response["eab_hmac_key"].as_str(),
        ) {
            (Some(id), Some(key)) => Ok((id.to_owned(), key.to_owned())),
            _ => Err(Error::Str("an account binding in ZeroSSL's response")),
        }
    }
}

/// A name made safe for file names, as in Caddy.
pub(super) fn safe(text: &str) -> String {
    let text = text.trim().to_lowercase();
    let text = text
        .replace(' ', "_")
        .replace('+', "_plus_")
        .replace('*', "wildcard_")
        .replace(':', "-")
        .replace("..", "");
    text.chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '@' | '.' | '-'))
        .collect()
}

fn pem(pkcs8: &[u8]) -> Vec<u8> {
    let text = STANDARD.encode(pkcs8);
    let mut out = String::from("-----BEGIN PRIVATE KEY-----\n");
    for line in text.as_bytes().chunks(64) {
        out.extend(line.iter().map(|b| char::from(*b)));
        out.push('\n');
    }
    out.push_str("-----END PRIVATE KEY-----\n");
    out.into_bytes()
}

/// Decodes a PEM key and converts it to PKCS #8, as the library expects; Caddy writes the older format of RFC 5915.
pub(super) fn pkcs8(text: &[u8]) -> Result<PrivatePkcs8KeyDer<'static>, CertsError> {
    let refuse = |what: &str| CertsError::Setting {
        name: "account_key",
        what: what.to_owned(),
    };
    let key = PrivateKeyDer::from_pem_slice(text).map_err(|e| refuse(&e.to_string()))?;
    let pair =
        EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, key.secret_der())
            .map_err(|_| refuse("account keys must be ECDSA keys on P-256"))?;
    let pkcs8 = pair
        .to_pkcs8v1()
        .map_err(|_| refuse("the account key cannot be encoded"))?;
    Ok(PrivatePkcs8KeyDer::from(pkcs8.as_ref().to_vec()))
}

fn other(error: CertsError) -> Error {
    Error::Other(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_both_forms_are_read_and_written() {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let der = pair.to_pkcs8v1().unwrap();
        let text = pem(der.as_ref());
        assert_eq!(pkcs8(&text).unwrap().secret_pkcs8_der(), der.as_ref());
        assert!(Key::from_pkcs8_der(pkcs8(&text).unwrap()).is_ok());
        let rfc5915 =
            aws_lc_rs::encoding::AsDer::<aws_lc_rs::encoding::EcPrivateKeyRfc5915Der<'_>>::as_der(
                &pair.private_key(),
            )
            .unwrap();
        let text = String::from_utf8(pem(rfc5915.as_ref())).unwrap();
        let text = text.replace("PRIVATE KEY", "EC PRIVATE KEY");
        assert_eq!(
            pkcs8(text.as_bytes()).unwrap().secret_pkcs8_der(),
            der.as_ref()
        );
        assert!(pkcs8(&text.as_bytes()[..80]).is_err(), "a torn one");
    }

    #[test]
    fn names_are_made_fit_for_files_as_caddy_does() {
        assert_eq!(safe("Me+You@Example.com"), "me_plus_you@example.com");
        assert_eq!(safe("../a b*:c/"), "a_bwildcard_-c");
    }
}
