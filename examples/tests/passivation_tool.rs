//! The tool `passivation` as a person runs it: what it answers, and what it says to what makes no sense.

use std::process::{Command, Output};

fn passivation(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_passivation")).args(args.split(' ')).output().expect("it starts")
}

#[test]
fn no_policy_beats_the_optimum_and_the_page_stands_alone() {
    let page = std::env::temp_dir().join(format!("passivation-{}.html", std::process::id()));
    let out = format!("--messages 20000 --entities 2000 --limits 20,200 --json --out {}", page.display());
    let output = passivation(&out);
    assert!(output.status.success(), "{output:?}");
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    let runs = object["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 10, "five traces, two limits");
    for run in runs {
        let results = run["results"].as_array().expect("results");
        assert_eq!((results.len(), results[0]["policy"].as_str()), (12, Some("optimum")));
        let rate = |result: &serde_json::Value| result["hit_rate"].as_f64().expect("a rate");
        assert!(results.iter().all(|result| rate(result) <= rate(&results[0])), "{run}");
    }
    let text = std::fs::read_to_string(&page).expect("a page");
    std::fs::remove_file(&page).expect("it was there");
    assert_eq!(text.matches("<svg").count(), 10);
    assert!(!text.contains("http") && text.ends_with("</body></html>\n"));
}

#[test]
fn a_trace_of_ones_own_is_read() {
    let path = std::env::temp_dir().join(format!("passivation-{}.trace", std::process::id()));
    std::fs::write(&path, "\u{feff}# my trace\ncart-1\r\n  cart-2,17\n\n\tcart-1 GET\n,5\n").expect("it is written");
    let output = passivation(&format!("--trace {} --limits 1,2,2 --policies lru,all,lru", path.display()));
    std::fs::remove_file(&path).expect("it was there");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.matches("3 messages for 2 entities (1 lines named none), 2 awake at most").count(), 1, "{text}");
    assert_eq!(text.matches(" sieve ").count(), 2, "all policies, each once: {text}");
    assert!(text.contains("33.33"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for task in [
        "--trace zipf:eleven",
        "--trace /no/such/file",
        "--trace flights --policies mine",
        "--limits 0",
        "--trace Cargo.toml --column x",
        "--trace flights --column carrier",
        "--trace loop --out /no/such/place.html",
    ] {
        let output = passivation(task);
        assert_eq!(output.status.code(), Some(2), "{task}: {output:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{task}: {output:?}");
    }
}
