//! Which policy a limit has: one of ours, or one of the user's.

use alloc::boxed::Box;
use core::fmt;

use super::{PassivationPolicy, PolicyChoice};

/// Who is put to sleep under a limit.
#[derive(Clone, Copy)]
pub enum Policy {
    /// One of ours, by its name.
    Known(PolicyChoice),
    /// One of your own. It runs on the lane, between two messages: it must not wait, and a panic in it stops the node.
    ///
    /// The easy way is an [`Order`](super::Order), which says where a newcomer stands and who goes first, in the frame
    /// [`Ordered`](super::Ordered), which counts, pins and makes room:
    ///
    /// ```
    /// use shard_core::passivation::{Order, Ordered, Passivation, Rings};
    ///
    /// /// Who came first goes first, used or not.
    /// #[derive(Debug)]
    /// struct Fifo;
    ///
    /// impl Order for Fifo {
    ///     fn rings(&self) -> u16 {
    ///         1
    ///     }
    ///     fn enter(&mut self, rings: &mut Rings, index: u32, _hash: u64) {
    ///         rings.put(index, 0);
    ///     }
    ///     fn touch(&mut self, _: &mut Rings, _: u32) {}
    ///     fn victim(&mut self, rings: &mut Rings) -> Option<u32> {
    ///         rings.oldest(0)
    ///     }
    /// }
    /// let passivation = Passivation::at_most(100_000).choosing_own(|setting| Box::new(Ordered::new(Fifo, setting.limit)));
    /// # assert!(passivation.limit.is_some());
    /// ```
    Own(MakePolicy),
}

/// Makes an instance of a policy, for one lane. A function and no closure with a state, so that settings stay plain values
/// that are copied; what it needs to know stands in the type of the policy, or in a `static`.
pub type MakePolicy = fn(&Setting) -> Box<dyn PassivationPolicy>;

/// What an instance of a policy is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Setting {
    /// The limit it begins with. It changes at once when somebody wakes, and each second by what others need
    /// ([`limit_changed`](PassivationPolicy::limit_changed)).
    pub limit: u64,
    /// Under a limit by weight, about how many entities of usual weight the lane may hold on average.
    pub entities: Option<u64>,
    /// For one that draws. Each lane of each life of a process gets another one.
    pub seed: u64,
}

impl Policy {
    /// Its name in reports; that of your own is `own`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Known(choice) => choice.name(),
            Self::Own(_) => "own",
        }
    }

    /// An instance.
    pub(crate) fn build(&self, setting: &Setting) -> Box<dyn PassivationPolicy> {
        match self {
            Self::Known(choice) => choice.build_for(setting.limit, setting.entities, setting.seed),
            Self::Own(make) => make(setting),
        }
    }
}

impl From<PolicyChoice> for Policy {
    fn from(choice: PolicyChoice) -> Self {
        Self::Known(choice)
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Two of your own are equal if they are the same function, which the compiler may have merged with another of equal code.
impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Known(one), Self::Known(other)) => one == other,
            (Self::Own(one), Self::Own(other)) => core::ptr::fn_addr_eq(*one, *other),
            (Self::Known(_), Self::Own(_)) | (Self::Own(_), Self::Known(_)) => false,
        }
    }
}

impl Eq for Policy {}
