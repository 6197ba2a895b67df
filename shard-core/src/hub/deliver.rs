//! Where a stream message goes that was read from a connection.

use super::inbox::ReceiptItem;
use super::shared::{DataFrame, Shared};
use crate::entity::Reason;
use crate::id::NodeKey;
use crate::wire::{ReplyFate, Stream, StreamRef, codec};

/// Hands a stream message, of so many bytes, to the lane it concerns. False: the lane can hold no more.
pub(super) fn deliver(shared: &Shared, from: NodeKey, message: StreamRef<'_>, bytes: usize) -> bool {
    let key = message.key();
    let shard = key.shard;
    let Some(door) = shared.door(key.kind) else {
        if let Stream::Data { token, attempt, .. } = message {
            // No such type here (any more): nothing of it is owned, and the sender must look again.
            let peer = shared.peers.of(from.id);
            let refusal = Stream::Refuse { key, token, attempt, draining: false, hint: None };
            peer.bulk(from, |out| codec::encode(out, &refusal));
        }
        return true;
    };
    let item = match message {
        Stream::Data { token, attempt, seq, first, ask, entity, body: (tag, body), .. } => {
            return door.data(from, DataFrame { shard, token, attempt, seq, first, ask, entity, tag, body });
        }
        Stream::Taken { token, upto, .. } => ReceiptItem::Taken { from, shard, token, upto },
        Stream::Closed { token, upto, beyond, .. } => ReceiptItem::Closed { from, shard, token, upto, beyond },
        Stream::Refuse { token, attempt, draining, hint, .. } => {
            ReceiptItem::Refuse { from, shard, token, attempt, draining, hint }
        }
        Stream::Rejected { seq, reason, tag, .. } => {
            ReceiptItem::Rejected { from, shard, seq, reason: Reason::from_wire(reason, tag) }
        }
        Stream::Reply { seq, fate, .. } => {
            let answer = match fate {
                ReplyFate::Answer((_, bytes)) => Some(bytes.to_vec()),
                ReplyFate::Ended => None,
            };
            ReceiptItem::Reply { from, shard, seq, answer }
        }
    };
    door.receipt(shard, item, bytes)
}
