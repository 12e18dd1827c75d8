//! One order from beginning to certificate: RFC 8555, section 7.4. Accounts are in `account`.

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeHandle, ChallengeType, Error,
    Identifier, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType};
use serde_json::{Value, json};
use sluice_dns::DnsRecord;
use time::OffsetDateTime;

use super::transport::Transport;
use super::{AcmeIssuer, Authority};
use crate::challenges::Shown;
use crate::challenges::shared::{Identifier as StoredIdentifier, Published, StoredChallenge};
use crate::failure::CertsError;
use crate::gate::{Gate, GateKind};
use crate::issuer::{Issued, Request};
use crate::limits::{CHALLENGE_SPREAD, CHALLENGE_SPREAD_MAX};
use crate::local_ca::alternative_name;
use crate::subject::Subject;

/// `id-pe-tlsfeature` (RFC 7633, section 6), and the list of the one feature `status_request`.
const TLS_FEATURE: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 1, 24];
const STATUS_REQUEST: &[u8] = &[0x30, 3, 2, 1, 5];

/// The first pause between two polls of an order; each further one is 1.5 times as long.
const POLL_PAUSE: Duration = Duration::from_millis(500);

/// A challenge response, active while this is held.
enum Responding<'a> {
    Ours {
        _shown: Shown,
        _gate: Option<Gate>,
        _published: Option<Published>,
    },
    Dns {
        _record: DnsRecord<'a>,
    },
}

impl AcmeIssuer {
    /// Orders a certificate, proving control of the name by challenges of this `kind`.
    pub(super) async fn order(
        &self,
        authority: &Authority,
        transport: &Transport,
        request: &Request<'_>,
        kind: &ChallengeType,
    ) -> Result<Issued, Error> {
        let account = self.account(authority, transport).await?;
        let identifiers = [match (request.subject.ip(), request.subject.name()) {
            (Some(ip), _) => Identifier::Ip(ip),
            (None, name) => Identifier::Dns(name.unwrap_or_default().to_owned()),
        }];
        let mut order = match self.options.lifetime {
            Some(lifetime) => {
                let until = OffsetDateTime::now_utc() + lifetime;
                self.begin_until(authority, &account, transport, &identifiers, until)
                    .await?
            }
            None => self.begin(&account, &identifiers, request).await?,
        };
        let looks = RetryPolicy::new()
            .initial_delay(POLL_PAUSE)
            .backoff(1.5)
            .timeout(self.options.timeout);
        let responding = self
            .prove(authority, &mut order, request.subject, kind)
            .await?;
        if responding.is_empty() {
            Published::remove_left(&self.storage, &authority.key, request.subject);
        } else {
            let status = order.poll_ready(&looks).await;
            if !matches!(status, Ok(OrderStatus::Ready)) {
                return Err(match refusal(&mut order).await {
                    Some(why) => why,
                    None => status.err().unwrap_or(Error::Str("a valid order")),
                });
            }
        }
        drop(responding);
        order.finalize_csr(&csr(request, false)?).await?;
        let chain = order.poll_certificate(&looks).await?;
        let url = order.state().certificate.clone();
        let chain = self.preferred_chain(&account, transport, chain).await?;
        Ok(Issued {
            chain: chain.into_bytes(),
            about: about(authority, &account, url),
        })
    }

    /// Creates the order. If the CA does not accept it as a replacement (RFC 9773, section 5), creates it as a new one.
    async fn begin(
        &self,
        account: &Account,
        identifiers: &[Identifier],
        request: &Request<'_>,
    ) -> Result<Order, Error> {
        let new = || {
            let order = NewOrder::new(identifiers);
            match self.options.profile.as_str() {
                "" => order,
                profile => order.profile(profile),
            }
        };
        let leaf = request
            .replaces
            .and_then(|pair| pair.certified.cert.first());
        let replaced = leaf.and_then(|leaf| CertificateIdentifier::try_from(leaf).ok());
        if let Some(replaced) = replaced {
            match account.new_order(&new().replaces(replaced)).await {
                Ok(order) => return Ok(order),
                Err(Error::Api(problem)) if problem.status == Some(429) => {
                    return Err(Error::Api(problem));
                }
                Err(_) => {}
            }
        }
        account.new_order(&new()).await
    }

    /// Responds to the challenges of all pending authorizations. If there are none, nothing is left to wait for.
    async fn prove(
        &self,
        authority: &Authority,
        order: &mut Order,
        subject: &Subject,
        kind: &ChallengeType,
    ) -> Result<Vec<Responding<'_>>, Error> {
        let mut responding = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                AuthorizationStatus::Invalid
                | AuthorizationStatus::Revoked
                | AuthorizationStatus::Expired
                | AuthorizationStatus::Deactivated => {
                    return Err(Error::Str("an authorization that is still open"));
                }
            }
            let mut challenge = authorization
                .challenge(kind.clone())
                .ok_or(Error::Unsupported("this kind of challenge"))?;
            responding.push(self.response(authority, subject, &challenge).await?);
            challenge.set_ready().await?;
        }
        Ok(responding)
    }

    async fn response(
        &self,
        authority: &Authority,
        subject: &Subject,
        challenge: &ChallengeHandle<'_>,
    ) -> Result<Responding<'_>, Error> {
        let other = |error| Error::Other(Box::new(error));
        let authorization = challenge.key_authorization();
        if let (Some(dns), ChallengeType::Dns01) = (&self.options.dns, &challenge.r#type) {
            let text = authorization.dns_value();
            let record = dns.show(&self.fetcher, &subject.to_string(), &text).await;
            let record = record.map_err(|error| other(CertsError::from(error)))?;
            return Ok(Responding::Dns { _record: record });
        }
        let host = self.options.bind_host.as_str();
        let open = |kind, port: Option<u16>| Gate::open(kind, host, port?, &self.challenges);
        let (shown, gate) = match challenge.r#type {
            ChallengeType::Http01 => (
                self.challenges
                    .show_http(&challenge.token, authorization.as_str()),
                open(GateKind::Http, self.options.http_port),
            ),
            _ => (
                self.challenges
                    .show_alpn(subject, authorization.digest().as_ref()),
                open(GateKind::Alpn, self.options.alpn_port),
            ),
        };
        let shown = shown.map_err(other)?;
        let published = match self.publish(authority, subject, challenge) {
            Ok(published) if self.storage.is_shared() => {
                // The CA may ask any node, and at once. Others get it about when this node does.
                let name = published.name();
                let announced =
                    (self.challenges).announced(&self.storage, name, CHALLENGE_SPREAD_MAX);
                announced.await;
                tokio::time::sleep(CHALLENGE_SPREAD).await;
                Some(published)
            }
            Ok(published) => Some(published),
            // The CA would count a failure if it asked another node.
            Err(error) if self.storage.is_shared() => return Err(other(error)),
            Err(_) => None,
        };
        Ok(Responding::Ours {
            _shown: shown,
            _gate: gate,
            _published: published,
        })
    }

    /// Lets other nodes respond as well.
    fn publish(
        &self,
        authority: &Authority,
        subject: &Subject,
        challenge: &ChallengeHandle<'_>,
    ) -> Result<Published, CertsError> {
        let stored = StoredChallenge {
            kind: match challenge.r#type {
                ChallengeType::Http01 => "http-01".to_owned(),
                _ => "tls-alpn-01".to_owned(),
            },
            url: challenge.url.clone(),
            status: "pending".to_owned(),
            token: challenge.token.clone(),
            key_authorization: challenge.key_authorization().as_str().to_owned(),
            identifier: StoredIdentifier {
                kind: if subject.ip().is_some() { "ip" } else { "dns" }.to_owned(),
                value: subject.to_string(),
            },
        };
        Published::new(&self.storage, &authority.key, subject, &stored)
    }

    /// The preferred chain: the default one or one of its alternates.
    async fn preferred_chain(
        &self,
        account: &Account,
        transport: &Transport,
        chain: String,
    ) -> Result<String, Error> {
        if self.options.chains.is_indifferent() {
            return Ok(chain);
        }
        let alternates = std::mem::take(&mut transport.notes().alternates);
        let mut chains = vec![chain.clone()];
        for url in alternates {
            // The library signs requests for orders only and rejects the response as invalid; the transport has
            // recorded it.
            let _ = account.order(url).await;
            let body = transport.notes().body.clone();
            if body.starts_with(b"-----BEGIN CERTIFICATE-----") {
                chains.extend(String::from_utf8(body.to_vec()));
            }
        }
        Ok(self.options.chains.choose(chains).unwrap_or(chain))
    }
}

/// Why validation failed; only the challenges say so.
async fn refusal(order: &mut Order) -> Option<Error> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.ok()?;
        let state = authorization.refresh().await.ok()?;
        let error = state
            .challenges
            .iter()
            .find_map(|challenge| challenge.error.clone());
        if let Some(problem) = error {
            return Some(Error::Api(problem));
        }
    }
    None
}

/// The certificate signing request as DER; includes the name as common name if the CA requires one.
pub(crate) fn csr(request: &Request<'_>, with_common_name: bool) -> Result<Vec<u8>, Error> {
    let made = || -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names = vec![alternative_name(request.subject)?];
        let name = request.subject.to_string();
        // X.520: a common name has at most 64 characters.
        if with_common_name && name.len() <= 64 {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        if request.must_staple {
            let feature = CustomExtension::from_oid_content(TLS_FEATURE, STATUS_REQUEST.to_vec());
            params.custom_extensions.push(feature);
        }
        Ok(params.serialize_request(request.key)?.der().to_vec())
    };
    made().map_err(Error::Other)
}

/// The metadata that Caddy stores with a certificate.
fn about(authority: &Authority, account: &Account, url: Option<String>) -> Value {
    json!({"url": url, "ca": authority.directory, "account": account.id()})
}

#[cfg(test)]
mod tests {
    use x509_parser::certification_request::X509CertificationRequest;
    use x509_parser::prelude::FromDer;

    use super::*;

    #[test]
    fn a_request_asks_for_must_staple_if_configured() {
        let key = crate::KeyType::default().generate().unwrap();
        let subject = Subject::parse("a.test").unwrap();
        for must_staple in [false, true] {
            let request = Request {
                subject: &subject,
                key: &key,
                replaces: None,
                failures: 0,
                must_staple,
            };
            let made = csr(&request, false).unwrap();
            X509CertificationRequest::from_der(&made).unwrap();
            // The OID of the extension, and its value as an OCTET STRING.
            let feature = [0x2b, 6, 1, 5, 5, 7, 1, 24, 4, 5, 0x30, 3, 2, 1, 5];
            let is_there = made.windows(feature.len()).any(|window| window == feature);
            assert_eq!(is_there, must_staple);
        }
    }
}
