//! Who owned which shard, grant after grant. Tokens order the grants, so it does not matter in which order the nodes'
//! words about them arrive.

use std::collections::BTreeMap;

use shard_core::id::Token;

/// Every grant the nodes told of.
#[derive(Default)]
pub(crate) struct Grants {
    shards: BTreeMap<u32, BTreeMap<Token, u64>>,
}

impl Grants {
    /// `node` gained `shard` under `token`.
    pub(crate) fn gained(&mut self, shard: u32, token: Token, node: u64) {
        self.shards.entry(shard).or_default().insert(token, node);
    }

    /// How many times a shard went from one node to another. O(grants).
    pub(crate) fn moved(&self) -> usize {
        let moves = |owners: &BTreeMap<Token, u64>| {
            owners.values().zip(owners.values().skip(1)).filter(|(before, after)| before != after).count()
        };
        self.shards.values().map(moves).sum()
    }

    /// Every shard that was ever granted, with the node that its newest grant went to.
    pub(crate) fn newest(&self) -> impl Iterator<Item = (u32, u64)> {
        self.shards.iter().filter_map(|(shard, owners)| owners.values().next_back().map(|owner| (*shard, *owner)))
    }

    /// The shards whose newest grant went to `node`, with its token.
    pub(crate) fn newest_of(&self, node: u64) -> Vec<(u32, Token)> {
        let newest = |(shard, owners): (&u32, &BTreeMap<Token, u64>)| {
            owners.last_key_value().filter(|(_, owner)| **owner == node).map(|(token, _)| (*shard, *token))
        };
        self.shards.iter().filter_map(newest).collect()
    }

    /// Whether `shard` was granted again after `token`.
    pub(crate) fn newer(&self, shard: u32, token: Token) -> bool {
        self.shards.get(&shard).and_then(|owners| owners.last_key_value()).is_some_and(|(newest, _)| *newest > token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flights::shelf::life;

    fn token(number: u32) -> Token {
        life(number, 0).token
    }

    #[test]
    fn a_first_grant_is_no_move_and_a_grant_back_is_one() {
        let mut grants = Grants::default();
        grants.gained(7, token(1), 1);
        assert_eq!(grants.moved(), 0);
        grants.gained(7, token(2), 2);
        grants.gained(7, token(3), 1);
        assert_eq!(grants.moved(), 2);
    }

    #[test]
    fn a_grant_anew_to_the_same_node_is_no_move() {
        let mut grants = Grants::default();
        grants.gained(7, token(1), 1);
        grants.gained(7, token(2), 1);
        assert_eq!(grants.moved(), 0);
    }

    #[test]
    fn words_out_of_order_are_put_in_order_by_their_tokens() {
        let mut grants = Grants::default();
        grants.gained(7, token(3), 3);
        grants.gained(7, token(1), 1);
        grants.gained(7, token(2), 1);
        assert_eq!(grants.moved(), 1);
        assert_eq!((grants.newest_of(3), grants.newest_of(1)), (vec![(7, token(3))], vec![]));
        assert_eq!(grants.newest().collect::<Vec<_>>(), [(7, 3)]);
    }

    #[test]
    fn a_shard_granted_again_is_seen() {
        let mut grants = Grants::default();
        grants.gained(7, token(1), 1);
        assert!(!grants.newer(7, token(1)) && !grants.newer(8, token(1)));
        grants.gained(7, token(2), 2);
        assert!(grants.newer(7, token(1)));
    }
}
