//! Hands that provably share little, without a store and without a search: polynomials over a prime field.
//!
//! Every zone has `q` nodes, `q` prime, and there are at most `q` zones. A tenant's number, written in base `q`, gives the
//! coefficients of a polynomial of degree `t` at most; in zone `z` the tenant has the node that the polynomial's value at
//! `z` names. Two tenants share a zone's node where their polynomials agree, which is where the difference of the two is
//! zero; a polynomial of degree `t` over a field that is not zero everywhere has `t` zeros at most. So **no two tenants
//! share more than `t` nodes**. There are `q^(t+1)` tenants, as many as any scheme with one node per zone can have
//! (the bound of Singleton; the hands are the code of Reed and Solomon, 1960), and with all of them every node has `q^t`.

use core::fmt;

/// Deals one node per zone, such that no two tenants share more than a bound.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PolynomialHands {
    nodes_per_zone: u32,
    zones: u32,
    overlap_max: u32,
    tenants: u128,
}

/// Why there are no such hands. The fault is in the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PolynomialError {
    /// Zones do not have a prime number of nodes: below a prime, values would not spread evenly, or two tenants could agree
    /// too often. Use that many of each zone's nodes which is the greatest prime.
    NotPrime {
        /// Nodes of each zone.
        nodes_per_zone: u32,
        /// The greatest prime below it, if there is one.
        prime_below: Option<u32>,
    },
    /// There are no zones, or more than nodes in each.
    Zones {
        /// Zones.
        zones: u32,
        /// The most there may be.
        zones_max: u32,
    },
    /// Tenants may share a whole hand: then there is nothing to keep apart.
    NoBound {
        /// Nodes that two tenants may share.
        overlap_max: u32,
        /// Zones, which is the size of a hand.
        zones: u32,
    },
}

impl fmt::Display for PolynomialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPrime { nodes_per_zone, prime_below: Some(prime) } => {
                write!(f, "{nodes_per_zone} nodes per zone is not a prime: use {prime} of them")
            }
            Self::NotPrime { nodes_per_zone, prime_below: None } => {
                write!(f, "{nodes_per_zone} nodes per zone: at least 2 are needed")
            }
            Self::Zones { zones, zones_max } => write!(f, "{zones} zones: there may be 1 to {zones_max}"),
            Self::NoBound { overlap_max, zones } => {
                write!(f, "hands of {zones} nodes that may share {overlap_max}: let them share fewer")
            }
        }
    }
}

impl core::error::Error for PolynomialError {}

impl PolynomialHands {
    /// Hands of one of `nodes_per_zone` nodes, a prime, in each of `zones` zones, of which two tenants share `overlap_max`
    /// at most. O(sqrt(nodes)) to check the prime.
    ///
    /// # Errors
    /// If the numbers do not fit together.
    pub const fn new(nodes_per_zone: u32, zones: u32, overlap_max: u32) -> Result<Self, PolynomialError> {
        if !is_prime(nodes_per_zone) {
            return Err(PolynomialError::NotPrime { nodes_per_zone, prime_below: prime_below(nodes_per_zone) });
        }
        if zones == 0 || zones > nodes_per_zone {
            return Err(PolynomialError::Zones { zones, zones_max: nodes_per_zone });
        }
        if overlap_max >= zones {
            return Err(PolynomialError::NoBound { overlap_max, zones });
        }
        // More than 2^128 tenants are as good as 2^128.
        let tenants = match (nodes_per_zone as u128).checked_pow(overlap_max + 1) {
            Some(tenants) => tenants,
            None => u128::MAX,
        };
        Ok(Self { nodes_per_zone, zones, overlap_max, tenants })
    }

    /// How many tenants there can be: their numbers are `0..tenants`, given out densely by the caller. (A hash of a name is
    /// no such number: two names might get the same one, and with it the same hand.)
    #[must_use]
    pub const fn tenants(&self) -> u128 {
        self.tenants
    }

    /// How many nodes two tenants share at most.
    #[must_use]
    pub const fn overlap_max(&self) -> u32 {
        self.overlap_max
    }

    /// The node of each zone, `0..zones`, that tenant number `tenant` has; `None` if there is no such tenant. No
    /// allocation; each zone costs O(`overlap_max`) divisions.
    pub fn hand(&self, tenant: u128) -> Option<impl ExactSizeIterator<Item = u32> + Clone + use<>> {
        let Self { nodes_per_zone, zones, overlap_max, tenants } = *self;
        (tenant < tenants).then(|| (0..zones).map(move |zone| value(tenant, zone, nodes_per_zone, overlap_max)))
    }
}

/// The polynomial of `tenant` at `zone`, in the field of `prime` elements.
fn value(tenant: u128, zone: u32, prime: u32, degree: u32) -> u32 {
    let (prime, zone) = (u64::from(prime), u64::from(zone));
    let (mut rest, mut power, mut sum) = (tenant, 1_u64, 0_u64);
    for _ in 0..=degree {
        let coefficient = (rest % u128::from(prime)) as u64;
        rest /= u128::from(prime);
        // Each factor is below 2^32, so nothing overflows.
        sum = (sum + coefficient * power) % prime;
        power = power * zone % prime;
    }
    sum as u32
}

const fn is_prime(number: u32) -> bool {
    if number < 2 {
        return false;
    }
    let mut divisor = 2_u64;
    while divisor * divisor <= number as u64 {
        if (number as u64).is_multiple_of(divisor) {
            return false;
        }
        divisor += 1;
    }
    true
}

const fn prime_below(number: u32) -> Option<u32> {
    let mut candidate = number;
    while candidate > 2 {
        candidate -= 1;
        if is_prime(candidate) {
            return Some(candidate);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{vec, vec::Vec};

    fn hands(nodes: u32, zones: u32, overlap: u32) -> Vec<Vec<u32>> {
        let hands = PolynomialHands::new(nodes, zones, overlap).expect("legal");
        (0..hands.tenants()).map(|tenant| hands.hand(tenant).expect("a tenant").collect()).collect()
    }

    #[test]
    fn no_two_tenants_share_more_than_the_bound_and_every_node_has_as_many() {
        // Every pair, of every construction over small primes: the proof of the module's head, by exhaustion.
        for (nodes, zones, overlap) in
            [(7, 5, 2), (7, 7, 2), (5, 4, 1), (5, 5, 3), (3, 3, 1), (11, 3, 1), (2, 2, 0), (2, 2, 1)]
        {
            let hands = hands(nodes, zones, overlap);
            assert_eq!(hands.len(), (nodes as usize).pow(overlap + 1));
            let mut load = vec![vec![0_u32; nodes as usize]; zones as usize];
            let mut most = 0;
            for (at, hand) in hands.iter().enumerate() {
                hand.iter().zip(&mut load).for_each(|(node, zone)| zone[*node as usize] += 1);
                for other in &hands[..at] {
                    most = most.max(hand.iter().zip(other).filter(|(a, b)| a == b).count());
                }
            }
            assert_eq!(most as u32, overlap, "{nodes}, {zones}, {overlap}: reached and not passed");
            assert!(load.iter().flatten().all(|tenants| *tenants == nodes.pow(overlap)), "{load:?}");
        }
        assert_eq!(hands(7, 5, 2).len(), 343);
    }

    #[test]
    fn one_tenant_more_would_break_the_bound() {
        // Singleton: drop all zones but t + 1; what is left must still tell all tenants apart, and there are q^(t+1) such.
        let hands = hands(7, 5, 2);
        let mut heads: Vec<_> = hands.iter().map(|hand| hand[..3].to_vec()).collect();
        heads.sort_unstable();
        heads.dedup();
        assert_eq!(heads.len(), 7_usize.pow(3), "every possible beginning is taken");
    }

    #[test]
    fn numbers_that_do_not_fit_are_told() {
        use PolynomialError::{NoBound, NotPrime, Zones};
        assert_eq!(PolynomialHands::new(9, 3, 1), Err(NotPrime { nodes_per_zone: 9, prime_below: Some(7) }));
        assert_eq!(PolynomialHands::new(1, 1, 0), Err(NotPrime { nodes_per_zone: 1, prime_below: None }));
        assert_eq!(PolynomialHands::new(7, 8, 1), Err(Zones { zones: 8, zones_max: 7 }));
        assert_eq!(PolynomialHands::new(7, 3, 3), Err(NoBound { overlap_max: 3, zones: 3 }));
        let hands = PolynomialHands::new(4_294_967_291, 100, 99).expect("a great prime");
        assert_eq!(hands.tenants(), u128::MAX);
        assert!(hands.hand(u128::MAX - 1).is_some_and(|mut hand| hand.all(|node| node < 4_294_967_291)));
        assert!(PolynomialHands::new(7, 3, 1).expect("legal").hand(49).is_none());
    }
}
