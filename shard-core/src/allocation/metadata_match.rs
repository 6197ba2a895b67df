//! Filters by what operators say about nodes.

use alloc::string::String;
use alloc::vec::Vec;

use super::{ClusterView, Filter, NodeIx, NodeView};

/// The values that keys shall have; `None`: the node from which they were taken has no such key.
type Wanted = Vec<(String, Option<String>)>;

fn with_values<K: Into<String>, V: Into<String>>(wanted: impl IntoIterator<Item = (K, V)>) -> Wanted {
    wanted.into_iter().map(|(key, value)| (key.into(), Some(value.into()))).collect()
}

fn of_node<K: Into<String>>(node: &NodeView, keys: impl IntoIterator<Item = K>) -> Wanted {
    let value = |key: String| {
        let value = node.metadata(&key).map(Into::into);
        (key, value)
    };
    keys.into_iter().map(Into::into).map(value).collect()
}

/// Admits nodes whose metadata have all the values wanted, for [`only`](super::AllocationStrategy::only): Orleans'
/// required match.
///
/// Orleans compares with the node that decides; here a coordinator decides for all, so what is compared with is said.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RequiredMatch {
    wanted: Wanted,
}

impl RequiredMatch {
    /// Nodes that have all these values. Without any, all nodes.
    pub fn new<K: Into<String>, V: Into<String>>(wanted: impl IntoIterator<Item = (K, V)>) -> Self {
        Self { wanted: with_values(wanted) }
    }

    /// Nodes that have the values of `node` for `keys`. A key that it lacks the others must lack too, as in Orleans.
    pub fn like<K: Into<String>>(node: &NodeView, keys: impl IntoIterator<Item = K>) -> Self {
        Self { wanted: of_node(node, keys) }
    }
}

impl Filter for RequiredMatch {
    /// O(keys x metadata).
    fn admits(&self, view: &ClusterView<'_>, node: NodeIx) -> bool {
        let node = view.node(node);
        self.wanted.iter().all(|(key, value)| node.metadata(key) == value.as_deref())
    }
}

/// Admits the nodes that match best, and the next best until there are enough, for
/// [`preferring`](super::AllocationStrategy::preferring): Orleans' preferred match.
///
/// The last key matters most: a node is as good as the number of keys that match in a row from there. Where nobody matches,
/// or there are no more candidates than asked for, all are admitted. Nodes that are equally good come together, so there may
/// be more than asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreferredMatch {
    wanted: Wanted,
    at_least: usize,
}

impl PreferredMatch {
    /// At least `at_least` of the nodes that have these values (Orleans suggests 2), the last of which matters most.
    pub fn new<K: Into<String>, V: Into<String>>(wanted: impl IntoIterator<Item = (K, V)>, at_least: usize) -> Self {
        Self { wanted: with_values(wanted), at_least }
    }

    /// At least `at_least` of the nodes that have the values of `node` for `keys`, the last of which matters most. A key
    /// that `node` lacks is matched by nobody.
    pub fn like<K: Into<String>>(node: &NodeView, keys: impl IntoIterator<Item = K>, at_least: usize) -> Self {
        Self { wanted: of_node(node, keys), at_least }
    }

    /// How many keys match in a row from the last.
    fn score(&self, node: &NodeView) -> usize {
        let matches =
            |(key, value): &&(String, Option<String>)| value.is_some() && node.metadata(key) == value.as_deref();
        self.wanted.iter().rev().take_while(matches).count()
    }

    /// The least score that is admitted.
    fn cut_off(&self, view: &ClusterView<'_>) -> usize {
        let candidates = view.candidates();
        if candidates.len() <= self.at_least {
            return 0;
        }
        let mut with_score = alloc::vec![0_usize; self.wanted.len() + 1];
        candidates.iter().for_each(|ix| with_score[self.score(view.node(*ix))] += 1);
        let mut admitted = 0;
        let enough = |(_, nodes): &(usize, usize)| {
            admitted += nodes;
            admitted > 0 && admitted >= self.at_least
        };
        with_score.into_iter().enumerate().rev().find(enough).map_or(0, |(score, _)| score)
    }
}

impl Filter for PreferredMatch {
    /// O(candidates x keys x metadata), as it depends on all of them.
    fn admits(&self, view: &ClusterView<'_>, node: NodeIx) -> bool {
        self.score(view.node(node)) >= self.cut_off(view)
    }

    /// O(candidates x keys x metadata).
    fn select(&self, view: &ClusterView<'_>, admitted: &mut Vec<NodeIx>) {
        let cut_off = self.cut_off(view);
        admitted.extend(view.candidates().iter().copied().filter(|ix| self.score(view.node(*ix)) >= cut_off));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{T0, layout, placed, planned};
    use super::*;
    use crate::allocation::{AllocationStrategy, Layout, LeastShard};

    /// A node with the keys given, each with the value `match`, and others.
    fn model(keys: &[&str]) -> NodeView {
        let mut node = super::super::tests::node(99, "model");
        node.metadata = keys.iter().map(|key| ((*key).into(), "match".into())).collect();
        node
    }

    fn nodes(keys: &[&[&str]]) -> Layout {
        let mut layout = layout(&alloc::vec![&[][..]; keys.len()]);
        let mut nodes = layout.view(T0, 0).nodes().to_vec();
        nodes.iter_mut().zip(keys).for_each(|(node, keys)| node.metadata = model(keys).metadata);
        layout.set_nodes(nodes);
        layout
    }

    fn admitted(filter: &impl Filter, layout: &Layout) -> usize {
        let (view, mut admitted) = (layout.view(T0, 0), Vec::new());
        filter.select(&view, &mut admitted);
        let one_by_one = view.candidates().iter().copied().filter(|ix| filter.admits(&view, *ix));
        assert_eq!(admitted, one_by_one.collect::<Vec<_>>());
        admitted.len()
    }

    #[test]
    fn the_eighteen_rows_of_orleans() {
        let nodes = nodes(&[&["all", "one", "two"], &["all", "two"], &["all"]]);
        let local = model(&["all", "one", "two", "no"]);
        let rows: [(usize, &[&str], usize); 18] = [
            (1, &["no"], 3),
            (2, &["no"], 3),
            (1, &["one"], 1),
            (2, &["one"], 3),
            (1, &["two"], 2),
            (2, &["two"], 2),
            (3, &["two"], 3),
            (1, &["all"], 3),
            (2, &["all"], 3),
            (1, &["no", "all"], 3),
            (1, &["no", "one", "two"], 1),
            (2, &["no", "one", "two"], 2),
            (3, &["no", "one", "two"], 3),
            (1, &["all", "no"], 3),
            (1, &["one", "all"], 1),
            (2, &["one", "all"], 3),
            (1, &["no", "one", "all"], 1),
            (2, &["no", "one", "all"], 3),
        ];
        for (at_least, keys, expected) in rows {
            let filter = PreferredMatch::like(&local, keys.iter().copied(), at_least);
            assert_eq!(admitted(&filter, &nodes), expected, "{at_least} of {keys:?}");
            let filter = PreferredMatch::new(keys.iter().map(|key| (*key, "match")), at_least);
            assert_eq!(admitted(&filter, &nodes), expected, "{at_least} of {keys:?}");
        }
        // A node without metadata prefers nobody.
        assert_eq!(admitted(&PreferredMatch::like(&model(&[]), ["one"], 1), &nodes), 3);
    }

    #[test]
    fn required_values_must_be_there_as_in_orleans() {
        let with_key = model(&["key"]);
        assert_eq!(admitted(&RequiredMatch::like(&with_key, ["key"]), &nodes(&[&[]])), 0);
        assert_eq!(admitted(&RequiredMatch::new([("key", "other")]), &nodes(&[&["key"]])), 0);
        assert_eq!(admitted(&RequiredMatch::like(&with_key, ["key"]), &nodes(&[&["key"], &["key"]])), 2);
        let none: [&str; 0] = [];
        assert_eq!(admitted(&RequiredMatch::like(&with_key, none), &nodes(&[&["key"], &[]])), 2);
        // Lacking a key is a match for lacking it, if a node is the model; not if a value is wanted.
        assert_eq!(admitted(&RequiredMatch::like(&model(&[]), ["key"]), &nodes(&[&["key"], &[]])), 1);
        assert_eq!(admitted(&RequiredMatch::new([("key", "match"), ("all", "match")]), &nodes(&[&["key"]])), 0);
    }

    #[test]
    fn preferred_nodes_are_used_first_and_shards_elsewhere_stay() {
        let mut layout = nodes(&[&[], &["disk"], &[]]);
        let mut strategy = LeastShard::default().preferring(PreferredMatch::new([("disk", "match")], 1));
        assert_eq!(placed(&mut strategy, &layout, 0).as_deref(), Some("h:11"));
        assert_eq!(planned(&mut strategy, &layout), []);
        layout.set_accepts(NodeIx(1), false);
        assert_eq!(placed(&mut strategy, &layout, 0).as_deref(), Some("h:10"));
    }
}
