//! A limit of awake entities on a real node: it holds over all lanes, nothing is lost by it, and it changes while mail comes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adapter_tokio::Node;
use serde::{Deserialize, Serialize};
use shard_core::entity::StopReason;
use shard_core::passivation::{Order, Ordered, Passivation, PolicyChoice, Rings};
use shard_core::prelude::*;

/// Adds one; answers the sum over all lives.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Count;
/// Weighs so much from now on.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Weigh(u32);
/// Stays awake, or may sleep again.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Pin(bool);
messages! {
    enum PageMessage as "page" { 1 => Count -> u64, 2 => Weigh -> (), 3 => Pin -> () }
}

/// Where pages go when they sleep, with what they counted and how often they went.
type Store = Arc<Mutex<BTreeMap<String, (u64, Vec<StopReason>)>>>;

struct Page {
    counted: u64,
    store: Store,
}

impl Entity for Page {
    type Message = PageMessage;

    async fn started(&mut self, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        tokio::task::yield_now().await;
        self.counted = self.store.lock().unwrap().get(ctx.id().as_str()).map_or(0, |(counted, _)| *counted);
        Ok(())
    }

    async fn stopping(&mut self, why: StopReason, ctx: &mut Context<'_, Self>) {
        tokio::task::yield_now().await;
        let mut store = self.store.lock().unwrap();
        let page = store.entry(ctx.id().to_string()).or_default();
        page.0 = self.counted;
        page.1.push(why);
    }
}
impl Handle<Count> for Page {
    async fn handle(&mut self, _: Count, _: &mut Context<'_, Self>) -> u64 {
        tokio::task::yield_now().await;
        self.counted += 1;
        self.counted
    }
}
impl Handle<Weigh> for Page {
    async fn handle(&mut self, Weigh(weight): Weigh, ctx: &mut Context<'_, Self>) {
        ctx.weighs(weight);
    }
}
impl Handle<Pin> for Page {
    async fn handle(&mut self, Pin(on): Pin, ctx: &mut Context<'_, Self>) {
        if on { ctx.pin() } else { ctx.unpin() }
    }
}

async fn pages(passivation: Passivation) -> (Node, Entities<PageMessage>, Store) {
    let node = Node::builder("library").start().await.expect("it starts");
    let store = Store::default();
    let shelves = Arc::clone(&store);
    let factory = move |_: &_| Page { counted: 0, store: Arc::clone(&shelves) };
    let pages =
        node.sharding::<Page>().shards(32).passivation(passivation).start_with(factory).await.expect("it starts");
    (node, pages, store)
}

/// Waits until the lanes' reports say what they should.
async fn until(node: &Node, what: &str, holds: impl Fn(&shard_core::passivation::LimitReport) -> bool) {
    let mut last = None;
    for _ in 0..400 {
        last = node.limits::<Page>();
        if last.as_ref().is_some_and(&holds) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what}: {last:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_holds_over_all_lanes_and_every_message_is_handled_once() {
    for policy in [PolicyChoice::S3Fifo, PolicyChoice::Lru, PolicyChoice::Random, PolicyChoice::ClimbingTinyLfu] {
        let (node, pages, store) = pages(Passivation::at_most(200).choosing(policy)).await;
        let callers = (0..4_u64).map(|caller| {
            let pages = pages.clone();
            tokio::spawn(async move {
                for step in 0..2_500 {
                    let id = format!("page-{}", (step * 7 + caller * 3) * step % 900);
                    pages.ask(id.as_str(), Count).await.expect("answered");
                }
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.expect("it ends");
        }
        // What comes for an entity that is stopping is no hit, and wakes one life only, however much it is.
        let most = |report: &shard_core::passivation::LimitReport| report.lanes.hits + report.lanes.creations >= 9_900;
        until(&node, "all is counted", most).await;
        let report = node.limits::<Page>().expect("it has a limit");
        assert_eq!(report.limit, 200);
        assert!(report.lanes.census.held() <= 200, "{policy:?}: {report:?}");
        assert!(
            report.lanes.evictions > 0 && report.lanes.creations > report.lanes.evictions,
            "{policy:?}: {report:?}"
        );
        let mut counted = 0;
        for id in 0..900 {
            counted += pages.ask(format!("page-{id}").as_str(), Count).await.expect("answered") - 1;
        }
        assert_eq!(counted, 10_000, "{policy:?}");
        let store = store.lock().unwrap();
        assert!(store.values().flat_map(|(_, whys)| whys).any(|why| *why == StopReason::Evicted));
    }
}

#[tokio::test]
async fn a_limit_that_is_lowered_is_reached_and_one_that_is_raised_leaves_room() {
    let (node, pages, _) = pages(Passivation::at_most(1_000)).await;
    for id in 0..1_000 {
        pages.ask(format!("page-{id}").as_str(), Count).await.expect("answered");
    }
    until(&node, "all are awake", |report| report.lanes.census.awake.count == 1_000).await;
    assert!(node.set_limit::<Page>(300));
    until(&node, "the others sleep", |report| report.lanes.census.held() <= 300).await;
    node.set_limit::<Page>(2_000);
    for id in 0..1_000 {
        pages.ask(format!("page-{id}").as_str(), Count).await.expect("answered");
    }
    until(&node, "all are awake again", |report| report.lanes.census.awake.count == 1_000).await;
}

#[tokio::test]
async fn entities_count_what_they_weigh_and_the_pinned_stay() {
    let (node, pages, store) = pages(Passivation::weighing(1_000, 10).choosing(PolicyChoice::Lru)).await;
    pages.ask("pinned", Pin(true)).await.expect("answered");
    for id in 0..20 {
        pages.ask(format!("page-{id}").as_str(), Weigh(300)).await.expect("answered");
    }
    until(&node, "three fit beside it", |report| {
        let census = report.lanes.census;
        (census.awake.count, census.pinned.count, census.held()) == (3, 1, 910)
    })
    .await;
    assert_eq!(pages.ask("pinned", Count).await, Ok(1));
    assert!(!store.lock().unwrap().contains_key("pinned"), "it has not slept");
    pages.ask("pinned", Pin(false)).await.expect("answered");
    for id in 0..20 {
        pages.ask(format!("page-{id}").as_str(), Weigh(300)).await.expect("answered");
    }
    until(&node, "nobody is pinned", |report| report.lanes.census.pinned.count == 0).await;
    assert_eq!(store.lock().unwrap()["pinned"], (1, vec![StopReason::Evicted]));
    assert!(node.limits::<Page>().is_some_and(|report| report.limit == 1_000));
}

#[tokio::test]
async fn a_type_without_a_limit_has_no_report() {
    let (node, pages, _) = pages(Passivation::never()).await;
    assert_eq!(pages.ask("a", Count).await, Ok(1));
    assert_eq!((node.limits::<Page>(), node.set_limit::<Page>(5)), (None, false));
}

/// Who came first goes first, used or not.
#[derive(Debug)]
struct Fifo;

impl Order for Fifo {
    fn rings(&self) -> u16 {
        1
    }
    fn enter(&mut self, rings: &mut Rings, index: u32, _: u64) {
        rings.put(index, 0);
    }
    fn touch(&mut self, _: &mut Rings, _: u32) {}
    fn victim(&mut self, rings: &mut Rings) -> Option<u32> {
        rings.oldest(0)
    }
}

#[tokio::test]
async fn a_policy_of_ones_own_picks_who_goes() {
    // So few that the type has one lane, and the order in which they came is one.
    let own = Passivation::at_most(3).choosing_own(|setting| Box::new(Ordered::new(Fifo, setting.limit)));
    let (node, pages, store) = pages(own).await;
    for id in ["first", "second", "third"] {
        pages.ask(id, Count).await.expect("it counts");
    }
    // Used last, and still the one that goes.
    assert_eq!(pages.ask("first", Count).await.expect("it counts"), 2);
    pages.ask("fourth", Count).await.expect("it counts");
    until(&node, "one was evicted", |report| report.lanes.evictions == 1 && report.lanes.census.stopping.count == 0)
        .await;
    let gone: Vec<_> = store.lock().unwrap().iter().map(|(id, page)| (id.clone(), page.clone())).collect();
    assert_eq!(gone, [("first".to_owned(), (2, vec![StopReason::Evicted]))]);
    node.leave().await;
}
