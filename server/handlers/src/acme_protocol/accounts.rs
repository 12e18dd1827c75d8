//! Accounts of ACME clients: creation, update and deactivation (RFC 8555, section 7.3). Orders are in `orders`.

use serde_json::{Value, json};

use super::jws::{Jwk, Jws, Signer};
use super::problem::Problem;
use super::records::{Account, AccountStatus, new_id};
use super::{AcmeResponse, AcmeResult, Visit};
use crate::limits::{ACME_CONTACT_BYTES_MAX, ACME_CONTACTS_MAX};

impl Visit<'_> {
    /// RFC 8555, sections 7.3 and 7.3.1. An external account binding is not required, and ignored if present.
    pub(super) fn new_account(&mut self, jws: &Jws) -> AcmeResult {
        let Signer::Key(key) = &jws.signer else {
            return Err(Problem::malformed(
                "a newAccount request must be signed with the `jwk` of the account",
            ));
        };
        jws.verify(key)?;
        let wish = jws.json()?;
        let thumbprint = key.thumbprint();
        if let Some(account) = self.account_of(&thumbprint)? {
            if account.status != AccountStatus::Valid {
                return Err(Problem::unauthorized("the account is deactivated"));
            }
            return Ok(self.show_account(&account, 200));
        }
        if wish["onlyReturnExisting"] == true {
            let detail = "there is no account with this key";
            return Err(Problem::of("accountDoesNotExist", 400, detail));
        }
        let account = Account {
            id: new_id()?,
            key: key.to_json(),
            status: AccountStatus::Valid,
            contact: contacts(&wish)?.unwrap_or_default(),
            orders: Vec::new(),
        };
        self.state.records.add_account(&account, &thumbprint)?;
        Ok(self.show_account(&account, 201))
    }

    /// RFC 8555, sections 7.3.2 and 7.3.6.
    pub(super) fn update_account(&mut self, mut account: Account, jws: &Jws) -> AcmeResult {
        if !jws.payload.is_empty() {
            let wish = jws.json()?;
            match wish["status"].as_str() {
                None | Some("valid") => {}
                Some("deactivated") => account.status = AccountStatus::Deactivated,
                Some(_) => return Err(Problem::malformed("an account can only be deactivated")),
            }
            if let Some(contact) = contacts(&wish)? {
                account.contact = contact;
            }
            self.state.records.put_account(&account)?;
        }
        Ok(self.show_account(&account, 200))
    }

    /// RFC 8555, section 7.3.5.
    pub(super) fn change_key(&mut self, mut account: Account, jws: &Jws) -> AcmeResult {
        let inner = Jws::from_value(&jws.json()?)?;
        let Signer::Key(key) = &inner.signer else {
            return Err(Problem::malformed("the inner request carries the new key"));
        };
        inner.verify(key)?;
        let said = inner.json()?;
        let old = Jwk::parse(&account.key)?;
        let is_meant = inner.url == jws.url
            && inner.nonce.is_none()
            && said["account"] == self.url(&format!("account/{}", account.id))
            && Jwk::parse(&said["oldKey"])? == old;
        if !is_meant {
            let detail = "the inner request is not for this account and its old key";
            return Err(Problem::malformed(detail));
        }
        let thumbprint = key.thumbprint();
        if let Some(other) = self.state.records.account_of(&thumbprint)? {
            let conflict = Problem::of("malformed", 409, "another account has this key");
            let at = self.url(&format!("account/{other}"));
            return Ok(AcmeResponse {
                location: Some(at),
                ..super::refusal(&conflict)
            });
        }
        account.key = key.to_json();
        let before = old.thumbprint();
        self.state
            .records
            .change_key(&account, &before, &thumbprint)?;
        Ok(self.show_account(&account, 200))
    }

    /// RFC 8555, section 7.1.2.1.
    pub(super) fn list_orders(&self, account: &Account) -> AcmeResponse {
        let orders = account.orders.iter();
        let urls: Vec<String> = orders.map(|id| self.url(&format!("order/{id}"))).collect();
        AcmeResponse::of(200, json!({ "orders": urls }))
    }

    fn account_of(&self, thumbprint: &str) -> Result<Option<Account>, Problem> {
        match self.state.records.account_of(thumbprint)? {
            Some(id) => self.state.records.account(&id),
            None => Ok(None),
        }
    }

    fn show_account(&self, account: &Account, status: u16) -> AcmeResponse {
        let at = self.url(&format!("account/{}", account.id));
        let body = json!({
            "status": account.status,
            "contact": account.contact,
            "orders": format!("{at}/orders"),
        });
        AcmeResponse {
            location: Some(at),
            ..AcmeResponse::of(status, body)
        }
    }
}

/// The contact URLs in a request, if it has any.
fn contacts(wish: &Value) -> Result<Option<Vec<String>>, Problem> {
    let Some(found) = wish.get("contact").filter(|found| !found.is_null()) else {
        return Ok(None);
    };
    let bad = |detail: &str| Problem::of("invalidContact", 400, detail);
    let found = found
        .as_array()
        .ok_or_else(|| bad("`contact` is not a list"))?;
    if found.len() > ACME_CONTACTS_MAX {
        return Err(bad("too many contacts"));
    }
    let text = |value: &Value| match value.as_str() {
        Some(text) if text.len() > ACME_CONTACT_BYTES_MAX => Err(bad("a contact is too long")),
        Some(text) if text.starts_with("mailto:") => Ok(text.to_owned()),
        Some(_) => {
            let detail = "there is `mailto:`";
            Err(Problem::of("unsupportedContact", 400, detail))
        }
        None => Err(bad("a contact is not text")),
    };
    found.iter().map(text).collect::<Result<_, _>>().map(Some)
}
