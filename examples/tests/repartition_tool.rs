//! The tool `repartition` as a person runs it: what it answers, and what it says to what makes no sense.

use std::process::{Command, Output};

use serde_json::Value;

fn repartition(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_repartition")).args(args.split_whitespace()).output().expect("it starts")
}

fn object(args: &str) -> Value {
    let output = repartition(&format!("{args} --json"));
    assert!(output.status.success(), "{args}: {output:?}");
    serde_json::from_slice(&output.stdout).expect("one object")
}

#[test]
fn half_of_the_remote_calls_go_and_chance_moves_nothing() {
    for args in ["--entities 3000 --shards 256", "--entities 3000 --shards 256 --nodes 4 --seed 7"] {
        let object = object(args);
        assert_eq!(object["verdict"], "pass");
        let graphs = object["graphs"].as_array().expect("graphs");
        let [clustered, scattered, random] = &graphs[..] else { panic!("{object}") };
        assert!(clustered["saved_percent"].as_f64() >= Some(70.0), "{clustered}");
        assert!(scattered["saved_percent"].as_f64() >= Some(10.0), "{scattered}");
        assert!(random["moves"] == 0 && random["rounds"] == 0, "{random}");
        // A tenth of the mean of 25 or 64 shards.
        assert!(graphs.iter().all(|it| it["apart"].as_u64() <= Some(6)), "{object}");
    }
}

#[test]
fn a_seed_is_a_run() {
    let run = |seed| object(&format!("--entities 1000 --shards 128 --patience 30 --seed {seed}"));
    assert_eq!(run(5), run(5));
    assert_ne!(run(5)["graphs"], run(6)["graphs"]);
}

#[test]
fn a_target_that_is_missed_is_told() {
    // Of two shards each is all that the other talks to, so that chance is not to be told from reason.
    let output = repartition("--entities 500 --shards 2 --nodes 2");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("target missed"), "{output:?}");
}

#[test]
fn people_get_a_table() {
    let text = String::from_utf8(repartition("--entities 2000 --shards 256").stdout).expect("text");
    for part in ["2000 entities on 256 shards on 10 nodes, seed 1", "clustered", "scattered", "random", "targets"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for args in ["--nodes 1", "--shards 0", "--entities 0", "--pairs 0", "--seed x", "--patience 0"] {
        let output = repartition(args);
        assert_eq!(output.status.code(), Some(2), "{args}: {output:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{args}: {output:?}");
    }
}
