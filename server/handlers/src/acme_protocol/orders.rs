//! Orders of ACME clients, from creation to the certificate and its revocation (RFC 8555, sections 7.4 to 7.6).

use std::collections::BTreeSet;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pki_types::CertificateSigningRequestDer;
use pki_types::pem::PemObject;
use rcgen::{CertificateSigningRequestParams, DnType, PublicKeyData, SanType};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::jws::{Jwk, Jws, Signer};
use super::problem::Problem;
use super::records::{
    Account, Authorization, AuthorizationStatus, Certificate, Challenge, ChallengeStatus, Order,
    OrderStatus, id_of, moment, new_id, seconds, serial_of,
};
use super::rules::ChallengeKind;
use super::validate::Look;
use super::{AcmeDesk, AcmeResponse, AcmeResult, Visit};
use crate::limits::{
    ACME_IDENTIFIERS_MAX, ACME_LIFETIME_MAX, ACME_LIFETIME_MIN, ACME_LOOKS_MAX,
    ACME_ORDER_LIFETIME, ACME_ORDERS_LISTED_MAX,
};
use sluice_certs::local_ca::Leaf;
use sluice_certs::subject::Subject;

impl Visit<'_> {
    /// RFC 8555, section 7.4.
    pub(super) fn new_order(&mut self, mut account: Account, jws: &Jws) -> AcmeResult {
        let wish = jws.json()?;
        let mut authorizations = Vec::new();
        for subject in self.wanted(&wish)? {
            authorizations.push(self.open(&subject)?);
        }
        let (not_before, not_after) = self.span(&wish)?;
        let order = Order {
            id: new_id()?,
            account: account.id.clone(),
            status: OrderStatus::Pending,
            expires: seconds(self.now + ACME_ORDER_LIFETIME),
            authorizations,
            not_before,
            not_after,
            error: None,
            certificate: None,
        };
        let now = self.now;
        self.state.records.add_order(&order, now)?;
        account.orders.push(order.id.clone());
        let surplus = account.orders.len().saturating_sub(ACME_ORDERS_LISTED_MAX);
        account.orders.drain(..surplus);
        self.state.records.put_account(&account)?;
        Ok(self.order_response(&order, 201))
    }

    /// The identifiers of a new order, if all are allowed.
    fn wanted(&self, wish: &Value) -> Result<BTreeSet<Subject>, Problem> {
        let identifiers = wish["identifiers"].as_array();
        let identifiers = identifiers.ok_or_else(|| Problem::malformed("no `identifiers`"))?;
        if identifiers.is_empty() || identifiers.len() > ACME_IDENTIFIERS_MAX {
            let detail = format!("an order is for one to {ACME_IDENTIFIERS_MAX} names");
            return Err(Problem::malformed(detail));
        }
        let mut subjects = BTreeSet::new();
        for identifier in identifiers {
            let kind = identifier["type"].as_str().unwrap_or_default();
            let value = identifier["value"].as_str().unwrap_or_default();
            if !matches!(kind, "dns" | "ip") {
                let detail = format!("names of the type `{kind}` are not known here");
                return Err(Problem::of("unsupportedIdentifier", 400, detail));
            }
            let subject = Subject::parse(value)
                .map_err(|_| Problem::malformed(format!("`{value}` is not a name")))?;
            if subject.ip().is_some() != (kind == "ip") {
                return Err(Problem::malformed(format!(
                    "`{value}` is not of type `{kind}`"
                )));
            }
            let rejected = |detail| Problem::rejected(identifier.clone(), detail);
            self.rules.check(&subject).map_err(rejected)?;
            subjects.insert(subject);
        }
        Ok(subjects)
    }

    /// A pending authorization. Each of its challenges has its own token.
    fn open(&self, subject: &Subject) -> Result<Authorization, Problem> {
        let challenge = |kind: ChallengeKind| {
            Ok(Challenge {
                kind: kind.name().to_owned(),
                token: new_id()? + &new_id()?,
                status: ChallengeStatus::Pending,
                validated: None,
                error: None,
            })
        };
        Ok(Authorization {
            subject: subject.to_string(),
            status: AuthorizationStatus::Pending,
            challenges: self
                .rules
                .kinds(subject)
                .map(challenge)
                .collect::<Result<_, Problem>>()?,
        })
    }

    /// The requested validity period of the certificate.
    fn span(&self, wish: &Value) -> Result<(Option<u64>, Option<u64>), Problem> {
        let date = |name: &str| match wish.get(name).filter(|value| !value.is_null()) {
            None => Ok(None),
            Some(value) => OffsetDateTime::parse(value.as_str().unwrap_or_default(), &Rfc3339)
                .map(|at| Some(SystemTime::from(at)))
                .map_err(|_| Problem::malformed(format!("`{name}` is not a date"))),
        };
        let (before, after) = (date("notBefore")?, date("notAfter")?);
        if let Some(after) = after {
            let length = after
                .duration_since(before.unwrap_or(self.now))
                .unwrap_or_default();
            // The end is given in whole seconds, and processing the order takes a moment.
            if !(ACME_LIFETIME_MIN..=ACME_LIFETIME_MAX).contains(&length) {
                return Err(Problem::malformed(format!(
                    "a certificate lives between {} minutes and {} days",
                    ACME_LIFETIME_MIN.as_secs() / 60,
                    ACME_LIFETIME_MAX.as_secs() / 86400
                )));
            }
        }
        Ok((before.map(seconds), after.map(seconds)))
    }

    /// An order of `account` in its current state.
    fn order(&self, account: &Account, id: &str) -> Result<Order, Problem> {
        let found = self.state.records.order(id)?;
        let mut order = found
            .filter(|order| order.account == account.id)
            .ok_or_else(|| Problem::not_found("order"))?;
        let is_open = matches!(order.status, OrderStatus::Pending | OrderStatus::Ready);
        if is_open && order.expires < seconds(self.now) {
            order.status = OrderStatus::Invalid;
            for authorization in &mut order.authorizations {
                authorization.status = AuthorizationStatus::Expired;
            }
        }
        Ok(order)
    }

    pub(super) fn show_order(&mut self, account: &Account, id: &str) -> AcmeResult {
        let mut order = self.order(account, id)?;
        self.resume(account, &mut order)?;
        Ok(self.order_response(&order, 200))
    }

    fn order_response(&self, order: &Order, status: u16) -> AcmeResponse {
        let at = self.url(&format!("order/{}", order.id));
        let places = 0..order.authorizations.len();
        let authorizations = places.map(|place| self.url(&format!("authz/{}/{place}", order.id)));
        let identifiers = order.authorizations.iter();
        let identifiers = identifiers.map(|one| identifier(&one.subject));
        let mut body = json!({
            "status": order.status,
            "expires": date(order.expires),
            "identifiers": identifiers.collect::<Vec<_>>(),
            "authorizations": authorizations.collect::<Vec<_>>(),
            "finalize": format!("{at}/finalize"),
        });
        if let Some(from) = order.not_before {
            body["notBefore"] = date(from).into();
        }
        if let Some(until) = order.not_after {
            body["notAfter"] = date(until).into();
        }
        if let Some(error) = &order.error {
            body["error"] = error.clone();
        }
        if order.certificate.is_some() {
            body["certificate"] = self.url(&format!("certificate/{}", order.id)).into();
        }
        AcmeResponse {
            location: Some(at),
            ..AcmeResponse::of(status, body)
        }
    }

    /// RFC 8555, sections 7.5 and 7.5.2.
    pub(super) fn authorization(
        &mut self,
        account: &Account,
        id: &str,
        place: &str,
        jws: &Jws,
    ) -> AcmeResult {
        let mut order = self.order(account, id)?;
        let place = place_of(&order, place)?;
        if jws.payload.is_empty() {
            self.resume(account, &mut order)?;
        } else {
            if jws.json()?["status"] != "deactivated" {
                let detail = "an authorization can only be deactivated";
                return Err(Problem::malformed(detail));
            }
            order.authorizations[place].status = AuthorizationStatus::Deactivated;
            if matches!(order.status, OrderStatus::Pending | OrderStatus::Ready) {
                order.status = OrderStatus::Invalid;
            }
            self.state.records.put_order(&order)?;
        }
        let authorization = &order.authorizations[place];
        let challenges = authorization.challenges.iter();
        let challenges = challenges.map(|one| self.challenge_json(&order, place, one));
        let mut body = json!({
            "identifier": identifier(authorization.subject.trim_start_matches("*.")),
            "status": authorization.status,
            "expires": date(order.expires),
            "challenges": challenges.collect::<Vec<_>>(),
        });
        if authorization.subject.starts_with("*.") {
            body["wildcard"] = true.into();
        }
        Ok(AcmeResponse::of(200, body))
    }

    /// RFC 8555, section 7.5.1: any request with a payload starts the validation.
    pub(super) fn challenge(
        &mut self,
        account: &Account,
        id: &str,
        place: &str,
        kind: &str,
        jws: &Jws,
    ) -> AcmeResult {
        let mut order = self.order(account, id)?;
        let place = place_of(&order, place)?;
        let number = order.authorizations[place]
            .challenges
            .iter()
            .position(|challenge| challenge.kind == kind)
            .ok_or_else(|| Problem::not_found("challenge"))?;
        let is_open = order.authorizations[place].status == AuthorizationStatus::Pending;
        let is_new =
            order.authorizations[place].challenges[number].status == ChallengeStatus::Pending;
        if !jws.payload.is_empty() && is_open && is_new {
            jws.json()?;
            self.look(account, &mut order, place, number)?;
        } else {
            self.resume(account, &mut order)?;
        }
        let challenge = &order.authorizations[place].challenges[number];
        let up = self.url(&format!("authz/{id}/{place}"));
        Ok(AcmeResponse {
            links: vec![format!("<{up}>;rel=\"up\"")],
            ..AcmeResponse::of(200, self.challenge_json(&order, place, challenge))
        })
    }

    fn challenge_json(&self, order: &Order, place: usize, challenge: &Challenge) -> Value {
        let (id, kind) = (&order.id, &challenge.kind);
        let mut body = json!({
            "type": kind,
            "url": self.url(&format!("challenge/{id}/{place}/{kind}")),
            "token": challenge.token,
            "status": challenge.status,
        });
        if let Some(at) = challenge.validated {
            body["validated"] = date(at).into();
        }
        if let Some(error) = &challenge.error {
            body["error"] = error.clone();
        }
        body
    }

    /// Resumes validations that were interrupted by a restart.
    fn resume(&mut self, account: &Account, order: &mut Order) -> Result<(), Problem> {
        for place in 0..order.authorizations.len() {
            let authorization = &order.authorizations[place];
            let is_under_way = |one: &Challenge| one.status == ChallengeStatus::Processing;
            let number = authorization.challenges.iter().position(is_under_way);
            let is_open = authorization.status == AuthorizationStatus::Pending;
            let is_looked_for = self.state.looking.contains(&(order.id.clone(), place));
            if let Some(number) = number.filter(|_| is_open && !is_looked_for) {
                self.look(account, order, place, number)?;
            }
        }
        Ok(())
    }

    /// Validates a challenge on a separate thread.
    fn look(
        &mut self,
        account: &Account,
        order: &mut Order,
        place: usize,
        number: usize,
    ) -> Result<(), Problem> {
        if self.state.looking.len() >= ACME_LOOKS_MAX {
            return Err(Problem::full("proofs are being looked for"));
        }
        let thumbprint = Jwk::parse(&account.key)?.thumbprint();
        let authorization = &mut order.authorizations[place];
        let challenge = &mut authorization.challenges[number];
        let kind = ChallengeKind::parse(&challenge.kind);
        let look = Look {
            kind: kind.ok_or_else(|| Problem::not_found("challenge"))?,
            subject: Subject::parse(&authorization.subject)?,
            token: challenge.token.clone(),
            authorization: format!("{}.{thumbprint}", challenge.token),
        };
        challenge.status = ChallengeStatus::Processing;
        self.state.records.put_order(order)?;
        let what = (order.id.clone(), place);
        self.state.looking.insert(what.clone());
        let (desk, rules, id) = (
            self.server.desk.clone(),
            self.rules.clone(),
            order.id.clone(),
        );
        let started = std::thread::Builder::new()
            .name("acme-look".to_owned())
            .spawn(move || {
                let looking = Looking(&desk, (id.clone(), place));
                let found = look.run(&rules);
                // If the result cannot be stored, the validation is repeated at the client's next request.
                let _ = desk.found(&id, place, number, found);
                drop(looking);
            });
        if started.is_err() {
            self.state.looking.remove(&what);
            return Err(Problem::full("proofs are being looked for"));
        }
        Ok(())
    }

    /// RFC 8555, section 7.4: issues the certificate immediately.
    pub(super) fn finalize(&mut self, account: &Account, id: &str, jws: &Jws) -> AcmeResult {
        let mut order = self.order(account, id)?;
        if order.status != OrderStatus::Ready {
            return Err(Problem::of("orderNotReady", 403, "the order is not ready"));
        }
        let wish = jws.json()?;
        let csr = URL_SAFE_NO_PAD.decode(wish["csr"].as_str().unwrap_or_default());
        let csr = csr.map_err(|_| bad_csr("it is not base64url"))?;
        let subjects = subjects_of(&order)?;
        let csr = checked(&csr, &subjects, &Jwk::parse(&account.key)?)?;
        let now = self.now;
        let from = order.not_before.map(moment);
        let length = match order.not_after.map(moment) {
            Some(until) => until
                .duration_since(from.unwrap_or(now))
                .unwrap_or_default(),
            None => self.rules.lifetime,
        };
        let serial = serial_of(&order.id);
        let made = self.server.ca.sign(
            &csr.public_key,
            &Leaf {
                subjects: &subjects,
                serial: Some(&serial),
                from,
                length,
                by_root: self.rules.sign_with_root,
            },
            now,
        )?;
        order.certificate = Some(Certificate {
            chain: made.chain,
            until: seconds(made.lifetime.until),
            revoked: None,
        });
        order.status = OrderStatus::Valid;
        self.state.records.put_order(&order)?;
        Ok(self.order_response(&order, 200))
    }

    /// RFC 8555, section 7.4.2.
    pub(super) fn certificate(&self, account: &Account, id: &str) -> AcmeResult {
        let order = self.order(account, id)?;
        let made = order.certificate;
        let made = made.ok_or_else(|| Problem::not_found("certificate"))?;
        Ok(AcmeResponse {
            media_type: "application/pem-certificate-chain",
            body: made.chain.into_bytes(),
            ..AcmeResponse::of(200, Value::Null)
        })
    }

    /// RFC 8555, section 7.6. Relying parties are not informed: there is no revocation list; the certificates are
    /// short-lived instead.
    pub(super) fn revoke(&mut self, jws: &Jws) -> AcmeResult {
        let account = match &jws.signer {
            Signer::Account(_) => Some(self.signer(jws)?.0),
            Signer::Key(key) => {
                jws.verify(key)?;
                None
            }
        };
        let wish = jws.json()?;
        let der = URL_SAFE_NO_PAD.decode(wish["certificate"].as_str().unwrap_or_default());
        let der = der.map_err(|_| Problem::malformed("`certificate` is not base64url"))?;
        let (_, cert) = X509Certificate::from_der(&der)
            .map_err(|_| Problem::malformed("`certificate` is not a certificate"))?;
        let reason = wish["reason"].as_u64().unwrap_or(0);
        // RFC 5280, section 5.3.1; 7 is unused.
        if reason > 10 || reason == 7 || wish.get("reason").is_some_and(|r| !r.is_u64()) {
            return Err(Problem::of(
                "badRevocationReason",
                400,
                "no reason of RFC 5280",
            ));
        }
        let found = self.state.records.order(&id_of(cert.raw_serial()))?;
        let is_it = |order: &Order| leaf_of(order).is_some_and(|leaf| leaf == der);
        let mut order = found
            .filter(is_it)
            .ok_or_else(|| Problem::not_found("certificate of this CA"))?;
        let may = match (&account, &jws.signer) {
            (Some(account), _) => self.may_revoke(account, &order)?,
            (None, Signer::Key(key)) => key.is_within(cert.public_key().raw),
            (None, Signer::Account(_)) => false,
        };
        if !may {
            return Err(Problem::of(
                "unauthorized",
                403,
                "the certificate is another's",
            ));
        }
        let now = seconds(self.now);
        if let Some(made) = &mut order.certificate {
            if made.revoked.is_some() {
                return Err(Problem::of("alreadyRevoked", 400, "it is revoked already"));
            }
            made.revoked = Some((now, reason));
        }
        self.state.records.put_order(&order)?;
        Ok(AcmeResponse::of(200, Value::Null))
    }

    /// Whether the account owns a certificate, or has valid authorizations for all its names.
    fn may_revoke(&self, account: &Account, order: &Order) -> Result<bool, Problem> {
        if order.account == account.id {
            return Ok(true);
        }
        let mut proven = BTreeSet::new();
        for id in &account.orders {
            let Ok(own) = self.order(account, id) else {
                continue;
            };
            let valid = own.authorizations.into_iter();
            let valid = valid.filter(|one| one.status == AuthorizationStatus::Valid);
            proven.extend(valid.map(|one| one.subject));
        }
        Ok(order
            .authorizations
            .iter()
            .all(|one| proven.contains(&one.subject)))
    }
}

impl AcmeDesk {
    /// Records the result of a validation.
    fn found(
        &self,
        id: &str,
        place: usize,
        number: usize,
        found: Result<(), Problem>,
    ) -> Result<(), Problem> {
        let state = self.state();
        let Some(mut order) = state.records.order(id)? else {
            return Ok(());
        };
        let Some(authorization) = order.authorizations.get_mut(place) else {
            return Ok(());
        };
        // The client may have deactivated it meanwhile.
        if authorization.status != AuthorizationStatus::Pending {
            return Ok(());
        }
        let challenge = &mut authorization.challenges[number];
        match found {
            Ok(()) => {
                challenge.status = ChallengeStatus::Valid;
                challenge.validated = Some(seconds(SystemTime::now()));
                authorization.status = AuthorizationStatus::Valid;
            }
            Err(problem) => {
                challenge.status = ChallengeStatus::Invalid;
                challenge.error = Some(problem.to_json());
                authorization.status = AuthorizationStatus::Invalid;
                order.error = Some(problem.to_json());
            }
        }
        let has = |status| order.authorizations.iter().any(|one| one.status == status);
        if has(AuthorizationStatus::Invalid) {
            order.status = OrderStatus::Invalid;
        } else if !has(AuthorizationStatus::Pending) {
            order.status = OrderStatus::Ready;
        }
        state.records.put_order(&order)
    }
}

/// A validation in progress, until this is dropped, even by a panic.
struct Looking<'a>(&'a AcmeDesk, (String, usize));

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.0.state().looking.remove(&self.1);
    }
}

fn place_of(order: &Order, text: &str) -> Result<usize, Problem> {
    let place = text.parse().ok();
    place
        .filter(|place| *place < order.authorizations.len())
        .ok_or_else(|| Problem::not_found("authorization"))
}

fn subjects_of(order: &Order) -> Result<Vec<Subject>, Problem> {
    let subjects = order.authorizations.iter();
    let subjects = subjects.map(|one| Subject::parse(&one.subject));
    Ok(subjects.collect::<Result<_, _>>()?)
}

fn identifier(subject: &str) -> Value {
    let is_ip = subject.parse::<std::net::IpAddr>().is_ok();
    json!({"type": if is_ip { "ip" } else { "dns" }, "value": subject})
}

/// Formats a date as in RFC 3339, which fails only for years after 9999.
fn date(at: u64) -> String {
    let at = OffsetDateTime::from(moment(at));
    at.format(&Rfc3339).unwrap_or_default()
}

fn leaf_of(order: &Order) -> Option<Vec<u8>> {
    let chain = &order.certificate.as_ref()?.chain;
    let leaf = pki_types::CertificateDer::from_pem_slice(chain.as_bytes()).ok()?;
    Some(leaf.to_vec())
}

fn bad_csr(detail: impl Into<String>) -> Problem {
    Problem::of("badCSR", 400, detail)
}

/// Checks that a certificate signing request (PKCS #10) is for exactly `subjects`, with a key that is not the account
/// key.
fn checked(
    der: &[u8],
    subjects: &[Subject],
    account: &Jwk,
) -> Result<CertificateSigningRequestParams, Problem> {
    let csr = CertificateSigningRequestParams::from_der(&CertificateSigningRequestDer::from(der))
        .map_err(|error| bad_csr(error.to_string()))?;
    let mut named = BTreeSet::new();
    for name in &csr.params.subject_alt_names {
        named.insert(match name {
            SanType::DnsName(name) => Subject::parse(name.as_ref()),
            SanType::IpAddress(ip) => Subject::parse(&ip.to_string()),
            _ => return Err(bad_csr("there are names of hosts and addresses only")),
        }?);
    }
    if let Some(name) = csr.params.distinguished_name.get(&DnType::CommonName) {
        let text = match name {
            rcgen::DnValue::PrintableString(text) => text.as_str().to_owned(),
            rcgen::DnValue::Utf8String(text) => text.clone(),
            _ => return Err(bad_csr("the common name is of an unusual type")),
        };
        named.insert(Subject::parse(&text).map_err(|_| bad_csr("the common name is not a host"))?);
    }
    if named != subjects.iter().cloned().collect() {
        return Err(bad_csr("it is for other names than the order"));
    }
    let (_, parsed) = x509_parser::certification_request::X509CertificationRequest::from_der(der)
        .map_err(|_| bad_csr("it is damaged"))?;
    let key = parsed.certification_request_info.subject_pki.raw;
    // The certificate must contain the very key of the request, but the library cannot represent all key types.
    if csr.public_key.subject_public_key_info() != key {
        return Err(bad_csr("keys of this kind are not signed"));
    }
    if account.is_within(key) {
        return Err(bad_csr("the key is that of the account"));
    }
    if let Ok(x509_parser::public_key::PublicKey::RSA(key)) =
        parsed.certification_request_info.subject_pki.parsed()
        && key.key_size() < 2048
    {
        return Err(bad_csr("RSA keys have at least 2048 bits"));
    }
    Ok(csr)
}
