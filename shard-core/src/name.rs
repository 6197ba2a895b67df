//! Names of entities, for logs, traces and paths: `entity-` and the id, escaped.
//!
//! Every UTF-16 code unit outside `[A-Za-z0-9_.@:+-]` becomes `~` and four upper-case hexadecimal digits. Two ids never
//! share a name, every id has one, and a name is plain ASCII. It is never decoded and never the identity: tables, stores
//! and frames carry the id itself. Nothing here allocates. May import the ground floor only.

use core::fmt::{self, Write};

/// What every name starts with.
const PREFIX: &str = "entity-";

/// How many characters of a name each byte of UTF-8 stands for: one for itself, five for an escaped unit, ten for the two
/// units of a character beyond the basic plane (counted at its first byte), none for the bytes that follow a first one.
static WIDTHS: [u8; 256] = {
    let mut widths = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        widths[byte] = match byte as u8 {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'@' | b':' | b'+' | b'-' => 1,
            0x80..=0xbf => 0,
            0xf0..=0xff => 10,
            _ => 5,
        };
        byte += 1;
    }
    widths
};

/// The name of one entity, written when asked for.
///
/// ```
/// use shard_core::name::Name;
/// assert_eq!(Name::of("user/42").to_string(), "entity-user~002F42");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Name<'a>(Id<'a>);

#[derive(Clone, Copy, Debug)]
enum Id<'a> {
    Text(&'a str),
    Units(&'a [u16]),
}

impl<'a> Name<'a> {
    /// The name of `id`.
    #[must_use]
    pub const fn of(id: &'a str) -> Self {
        Self(Id::Text(id))
    }

    /// The name of an id as UTF-16, lone surrogates included; for well-formed text the same as [`Name::of`].
    #[must_use]
    pub const fn of_utf16(units: &'a [u16]) -> Self {
        Self(Id::Units(units))
    }

    /// How many bytes, which are also characters, the name has: at least seven. O(length of the id).
    #[expect(clippy::len_without_is_empty, reason = "a name is never empty")]
    #[must_use]
    pub fn len(&self) -> usize {
        PREFIX.len()
            + match self.0 {
                Id::Text(id) => id.bytes().map(|byte| usize::from(WIDTHS[usize::from(byte)])).sum::<usize>(),
                Id::Units(units) => units.iter().map(|unit| if is_literal(*unit) { 1 } else { 5 }).sum(),
            }
    }

    /// Writes the name, in runs as long as the id allows. O(length of the id).
    ///
    /// # Errors
    /// Whatever `out` refuses; what it took before stays written.
    #[inline]
    pub fn write_to(&self, out: &mut (impl Write + ?Sized)) -> fmt::Result {
        out.write_str(PREFIX)?;
        match self.0 {
            Id::Text(id) => write_text(id, out),
            Id::Units(units) => units.iter().try_for_each(|unit| match literal(*unit) {
                Some(char) => out.write_char(char),
                None => write_escaped(*unit, out),
            }),
        }
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_to(f)
    }
}

#[inline]
fn write_text(id: &str, out: &mut (impl Write + ?Sized)) -> fmt::Result {
    let mut rest = id;
    while let Some(run) = rest.as_bytes().iter().position(|byte| WIDTHS[usize::from(*byte)] != 1) {
        let (plain, tail) = rest.split_at(run);
        if !plain.is_empty() {
            out.write_str(plain)?;
        }
        let mut chars = tail.chars();
        let Some(char) = chars.next() else { return Ok(()) };
        for unit in char.encode_utf16(&mut [0; 2]) {
            write_escaped(*unit, out)?;
        }
        rest = chars.as_str();
    }
    out.write_str(rest)
}

/// Out of line, so that the loop around it stays small: most ids never come here.
#[inline(never)]
fn write_escaped(unit: u16, out: &mut (impl Write + ?Sized)) -> fmt::Result {
    let digit = |shift: u16| b"0123456789ABCDEF"[usize::from(unit >> shift & 0xf)];
    let escaped = [b'~', digit(12), digit(8), digit(4), digit(0)];
    out.write_str(core::str::from_utf8(&escaped).expect("a tilde and four digits are ASCII"))
}

fn is_literal(unit: u16) -> bool {
    literal(unit).is_some()
}

fn literal(unit: u16) -> Option<char> {
    let byte = u8::try_from(unit).ok()?;
    (WIDTHS[usize::from(byte)] == 1).then(|| char::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{
        format,
        string::{String, ToString},
        vec::Vec,
    };

    /// The rule as it is written on the module's page, one unit at a time.
    fn twin(units: impl Iterator<Item = u16>) -> String {
        let mut name = String::from("entity-");
        for unit in units {
            match char::from_u32(u32::from(unit)) {
                Some(char) if char.is_ascii_alphanumeric() || "_.@:+-".contains(char) => name.push(char),
                _ => name += &format!("~{unit:04X}"),
            }
        }
        name
    }

    #[test]
    fn a_name_tells_ids_apart_that_look_alike() {
        assert_eq!(Name::of("a/b").to_string(), "entity-a~002Fb");
        assert_eq!(Name::of("a~002Fb").to_string(), "entity-a~007E002Fb");
        assert_eq!(Name::of("").to_string(), "entity-");
        assert_eq!(Name::of("a👍b").to_string(), "entity-a~D83D~DC4Db");
    }

    #[test]
    fn lone_surrogates_have_names() {
        assert_eq!(Name::of_utf16(&[0xd800]).to_string(), "entity-~D800");
        assert_eq!(Name::of_utf16(&[0xdc00, 0xd800]).to_string(), "entity-~DC00~D800");
        assert_eq!(Name::of_utf16(&[]).to_string(), "entity-");
    }

    #[test]
    fn a_hundred_kilobytes_are_named_in_full() {
        let name = Name::of(&"/".repeat(100_000)).to_string();
        assert_eq!(name.len(), 500_007);
        assert_eq!(Name::of(&"日".repeat(33_334)).len(), 7 + 5 * 33_334);
    }

    proptest! {
        #[test]
        fn text_and_units_have_one_name(id in any::<String>()) {
            let units: Vec<u16> = id.encode_utf16().collect();
            let name = Name::of(&id).to_string();
            prop_assert_eq!(&name, &Name::of_utf16(&units).to_string());
            prop_assert_eq!(&name, &twin(units.iter().copied()));
            prop_assert_eq!(name.len(), Name::of(&id).len());
            prop_assert!(name.is_ascii());
        }

        #[test]
        fn no_two_ids_share_a_name(a in "[a~/0E7]{0,4}", b in "[a~/0E7]{0,4}") {
            prop_assert_eq!(a == b, Name::of(&a).to_string() == Name::of(&b).to_string());
        }

        #[test]
        fn no_two_ids_of_units_share_a_name(a in prop::collection::vec(any::<u16>(), 0..6), b in prop::collection::vec(any::<u16>(), 0..6)) {
            let (name, other) = (Name::of_utf16(&a), Name::of_utf16(&b));
            prop_assert_eq!(a == b, name.to_string() == other.to_string());
            prop_assert_eq!(name.len(), twin(a.iter().copied()).len());
        }
    }
}
