//! The main job as a user runs it: real processes, real sockets, and a real `kill -9`, on a part of the month.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// The first `rows` flights of the month, and three lines that are none.
fn some_flights(name: &str, rows: usize) -> PathBuf {
    let all = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/data/flights-2013-01.csv")).unwrap();
    let mut some: Vec<&str> = all.lines().take(rows + 1).collect();
    some.insert(rows / 2, "1,1,515,2,11,UA,1545");
    some.insert(rows / 3, "1,1,515,2,many,UA,1545,N14228,EWR,IAH,227,1400");
    some.push("1,1,515,2,11,UA,1545,,EWR,IAH,227,1400");
    let path = std::env::temp_dir().join(format!("flights-test-{}-{name}.csv", std::process::id()));
    std::fs::write(&path, some.join("\n")).unwrap();
    path
}

/// Runs it, and gives its exit code and the object on its last line.
fn run(name: &str, rows: usize, arguments: &[&str]) -> (Option<i32>, Value) {
    let file = some_flights(name, rows);
    let output = Command::new(env!("CARGO_BIN_EXE_flights"))
        .args(["--json", "--file"])
        .arg(&file)
        .args(arguments)
        .output()
        .expect("the program starts");
    let _ = std::fs::remove_file(file);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = said.lines().last().unwrap_or_default();
    let report = serde_json::from_str(last)
        .unwrap_or_else(|error| panic!("{error}: {said}\n{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), report)
}

#[test]
fn every_row_is_delivered_once_in_order_while_a_node_joins_and_one_leaves() {
    let (code, report) = run("calm", 3_000, &[]);
    assert_eq!((code, &report["verdict"]), (Some(0), &Value::from("ok")), "{report}");
    for nothing in ["lost", "lost_state", "in_doubt", "unsent", "silent", "duplicated", "reordered"] {
        assert_eq!(report[nothing], 0, "{nothing}: {report}");
    }
    assert_eq!(report["rows"], report["delivered"], "{report}");
    assert!(report["rejected"].as_u64() >= Some(3), "{report}");
    assert!(report["moved_shards"].as_u64() > Some(0), "{report}");
}

#[test]
fn a_killed_process_costs_what_it_held_and_every_row_of_it_is_accounted_for() {
    let (code, report) = run("kill", 3_000, &["--kill"]);
    assert_eq!((code, &report["verdict"]), (Some(0), &Value::from("accounted")), "{report}");
    for nothing in ["silent", "duplicated", "reordered"] {
        assert_eq!(report[nothing], 0, "{nothing}: {report}");
    }
    let sum: u64 = ["lost_state", "in_doubt", "unsent", "silent"].iter().filter_map(|key| report[key].as_u64()).sum();
    assert_eq!(report["lost"], sum, "{report}");
    let kept = report["delivered"].as_u64().unwrap_or(0) + report["lost"].as_u64().unwrap_or(0);
    assert_eq!(report["rows"], kept, "{report}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_flights")).args(["--file", "/nowhere.csv"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere.csv"));
}
