//! How an entity type is guarded by tenant.

use super::fair::FairConfig;
use super::flow::FlowKey;

/// Guards the entities of one type on one node by tenant: so many handlers at a time, and those that wait take turns by
/// tenant. Off unless a type is started with one (`Sharding::guard` on executors, `TypeConfig::guard` in the driver).
///
/// - It stands at the owner, between an entity's mailbox and its handler: only there is all of a tenant's mail seen, from
///   whichever node, and only there is it known when a handler has ended.
/// - What waits in the fair queues is an entity with mail, once, however much mail it has. So the queues of a hand take turns
///   freely and the messages of an entity keep their order.
/// - A tenant has at most [`FairConfig::waiting_max`] messages waiting on the node; what comes beyond, or finds the queue of
///   its entity full, goes back to its sender as `Full(Tenant)` without having run. What was let in is not turned away
///   afterwards on this node, and moves with its shard as any mail does; the next owner looks at it anew.
/// - A seat is held from the first hook of a sleeping entity to the end of the one handler that it was given for, however
///   that ends: it returns, panics, or is dropped by force. Last hooks need none, so a shard that drains waits for nobody.
/// - Seats that hang are not taken away. With [`FairConfig::seats_per_flow`] they are the tenant's own; without it, one
///   tenant's handlers that never end can take all of them.
///
/// ```
/// use shard_core::shuffle::{FairConfig, FlowKey, Guard};
///
/// // 100 handlers at a time, 12 of a tenant; a tenant has 4 of 64 queues, and at most 4 x 50 messages waiting.
/// let fair = FairConfig::new(64, 4, 50, 100)?.seats_per_flow(12)?;
/// // The tenant of `acme/cart-7` is `acme`.
/// let guard = Guard::by_tenant(fair, FlowKey::new(42), |id| id.split('/').next().unwrap_or(id));
/// assert_eq!(guard.tenant("acme/cart-7"), FlowKey::new(42).tenant("acme"));
/// # Ok::<(), shard_core::shuffle::FairConfigError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    fair: FairConfig,
    key: FlowKey,
    tenant_of: fn(&str) -> &str,
}

impl Guard {
    /// `tenant_of` finds the tenant's name in an entity's id; it must depend on nothing else. The key may be drawn by each
    /// node for itself. Queues there must be: with [`FairConfig::without_queues`], a type does not start.
    #[must_use]
    pub const fn by_tenant(fair: FairConfig, key: FlowKey, tenant_of: fn(&str) -> &str) -> Self {
        Self { fair, key, tenant_of }
    }

    /// How its queues are set up.
    #[must_use]
    pub const fn fair(&self) -> &FairConfig {
        &self.fair
    }

    /// The hash of the tenant that an entity belongs to, by the entity's id.
    #[must_use]
    pub fn tenant(&self, id: &str) -> u64 {
        self.key.tenant((self.tenant_of)(id))
    }
}
