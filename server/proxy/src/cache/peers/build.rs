//! Builds the nodes of a cache from the model.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use sluice_model::cache::{CacheNode as NodeConfig, CachePeers as Config};
use sluice_observe::process_values;
use sluice_pipeline::build::Builder;
use sluice_pipeline::refusal::Refusal;
use sluice_policy::{HashBy, Policy, Turn};

use super::dialect::BetweenNodes;
use super::{Node, NodeState, Peers, Seal};
use crate::limits::{
    CACHE_PEER_LOAD_PERCENT, CACHE_PEER_NAME_BYTES_MAX, CACHE_PEER_SECRET_BYTES_MIN,
    CACHE_PEERS_MAX,
};
use crate::reverse_proxy;

/// The name and the address of a node.
type NodeId = (String, String);

/// The states of the nodes, which locations share.
#[derive(Clone, Default)]
struct States(Rc<RefCell<HashMap<NodeId, Arc<NodeState>>>>);

impl Peers {
    /// Builds the nodes.
    pub(in crate::cache) fn build<'m>(
        config: &'m Config,
        builder: &mut Builder<'m>,
    ) -> Result<Peers, Refusal> {
        check_names(&config.nodes)?;
        let own = own_number(config, builder)?;
        let secret = expanded("secret", &config.secret)?;
        // Another machine may have no secret where the configuration is only checked.
        if builder.recorder.is_some() && secret.len() < CACHE_PEER_SECRET_BYTES_MIN {
            return Err(Refusal::new(format!(
                "the `secret` of a cache has less than {CACHE_PEER_SECRET_BYTES_MIN} bytes"
            ))
            .with_help("create one, the same for all nodes: `openssl rand -hex 32`"));
        }
        let states: States = builder.shared.get();
        let mut nodes = Vec::with_capacity(config.nodes.len());
        for (index, node) in config.nodes.iter().enumerate() {
            let step = format!(".nodes[{index}].proxy");
            let proxy = match index == own {
                true => None,
                false => Some(builder.within(&step, |builder| {
                    reverse_proxy::proxy(&node.proxy, &BetweenNodes, builder)
                })?),
            };
            nodes.push(Node {
                name: node.name.as_str().into(),
                proxy,
                state: states.of(node),
            });
        }
        Ok(Peers {
            own,
            label: format!("sluice-{}", config.nodes[own].name).into(),
            nodes: nodes.into(),
            seal: Seal::new(&secret),
            policy: Policy::Hash {
                // The key is that of the cache.
                by: HashBy::Uri,
                fallback: Box::new(Policy::First),
                bound: Some(CACHE_PEER_LOAD_PERCENT),
            },
            turn: Turn::new(),
            log: builder.log.cloned(),
        })
    }
}

impl States {
    fn of(&self, node: &NodeConfig) -> Arc<NodeState> {
        let dials: Vec<&str> = node.proxy.upstreams.iter().map(|one| &*one.dial).collect();
        let id = (node.name.clone(), dials.join(" "));
        self.0.borrow_mut().entry(id).or_default().clone()
    }
}

fn check_names(nodes: &[NodeConfig]) -> Result<(), Refusal> {
    if nodes.len() < 2 || nodes.len() > CACHE_PEERS_MAX {
        return Err(Refusal::new(format!("a cache of {} nodes", nodes.len()))
            .with_help(format!("list all nodes, from 2 to {CACHE_PEERS_MAX}")));
    }
    for (index, node) in nodes.iter().enumerate() {
        if !is_name(&node.name) {
            return Err(Refusal::new(format!(
                "`{}` is not a name of a node",
                node.name
            ))
            .with_help(format!(
                "a name has up to {CACHE_PEER_NAME_BYTES_MAX} letters, digits, dots, hyphens and underscores"
            )));
        }
        if nodes[..index].iter().any(|other| other.name == node.name) {
            let what = format!("two nodes of a cache have the name `{}`", node.name);
            return Err(Refusal::new(what).with_help("give each node its own name"));
        }
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    !text.is_empty() && text.len() <= CACHE_PEER_NAME_BYTES_MAX && text.bytes().all(is_plain)
}

/// The number of this node. Where the configuration is only checked, it may be any.
fn own_number(config: &Config, builder: &Builder<'_>) -> Result<usize, Refusal> {
    let name = match config.node.as_str() {
        "" => "{system.hostname}",
        name => name,
    };
    let name = expanded("node", name)?;
    let found = config.nodes.iter().position(|node| node.name == name);
    match found {
        Some(index) => Ok(index),
        None if builder.recorder.is_none() => Ok(0),
        None => Err(Refusal::new(format!(
            "this node is `{name}`, which the cache does not list"
        ))
        .with_help("set `node` to the name of this node, for example `{env.NODE}`")),
    }
}

fn expanded(name: &str, text: &str) -> Result<String, Refusal> {
    let value = process_values::expand(text).map_err(|_| {
        Refusal::new(format!(
            "`{name}` of a cache has a placeholder without a value"
        ))
        .with_help("{env.*}, {system.*} and {file.*} have values here")
    })?;
    // A file ends with a line break.
    Ok(value.trim_end_matches(['\r', '\n']).to_owned())
}
