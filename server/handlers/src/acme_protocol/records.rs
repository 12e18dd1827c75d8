//! The persistent state of the ACME server: accounts and orders, each a file in storage. `accounts` and `orders`
//! implement their semantics.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::nonces::random;
use super::problem::Problem;
use crate::limits::{ACME_ACCOUNT_IDLE, ACME_ACCOUNTS_MAX, ACME_ORDERS_MAX, ACME_SWEEP_PAUSE};
use sluice_certs::failure::CertsError;
use sluice_certs::storage::Storage;

/// A client's account.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Account {
    pub(super) id: String,
    pub(super) key: Value,
    pub(super) status: AccountStatus,
    #[serde(default)]
    pub(super) contact: Vec<String>,
    /// The latest orders, newest last.
    #[serde(default)]
    pub(super) orders: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum AccountStatus {
    Valid,
    Deactivated,
}

/// An order for a certificate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// Also the serial number of its certificate, so that the order can be found by the certificate.
    pub(super) id: String,
    pub(super) account: String,
    pub(super) status: OrderStatus,
    /// Seconds since the Unix epoch.
    pub(super) expires: u64,
    pub(super) authorizations: Vec<Authorization>,
    #[serde(default)]
    pub(super) not_before: Option<u64>,
    #[serde(default)]
    pub(super) not_after: Option<u64>,
    #[serde(default)]
    pub(super) error: Option<Value>,
    #[serde(default)]
    pub(super) certificate: Option<Certificate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum OrderStatus {
    Pending,
    Ready,
    Valid,
    Invalid,
}

/// An authorization for one identifier.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Authorization {
    /// The name or IP address, including the `*.` of a wildcard.
    pub(super) subject: String,
    pub(super) status: AuthorizationStatus,
    pub(super) challenges: Vec<Challenge>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum AuthorizationStatus {
    Pending,
    Valid,
    Invalid,
    Deactivated,
    Expired,
}

/// One challenge of an authorization.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Challenge {
    /// Its type in the protocol.
    pub(super) kind: String,
    pub(super) token: String,
    pub(super) status: ChallengeStatus,
    /// When it was validated, in seconds since the Unix epoch.
    #[serde(default)]
    pub(super) validated: Option<u64>,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ChallengeStatus {
    Pending,
    Processing,
    Valid,
    Invalid,
}

/// The certificate issued for an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Certificate {
    /// The chain, as PEM.
    pub(super) chain: String,
    /// The end of its validity, in seconds since the Unix epoch.
    pub(super) until: u64,
    /// When and for which reason it was revoked (RFC 5280, section 5.3.1).
    #[serde(default)]
    pub(super) revoked: Option<(u64, u64)>,
}

impl Order {
    /// When it may be deleted.
    fn ends(&self) -> u64 {
        let certificate = self.certificate.as_ref();
        certificate.map_or(0, |made| made.until).max(self.expires)
    }
}

/// The files of one CA. Not safe for concurrent use: writers hold the CA's lock.
pub(super) struct Records {
    storage: Storage,
    folder: String,
    /// The numbers of accounts and orders, once they were counted.
    counted: Option<(usize, usize)>,
    accounts_max: usize,
    swept: Option<SystemTime>,
}

impl Records {
    /// The records of the CA `id`.
    pub(super) fn new(storage: Storage, id: &str) -> Records {
        Records {
            storage,
            folder: format!("acme_server/{id}"),
            counted: None,
            accounts_max: ACME_ACCOUNTS_MAX,
            swept: None,
        }
    }

    pub(super) fn account(&self, id: &str) -> Result<Option<Account>, Problem> {
        self.read("accounts", id)
    }

    /// The ID of the account with this key.
    pub(super) fn account_of(&self, thumbprint: &str) -> Result<Option<String>, Problem> {
        self.read("keys", thumbprint)
    }

    /// Stores a new account and the mapping from its key.
    pub(super) fn add_account(
        &mut self,
        account: &Account,
        thumbprint: &str,
    ) -> Result<(), Problem> {
        if self.count()?.0 >= self.accounts_max {
            self.drop_idle_accounts()?;
        }
        if self.count()?.0 >= self.accounts_max {
            return Err(Problem::full("accounts"));
        }
        // The account goes first: a key without its account would lock out its holder.
        self.put_account(account)?;
        self.write("keys", thumbprint, &account.id)?;
        if let Some((accounts, _)) = &mut self.counted {
            *accounts += 1;
        }
        Ok(())
    }

    /// Deletes accounts without an order for some time: their holders can create new ones, and an attacker who fills
    /// the table does not lock others out for long.
    fn drop_idle_accounts(&mut self) -> Result<(), Problem> {
        for id in self.ids("accounts")? {
            let name = self.name("accounts", &id);
            let written = self.storage.find(&name)?.map(|found| found.modified);
            let age = written.and_then(|at| at.elapsed().ok());
            if age.is_none_or(|age| age < ACME_ACCOUNT_IDLE) {
                continue;
            }
            let orders = self.account(&id)?.map(|account| account.orders);
            let mut orders = orders.iter().flatten();
            if orders.try_fold(false, |any, order| {
                Ok::<_, Problem>(any || self.has("orders", order)?)
            })? {
                continue;
            }
            self.storage.remove(&name)?;
        }
        for thumbprint in self.ids("keys")? {
            let account = self.account_of(&thumbprint)?.unwrap_or_default();
            if !self.has("accounts", &account)? {
                self.storage.remove(&self.name("keys", &thumbprint))?;
            }
        }
        self.counted = None;
        Ok(())
    }

    pub(super) fn put_account(&self, account: &Account) -> Result<(), Problem> {
        self.write("accounts", &account.id, account)
    }

    /// Changes the key of an account.
    pub(super) fn change_key(
        &self,
        account: &Account,
        old: &str,
        new: &str,
    ) -> Result<(), Problem> {
        self.write("keys", new, &account.id)?;
        self.put_account(account)?;
        self.storage.remove(&self.name("keys", old))?;
        Ok(())
    }

    pub(super) fn order(&self, id: &str) -> Result<Option<Order>, Problem> {
        self.read("orders", id)
    }

    /// Stores a new order, after deleting expired ones.
    pub(super) fn add_order(&mut self, order: &Order, now: SystemTime) -> Result<(), Problem> {
        self.sweep(now)?;
        if self.count()?.1 >= ACME_ORDERS_MAX {
            return Err(Problem::full("orders"));
        }
        self.put_order(order)?;
        if let Some((_, orders)) = &mut self.counted {
            *orders += 1;
        }
        Ok(())
    }

    pub(super) fn put_order(&self, order: &Order) -> Result<(), Problem> {
        self.write("orders", &order.id, order)
    }

    /// Deletes orders that have expired together with their certificates; runs only once in a while.
    fn sweep(&mut self, now: SystemTime) -> Result<(), Problem> {
        let since = self.swept.and_then(|swept| now.duration_since(swept).ok());
        if since.is_some_and(|since| since < ACME_SWEEP_PAUSE) {
            return Ok(());
        }
        self.swept = Some(now);
        for id in self.ids("orders")? {
            // An unreadable order is useless.
            let has_ended = match self.order(&id) {
                Ok(Some(order)) => order.ends() < seconds(now),
                Ok(None) => false,
                Err(_) => true,
            };
            if has_ended {
                self.storage.remove(&self.name("orders", &id))?;
            }
        }
        self.counted = None;
        Ok(())
    }

    fn count(&mut self) -> Result<(usize, usize), Problem> {
        match self.counted {
            Some(counted) => Ok(counted),
            None => {
                let counted = (self.ids("accounts")?.len(), self.ids("orders")?.len());
                self.counted = Some(counted);
                Ok(counted)
            }
        }
    }

    fn ids(&self, kind: &str) -> Result<Vec<String>, Problem> {
        let names = self.storage.names(&format!("{}/{kind}", self.folder))?;
        Ok(names
            .iter()
            .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
            .collect())
    }

    fn has(&self, kind: &str, id: &str) -> Result<bool, Problem> {
        Ok(is_id(id) && self.storage.read(&self.name(kind, id))?.is_some())
    }

    fn name(&self, kind: &str, id: &str) -> String {
        format!("{}/{kind}/{id}.json", self.folder)
    }

    fn read<T: DeserializeOwned>(&self, kind: &str, id: &str) -> Result<Option<T>, Problem> {
        // IDs come from clients and become file names.
        if !is_id(id) {
            return Ok(None);
        }
        let Some(bytes) = self.storage.read(&self.name(kind, id))? else {
            return Ok(None);
        };
        match serde_json::from_slice(&bytes) {
            Ok(read) => Ok(Some(read)),
            Err(error) => Err(CertsError::Signing(error.to_string()).into()),
        }
    }

    fn write<T: Serialize>(&self, kind: &str, id: &str, value: &T) -> Result<(), Problem> {
        let bytes =
            serde_json::to_vec(value).map_err(|error| CertsError::Signing(error.to_string()))?;
        Ok(self.storage.write(&self.name(kind, id), &bytes)?)
    }
}

/// Whether a text may be an ID: base64url characters only.
fn is_id(text: &str) -> bool {
    let is_letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    (1..=64).contains(&text.len()) && text.bytes().all(is_letter)
}

/// A new ID, which is also a positive serial number (RFC 5280, section 4.1.2.2).
pub(super) fn new_id() -> Result<String, Problem> {
    let mut bytes =
        random().ok_or_else(|| CertsError::Signing("the system gives no randomness".to_owned()))?;
    bytes[0] = bytes[0] & 0x3f | 0x40;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// The serial number of an order's certificate.
pub(super) fn serial_of(id: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(id).unwrap_or_default()
}

/// The ID of the order whose certificate has this serial number.
pub(super) fn id_of(serial: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(serial)
}

/// Converts to seconds since the Unix epoch.
pub(super) fn seconds(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_secs()
}

/// Converts from seconds since the Unix epoch.
pub(super) fn moment(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temp_folder::TempFolder;

    fn order(expires: u64) -> Order {
        Order {
            id: new_id().unwrap(),
            account: "a".to_owned(),
            status: OrderStatus::Pending,
            expires,
            authorizations: Vec::new(),
            not_before: None,
            not_after: None,
            error: None,
            certificate: None,
        }
    }

    #[test]
    fn orders_are_found_again_and_swept_when_they_have_ended() {
        let folder = TempFolder::new();
        let storage = Storage::new(folder.path());
        let mut records = Records::new(storage.clone(), "local");
        let (early, late) = (order(100), order(100_000));
        let mut kept = order(100);
        kept.certificate = Some(Certificate {
            chain: String::new(),
            until: 200_000,
            revoked: None,
        });
        for order in [&early, &late, &kept] {
            records.add_order(order, moment(50)).unwrap();
        }
        let mut again = Records::new(storage, "local");
        assert_eq!(again.count().unwrap().1, 3);
        again.add_order(&order(100_000), moment(150)).unwrap();
        assert!(again.order(&early.id).unwrap().is_none());
        assert!(again.order(&late.id).unwrap().is_some());
        assert!(again.order(&kept.id).unwrap().is_some());
        assert_eq!(again.count().unwrap().1, 3);
    }

    #[test]
    fn what_is_full_takes_no_more() {
        let folder = TempFolder::new();
        let mut records = Records::new(Storage::new(folder.path()), "local");
        records.counted = Some((ACME_ACCOUNTS_MAX, ACME_ORDERS_MAX));
        records.swept = Some(moment(50));
        let error = records.add_order(&order(100), moment(50)).unwrap_err();
        assert_eq!(error.kind, "rateLimited");
        let idle = Duration::from_secs(2) + ACME_ACCOUNT_IDLE;
        let account = |id: &str, orders: &[String]| Account {
            id: id.to_owned(),
            key: Value::Null,
            status: AccountStatus::Valid,
            contact: Vec::new(),
            orders: orders.to_vec(),
        };
        let kept = order(100);
        records.put_order(&kept).unwrap();
        records.counted = Some((0, 0));
        for (id, orders, age) in [
            ("idle", &[][..], idle),
            ("fresh", &[][..], Duration::ZERO),
            ("busy", &[kept.id.clone()][..], idle),
        ] {
            records
                .add_account(&account(id, orders), &format!("key-{id}"))
                .unwrap();
            let path = folder.path().join(records.name("accounts", id));
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        records.accounts_max = 3;
        records
            .add_account(&account("new", &[]), "key-new")
            .unwrap();
        let error = records.add_account(&account("more", &[]), "key-more");
        assert_eq!(error.unwrap_err().kind, "rateLimited");
        let has = |id: &str| records.account(id).unwrap().is_some();
        assert!(!has("idle") && has("fresh") && has("busy") && has("new"));
        assert_eq!(records.account_of("key-idle").unwrap(), None);
        assert_eq!(
            records.account_of("key-busy").unwrap().as_deref(),
            Some("busy")
        );
    }

    #[test]
    fn ids_of_clients_lead_out_of_no_folder() {
        let folder = TempFolder::new();
        let records = Records::new(Storage::new(folder.path()), "local");
        std::fs::write(folder.path().join("x.json"), "\"a\"").unwrap();
        for id in ["", "../../../x", "a/b", "a.b", "\0"] {
            assert_eq!(records.account_of(id).unwrap(), None, "{id:?}");
        }
        let id = new_id().unwrap();
        assert_eq!(id_of(&serial_of(&id)), id);
        assert!(is_id(&id) && serial_of(&id)[0] < 0x80);
    }
}
