//! From the identity of a flow or tenant to the 64 bits that deal its hand.

use core::hash::Hasher;

use siphasher::sip::SipHasher13;

/// Hashes identities under a secret key: SipHash-1-3 (Aumasson and Bernstein, 2012).
///
/// Whoever can choose names and knows the key can search for names whose hands cover a victim's; without the key there is
/// nothing to search with. Every node that must deal alike has the same key; a new key deals every hand anew.
#[derive(Clone, Copy)]
pub struct FlowKey(u128);

impl FlowKey {
    /// The key; the host draws it at random, or derives it from the cluster's secret.
    #[must_use]
    pub const fn new(key: u128) -> Self {
        Self(key)
    }

    /// The hash of a flow: what it is for (`schema`: a rule, a tenant class, an entity type) and whose it is
    /// (`distinguisher`: a tenant, a user; empty if the whole schema is one flow). The two never run together: `("ab", "")`
    /// and `("a", "b")` are different flows. O(length), without allocation.
    #[must_use]
    pub fn hash(&self, schema: &str, distinguisher: &str) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.0 as u64, (self.0 >> 64) as u64);
        // The length of the first part in front keeps the pair apart from every other pair.
        hasher.write(&(schema.len() as u64).to_le_bytes());
        hasher.write(schema.as_bytes());
        hasher.write(distinguisher.as_bytes());
        hasher.finish()
    }

    /// The hash of a tenant by its name: the one notion of a tenant that hands of nodes (the strategy `ByTenant`) and hands of
    /// queues (`Guard`) share.
    #[must_use]
    pub fn tenant(&self, name: &str) -> u64 {
        self.hash("tenant", name)
    }
}

impl core::fmt::Debug for FlowKey {
    /// Without the key: it is a secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("FlowKey")
    }
}

/// The hash of a flow as Kubernetes computes it: the first eight bytes, little-endian, of the SHA-256 of the schema's
/// name, a zero byte and the distinguisher. For dealing the very hands that its API server deals; it has no key, so a
/// tenant that picks its own name can search for a victim's hand. Some ten times the cost of [`FlowKey::hash`].
#[cfg(feature = "sha256")]
#[must_use]
pub fn kubernetes_flow_hash(schema: &str, distinguisher: &str) -> u64 {
    use sha2::Digest;
    let digest = sha2::Sha256::new().chain_update(schema).chain_update([0]).chain_update(distinguisher).finalize();
    digest.iter().take(8).rev().fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}
