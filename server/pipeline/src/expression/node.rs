//! An expression as a tree of conditions: `&&`, `||`, `!` and `?:` are evaluated here, matchers are called directly,
//! and only the rest is passed to the evaluator of `values`.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};
use sluice_route::matcher::{Hook, Input, Refusal};
use sluice_route::{Matcher, MatcherSet};

use super::Fault;
use super::calls;
use super::text_test::TextTest;
use super::values::Rest;

/// A condition, or a combination of conditions.
#[derive(Debug)]
pub(super) enum Node {
    Constant(bool),
    Matcher(Matcher),
    Not(Box<Node>),
    /// True if all are true. As in CEL, an error counts only if none of them is false.
    All(Vec<Node>),
    /// True if one is true. As in CEL, an error counts only if none of them is true.
    Any(Vec<Node>),
    /// The second if the first is true, otherwise the third.
    If(Box<[Node; 3]>),
    Text(TextTest),
    Rest(Box<Rest>),
}

impl Node {
    /// Compiles an expression that passed type checking.
    pub(super) fn compile(expr: IdedExpr, name: &str) -> Result<Node, Fault> {
        if let Expr::Literal(LiteralValue::Boolean(value)) = &expr.expr {
            return Ok(Node::Constant(*value.inner()));
        }
        if let Some(test) = TextTest::of(&expr) {
            let (test, wanted) = test?;
            let node = Node::Text(test);
            return Ok(if wanted {
                node
            } else {
                Node::Not(Box::new(node))
            });
        }
        match expr.expr {
            Expr::Call(call) if is_connective(&call) => Node::connect(call, name),
            Expr::Call(call) if calls::is_matcher(&call).is_some() => {
                calls::matcher(expr.id, &call, name).map(Node::Matcher)
            }
            other => {
                let expr = IdedExpr {
                    id: expr.id,
                    expr: other,
                };
                Rest::compile(expr, name).map(|rest| Node::Rest(Box::new(rest)))
            }
        }
    }

    fn connect(call: CallExpr, name: &str) -> Result<Node, Fault> {
        let nodes = call
            .args
            .into_iter()
            .map(|arg| Node::compile(arg, name))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(match (call.func_name.as_str(), nodes) {
            (operators::LOGICAL_AND, nodes) => {
                let flat = nodes.into_iter().flat_map(|node| match node {
                    Node::All(inner) => inner,
                    other => vec![other],
                });
                Node::All(flat.collect())
            }
            (operators::LOGICAL_OR, nodes) => {
                let flat = nodes.into_iter().flat_map(|node| match node {
                    Node::Any(inner) => inner,
                    other => vec![other],
                });
                Node::Any(flat.collect())
            }
            (operators::LOGICAL_NOT, mut nodes) => {
                Node::Not(Box::new(nodes.pop().expect("`!` has an operand")))
            }
            (_, nodes) => {
                let three = <[Node; 3]>::try_from(nodes).expect("`?:` has three operands");
                Node::If(Box::new(three))
            }
        })
    }

    /// Whether the request meets the condition.
    pub(super) fn matches(&self, input: &Input<'_>) -> Result<bool, Refusal> {
        match self {
            Node::Constant(value) => Ok(*value),
            Node::Matcher(matcher) => matcher.matches(input),
            Node::Not(inner) => inner.matches(input).map(|met| !met),
            Node::All(nodes) => decide(nodes, input, false),
            Node::Any(nodes) => decide(nodes, input, true),
            Node::If(nodes) => {
                let [condition, yes, no] = &**nodes;
                if condition.matches(input)? {
                    yes.matches(input)
                } else {
                    no.matches(input)
                }
            }
            Node::Text(test) => test.matches(input),
            Node::Rest(rest) => rest.matches(input),
        }
    }

    /// Converts the condition to plain matchers of one set. Parts that are equivalent to matchers become matchers,
    /// which the route index and the sort by cost can use; the rest becomes a hook.
    pub(super) fn lower(self) -> Vec<Matcher> {
        match self {
            Node::Constant(true) => Vec::new(),
            Node::Matcher(matcher) => vec![matcher],
            Node::All(nodes) if in_order(&nodes) => {
                nodes.into_iter().flat_map(Node::lower).collect()
            }
            Node::Not(inner) if !inner.can_fail() && !inner.leaves_traces() => {
                let inner = MatcherSet::new(inner.lower());
                vec![Matcher::Not(vec![inner])]
            }
            other => vec![Matcher::Hook(std::sync::Arc::new(other))],
        }
    }

    fn can_fail(&self) -> bool {
        match self {
            Node::Constant(_) => false,
            Node::Matcher(matcher) => matches!(matcher, Matcher::Hook(_)),
            Node::Not(inner) => inner.can_fail(),
            Node::All(nodes) | Node::Any(nodes) => nodes.iter().any(Node::can_fail),
            Node::If(nodes) => nodes.iter().any(Node::can_fail),
            Node::Text(_) | Node::Rest(_) => true,
        }
    }

    fn leaves_traces(&self) -> bool {
        match self {
            Node::Constant(_) | Node::Text(_) => false,
            Node::Matcher(matcher) => matcher.leaves_traces(),
            Node::Not(inner) => inner.leaves_traces(),
            Node::All(nodes) | Node::Any(nodes) => nodes.iter().any(Node::leaves_traces),
            Node::If(nodes) => nodes.iter().any(Node::leaves_traces),
            Node::Rest(rest) => rest.leaves_traces(),
        }
    }

    /// The cost of the lowered matcher.
    fn cost(&self) -> u8 {
        match self {
            Node::Matcher(matcher) => matcher.cost(),
            _ => u8::MAX,
        }
    }
}

/// Whether a matcher set, which sorts by cost and stops at the first error, is equivalent to `&&` of these nodes: at
/// most one of them can fail, which is then evaluated last, and those with side effects keep their order.
fn in_order(nodes: &[Node]) -> bool {
    let first_failing = nodes.iter().position(Node::can_fail);
    let after = first_failing.map_or(&[][..], |at| &nodes[at + 1..]);
    // In a set, only plain matchers run before a node that can fail, wherever they were written.
    let plain = |node: &Node| !node.can_fail() && matches!(node, Node::Matcher(_));
    let sorted = nodes.is_sorted_by_key(Node::cost);
    after.iter().all(plain) && (sorted || !nodes.iter().any(Node::leaves_traces))
}

fn is_connective(call: &CallExpr) -> bool {
    matches!(
        call.func_name.as_str(),
        operators::LOGICAL_AND
            | operators::LOGICAL_OR
            | operators::LOGICAL_NOT
            | operators::CONDITIONAL
    )
}

/// Evaluates nodes until one yields `decisive`. An error counts only if none does.
fn decide(nodes: &[Node], input: &Input<'_>, decisive: bool) -> Result<bool, Refusal> {
    let mut failed = None;
    for node in nodes {
        match node.matches(input) {
            Ok(met) if met == decisive => return Ok(decisive),
            Ok(_) => {}
            Err(refusal) => failed = Some(refusal),
        }
    }
    failed.map_or(Ok(!decisive), Err)
}

impl Hook for Node {
    fn matches(&self, input: &Input<'_>) -> Result<bool, Refusal> {
        self.matches(input)
    }
}
