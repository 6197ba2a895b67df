//! What a campaign found, as text and as JSON.

use serde_json::{Map, Value, json};
use shard_core::sim::{Gaps, Mark};

use crate::campaign::Sum;
use crate::drills::Drills;

/// The sum as text.
pub(crate) fn sum(sum: &Sum, seconds: f64) {
    let simulated = sum.millis as f64 / 1e3;
    println!(
        "{} runs, {:.1} h of cluster time, {seconds:.1} s, {:.1} runs/s; a simulated second costs {:.1} ms",
        sum.runs,
        simulated / 3.6e3,
        sum.runs as f64 / seconds,
        cost(simulated, seconds)
    );
    for (name, value) in sum.counters.values() {
        println!("  {name:<20} {value:>14}");
    }
    println!("  {:<20} {:>14}", "longest gap, ms", sum.counters.longest_gap_millis);
    println!("{}", sum.gaps);
    // Where no script breaks a clock, an alarm would be a violation.
    let silent: Vec<_> = sum.marks.silent().filter(|name| *name != Mark::ClockAlarm.name()).collect();
    println!("{} of {} marks were met", sum.marks.met(), sum.marks.met() + silent.len());
    if !silent.is_empty() {
        println!("never met: {}", silent.join(", "));
    }
}

/// Processor milliseconds per simulated second, if every core was busy with it.
fn cost(simulated: f64, seconds: f64) -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    process_seconds().unwrap_or(seconds * cores) * 1e3 / simulated.max(1e-3)
}

/// What this process has used of processors until now, in seconds, where the system says so.
fn process_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let ticks: Vec<f64> = stat.rsplit(')').next()?.split(' ').filter_map(|word| word.parse().ok()).collect();
    // After the state come ppid and on; utime and stime are the 11th and 12th numbers. A tick is 10 ms.
    Some((ticks.get(10)? + ticks.get(11)?) / 100.0)
}

/// The sum as one object.
pub(crate) fn json(sum: &Sum, seconds: f64, drills: Option<&Drills>) -> Value {
    let mut object = Map::new();
    let simulated = sum.millis as f64 / 1e3;
    object.insert("runs".into(), sum.runs.into());
    for (name, value) in sum.counters.values() {
        object.insert(name.into(), value.into());
    }
    object.insert("longest_gap_millis".into(), sum.counters.longest_gap_millis.into());
    object.insert("simulated_seconds".into(), simulated.into());
    object.insert("seconds".into(), seconds.into());
    object.insert("cpu_millis_per_simulated_second".into(), cost(simulated, seconds).into());
    object.insert("unavailability_millis".into(), gaps(&sum.gaps));
    let marks: Map<String, Value> = sum.marks.counts().map(|(name, count)| (name.into(), count.into())).collect();
    object.insert("marks".into(), marks.into());
    object.insert("marks_never_met".into(), sum.marks.silent().collect::<Vec<_>>().into());
    if let Some(drills) = drills {
        let moves = drills.moves.iter().map(|(name, moves, minimum)| {
            let ratio = *moves as f64 / (*minimum).max(1) as f64;
            ((*name).into(), json!({ "moves": moves, "minimum": minimum, "ratio": ratio }))
        });
        let fates = drills.fates.iter().map(|(name, [messages, not_run, in_doubt])| {
            ((*name).into(), json!({ "messages": messages, "not_run": not_run, "in_doubt": in_doubt }))
        });
        let drills = json!({
            "runs": drills.runs,
            "nodes": drills.nodes,
            "unavailability_millis": gaps(&drills.gaps),
            "moves_over_minimum": moves.collect::<Map<String, Value>>(),
            "mail": fates.collect::<Map<String, Value>>(),
            "violations": drills.bad.len(),
        });
        object.insert("drills".into(), drills);
    }
    let properties: Vec<_> = sum.bad.iter().filter_map(|report| Some(report.violation.as_ref()?.property)).collect();
    let clean = sum.found() == 0 && drills.is_none_or(|drills| drills.bad.is_empty());
    object.insert("violations".into(), properties.into());
    object.insert("assertions".into(), sum.panics.clone().into());
    object.insert("verdict".into(), if clean { "ok" } else { "failed" }.into());
    object.into()
}

fn gaps(gaps: &Gaps) -> Value {
    let mut causes = Map::new();
    for gap in gaps.summary() {
        let role = if gap.victim { "victims" } else { "bystanders" };
        let figures = json!({ "count": gap.count, "p50": gap.p50, "p99": gap.p99, "max": gap.max });
        let cause = causes.entry(gap.cause.name()).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(roles) = cause {
            roles.insert(role.into(), figures);
        }
    }
    causes.into()
}
