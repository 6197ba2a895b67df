//! The tool `storm` as a person runs it: a failure's command runs it again, and what makes no sense is refused (by `failover`
//! as well).

use std::process::{Command, Output};

fn storm(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_storm")).args(args.split(' ')).output().expect("it starts")
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// The line of a violation, and the arguments of the command that replays it.
fn found(text: &str) -> (String, String) {
    let line =
        |has: &str| text.lines().find(|line| line.contains(has)).unwrap_or_else(|| panic!("no `{has}`:\n{text}"));
    let replay = line("replay: ").split_once("storm -- ").unwrap_or_else(|| panic!("no command:\n{text}")).1;
    (line("VIOLATION of").to_owned(), replay.to_owned())
}

/// In every mode: the same seed, property and moment.
#[test]
fn the_replay_command_runs_the_failure_again() {
    let script = std::env::temp_dir().join(format!("storm {}.storm", std::process::id()));
    let modes = [
        "--mutant no-barrier --seeds 40",
        "--mutant no-barrier --guard --seeds 60",
        "--mutant no-barrier --seeds 60 --only double-owner",
        "--mutant no-barrier --seeds 40 --seconds 9",
        "--mutant no-barrier --dense --seconds 6 --seeds 20",
        "--mutant no-quarantine --nodes 2 --seeds 40",
        "--drill leave --seed 3 --nodes 4 --mutant no-advance",
    ];
    for mode in modes {
        let output = storm(mode);
        let (violation, replay) = found(&text(&output));
        assert!(output.status.success(), "{mode}");
        let again = found(&text(&storm(&replay)));
        assert_eq!((violation, replay.clone()), again, "{mode}");
    }
    // Of a script, with a blank in its name and a seed that is not its first.
    let body = "mutant no-barrier\nexpect double-owner\nseed 6\ntries 60\nnodes 3\nentities 1\nstorm 12s\nlate-joiner yes\n\
        handler-time 2ms\n";
    std::fs::write(&script, body).expect("it is written");
    let run = |more: &[&str]| {
        let all = ["--script".as_ref(), script.as_os_str()];
        let more = more.iter().map(AsRef::as_ref);
        let output = Command::new(env!("CARGO_BIN_EXE_storm")).args(all.into_iter().chain(more)).output();
        text(&output.expect("it starts"))
    };
    let (violation, replay) = found(&run(&["--quiet"]));
    let rest = replay.strip_prefix(&format!("--script '{}' ", script.display())).expect("its path, for a shell");
    assert_eq!(found(&run(&rest.split(' ').collect::<Vec<_>>())), (violation, replay.clone()));
    let object = run(&["--quiet", "--json"]).lines().last().map(serde_json::from_str::<serde_json::Value>);
    assert_eq!(object.expect("a line").expect("an object")["double_owners"], 1);
    std::fs::remove_file(&script).expect("it was there");
}

/// Exit code 2, why, and nothing else.
#[test]
fn arguments_that_make_no_sense_are_refused() {
    let wrong = [
        ("--only double-owners", "unlisted-owner"),
        ("--mutant none", "no-barrier"),
        ("--protocol ours", "gossip-leader"),
        ("--drill fire --seed 1", "coordinator-leave"),
        ("--seeds 0", "nothing was run"),
        ("--protocol all --seeds 0", "nothing was run"),
        ("--mutants --seeds 0", "nothing was run"),
        ("--nodes 1 --seeds 0 --drills 3", "two nodes"),
        ("--nodes 0", "1..=2000"),
        ("--nodes 1000000000", "1..=2000"),
        ("--seconds 0", "1..=86400"),
        ("--seconds 18446744073709551615", "1..=86400"),
        ("--from 4611686018427387904 --drills 13835058055282163712 --seeds 0", "0..=1000000"),
        ("--mutant no-barrier --protocol all", "cannot be used with"),
        ("--nodes 5 --dense", "cannot be used with"),
        ("--script x.storm --nodes 4", "cannot be used with"),
        ("--script /nowhere.storm", "/nowhere.storm"),
        ("--drill crash", "--seed"),
        ("--seed 4 --seeds 5", "cannot be used with"),
    ];
    for (args, says) in wrong {
        let output = storm(args);
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && why.contains(says), "{args}: {output:?}");
        assert!(output.stdout.is_empty(), "{args}: {output:?}");
    }
    let failover = Command::new(env!("CARGO_BIN_EXE_failover")).args(["--rounds", "0"]).output().expect("it starts");
    assert_eq!(failover.status.code(), Some(2), "no round shows nothing: {failover:?}");
}
