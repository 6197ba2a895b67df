//! Bodies of messages and answers: postcard, nothing around it.

use alloc::vec::Vec;

use super::Travels;

/// Appends `message`; appends nothing if its `Serialize` fails, so that no half body is ever sent.
pub fn encode<Q: Travels>(message: &Q, out: &mut Vec<u8>) {
    struct Tail<'a>(&'a mut Vec<u8>);
    impl Extend<u8> for Tail<'_> {
        fn extend<I: IntoIterator<Item = u8>>(&mut self, bytes: I) {
            self.0.extend(bytes);
        }
    }
    let before = out.len();
    if postcard::to_extend(message, Tail(out)).is_err() {
        out.truncate(before);
    }
}

/// The bytes of an answer; `None` if its `Serialize` fails.
pub fn encode_reply<R: Travels>(answer: &R) -> Option<Vec<u8>> {
    postcard::to_allocvec(answer).ok()
}

/// Reads a whole body; `None` if it is not one `Q` and nothing else.
pub fn decode<Q: Travels>(body: &[u8]) -> Option<Q> {
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Some(message),
        _ => None,
    }
}
