//! The tool `strategy-lab` as a person runs it: what it answers, and what it says to what makes no sense.

use std::process::{Command, Output};

use serde_json::Value;

fn lab(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_strategy-lab")).args(args.split(' ')).output().expect("it starts")
}

fn object(args: &str) -> Value {
    let output = lab(&format!("{args} --json"));
    assert!(output.status.success(), "{args}: {output:?}");
    serde_json::from_slice(&output.stdout).expect("one object")
}

/// The outcomes of a strategy.
fn outcomes<'a>(object: &'a Value, strategy: &str) -> &'a [Value] {
    let runs = object["runs"].as_array().expect("runs");
    let run = runs.iter().find(|run| run["strategy"] == strategy).expect("it took part");
    run["outcomes"].as_array().expect("outcomes")
}

#[test]
fn everybody_rests_and_the_page_stands_alone() {
    let page = std::env::temp_dir().join(format!("strategy-lab-{}.html", std::process::id()));
    let object = object(&format!("--nodes 9 --shards 200 --watch 100 --out {}", page.display()));
    let runs = object["runs"].as_array().expect("runs");
    assert!(runs.len() >= 26 && runs.iter().any(|run| run["contributed"] == true), "{}", runs.len());
    for run in runs {
        let outcomes = outcomes(&object, run["strategy"].as_str().expect("a name"));
        assert_eq!(outcomes.len(), 4, "the start and three events");
        assert!(outcomes.iter().all(|it| it["rounds"].is_u64() && it["churn"] == 0), "{run}");
        assert!(outcomes.iter().all(|it| it["max_over_mean_count"].as_f64() >= Some(1.0)), "{run}");
        assert!(run["measured_ns"]["plan_at_rest"].is_u64(), "{run}");
    }
    let text = std::fs::read_to_string(&page).expect("a page");
    std::fs::remove_file(&page).expect("it was there");
    assert_eq!(text.matches("<svg").count(), 3 + runs.len());
    assert!(!text.contains("http") && text.ends_with("</body></html>\n"));
}

#[test]
fn the_figures_are_those_of_the_strategies() {
    let object = object("--nodes 4 --shards 100 --load uniform --events join,crash --strategies least-shard,hash");
    let least = outcomes(&object, "least-shard");
    // A fifth of a hundred for the fifth node, and what the lost one had, each once.
    assert_eq!((&least[1]["moved"], &least[1]["least"]), (&20.into(), &20.into()));
    assert_eq!((&least[2]["placed"], &least[2]["moved"], &least[2]["least"]), (&20.into(), &0.into(), &20.into()));
    assert_eq!((&least[2]["max_over_mean_count"], &least[2]["max_over_mean_load"]), (&1.0.into(), &1.0.into()));
    // Of 100 numbers, 80 have another remainder by 5 than by 4.
    assert_eq!(outcomes(&object, "hash")[1]["moved"], 80);
}

#[test]
fn a_seed_is_a_run() {
    let run = |seed| {
        let mut object = object(&format!("--nodes 6 --shards 120 --watch 20 --seed {seed}"));
        for run in object["runs"].as_array_mut().expect("runs") {
            run.as_object_mut().expect("an object").remove("measured_ns");
        }
        object
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5)["runs"], run(6)["runs"]);
}

#[test]
fn loads_are_read_from_files() {
    let path = std::env::temp_dir().join(format!("strategy-lab-{}.csv", std::process::id()));
    let tried = |text: &str| {
        std::fs::write(&path, text).expect("it is written");
        lab(&format!(
            "--nodes 2 --shards 4 --events join --strategies weighted-move --json --load file:{}",
            path.display()
        ))
    };
    let output = tried("load,shard\n10,0\n30,3\n");
    let object: Value = serde_json::from_slice(&output.stdout).expect("one object");
    // Thirty of forty on one of two nodes: nobody can do better.
    assert_eq!(outcomes(&object, "weighted-move")[0]["max_over_mean_load"], 1.5, "{object}");
    for (text, complaint) in [
        ("shard,load\n4,1\n", "line 2: a shard is a number from 0 to 3"),
        ("shard,load\n0,1\n0,2\n", "line 3: shard 0 is there twice"),
        ("shard,load\n0,heavy\n", "line 2: a load is a whole number"),
        ("shard,weight\n0,1\n", "no column is called \"load\""),
        ("shard,load\n", "nothing weighs anything"),
    ] {
        let output = tried(text);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(complaint), "{text}: {said}");
    }
    std::fs::remove_file(&path).expect("it was there");
}

#[test]
fn people_get_a_table() {
    let output = lab("--nodes 3 --shards 64 --load flights --strategies zone-spread,jump --events leave --watch 10");
    let text = String::from_utf8(output.stdout).expect("text");
    for part in ["zone-spread", "surviving the loss of a zone", "leave: a node gives", "moved/least", "load flights"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (task, complaint) in [
        ("--strategies mine", "there are all, least-shard, two-phase-least-shard"),
        ("--events jump", "there are join, crash, leave"),
        ("--load heavy", "there are uniform, zipf:EXPONENT, flights, file:PATH"),
        ("--load zipf:five", "the exponent is a number from 0 to 4"),
        ("--load file:/no/such/file", "/no/such/file"),
        ("--nodes 1 --events crash", "nobody is left"),
        ("--nodes 2 --events crash,leave,join", "nobody is left"),
        ("--nodes 0", "--nodes"),
        ("--shards many", "--shards"),
        ("--out /no/such/folder/page.html --nodes 2 --shards 2 --watch 1", "cannot write"),
    ] {
        let output = lab(task);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{task}: {output:?}");
        assert!(said.contains(complaint) && output.stdout.is_empty(), "{task}: {said}");
    }
}
