//! The main job as a user runs it: real processes, real sockets, and a real `kill -9`, on a part of the month.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

const HEADER: &str =
    "month,day,sched_dep_time,dep_delay,arr_delay,carrier,flight,tailnum,origin,dest,air_time,distance";
const ROW: &str = "1,1,515,2,11,UA,1545,N14228,EWR,IAH,227,1400";

/// The first `rows` flights of the month, and three lines that are none.
fn some_flights(rows: usize) -> String {
    let all = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/data/flights-2013-01.csv")).unwrap();
    let mut some: Vec<&str> = all.lines().take(rows + 1).collect();
    some.insert(rows / 2, "1,1,515,2,11,UA,1545");
    some.insert(rows / 3, "1,1,515,2,many,UA,1545,N14228,EWR,IAH,227,1400");
    some.push("1,1,515,2,11,UA,1545,,EWR,IAH,227,1400");
    some.join("\n")
}

/// A place of its own for one run's file, and for what the run writes.
struct Place(PathBuf);

impl Place {
    fn new(name: &str, file: &str) -> Self {
        let place = std::env::temp_dir().join(format!("main-job-{}-{name}", std::process::id()));
        fs::create_dir_all(place.join("scratch")).unwrap();
        fs::write(place.join("flights.csv"), file).unwrap();
        Self(place)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flights"));
        command.env("TMPDIR", self.0.join("scratch")).arg("--file").arg(self.0.join("flights.csv")).args(arguments);
        command
    }

    /// What the runs left behind or have not removed yet.
    fn scratch(&self) -> Vec<PathBuf> {
        fs::read_dir(self.0.join("scratch")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a run said.
struct Said {
    code: Option<i32>,
    text: String,
    report: Value,
}

/// Runs it with `file`; what its last line says is the report.
fn run(name: &str, file: &str, arguments: &[&str]) -> Said {
    let place = Place::new(name, file);
    let Output { status, stdout, stderr } =
        place.command(arguments).arg("--json").output().expect("the program starts");
    let text = String::from_utf8_lossy(&stdout).into_owned();
    let report = serde_json::from_str(text.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {text}\n{}", String::from_utf8_lossy(&stderr)));
    let failed = status.code() == Some(1) && !text.contains("no cluster was started");
    assert!(failed || place.scratch().is_empty(), "{:?} is left behind\n{text}", place.scratch());
    Said { code: status.code(), text, report }
}

#[test]
fn every_row_is_delivered_once_in_order_while_a_node_joins_and_one_leaves() {
    let Said { code, report, .. } = run("calm", &some_flights(3_000), &[]);
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
    let Said { code, report, .. } = run("kill", &some_flights(3_000), &["--kill"]);
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

#[test]
fn a_header_without_a_column_is_named_and_every_row_counted() {
    let row = ROW.replace("IAH,", "");
    let file = [HEADER.replace("dest,", ""), row.clone(), row.clone(), row].join("\n");
    let Said { code, text, report } = run("header", &file, &[]);
    assert_eq!((code, &report["verdict"]), (Some(1), &Value::from("failed")), "{text}");
    assert_eq!((&report["rows"], &report["rejected"]), (&Value::from(0), &Value::from(3)), "{text}");
    for part in ["header (line 1): column `dest` is missing", "3 rows: column `dest` is missing", "lines 2-4"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn every_rejected_line_is_named_however_many_there_are() {
    let bad = ROW.replace("1400", "far");
    let lines: Vec<&str> = (0..1_000).map(|at| if at % 3 == 0 { "1,1" } else { &bad }).collect();
    let Said { code, text, report } = run("bad", &format!("{HEADER}\n{}", lines.join("\n")), &[]);
    assert_eq!((code, &report["rejected"]), (Some(1), &Value::from(1_000)), "{text}");
    let named =
        |text: &str| -> Vec<u64> { text.split([' ', ',', '\n']).filter_map(|word| word.parse().ok()).collect() };
    let short = text.split("`sched_dep_time` is missing\n").nth(1).expect("the fault is named");
    let (short, far) = short.split_once("rows: column `distance`").expect("so is the other");
    assert_eq!(named(short)[..334], (0..334).map(|at| at * 3 + 2).collect::<Vec<u64>>());
    assert!(far.contains("lines 3-4, 6-7,") && far.contains("999-1000\n"), "{far}");
}

#[test]
fn one_row_does_not_wait_for_a_shard_that_cannot_come() {
    let Said { code, text, report } = run("one", &[HEADER, ROW].join("\n"), &[]);
    assert_eq!(
        (code, &report["verdict"], &report["delivered"]),
        (Some(0), &Value::from("ok"), &Value::from(1)),
        "{text}"
    );
    assert!(text.contains("node 4 joined, and there was no shard to move to it"), "{text}");
}

#[cfg(unix)]
#[test]
fn a_run_that_is_told_to_end_leaves_nothing_behind() {
    let place = Place::new("told-to-end", &some_flights(3_000));
    let mut run = place.command(&["--speed", "20"]).spawn().expect("the program starts");
    let limit = Instant::now() + Duration::from_secs(60);
    while !place.scratch().iter().any(|scratch| scratch.join("node-3.log").exists()) {
        assert!(Instant::now() < limit, "no node was started");
        std::thread::sleep(Duration::from_millis(20));
    }
    let told = Command::new("kill").args(["-TERM", &run.id().to_string()]).status().expect("there is a kill");
    assert!(told.success());
    let status = run.wait().expect("it is a child of ours");
    assert_eq!(status.code(), Some(128 + 15));
    assert_eq!(place.scratch(), [] as [PathBuf; 0]);
}
