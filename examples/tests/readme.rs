//! The pages of the repository speak of things that are there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const PAGES: [&str; 5] =
    ["README.md", "CHANGELOG.md", "examples/README.md", "examples/no_std/README.md", "fuzz/README.md"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above")
}

fn read(file: impl AsRef<Path>) -> String {
    let file = root().join(file);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut checked = 0;
    for page in PAGES {
        let text = read(page);
        let folder = root().join(page).parent().expect("a page is in a folder").to_owned();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if !link.contains("://") && !link.starts_with('#') {
                assert!(folder.join(link).exists(), "{page} points at {link}, which is not there");
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "the pages have links: {checked}");
}

#[test]
fn every_command_names_packages_programs_features_and_files_that_are_there() {
    let (mut checked, ci) = (0, read(".ci/run"));
    for page in PAGES {
        let made = made(page);
        for command in commands(page) {
            let words: Vec<&str> = command.split_whitespace().map(|word| word.trim_matches(['"', '\''])).collect();
            let after =
                |option| words.iter().position(|word| *word == option).and_then(|at| words.get(at + 1).copied());
            if words.first() == Some(&"cargo") {
                let manifest = match (after("--manifest-path"), after("-p")) {
                    (Some(manifest), _) => manifest.to_owned(),
                    (None, Some("shard-fuzz")) => "fuzz/Cargo.toml".to_owned(),
                    (None, Some(package)) => format!("{package}/Cargo.toml"),
                    (None, None) => "Cargo.toml".to_owned(),
                };
                let manifest = read(manifest);
                let holds = |line: String| manifest.lines().any(|own| own.starts_with(&line));
                let named = |name: &str| holds(format!("name = \"{name}\""));
                assert!(after("-p").is_none_or(named), "{page}: no such package in `{command}`");
                assert!(after("--bin").is_none_or(named), "{page}: no such program in `{command}`");
                let feature = |name: &str| holds(format!("{name} = ["));
                assert!(after("--features").is_none_or(|list| list.split(',').all(feature)), "{page}: `{command}`");
                checked += 1;
            }
            for word in words {
                let path = word.rsplit('=').next().expect("there is always a last part").trim_end_matches('/');
                let inside = path.split_once('/').is_some_and(|(top, _)| top != "target" && root().join(top).is_dir());
                assert!(!inside || made.contains(path) || root().join(path).exists(), "{page}: {path} in `{command}`");
                let flag = word.trim_start_matches("RUSTFLAGS=\"");
                assert!(!flag.starts_with("-C") || ci.contains(flag), "{page}: .ci/run does without {flag}");
            }
        }
    }
    assert!(checked > 10, "the pages have commands: {checked}");
}

#[test]
fn every_path_in_the_text_is_there() {
    let mut checked = 0;
    for page in PAGES {
        let folder = root().join(page).parent().expect("a page is in a folder").to_owned();
        for span in spans(page).iter().filter(|span| span.contains('/') && !span.contains([' ', ':', '(', '"'])) {
            let path = span.replace("<target>", "wire");
            let places: [PathBuf; 2] = [folder.join(&path), root().join(&path)];
            let there = places.iter().any(|place| place.exists()) || made(page).contains(path.trim_end_matches('/'));
            assert!(there, "{page} speaks of {span}, which is not there");
            checked += 1;
        }
    }
    assert!(checked >= 4, "the pages name paths: {checked}");
}

#[test]
fn what_is_shown_as_rust_is_shown_whole() {
    for page in PAGES {
        for (kind, block) in blocks(page) {
            let hidden = block.lines().find(|line| *line == "#" || line.starts_with("# "));
            assert!(!kind.starts_with("rust") || hidden.is_none(), "{page} shows a line for rustdoc alone: {hidden:?}");
        }
    }
}

#[test]
fn the_dependencies_shown_are_packages_of_ours_and_what_the_examples_import() {
    let blocks = blocks("README.md");
    let shown = &blocks.iter().find(|(kind, _)| kind == "toml").expect("there is a block of dependencies").1;
    let shown: Vec<(&str, &str)> = shown.lines().skip(1).filter_map(|line| line.split_once(" = ")).collect();
    for (name, value) in &shown {
        if let Some(folder) = value.split("path = \"../sharding/").nth(1).and_then(|rest| rest.split('"').next()) {
            let manifest = read(Path::new(folder).join("Cargo.toml"));
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{folder} is not {name}");
        }
    }
    let names: BTreeSet<String> = shown.iter().map(|(name, _)| name.replace('-', "_")).collect();
    for line in blocks.iter().filter(|(kind, _)| kind.starts_with("rust")).flat_map(|(_, block)| block.lines()) {
        if let Some(krate) = line.strip_prefix("use ").and_then(|path| path.split("::").next()) {
            assert!(names.contains(krate) || krate == "examples", "`{line}` needs a dependency that is not shown");
        }
    }
}

/// What a page shows between fences, each with the fence's word.
fn blocks(page: &str) -> Vec<(String, String)> {
    let text = read(page);
    let fenced = text.split("```").enumerate().filter(|(at, _)| at % 2 == 1);
    fenced.filter_map(|(_, block)| block.split_once('\n')).map(|(kind, block)| (kind.into(), block.into())).collect()
}

/// What a page shows between single backticks.
fn spans(page: &str) -> Vec<String> {
    let text = read(page);
    let prose: String = text.split("```").step_by(2).collect();
    prose.split('`').skip(1).step_by(2).map(|span| span.replace('\n', " ")).collect()
}

/// The commands of a page, each on one line and without its comment.
fn commands(page: &str) -> Vec<String> {
    let shell: Vec<_> = blocks(page).into_iter().filter(|(kind, _)| kind == "sh").map(|(_, block)| block).collect();
    let shell = shell.join("\n").replace("\\\n", " ");
    let lines = shell.lines().map(|line| line.split(" # ").next().unwrap_or_default().trim().to_owned());
    let spans = spans(page).into_iter().filter(|span| span.starts_with("cargo ") || span.starts_with("grep "));
    lines.chain(spans).filter(|line| !line.is_empty()).collect()
}

/// The folders that a page tells its reader to make.
fn made(page: &str) -> BTreeSet<String> {
    let commands = commands(page);
    let made = commands.iter().filter_map(|command| command.strip_prefix("mkdir -p "));
    made.flat_map(str::split_whitespace).map(str::to_owned).collect()
}
