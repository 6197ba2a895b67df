//! After the stream: every aircraft is asked what it remembers. Asking changes nothing, so it may be asked again.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::accounts::AircraftReport;
use super::cluster::{Answer, Cluster};

/// How often an aircraft is asked before it counts as dumb.
const ATTEMPTS: u32 = 4;
/// How long no aircraft may answer before the rest are given up.
const STALL_LIMIT: Duration = Duration::from_secs(120);

/// The report of each of `tails`, as far as there is one. Questions go through all nodes in turn.
pub(crate) async fn collect(cluster: &mut Cluster, tails: &[String]) -> Vec<Option<AircraftReport>> {
    let mut reports = vec![None; tails.len()];
    let mut attempts = vec![0; tails.len()];
    let mut asking: VecDeque<usize> = (0..tails.len()).collect();
    let mut open = tails.len();
    let mut last_progress = Instant::now();
    let mut turn = 0;
    while open > 0 && last_progress.elapsed() < STALL_LIMIT {
        while let Some(aircraft) = asking.front().copied() {
            let nodes = cluster.members.len();
            let Some(node) = (0..nodes).map(|step| (turn + step) % nodes).find(|node| cluster.has_room(*node)) else {
                break;
            };
            turn = node + 1;
            asking.pop_front();
            attempts[aircraft] += 1;
            cluster.ask_report(node, aircraft, &tails[aircraft]);
        }
        for answer in cluster.hear(Duration::from_millis(50)).await {
            let Answer::Report(aircraft, report) = answer else { continue };
            last_progress = Instant::now();
            match report {
                Ok(report) => {
                    open -= usize::from(reports[aircraft].is_none());
                    reports[aircraft] = Some(report);
                }
                Err(_) if attempts[aircraft] < ATTEMPTS => asking.push_back(aircraft),
                Err(why) => {
                    open -= 1;
                    cluster.problems.push(format!("{} gives no report: {why}", tails[aircraft]));
                }
            }
        }
    }
    reports
}
