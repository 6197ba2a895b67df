//! Pools of stateless workers on smol: the same as on tokio.

use std::time::Duration;

use adapter_smol::Node;
use shard_core::entity::{AskError, Reason};
use shard_core::prelude::*;
use smol::channel::{Receiver, Sender, bounded, unbounded};

/// Says that it runs, then waits for the gate.
struct Hold;
messages! { enum DeskMessage as "desk" { Hold -> u64 } }

struct Desk {
    begun: Sender<u64>,
    gate: Receiver<()>,
    stopped: Sender<StopReason>,
}
impl Entity for Desk {
    type Message = DeskMessage;
    async fn stopping(&mut self, why: StopReason, _: &mut Context<'_, Self>) {
        self.stopped.send(why).await.unwrap();
    }
}
impl Handle<Hold> for Desk {
    async fn handle(&mut self, _: Hold, ctx: &mut Context<'_, Self>) -> u64 {
        let number = ctx.identity().activation();
        self.begun.send(number).await.unwrap();
        self.gate.recv().await.unwrap();
        number
    }
}

#[test]
fn a_pool_grows_fills_drains_and_ends_with_its_node() {
    smol::block_on(async {
        let node = Node::builder("workers").start().await.unwrap();
        let (says_begun, begun) = unbounded();
        let (opens, gate) = unbounded();
        let (says_stopped, stopped) = bounded(2);
        let desk = move |_: &_| Desk { begun: says_begun.clone(), gate: gate.clone(), stopped: says_stopped.clone() };
        let pool = node.workers::<Desk>().at_most(2).waiting_at_most(2).keep_idle();
        let desks = pool.start_with(desk).await.unwrap().within(Duration::from_secs(30));
        let asks: Vec<_> = (0..4).map(|_| desks.ask(Hold)).collect();
        let mut first = [begun.recv().await.unwrap(), begun.recv().await.unwrap()];
        first.sort_unstable();
        assert_eq!(first, [1, 2]);
        assert!(matches!(desks.tell(Hold), Err(Refused { reason: Reason::Full(_), .. })));
        let report = desks.report();
        assert_eq!((report.workers, report.idle, report.waiting, report.handled), (2, 0, 2, 2));
        for _ in 0..4 {
            opens.send(()).await.unwrap();
        }
        let leaving = node.leave();
        for ask in asks {
            assert!(matches!(ask.await, Ok(1 | 2)));
        }
        assert!(leaving.await.took < Duration::from_secs(8));
        for _ in 0..2 {
            assert_eq!(stopped.recv().await, Ok(StopReason::NodeLeaving));
        }
        let late = desks.ask(Hold).await;
        assert!(matches!(late, Err(AskError::Refused(Refused { reason: Reason::Stopping, .. }))));
    });
}
