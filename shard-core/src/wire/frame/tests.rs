//! Frames: pinned, cut anywhere, and hostile.

use alloc::{format, string::String, vec, vec::Vec};

use super::*;
use crate::id::{Incarnation, NodeId, NodeKey};
use crate::wire::link::{Hello, PROTOCOL, Welcome};
use proptest::prelude::*;

fn key(id: u64, incarnation: u64) -> NodeKey {
    NodeKey { id: NodeId(id), incarnation: Incarnation(incarnation) }
}

fn hello() -> Hello {
    Hello {
        cluster: String::from("shop"),
        protocol: PROTOCOL,
        from: key(1, 2),
        to: Some(key(3, 4)),
        address: String::from("h:7"),
        aside: false,
    }
}

fn open(end: End) -> Decoder {
    let mut decoder = Decoder::new(end, FrameLimits::default());
    decoder.open();
    decoder
}

/// All that an open decoder makes of `bytes`, fed in chunks of `chunk`.
fn read(end: End, bytes: &[u8], chunk: usize) -> (Vec<String>, Option<FrameError>) {
    let mut decoder = open(end);
    let mut seen = Vec::new();
    for chunk in bytes.chunks(chunk.max(1)) {
        decoder.feed(chunk);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => seen.push(format!("{frame:?}")),
                Ok(None) => break,
                Err(error) => return (seen, Some(error)),
            }
        }
    }
    (seen, None)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn error_of(end: End, opened: bool, bytes: &[u8]) -> FrameError {
    let mut decoder = Decoder::new(end, FrameLimits::default());
    if opened {
        decoder.open();
    }
    decoder.feed(bytes);
    let error = decoder.next_frame().unwrap_err();
    assert_eq!(decoder.next_frame(), Err(error), "an error stays");
    error
}

#[test]
fn the_bytes_of_each_frame_are_pinned() {
    let golden = |write: &dyn Fn(&mut Vec<u8>) -> usize| {
        let mut out = Vec::new();
        assert_eq!(write(&mut out), out.len());
        hex(&out)
    };
    assert_eq!(
        golden(&|out| write_hello(out, &hello())),
        "330000000173687264040001000000000000000200000000000000010300000000000000040000000000000004007368\
         6f700300683a37"
    );
    let aside = Hello { aside: true, ..hello() };
    assert!(golden(&|out| write_hello(out, &aside)).contains("0203000000000000000400000000000000"));
    let welcome = Welcome { node: key(1, 2), expected: 9 };
    assert_eq!(
        golden(&|out| write_welcome(out, &welcome)),
        "1f000000027368726404000100000000000000020000000000000009000000000000\
         00"
    );
    assert_eq!(golden(&|out| write_refused(out, "no")), "03000000036e6f");
    assert_eq!(golden(&|out| write_control(out, |out| out.push(7))), "020000000407");
    assert_eq!(golden(&|out| write_batch(out, 9)), "09000000050900000000000000");
    assert_eq!(golden(&|out| write_message(out, |out| out.push(7))), "020000000607");
    assert_eq!(golden(&|out| write_ack(out, 9)), "09000000070900000000000000");
    assert_eq!(golden(&|out| write_ping(out)), "0100000008");
}

#[test]
fn the_handshake_reads_back() {
    let mut bytes = Vec::new();
    write_hello(&mut bytes, &hello());
    let mut decoder = Decoder::new(End::Answerer, FrameLimits::default());
    decoder.feed(&bytes);
    assert_eq!(decoder.next_frame(), Ok(Some(Frame::Hello(hello()))));
    let aside = Hello { aside: true, ..hello() };
    let mut bytes = Vec::new();
    write_hello(&mut bytes, &aside);
    let mut decoder = Decoder::new(End::Answerer, FrameLimits::default());
    decoder.feed(&bytes);
    assert_eq!(decoder.next_frame(), Ok(Some(Frame::Hello(aside))));
    let welcome = Welcome { node: key(1, 2), expected: 9 };
    for (write, frame) in [
        (
            &(|out: &mut Vec<u8>| write_welcome(out, &welcome)) as &dyn Fn(&mut Vec<u8>) -> usize,
            Frame::Welcome(welcome),
        ),
        (&|out: &mut Vec<u8>| write_refused(out, "no"), Frame::Refused("no")),
    ] {
        let mut bytes = Vec::new();
        write(&mut bytes);
        let mut decoder = Decoder::new(End::Dialler, FrameLimits::default());
        decoder.feed(&bytes);
        assert_eq!(decoder.next_frame(), Ok(Some(frame)));
    }
}

#[test]
fn messages_are_numbered_by_their_batch() {
    let mut bytes = Vec::new();
    write_batch(&mut bytes, 5);
    write_message(&mut bytes, |out| out.push(1));
    write_control(&mut bytes, |out| out.push(2));
    write_message(&mut bytes, |_| ());
    write_batch(&mut bytes, 9);
    write_ping(&mut bytes);
    write_message(&mut bytes, |out| out.push(3));
    let all = [
        "Message { seq: 5, bytes: [1] }",
        "Control([2])",
        "Message { seq: 6, bytes: [] }",
        "Ping",
        "Message { seq: 9, bytes: [3] }",
    ];
    for chunk in 1..bytes.len() {
        let (seen, error) = read(End::Answerer, &bytes, chunk);
        assert_eq!((seen, error), (all.map(String::from).to_vec(), None), "chunks of {chunk}");
    }
}

#[test]
fn a_length_is_refused_before_its_bytes_are_kept() {
    let announced = |length: u32, kind: u8| [length.to_le_bytes().as_slice(), &[kind]].concat();
    let too_long = |length, limit| FrameError::TooLong { length, limit };
    assert_eq!(error_of(End::Answerer, true, &announced(u32::MAX, 6)), too_long(0xffff_fffe, (1 << 20) + 1024));
    assert_eq!(error_of(End::Answerer, true, &announced((16 << 20) + 2, 4)), too_long((16 << 20) + 1, 16 << 20));
    assert_eq!(error_of(End::Answerer, false, &announced(5000, 1)), too_long(4999, 4096));
    assert_eq!(error_of(End::Dialler, true, &announced(10, 7)), too_long(9, 8));
    let mut decoder = open(End::Answerer);
    decoder.feed(&announced(16 << 20, 4));
    assert_eq!(decoder.next_frame(), Ok(None));
    assert!(decoder.spare().len() <= 64 << 10, "memory grows with what came, not with what was announced");
}

#[test]
fn each_end_hears_only_its_own_frames() {
    let unexpected = |frame| FrameError::Unexpected { frame };
    assert_eq!(error_of(End::Answerer, false, &[1, 0, 0, 0, 8]), unexpected("Ping"));
    assert_eq!(error_of(End::Answerer, true, &[1, 0, 0, 0, 1]), unexpected("Hello"));
    assert_eq!(error_of(End::Answerer, true, &[9, 0, 0, 0, 7]), unexpected("Ack"));
    assert_eq!(error_of(End::Dialler, false, &[9, 0, 0, 0, 7]), unexpected("Ack"));
    assert_eq!(error_of(End::Dialler, true, &[1, 0, 0, 0, 4]), unexpected("Control"));
}

#[test]
fn every_fault_has_its_text() {
    let said = |end, opened, bytes: &[u8]| format!("{}", error_of(end, opened, bytes));
    assert_eq!(said(End::Answerer, true, &[0, 0, 0, 0, 0]), "a frame without a kind");
    assert_eq!(said(End::Answerer, true, &[1, 0, 0, 0, 99]), "unknown kind of frame 99");
    assert_eq!(said(End::Answerer, true, &[1, 0, 0, 0, 6]), "a message without a number");
    assert_eq!(said(End::Answerer, true, &[1, 0, 0, 0, 5]), "malformed Batch frame");
    assert_eq!(said(End::Answerer, false, b"\x05\0\0\0\x01GET "), "the peer does not speak this protocol");
    assert_eq!(
        said(End::Answerer, false, b"\x07\0\0\0\x01shrd\x09\0"),
        "wrong protocol version: the peer speaks 9, this node 4"
    );
    assert_eq!(said(End::Dialler, false, &[2, 0, 0, 0, 3, 0xff]), "malformed Refused frame");
}

#[test]
fn a_great_frame_does_not_keep_its_memory() {
    let mut bytes = vec![];
    write_control(&mut bytes, |out| out.extend_from_slice(&vec![1; 8 << 20]));
    let mut decoder = open(End::Answerer);
    decoder.feed(&bytes);
    assert!(matches!(decoder.next_frame(), Ok(Some(Frame::Control(payload))) if payload.len() == 8 << 20));
    assert_eq!(decoder.spare().len(), 64 << 10);
}

#[test]
fn reading_in_place_is_the_same_as_feeding() {
    let mut bytes = Vec::new();
    write_batch(&mut bytes, 1);
    for number in 0..10_000_u32 {
        write_message(&mut bytes, |out| out.extend_from_slice(&number.to_le_bytes()));
    }
    let (mut decoder, mut rest, mut count) = (open(End::Answerer), bytes.as_slice(), 0);
    while !rest.is_empty() {
        let spare = decoder.spare();
        let read = spare.len().min(rest.len()).min(10_007);
        spare[..read].copy_from_slice(&rest[..read]);
        decoder.filled(read);
        rest = &rest[read..];
        while let Some(frame) = decoder.next_frame().unwrap() {
            let expected = (count as u32).to_le_bytes();
            count += 1;
            assert_eq!(frame, Frame::Message { seq: count, bytes: &expected });
        }
    }
    assert_eq!(count, 10_000);
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic_and_chunks_never_matter(
        bytes in proptest::collection::vec(prop_oneof![0_u8..9, any::<u8>()], 0..200),
        chunk in 1_usize..50,
    ) {
        for end in [End::Answerer, End::Dialler] {
            prop_assert_eq!(read(end, &bytes, chunk), read(end, &bytes, bytes.len()));
        }
    }
}

#[test]
fn frames_are_skipped_whole() {
    let mut bytes = Vec::new();
    let ends: Vec<usize> = (0..4_usize)
        .map(|length| {
            write_message(&mut bytes, |out| out.extend_from_slice(&vec![7; length * 3]));
            bytes.len()
        })
        .collect();
    assert_eq!(skip(&bytes, 0), 0);
    assert_eq!((1..=4).map(|count| skip(&bytes, count)).collect::<Vec<_>>(), ends);
    assert_eq!(skip(&bytes, 9), bytes.len());
}
