//! The tool `shuffle` as a person runs it: what it answers, and what it says to what makes no sense.

use std::process::{Command, Output};

fn shuffle(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shuffle")).args(args.split(' ')).output().expect("it starts")
}

fn text(args: &str) -> String {
    let output = shuffle(args);
    assert!(output.status.success(), "{args}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn every_task_answers_people_and_programs() {
    for task in [
        "table",
        "advise --queues 64 --tenants 10000 --elephants 4 --seats 100",
        "deal --tenant acme",
        "blast --tenant acme --tenants 500",
        "poison --hosts 6 --hand 2 --tenants 8 --seeds 1",
    ] {
        assert!(text(task).lines().count() > 0, "{task}");
        let object = text(&format!("{task} --json"));
        assert!(object.starts_with('{') && object.trim_end().ends_with('}') && object.lines().count() == 1, "{object}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for task in [
        "poison --seeds 3 --from 18446744073709551615",
        "poison --seeds 0",
        "poison --hosts 3 --hand 4",
        "advise --queues 0",
        "advise --queues 64 --elephants 4294967295",
        "advise --queues 64 --seats 0",
        "blast --tenant x --tenants 4294967295",
        "deal --tenant x --queues 3 --hand 4",
    ] {
        let output = shuffle(task);
        assert_eq!(output.status.code(), Some(2), "{task}: {output:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{task}: {output:?}");
    }
}

#[test]
fn hands_of_one_have_no_bound_and_long_lists_are_cut() {
    let told = text("blast --tenant acme --queues 1 --hand 1 --tenants 500");
    assert!(told.contains("no bound on tenants") && told.contains("and 490 more"), "{told}");
    assert_eq!(told.lines().filter(|line| line.ends_with("has no queue left")).count(), 10);
}
