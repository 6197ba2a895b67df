//! Ids that fit in place.

use alloc::{string::String, sync::Arc};
use core::{
    borrow::Borrow,
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
};

/// The longest id that is stored in place.
const INLINE: usize = 22;

/// The id of an entity: 24 bytes, with ids up to 22 bytes in place and longer ones shared. Never changes.
///
/// Comparing looks at bytes only. [`as_str`](Self::as_str) of an id in place checks once more that it is UTF-8, a few
/// nanoseconds, since this crate holds no unsafe code; hot paths compare with [`as_bytes`](Self::as_bytes). Cloning
/// never allocates. Orders as text does, by bytes.
#[derive(Clone)]
pub struct EntityId(Repr);

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; INLINE] },
    Shared(Arc<str>),
}

impl EntityId {
    /// The id `text`; allocates if it is longer than 22 bytes.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut bytes = [0; INLINE];
        match bytes.get_mut(..text.len()) {
            Some(start) => {
                start.copy_from_slice(text.as_bytes());
                Self(Repr::Inline { len: text.len() as u8, bytes })
            }
            None => Self(Repr::Shared(text.into())),
        }
    }

    /// Its UTF-8: free.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            // `min` lets the compiler see that the range is in bounds.
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len).min(INLINE)],
            Repr::Shared(text) => text.as_bytes(),
        }
    }

    /// Its text: a few nanoseconds.
    #[inline]
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Inline { .. } => core::str::from_utf8(self.as_bytes()).expect("an id is made from text alone"),
            Repr::Shared(text) => text,
        }
    }
}

impl PartialEq for EntityId {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for EntityId {}

impl PartialEq<str> for EntityId {
    #[inline]
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for EntityId {
    #[inline]
    fn eq(&self, other: &&str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialOrd for EntityId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EntityId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for EntityId {
    /// As its text, which [`Borrow`] demands.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Borrow<str> for EntityId {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for EntityId {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for EntityId {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for EntityId {
    fn from(text: String) -> Self {
        if text.len() <= INLINE { Self::new(&text) } else { Self(Repr::Shared(text.into())) }
    }
}

impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl fmt::Debug for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{collections::BTreeSet, format, hash::DefaultHasher, string::ToString};

    fn hashed(value: &(impl Hash + ?Sized)) -> u64 {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn an_id_is_24_bytes_and_so_is_an_optional_one() {
        assert_eq!((size_of::<EntityId>(), size_of::<Option<EntityId>>()), (24, 24));
    }

    #[test]
    fn only_ids_beyond_22_bytes_are_shared() {
        for len in 0..30 {
            let text = "x".repeat(len);
            for id in [EntityId::new(&text), EntityId::from(text.clone())] {
                assert_eq!(matches!(id.0, Repr::Shared(_)), len > 22, "{len}");
                assert_eq!(id, *text);
            }
        }
    }

    #[test]
    fn sets_of_ids_are_searched_by_text() {
        let ids: BTreeSet<EntityId> = ["b", "a", "an id that is long enough to be shared"].map(EntityId::new).into();
        assert!(ids.contains("a") && !ids.contains("c"));
        assert_eq!(ids.first().map(ToString::to_string).as_deref(), Some("a"));
    }

    proptest! {
        #[test]
        fn behaves_as_its_text(a in "\\PC{0,14}", b in "[ab日]{0,9}") {
            let (left, right) = (EntityId::new(&a), EntityId::new(&b));
            prop_assert_eq!((left.as_str(), left.as_bytes()), (a.as_str(), a.as_bytes()));
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
            prop_assert_eq!(left == right, a == b);
            prop_assert_eq!(hashed(&left), hashed(a.as_str()));
            prop_assert_eq!(format!("{left} {left:?}"), format!("{a} {a:?}"));
            prop_assert_eq!(left.clone(), left);
        }
    }
}
