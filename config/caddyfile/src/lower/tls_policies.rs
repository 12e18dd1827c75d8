//! Joins the handshake policies of sites.

use std::collections::BTreeMap;

use sluice_model::tls::ConnectionPolicy;

/// Two policies for the same names that cannot both hold.
pub(super) struct Conflict {
    /// The names; none for a policy for any name.
    pub(super) names: Vec<String>,
    /// The setting that differs.
    pub(super) setting: &'static str,
}

/// Joins handshake policies: equal ones, neighbours that differ in their names only, and those for
/// the same names.
pub(super) fn join_policies(policies: &mut Vec<ConnectionPolicy>) -> Option<Conflict> {
    let mut joined: Vec<ConnectionPolicy> = Vec::with_capacity(policies.len());
    // Where the policy for some names stands in `joined`; the last one may still gain names.
    let mut places: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    let mut conflict = None;
    for mut policy in policies.drain(..) {
        let names = policy.r#match.sni.clone();
        let same = match joined.last() {
            Some(last) if last.r#match.sni == names => Some(joined.len() - 1),
            _ => places.get(&names).copied(),
        };
        if same.is_some_and(|at| joined[at] == policy) {
            continue;
        }
        if let Some(last) = joined.last_mut() {
            let named = !last.r#match.sni.is_empty() && !names.is_empty();
            if named && same_settings(last, &mut policy) {
                for name in names {
                    if !last.r#match.sni.contains(&name) {
                        last.r#match.sni.push(name);
                    }
                }
                continue;
            }
        }
        match same {
            Some(at) => {
                if let Err(setting) = merge(&mut joined[at], policy) {
                    conflict.get_or_insert(Conflict { names, setting });
                }
            }
            None => {
                if let Some(last) = joined.last() {
                    places.insert(last.r#match.sni.clone(), joined.len() - 1);
                }
                joined.push(policy);
            }
        }
    }
    *policies = joined;
    conflict
}

/// Whether two policies say the same but for when they apply.
fn same_settings(a: &mut ConnectionPolicy, b: &mut ConnectionPolicy) -> bool {
    // The lists of names may be long, so they are set aside rather than copied.
    let matches = (
        std::mem::take(&mut a.r#match),
        std::mem::take(&mut b.r#match),
    );
    let same = a == b;
    (a.r#match, b.r#match) = matches;
    same
}

/// Fills in what the first of two policies for the same names leaves open. An error names the
/// setting in which they differ.
fn merge(into: &mut ConnectionPolicy, from: ConnectionPolicy) -> Result<(), &'static str> {
    fn fill<T: Default + PartialEq>(
        into: &mut T,
        from: T,
        setting: &'static str,
    ) -> Result<(), &'static str> {
        if *into == T::default() {
            *into = from;
        } else if from != T::default() && *into != from {
            return Err(setting);
        }
        Ok(())
    }
    if into.origin.0.is_empty() {
        into.origin = from.origin;
    }
    fill(&mut into.alpn, from.alpn, "alpn")?;
    fill(&mut into.cipher_suites, from.cipher_suites, "ciphers")?;
    fill(&mut into.curves, from.curves, "curves")?;
    fill(&mut into.protocol_min, from.protocol_min, "protocols")?;
    fill(&mut into.protocol_max, from.protocol_max, "protocols")?;
    fill(&mut into.default_sni, from.default_sni, "default_sni")?;
    fill(&mut into.fallback_sni, from.fallback_sni, "fallback_sni")?;
    fill(
        &mut into.insecure_secrets_log,
        from.insecure_secrets_log,
        "insecure_secrets_log",
    )?;
    // Of two checks of client certificates none may be lost.
    match (&into.client_authentication, from.client_authentication) {
        (None, from) => into.client_authentication = from,
        (Some(into), Some(from)) if *into != from => return Err("client_auth"),
        (Some(_), _) => {}
    }
    match (&mut into.certificate_selection, from.certificate_selection) {
        (Some(into), Some(from)) => into.any_tag.extend(from.any_tag),
        (empty @ None, from) => *empty = from,
        (Some(_), None) => {}
    }
    Ok(())
}
