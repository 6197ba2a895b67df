//! What a hostile peer can send: nothing panics, nothing depends on how the bytes were cut, and what decodes has one
//! meaning.

use shard_core::wire::codec::{decode, decode_control, encode, encode_control};
use shard_core::wire::frame::{Decoder, End, Frame, FrameLimits};

/// The first byte chooses: 0 and 1 a connection as the answerer reads it, before and after the handshake; 2 and 3 the
/// same for the dialler; 4 a stream message; 5 a control message. The rest is what the peer sent.
pub fn wire(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    match choice % 6 {
        4 => stream_message(bytes),
        5 => control_message(bytes),
        choice => {
            let end = if choice < 2 { End::Answerer } else { End::Dialler };
            let open = choice % 2 == 1;
            let whole = connection(end, open, bytes, bytes.len().max(1));
            for chunk in [1, 7] {
                assert_eq!(connection(end, open, bytes, chunk), whole, "in chunks of {chunk}");
            }
        }
    }
}

/// What a decoder makes of `bytes`, with its last word.
fn connection(end: End, open: bool, bytes: &[u8], chunk: usize) -> Vec<String> {
    let limits = FrameLimits { handshake_max: 64, message_max: 256, control_max: 512 };
    let mut decoder = Decoder::new(end, limits);
    if open {
        decoder.open();
    }
    let mut seen = Vec::new();
    for chunk in bytes.chunks(chunk) {
        decoder.feed(chunk);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => {
                    seen.push(format!("{frame:?}"));
                    match frame {
                        Frame::Control(bytes) => control_message(bytes),
                        Frame::Message { bytes, .. } => stream_message(bytes),
                        _ => {}
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.next_frame(), Err(error), "an error stays");
                    seen.push(error.to_string());
                    return seen;
                }
            }
        }
    }
    seen
}

fn stream_message(bytes: &[u8]) {
    if let Ok(message) = decode(bytes) {
        let mut again = Vec::new();
        encode(&mut again, &message);
        assert_eq!(again, bytes, "{message:?} has one encoding");
    }
}

fn control_message(bytes: &[u8]) {
    if let Ok(message) = decode_control(bytes) {
        let mut again = Vec::new();
        encode_control(&mut again, &message);
        assert_eq!(decode_control(&again), Ok(message), "what was read can be written");
    }
}
