//! Messages: pinned, read back, and hostile.

use alloc::{borrow::ToOwned, boxed::Box, format, string::String, vec, vec::Vec};

use proptest::prelude::*;

use super::*;
use crate::allocation::{Edge, Stats};
use crate::id::{Incarnation, Kind, NodeId, ShardId, Term};
use crate::time::Duration;
use crate::wire::{
    Ack, Command, Directory, DirectoryEntry, Exit, Facts, Heartbeat, Home, KindLoads, KindReport, List, Owned, Report,
    Traffic,
};

const KEY: ShardKey = ShardKey { kind: Kind(0x1122_3344), shard: ShardId(5) };
const TOKEN: Token = Token { counter: 6, node: NodeId(7), number: 8 };
const NODE: NodeKey = NodeKey { id: NodeId(9), incarnation: Incarnation(10) };
const TERM: Term = Term { counter: 3, node: NODE };

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn encoded(message: &StreamRef<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out, message);
    assert_eq!(decode(&out).as_ref(), Ok(message));
    out
}

#[test]
fn the_bytes_of_each_stream_message_are_pinned() {
    let golden = |message: StreamRef<'_>| hex(&encoded(&message));
    let key_token = "44332211050000000600000000000000070000000000000008000000";
    let data = Stream::Data {
        key: KEY,
        token: TOKEN,
        attempt: 2,
        seq: 3,
        first: true,
        ask: true,
        entity: "cart-1",
        body: (0x0102, &[0xaa, 0xbb][..]),
    };
    assert_eq!(golden(data), format!("0103{key_token}02000000030000000000000006636172742d310201aabb"));
    assert_eq!(golden(Stream::Taken { key: KEY, token: TOKEN, upto: 4 }), format!("02{key_token}0400000000000000"));
    assert_eq!(
        golden(Stream::Closed { key: KEY, token: TOKEN, upto: 4, beyond: vec![6] }),
        format!("03{key_token}04000000000000000600000000000000")
    );
    assert_eq!(
        golden(Stream::Refuse { key: KEY, token: TOKEN, attempt: 2, draining: true, hint: None }),
        format!("0401{key_token}02000000")
    );
    let hint = Some((NODE, TOKEN));
    assert_eq!(
        golden(Stream::Refuse { key: KEY, token: TOKEN, attempt: 2, draining: false, hint }),
        format!("0402{key_token}0200000009000000000000000a00000000000000{}", &key_token[16..])
    );
    assert_eq!(
        golden(Stream::Rejected { key: KEY, token: TOKEN, seq: 3, reason: 4, tag: 5 }),
        format!("05{key_token}0300000000000000040500")
    );
    assert_eq!(
        golden(Stream::Reply { key: KEY, seq: 3, fate: ReplyFate::Answer((1, &[0xcc][..])) }),
        "06443322110500000003000000000000000100cc"
    );
    assert_eq!(
        golden(Stream::Reply { key: KEY, seq: 3, fate: ReplyFate::Ended }),
        "0744332211050000000300000000000000"
    );
}

fn controls() -> Vec<(Control, &'static str)> {
    let heartbeat = Heartbeat {
        term: TERM,
        session: 1,
        sequence: 2,
        applied: 3,
        ack_seen: 4,
        leaving: true,
        settled: true,
        report_version: 5,
        report: Some(Box::new(Report {
            facts: Facts {
                roles: vec!["backend".to_owned()],
                zone: "a".to_owned(),
                metadata: vec![("rack".to_owned(), "7".to_owned())],
                version: 8,
                capacity: 2,
            },
            kinds: vec![KindReport { kind: Kind(1), shards: 64, hosts: true }],
            owned: vec![Owned { key: KEY, token: TOKEN }],
        })),
        stats: Some(Stats { cpu_permille: 250, memory_used: 1 << 20, memory_limit: 1 << 30, entities: 9 }),
        loads: vec![KindLoads { kind: Kind(1), shards: vec![(ShardId(3), 300)] }],
        traffic: Some(Box::new(Traffic {
            kind: Kind(1),
            edges: vec![Edge::new(ShardId(2), ShardId(3), 5)],
            said: vec![(ShardId(2), 5), (ShardId(3), 6)],
        })),
        directory: 6,
        address: "h:7".to_owned(),
    };
    let ack = Ack {
        term: TERM,
        session: 1,
        sequence: 2,
        first: 3,
        commands: vec![
            Command::Grant { key: KEY, token: TOKEN },
            Command::Drain { key: KEY, within: Duration::from_millis(5_000) },
        ],
        report_seen: 4,
        directory: Some(Directory {
            version: 5,
            nodes: vec![DirectoryEntry { node: NODE, address: "h:7".to_owned() }],
            gone: vec![NODE],
        }),
        open: true,
        clock: 9,
        committed: 2,
        farewell: false,
    };
    let home = Home { node: NODE, token: TOKEN, closed: true };
    let list = List { term: TERM, version: 2, complete: true, members: vec![NODE] };
    vec![
        (Control::LeaseRequest { term: TERM, round: 300, config: 2, list: None }, "0003090aac020200"),
        (Control::LeaseRequest { term: TERM, round: 1, config: 1, list: Some(list) }, "0003090a01010103090a020101090a"),
        (Control::LeaseGranted { term: TERM, round: 1, config: 2, stored: None }, "0103090a010200"),
        (Control::LeaseRefused { term: TERM, promised: TERM, config: 2 }, "0203090a03090a02"),
        (Control::Release { term: TERM, exit: Exit::Reigned }, "0303090a01"),
        (Control::WhoReigns, "04"),
        (Control::Reign { term: TERM, address: "h:7".to_owned() }, "0503090a03683a37"),
        (Control::Announce { term: TERM, committed: 2 }, "0603090a02"),
        (Control::Nack { max_term: TERM }, "0703090a"),
        (
            Control::Heartbeat(heartbeat),
            "0803090a010203040101050101076261636b656e64016101047261636b01370802\
             0101400101c4e68889010506070801fa0180804080808080040901010103ac0201010102030502020503060603683a37",
        ),
        (
            Control::Ack(ack),
            "0903090a0102030200c4e6888901050607080\
             1c4e688890105050004\
             0105\
             01090a03683a3701090a09010200",
        ),
        (Control::Dead { term: TERM, session: 2 }, "0a03090a02"),
        (Control::KindRefused { term: TERM, kind: Kind(1), cluster: 64, node_shards: 32 }, "0b03090a014020"),
        (Control::Lookup { key: KEY }, "0cc4e688890105"),
        (Control::Home { term: TERM, key: KEY, home: Some(home) }, "0d03090ac4e68889010501090a06070801"),
    ]
}

#[test]
fn the_bytes_of_each_control_message_are_pinned() {
    for (message, golden) in controls() {
        let mut out = Vec::new();
        encode_control(&mut out, &message);
        assert_eq!(hex(&out), golden, "{message:?}");
        assert_eq!(decode_control(&out), Ok(message));
        out.push(0);
        assert_eq!(decode_control(&out), Err(CodecError::Trailing));
        assert_eq!(decode_control(&out[..out.len() - 2]), Err(CodecError::NoControl));
    }
}

#[test]
fn a_hostile_count_in_a_control_message_reserves_nothing() {
    let mut bytes = Vec::from([0x09, 3, 9, 10, 1, 2, 3]);
    bytes.extend_from_slice(&[0xff; 9]);
    bytes.push(1);
    assert_eq!(decode_control(&bytes), Err(CodecError::NoControl));
}

#[test]
fn every_shortened_message_is_refused() {
    let text = "x".repeat(300);
    let messages: [StreamRef<'_>; 4] = [
        Stream::Taken { key: KEY, token: TOKEN, upto: 4 },
        Stream::Refuse { key: KEY, token: TOKEN, attempt: 2, draining: true, hint: Some((NODE, TOKEN)) },
        Stream::Rejected { key: KEY, token: TOKEN, seq: 3, reason: 4, tag: 5 },
        Stream::Data {
            key: KEY,
            token: TOKEN,
            attempt: 2,
            seq: 3,
            first: false,
            ask: false,
            entity: &text,
            body: (1, &[]),
        },
    ];
    for message in messages {
        let bytes = encoded(&message);
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), Err(CodecError::Truncated), "{length} of {message:?}");
        }
    }
}

#[test]
fn malformed_fields_are_named() {
    let said = |bytes: &[u8]| format!("{}", decode(bytes).unwrap_err());
    assert_eq!(said(&[]), "the message ends too early");
    assert_eq!(said(&[99]), "unknown kind of message 99");
    assert_eq!(said(&[1, 4]), "the field `flags` of a message is malformed");
    let mut bad_text = encoded(&Stream::Data {
        key: KEY,
        token: TOKEN,
        attempt: 2,
        seq: 3,
        first: false,
        ask: false,
        entity: "x",
        body: (1, &[]),
    });
    bad_text[43] = 0xff;
    assert_eq!(said(&bad_text), "the field `entity` of a message is malformed");
    let mut long = encoded(&Stream::Taken { key: KEY, token: TOKEN, upto: 4 });
    long.push(0);
    assert_eq!(said(&long), "the message goes on behind its end");
}

fn a_key() -> impl Strategy<Value = ShardKey> {
    any::<(u32, u32)>().prop_map(|(kind, shard)| ShardKey { kind: Kind(kind), shard: ShardId(shard) })
}

fn a_token() -> impl Strategy<Value = Token> {
    any::<(u64, u64, u32)>().prop_map(|(counter, node, number)| Token { counter, node: NodeId(node), number })
}

fn a_hint() -> impl Strategy<Value = Option<(NodeKey, Token)>> {
    let node = any::<(u64, u64)>()
        .prop_map(|(id, incarnation)| NodeKey { id: NodeId(id), incarnation: Incarnation(incarnation) });
    proptest::option::of((node, a_token()))
}

proptest! {
    #[test]
    fn data_reads_back(
        (key, token, attempt, seq) in (a_key(), a_token(), any::<u32>(), any::<u64>()),
        (first, ask, tag) in any::<(bool, bool, u16)>(),
        entity in prop_oneof![".{0,20}", "[a-z]{250,260}"],
        body in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        encoded(&Stream::Data { key, token, attempt, seq, first, ask, entity: &entity, body: (tag, &body) });
    }

    #[test]
    fn the_others_read_back(
        (key, token, seq, attempt) in (a_key(), a_token(), any::<u64>(), any::<u32>()),
        (draining, reason, tag) in any::<(bool, u8, u16)>(),
        hint in a_hint(),
        beyond in proptest::collection::vec(any::<u64>(), 0..10),
        body in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        encoded(&Stream::Taken { key, token, upto: seq });
        encoded(&Stream::Closed { key, token, upto: seq, beyond });
        encoded(&Stream::Refuse { key, token, attempt, draining, hint });
        encoded(&Stream::Rejected { key, token, seq, reason, tag });
        encoded(&Stream::Reply { key, seq, fate: ReplyFate::Answer((tag, &body)) });
        encoded(&Stream::Reply { key, seq, fate: ReplyFate::Ended });
    }

    #[test]
    fn whatever_decodes_has_that_one_encoding(
        bytes in proptest::collection::vec(prop_oneof![0_u8..8, any::<u8>()], 0..120),
    ) {
        if let Ok(message) = decode(&bytes) {
            let mut again = Vec::new();
            encode(&mut again, &message);
            prop_assert_eq!(again, bytes);
        }
    }
}
