//! Orders with a requested lifetime (RFC 8555, section 7.4, `notAfter`), which the library does not support: this signs
//! the request, and the library continues with the order.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use instant_acme::{Account, Error, Identifier, Order, Problem};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use ureq::http::{Request, Response};

use super::account::pkcs8;
use super::transport::Transport;
use super::{AcmeIssuer, Authority};
use crate::limits::STALE_NONCES_MAX;

impl AcmeIssuer {
    /// Creates an order for a certificate that ends at `order_lifetime`, without the `replaces` field.
    pub(super) async fn begin_until(
        &self,
        authority: &Authority,
        account: &Account,
        transport: &Transport,
        identifiers: &[Identifier],
        until: OffsetDateTime,
    ) -> Result<Order, Error> {
        let wish = self.wish(identifiers, until)?;
        let key = self.account_pair(authority)?;
        let directory: Value = serde_json::from_slice(&get(transport, &authority.directory)?.1)?;
        let at = |name: &'static str| directory[name].as_str().ok_or(Error::Str(name));
        let (nonces, orders) = (at("newNonce")?, at("newOrder")?);
        let mut tries = 0;
        loop {
            let nonce = header(&get(transport, nonces)?.0, "replay-nonce")
                .ok_or(Error::Str("a nonce of the CA"))?;
            let head = json!({"alg": "ES256", "kid": account.id(), "nonce": nonce, "url": orders});
            let request = Request::post(orders)
                .header("Content-Type", "application/jose+json")
                .body(signed(&key, &head, &wish)?)?;
            let (response, body) = transport.exchange(request)?;
            if response.status() == 201 {
                let url =
                    header(&response, "location").ok_or(Error::Str("the address of an order"))?;
                return account.order(url).await;
            }
            tries += 1;
            let mut problem: Problem = serde_json::from_slice(&body)?;
            problem.status.get_or_insert(response.status().as_u16());
            let is_stale = problem.r#type.as_deref() == Some("urn:ietf:params:acme:error:badNonce");
            if !is_stale || tries > STALE_NONCES_MAX {
                return Err(Error::Api(problem));
            }
        }
    }

    fn wish(&self, identifiers: &[Identifier], until: OffsetDateTime) -> Result<String, Error> {
        let until = until.replace_nanosecond(0).unwrap_or(until);
        let until = until
            .format(&Rfc3339)
            .map_err(|e| Error::Other(Box::new(e)))?;
        let mut wish = json!({
            "identifiers": serde_json::to_value(identifiers)?,
            "notAfter": until,
        });
        if !self.options.profile.is_empty() {
            wish["profile"] = self.options.profile.as_str().into();
        }
        Ok(wish.to_string())
    }

    /// The key of the stored account.
    fn account_pair(&self, authority: &Authority) -> Result<EcdsaKeyPair, Error> {
        let name = self.account_key_name(authority);
        let text = self
            .storage
            .read(&name)
            .map_err(|e| Error::Other(Box::new(e)))?;
        let text = text.ok_or(Error::Str("the key of the account"))?;
        let key = pkcs8(&text).map_err(|e| Error::Other(Box::new(e)))?;
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.secret_pkcs8_der())
            .map_err(|_| Error::Str("a usable key of the account"))
    }
}

fn get(transport: &Transport, url: &str) -> Result<(Response<()>, Vec<u8>), Error> {
    transport.exchange(Request::get(url).body(Vec::new())?)
}

fn header(response: &Response<()>, name: &str) -> Option<String> {
    let value = response.headers().get(name)?;
    value.to_str().ok().map(str::to_owned)
}

/// A JSON Web Signature in its flattened form.
fn signed(key: &EcdsaKeyPair, head: &Value, payload: &str) -> Result<Vec<u8>, Error> {
    let protected = URL_SAFE_NO_PAD.encode(head.to_string());
    let payload = URL_SAFE_NO_PAD.encode(payload);
    let text = format!("{protected}.{payload}");
    let signature = key
        .sign(&SystemRandom::new(), text.as_bytes())
        .map_err(|_| Error::Str("a signature"))?;
    let signature = URL_SAFE_NO_PAD.encode(signature);
    let whole = json!({"protected": protected, "payload": payload, "signature": signature});
    Ok(whole.to_string().into_bytes())
}
