//! A person's tool for shuffle sharding.
//!
//! `shuffle table` prints how well hands keep tenants apart; `advise` says which hand to deal; `deal` deals one tenant's;
//! `blast` says who else is harmed when one tenant takes down its whole hand; `poison` lets it happen in simulated clusters,
//! and fails unless the hand alone dies and as many others are harmed as was calculated. `--json` prints one object instead.

#[path = "shuffle/poison.rs"]
mod poison;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use examples::tool::say;
use serde_json::{Value, json};
use shard_core::shuffle::{
    Advice, Dealer, DealerError, FlowKey, Hand, Isolation, SeatWarning, combinations, kubernetes_flow_hash, tenants_max,
};

/// More of them take the calculator more than seconds.
const ELEPHANTS_MAX: i64 = 1_000_000;
/// So many tenants without a queue are named.
const NAMED: usize = 10;

/// Calculates, advises and deals hands of queues (or nodes).
#[derive(Parser, Debug)]
struct Args {
    #[command(subcommand)]
    task: Task,
    /// One JSON object on the standard output, and nothing else.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand, Debug)]
enum Task {
    /// The probability that a mouse has no queue left, for common hands and numbers of elephants.
    Table {
        /// These elephants; several with commas.
        #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16], value_parser = clap::value_parser!(u32).range(..=ELEPHANTS_MAX))]
        elephants: Vec<u32>,
    },
    /// Which hand to deal.
    Advise {
        /// How many queues there are.
        #[arg(long)]
        queues: u32,
        /// How many tenants share them.
        #[arg(long, default_value_t = 1_000)]
        tenants: u32,
        /// How many of them may misbehave at the same time.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(..=ELEPHANTS_MAX))]
        elephants: u32,
        /// The most seats that one request takes.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        width: u32,
        /// How many seats there are in all; with it, hands that could take half of them are warned about.
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
        seats: Option<u32>,
    },
    /// The hand of one tenant.
    Deal {
        #[command(flatten)]
        whose: Whose,
    },
    /// Who else is harmed when a tenant takes down its whole hand.
    Blast {
        #[command(flatten)]
        whose: Whose,
        /// How many other tenants to deal for.
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(..=10_000_000))]
        tenants: u32,
    },
    /// The same in whole simulated clusters: one tenant's entity crashes every process that runs it.
    Poison {
        #[command(flatten)]
        clusters: poison::Clusters,
    },
}

#[derive(clap::Args, Debug)]
struct Whose {
    /// The tenant.
    #[arg(long)]
    tenant: String,
    /// How many queues there are.
    #[arg(long, default_value_t = 128)]
    queues: u32,
    /// How many cards a hand has.
    #[arg(long, default_value_t = 6)]
    hand: u32,
    /// What the flow is for: the first part of its identity.
    #[arg(long, default_value = "")]
    schema: String,
    /// A key for the hash, as a number; without it, Kubernetes' hash and so its very hands.
    #[arg(long)]
    key: Option<u128>,
}

impl Whose {
    fn dealer(&self) -> Result<Dealer, DealerError> {
        Dealer::new(self.queues, self.hand)
    }

    fn hash(&self, tenant: &str) -> u64 {
        match self.key {
            Some(key) => FlowKey::new(key).hash(&self.schema, tenant),
            None => kubernetes_flow_hash(&self.schema, tenant),
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut right = true;
    let told = match &args.task {
        Task::Poison { clusters } => poison::poison(clusters).map(|(told, verdict)| {
            right = verdict;
            told
        }),
        Task::Table { elephants } => Ok(table(elephants)),
        Task::Advise { queues, tenants, elephants, width, seats } => {
            advise(*queues, *tenants, *elephants, seats.map(|seats| (*width, seats)))
        }
        Task::Deal { whose } => deal(whose),
        Task::Blast { whose, tenants } => blast(whose, *tenants),
    };
    match told {
        Ok((text, object)) => {
            let text = if args.json { format!("{object}\n") } else { text };
            if let Err(why) = say(&text) {
                eprintln!("{why}");
                return ExitCode::FAILURE;
            }
            if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// What is told to people, and to programs.
type Told = (String, Value);

/// Hands of the table: those that Kubernetes publishes, and the ones it ships.
const HANDS: &[(u32, u32)] = &[
    (12, 32),
    (10, 32),
    (10, 64),
    (9, 64),
    (8, 64),
    (8, 128),
    (7, 128),
    (7, 256),
    (6, 256),
    (6, 512),
    (6, 1024),
    (4, 16),
    (6, 64),
    (6, 128),
];

fn table(elephants: &[u32]) -> Told {
    let mut text = format!("{:>5} {:>7}", "hand", "queues");
    elephants.iter().for_each(|elephants| text += &format!(" {:>22}", many(u64::from(*elephants), "elephant")));
    text += "\n";
    let mut rows = Vec::new();
    for isolation in HANDS.iter().filter_map(|(hand, queues)| Isolation::new(*queues, *hand).ok()) {
        let squished: Vec<f64> = elephants.iter().map(|elephants| isolation.squished(*elephants)).collect();
        text += &format!("{:>5} {:>7}", isolation.hand(), isolation.queues());
        squished.iter().for_each(|squished| text += &format!(" {squished:>22.15e}"));
        text += "\n";
        rows.push(json!({ "hand": isolation.hand(), "queues": isolation.queues(), "squished": squished }));
    }
    text += "the probability that every queue of a tenant (a mouse) is in the hand of an elephant\n";
    (text, json!({ "elephants": elephants, "rows": rows }))
}

fn advise(queues: u32, tenants: u32, elephants: u32, seats: Option<(u32, u32)>) -> Result<Told, String> {
    let Some(advice) = Advice::new(queues, elephants) else {
        return Err(format!("no hand can be dealt from {queues} queues: take 1 to 67108864"));
    };
    let four_times = elephants.saturating_mul(4);
    let mut text = format!("{:>5} {:>12} ", "hand", "1 elephant");
    text += &format!("{:>12} {:>12} {:>20}\n", format!("{elephants}"), format!("{four_times}"), "tenants squished");
    let mut rows = Vec::new();
    for hand in Advice::hands(queues) {
        let [one, few, more] = [1, elephants, four_times].map(|elephants| hand.squished(elephants));
        let mark = if hand == advice.hand { " <- best" } else { "" };
        let expected = few * f64::from(tenants);
        text += &format!("{:>5} {one:>12.3e} {few:>12.3e} {more:>12.3e} {expected:>20.3}{mark}\n", hand.hand());
        rows.push(json!({ "hand": hand.hand(), "one": one, "asked": few, "four_times": more, "tenants": expected }));
    }
    text += &format!("{advice}\n");
    text += &format!(
        "of {tenants} tenants, {:.3} would have no queue left; by plain hashing, {:.1}\n",
        advice.tenants_squished(tenants),
        f64::from(tenants) * Isolation::squished_by_plain_hashing(queues, elephants)
    );
    let hand = advice.hand.hand();
    let warning = seats.and_then(|(width, seats)| SeatWarning::check(hand, width, seats)).map(|it| it.to_string());
    if let Some(warning) = &warning {
        text += &format!("warning: {warning}\n");
    }
    let object = json!({
        "queues": queues, "tenants": tenants, "elephants": elephants, "hand": hand,
        "squished": advice.hand.squished(elephants), "tenants_squished": advice.tenants_squished(tenants),
        "hand_for_four_times": advice.hand_for_more.hand(), "hands": rows, "warning": warning,
    });
    Ok((text, object))
}

fn deal(whose: &Whose) -> Result<Told, String> {
    let dealer = whose.dealer().map_err(|error| error.to_string())?;
    let hash = whose.hash(&whose.tenant);
    let hand = dealer.deal(hash);
    let text = format!("{:?}: hash {hash}, {} of {} queues: {hand:?}\n", whose.tenant, whose.hand, whose.queues);
    Ok((text, json!({ "tenant": whose.tenant, "hash": hash.to_string(), "cards": &*hand })))
}

fn blast(whose: &Whose, tenants: u32) -> Result<Told, String> {
    let dealer = whose.dealer().map_err(|error| error.to_string())?;
    let isolation = Isolation::new(whose.queues, whose.hand).map_err(|error| error.to_string())?;
    let poisoned = dealer.deal(whose.hash(&whose.tenant));
    let mut shared = vec![0_u32; poisoned.len() + 1];
    let mut squished = Vec::new();
    for tenant in (0..tenants).map(|n| format!("tenant-{n}")).filter(|name| *name != whose.tenant) {
        let lost = overlap(&poisoned, &dealer.deal(whose.hash(&tenant)));
        shared[lost] += 1;
        if lost == poisoned.len() {
            squished.push(tenant);
        }
    }
    let others: u32 = shared.iter().sum();
    let law = isolation.overlap();
    let mut text = format!("{:?} takes down {poisoned:?}; of {others} others\n", whose.tenant);
    text += &format!("{:>12} {:>10} {:>12} {:>12}\n", "queues lost", "tenants", "share", "calculated");
    for (lost, (seen, expected)) in shared.iter().zip(law.iter()).enumerate() {
        let share = f64::from(*seen) / f64::from(others.max(1));
        text += &format!("{lost:>12} {seen:>10} {share:>12.6} {expected:>12.6}\n");
    }
    for tenant in squished.iter().take(NAMED) {
        text += &format!("{tenant} has no queue left\n");
    }
    if squished.len() > NAMED {
        text += &format!("and {} more; --json names them all\n", squished.len() - NAMED);
    }
    let hands = combinations(whose.queues, whose.hand);
    let hands = hands.map_or_else(|| "2^128 hands or more".into(), |hands| many(hands, "hand"));
    text += &match tenants_max(whose.queues, whose.hand, 1) {
        u128::MAX => format!("{hands}; no bound on tenants that share one queue or none\n"),
        tenants => format!("{hands}; {} at most could share one queue or none\n", many(tenants, "tenant")),
    };
    let object = json!({
        "tenant": whose.tenant, "cards": &*poisoned, "others": others, "shared": shared, "calculated": &*law,
        "unaffected": shared[0], "squished": squished,
    });
    Ok((text, object))
}

/// So many of something.
fn many(number: impl Into<u128>, what: &str) -> String {
    let number = number.into();
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn overlap(a: &Hand, b: &Hand) -> usize {
    a.iter().filter(|card| b.contains(card)).count()
}
