//! The house rules that a compiler does not know: imports go down, files stay readable, nothing inside reads a clock or
//! walks a hash map. The floors are those of the table in `src/lib.rs`; test code may look wherever it likes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Files that may be longer than [`LINES_MAX`], each with its reason.
const LONG: &[&str] = &[];
/// About where a file asks to be split.
const LINES_MAX: usize = 500;
/// The side wing: it may import everything, and nothing imports it.
const WING: &str = "sim";
/// The one module that lives among threads and clocks.
const HOST: &str = "hub";

#[test]
fn imports_only_go_down() {
    let floors = floors();
    let floor = |module: &str| if module == WING { Some(u32::MAX) } else { floors.get(module).copied() };
    let mut wrong = Vec::new();
    for file in sources() {
        // `lib.rs` is above all.
        let Some(own) = file.module.first() else { continue };
        let Some(own_floor) = floor(own) else { panic!("`{own}` stands on no floor of the table in lib.rs") };
        for import in imports(&file.tokens(), file.module.len()) {
            // What is no module is a macro, which is exported at the root.
            let Some(its_floor) = floor(&import) else { continue };
            let ground = own_floor == 0 && its_floor == 0;
            if import != *own && its_floor >= own_floor && !ground {
                wrong.push(format!("{}: `{own}` imports `{import}`", file.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "imports go up or sideways:\n{}", wrong.join("\n"));
}

#[test]
fn every_module_stands_on_a_floor() {
    let root = source_root();
    let lib = tokens(&fs::read_to_string(root.join("lib.rs")).expect("lib.rs reads"));
    let declared: BTreeSet<String> =
        lib.windows(3).filter(|w| w[0] == "mod" && w[2] == ";").map(|w| w[1].clone()).filter(|m| m != WING).collect();
    assert_eq!(declared, floors().into_keys().collect());
}

#[test]
fn files_open_with_why_they_exist() {
    let silent: Vec<_> = sources().into_iter().filter(|file| !file.text.starts_with("//! ")).map(|f| f.path).collect();
    assert!(silent.is_empty(), "no `//!` on the first line: {silent:?}");
}

#[test]
fn files_can_be_read_in_one_sitting() {
    let long: Vec<_> = sources()
        .into_iter()
        .map(|file| (file.text.lines().count(), file.path))
        .filter(|(lines, path)| *lines > LINES_MAX && !LONG.iter().any(|name| path.ends_with(name)))
        .collect();
    assert!(long.is_empty(), "longer than {LINES_MAX} lines: {long:?}");
}

#[test]
fn nothing_reads_a_clock_or_walks_a_hash_map() {
    let mut wrong = Vec::new();
    for file in sources().into_iter().filter(|file| file.module.first().is_none_or(|module| module != HOST)) {
        let tokens = file.tokens();
        if paths(&tokens, "std").any(|name| name == "time") {
            wrong.push(format!("{}: std::time", file.path.display()));
        }
        let ordered_by_hash = ["HashMap", "HashSet"].into_iter().find(|name| tokens.iter().any(|token| token == name));
        wrong.extend(ordered_by_hash.map(|name| format!("{}: {name}", file.path.display())));
        // A `HashTable` can be walked, so it is kept where nothing walks it.
        let outside = file.module.first().is_none_or(|module| module != "collections");
        if outside && tokens.iter().any(|token| token == "HashTable") {
            wrong.push(format!("{}: HashTable, outside collections", file.path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One source file, and the module it is: `src/wire/link.rs` is `["wire", "link"]`, `src/wire/mod.rs` is `["wire"]`.
struct Source {
    path: PathBuf,
    module: Vec<String>,
    text: String,
}

impl Source {
    /// Its code without tests; nothing, if it is a file of tests.
    fn tokens(&self) -> Vec<String> {
        if self.module.iter().skip(1).any(|name| name == "tests") { Vec::new() } else { tokens(&self.text) }
    }
}

fn source_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn sources() -> Vec<Source> {
    let (root, mut found) = (source_root(), Vec::new());
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder reads") {
            let path = entry.expect("an entry reads").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let relative = path.strip_prefix(&root).expect("it is below the root").with_extension("");
                let mut module: Vec<String> = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
                module.pop_if(|last| last == "mod" || last == "lib");
                let text = fs::read_to_string(&path).expect("a file reads");
                found.push(Source { path: relative.with_extension("rs"), module, text });
            }
        }
    }
    assert!(found.len() > 10, "the sources were found");
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The table in `lib.rs`: its second column names modules, its first their floor.
fn floors() -> BTreeMap<String, u32> {
    let text = fs::read_to_string(source_root().join("lib.rs")).expect("lib.rs reads");
    let mut floors = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["//!", floor, modules, ..] = cells[..] else { continue };
        let Ok(floor) = floor.parse() else { continue };
        floors.extend(modules.split('`').skip(1).step_by(2).map(|module| (module.to_owned(), floor)));
    }
    assert!(floors.len() > 10, "the table was found");
    floors
}

/// Words and signs, without comments, texts and whatever stands under `#[cfg(test)]`.
fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(&char) = chars.get(at) {
        let rest = &chars[at..];
        at += match char {
            '/' if rest.starts_with(&['/', '/']) => rest.iter().take_while(|c| **c != '\n').count(),
            '/' if rest.starts_with(&['/', '*']) => rest.windows(2).position(|w| w == ['*', '/']).map_or(2, |n| n + 2),
            '"' => text_length(rest),
            'r' if rest.starts_with(&['r', '"']) || rest.starts_with(&['r', '#', '"']) => raw_text_length(rest),
            '\'' => char_length(rest),
            _ if char.is_alphanumeric() || char == '_' => {
                let word: String = rest.iter().take_while(|c| c.is_alphanumeric() || **c == '_').collect();
                let length = word.chars().count();
                tokens.push(word);
                length
            }
            _ => {
                if !char.is_whitespace() {
                    tokens.push(char.to_string());
                }
                1
            }
        };
    }
    without_tests(tokens)
}

fn text_length(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != '"' {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

fn raw_text_length(rest: &[char]) -> usize {
    let hashes = rest.iter().skip(1).take_while(|c| **c == '#').count();
    let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let body = hashes + 2;
    rest[body..].windows(end.len()).position(|w| w == end).map_or(rest.len(), |n| body + n + end.len())
}

/// A quote opens a character or a lifetime; a lifetime is skipped as a sign.
fn char_length(rest: &[char]) -> usize {
    match rest {
        [_, '\\', _, tail @ ..] => 3 + tail.iter().take_while(|c| **c != '\'').count() + 1,
        [_, _, '\'', ..] => 3,
        _ => 1,
    }
}

fn without_tests(tokens: Vec<String>) -> Vec<String> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        if !tokens[at..].iter().take(MARK.len()).eq(MARK.iter()) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        // What is marked ends with its block, or with a semicolon before any block opens.
        let mut depth = 0;
        at += MARK.len();
        while let Some(token) = tokens.get(at) {
            at += 1;
            depth += i32::from(token == "{") - i32::from(token == "}");
            if depth == 0 && (token == ";" || token == "}") {
                break;
            }
        }
    }
    kept
}

/// The names that follow `head::`, each name of a group `head::{a::b, c}` included.
fn paths<'a>(tokens: &'a [String], head: &'a str) -> impl Iterator<Item = String> + 'a {
    let heads = (0..tokens.len()).filter(move |at| tokens[*at] == head);
    heads.flat_map(move |at| names(&tokens[at + 1..]))
}

fn names(rest: &[String]) -> Vec<String> {
    let [a, b, next, group @ ..] = rest else { return Vec::new() };
    if a != ":" || b != ":" {
        return Vec::new();
    }
    if next != "{" {
        return vec![next.clone()];
    }
    let (mut names, mut depth, mut expected) = (Vec::new(), 1, true);
    for token in group {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 1 => expected = true,
            name if expected => {
                names.push(name.to_owned());
                expected = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

/// The modules at the crate's root that a file names, by `crate::` or by `super::` all the way up; `depth` is how deep
/// the file's own module lies.
fn imports(tokens: &[String], depth: usize) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = paths(tokens, "crate").collect();
    // Blocks open at this place; true where one is a module within the file.
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].as_str() {
            "{" => blocks.push(at >= 2 && tokens[at - 2] == "mod"),
            "}" => drop(blocks.pop()),
            "super" => {
                let ups = 1 + tokens[at + 1..].chunks(3).take_while(|up| *up == [":", ":", "super"]).count();
                at += 3 * (ups - 1);
                if ups == depth + blocks.iter().filter(|module| **module).count() {
                    found.extend(names(&tokens[at + 1..]));
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

#[test]
fn the_reader_of_imports_is_not_fooled() {
    let text = r##"
        use crate::{hash, id::{Kind, NodeKey}, time::Instant}; // crate::no1
        use super::{super::no2, own}; use super::super::shard::Life;
        fn f<'a>(x: &'a str) -> crate::name::Name<'a> { let _ = ('"', '\'', "crate::no3", r#"crate::"no4"#); $crate::wire::x() }
        mod inner { use super::super::no5; use super::super::super::node::Node; }
        #[cfg(test)] mod tests { use crate::no6; }
        #[cfg(test)] use crate::no7;
        /* crate::no8 */ use crate::session;
    "##;
    let found: Vec<String> = imports(&tokens(text), 2).into_iter().collect();
    // `super::{super::x}` is the one spelling that is not followed; nobody writes it.
    assert_eq!(found, ["hash", "id", "name", "node", "session", "shard", "time", "wire"]);
}
