//! Names of entities: every id has one, no two share one, and each is safe as a path segment or an actor's name.

use shard_core::name::Name;

/// The bytes are an id as UTF-16, little-endian (a last odd byte is dropped), and an id as UTF-8 if they are text.
pub fn names(bytes: &[u8]) {
    let (pairs, _) = bytes.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
    let name = Name::of_utf16(&units);
    check(&name.to_string(), name.len(), &units);

    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let units: Vec<u16> = text.encode_utf16().collect();
    let name = Name::of(text);
    check(&name.to_string(), name.len(), &units);
    assert_eq!(name.to_string(), Name::of_utf16(&units).to_string(), "both ways to the name of {text:?}");
}

fn check(name: &str, length: usize, units: &[u16]) {
    let escaped = name.strip_prefix("entity-").expect("every name begins with its prefix");
    let safe = |char: char| char.is_ascii_alphanumeric() || "_.@:+-~".contains(char);
    assert!(escaped.chars().all(safe), "{name:?} holds an unsafe character");
    assert_eq!(name.len(), length, "the length told for {name:?}");
    // Reading the name back gives the id: so no two ids share a name.
    assert_eq!(unescape(escaped), units, "{name:?} reads back");
}

fn unescape(mut escaped: &str) -> Vec<u16> {
    let mut units = Vec::new();
    while let Some(char) = escaped.chars().next() {
        escaped = &escaped[1..];
        let mut unit = char as u16;
        if char == '~' {
            let digits = &escaped[..4];
            assert!(digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'A'..=b'F')), "{digits:?}");
            unit = u16::from_str_radix(digits, 16).expect("four hexadecimal digits");
            escaped = &escaped[4..];
        }
        units.push(unit);
    }
    units
}
