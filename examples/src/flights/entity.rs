//! An aircraft: the entity of the main job.

use serde::{Deserialize, Serialize};
use shard_core::entity::Fence;
use shard_core::prelude::*;

use super::accounts::AircraftReport;
use super::fold::Flight;
use super::logbook::Logbook;
use super::numbers::Arrival;
use super::shelf::Shelf;

/// One flight of the aircraft.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Its number within the aircraft, from 1: how the aircraft sees gaps, duplicates and disorder.
    pub(crate) number: u32,
    /// The flight.
    pub(crate) flight: Flight,
}

/// The answer to a [`Row`]: it is folded.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Settled {
    /// The node it was folded on.
    pub(crate) node: u64,
    /// The life it was folded in.
    pub(crate) fence: Fence,
    /// How it came.
    pub(crate) arrival: Arrival,
}

/// Asks for everything the aircraft remembers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Report;

messages! {
    /// What an aircraft understands.
    pub(crate) enum AircraftMessage as "aircraft" {
        1 => Row -> Settled,
        2 => Report -> AircraftReport,
    }
}

/// One aircraft, known by its tail number. It loads its logbook when it starts and saves it when it stops as planned.
///
/// Its hooks write two small files each and block their lane meanwhile, which a demonstration may; a service would give
/// its store to the factory and await it.
pub(crate) struct Aircraft {
    shelf: Shelf,
    node: u64,
    logbook: Logbook,
}

impl Aircraft {
    /// An aircraft on `node` that has not loaded its logbook yet.
    pub(crate) fn new(shelf: Shelf, node: u64) -> Self {
        Self { shelf, node, logbook: Logbook::default() }
    }
}

impl Entity for Aircraft {
    type Message = AircraftMessage;

    async fn started(&mut self, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        self.logbook = self.shelf.claim(ctx.id().as_str(), ctx.fence())?;
        self.logbook.lives.push(ctx.fence());
        Ok(())
    }

    async fn stopping(&mut self, why: StopReason, ctx: &mut Context<'_, Self>) {
        // A failed life is not worth keeping; every other stop is planned.
        if why == StopReason::Failed {
            return;
        }
        if let Err(error) = self.shelf.save(ctx.id().as_str(), ctx.fence(), &self.logbook) {
            // Nobody is there to take the error; the rows will be missed at the end, and the log says why.
            eprintln!("aircraft {} could not be saved: {error}", ctx.id());
        }
    }
}

impl Handle<Row> for Aircraft {
    async fn handle(&mut self, Row { number, flight }: Row, ctx: &mut Context<'_, Self>) -> Settled {
        let arrival = self.logbook.take(number, &flight);
        Settled { node: self.node, fence: ctx.fence(), arrival }
    }
}

impl Handle<Report> for Aircraft {
    async fn handle(&mut self, _: Report, _: &mut Context<'_, Self>) -> AircraftReport {
        AircraftReport { logbook: self.logbook.clone(), node: self.node }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flights::fold::sample;
    use crate::flights::shelf::{Scratch, life, scratch};
    use shard_core::testing::Solo;

    fn aircraft(shelf: &Scratch) -> Solo<Aircraft> {
        let shelf = shelf.0.clone();
        Solo::new("N1", move |_| Aircraft::new(shelf.clone(), 3))
    }

    fn row(number: u32) -> Row {
        Row { number, flight: sample(number) }
    }

    #[test]
    fn an_aircraft_folds_rows_and_reports_them() {
        let shelf = Scratch(scratch("folds"));
        let mut aircraft = aircraft(&shelf);
        let (first, again) = (aircraft.ask(row(1)), aircraft.ask(row(1)));
        assert_eq!((first.node, first.arrival, again.arrival), (3, Arrival::Next, Arrival::Again));
        let report = aircraft.ask(Report);
        assert_eq!((report.node, report.logbook.fold.flights, report.logbook.duplicates), (3, 2, 1));
        assert_eq!(report.logbook.lives, [first.fence]);
    }

    #[test]
    fn a_planned_stop_keeps_the_logbook_for_the_next_life() {
        for why in [StopReason::Handoff, StopReason::NodeLeaving, StopReason::Idle, StopReason::Evicted] {
            let shelf = Scratch(scratch("planned"));
            let mut aircraft = aircraft(&shelf);
            let before = aircraft.ask(row(1));
            aircraft.stop(why);
            let after = aircraft.ask(row(2));
            assert!(after.fence > before.fence, "{why:?}");
            let logbook = aircraft.ask(Report).logbook;
            assert_eq!(logbook.lives, [before.fence, after.fence], "{why:?}");
            assert_eq!(logbook.rows.iter().collect::<Vec<_>>(), [1, 2], "{why:?}");
        }
    }

    #[test]
    fn a_failed_life_leaves_what_the_stop_before_it_saved() {
        let shelf = Scratch(scratch("failed"));
        let mut aircraft = aircraft(&shelf);
        let kept = aircraft.ask(row(1));
        aircraft.stop(StopReason::Handoff);
        let _ = aircraft.ask(row(2));
        aircraft.stop(StopReason::Failed);
        let logbook = aircraft.ask(Report).logbook;
        assert_eq!(logbook.rows.iter().collect::<Vec<_>>(), [1]);
        assert_eq!((logbook.lives.len(), logbook.lives[0]), (2, kept.fence), "the failed life is not listed");
    }

    #[test]
    fn an_aircraft_does_not_start_where_a_later_life_holds_the_shelf() {
        let shelf = Scratch(scratch("later"));
        shelf.0.claim("N1", life(u32::MAX, u64::MAX)).expect("free");
        let mut aircraft = aircraft(&shelf);
        aircraft.tell(row(1));
        assert_eq!(aircraft.failures().len(), 1);
    }
}
