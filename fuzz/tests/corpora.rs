//! Every committed input goes through its body again, on stable and without a fuzzer.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use shard_fuzz::TARGETS;

fn here(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = read.map(|entry| entry.expect("an entry reads").path()).collect();
    paths.sort();
    paths
}

#[test]
fn every_input_of_every_corpus_keeps_the_promises() {
    for (target, body) in TARGETS {
        let inputs = entries(&here("corpora").join(target));
        assert!(inputs.len() >= 5, "the corpus of `{target}` is thin");
        for input in inputs {
            println!("{}", input.display()); // Shown if the body panics.
            body(&fs::read(&input).expect("an input reads"));
        }
    }
}

#[test]
fn every_target_has_a_body_a_corpus_and_a_shim() {
    let stems = |folder: &str| -> BTreeSet<String> {
        let stem = |path: &PathBuf| path.file_stem().expect("a name").to_string_lossy().into_owned();
        entries(&here(folder)).iter().map(stem).collect()
    };
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(stems("fuzz_targets"), targets);
    assert_eq!(stems("corpora"), targets);
}

#[test]
fn bodies_take_nothing_and_noise() {
    let mut state = 1_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    for length in 0..400 {
        let input: Vec<u8> = (0..length).map(|at| if at % 3 == 0 { noise() } else { noise() % 9 }).collect();
        TARGETS.iter().for_each(|(_, body)| body(&input));
    }
}
