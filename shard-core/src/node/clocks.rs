//! What a node can see of clocks that break the protocol's one assumption (S5): that each runs within the bound on its rate.
//!
//! **Jumps.** A machine that is frozen (a virtual machine that is moved, a snapshot) finds its clock where it was, and serves
//! on under a session that others have counted out long ago. The wall clock often knows: when it went ahead of the node's
//! clock by more than ten times what the rates allow and 50 ms, reign and session end at once. This is best effort: between
//! the thaw and the next look a handler may run, and a wall clock that was frozen as well says nothing. Where that matters,
//! stores must refuse older tokens (fencing). A wall clock that is set forward by hand costs one session.
//!
//! **Rates.** Every ack says what the coordinator's clock showed between the heartbeat and the ack, so two acks bound, from
//! both sides and with no assumption about the network, how fast that clock runs by this one's measure:
//!
//! ```text
//!   here          s1 --------- r1                      s2 ------- r2
//!   there              c1                                   c2
//!                      |<----------- c2 - c1 -------------->|        between s2 - r1 and r2 - s1 here
//! ```
//! If no two clocks within the bound can do that, one of the two is broken. More than half of what is allowed is told to the
//! operator, once. What is done depends on who is ahead, for only one side of each promise is in danger:
//!
//! | the coordinator's clock is | in danger | at once | if it happens again within a window, for ten minutes |
//! |---|---|---|---|
//! | faster | this node's session: it may outlive W there | the session ends | no heartbeat goes to that process |
//! | slower | this node's vote: its lease may end before the reign does | it is told | the vote is held twice as long, and then given no more |

use alloc::collections::VecDeque;

use crate::id::NodeKey;
use crate::machine::{Notice, Rule, Rules};
use crate::time::{Duration, Instant};

/// What clocks may differ by for reasons that are not their rates: readings in milliseconds, and a host that reads the clock
/// some time before it hands an input over.
const SLACK: Duration = Duration::from_millis(50);
/// Rates are measured over one to two of these.
const WINDOW: Duration = Duration::from_secs(60);
/// How long a process is shunned.
const SHUN: Duration = Duration::from_secs(600);
/// Heartbeats remembered until their ack comes.
const BEATS: usize = 32;

/// What is to be done about a clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alarm {
    /// Only to be told.
    Tell(Notice),
    /// To be told, and the session must end.
    End(Notice),
    /// To be told, and this node's vote is not given to that process any more.
    Distrust(Notice),
}

/// See the module's page.
#[derive(Debug)]
pub(super) struct Clocks {
    rules: Rules,
    /// The bound on a rate's error, of 1,000.
    rho: u64,
    /// The time of the input that is being handled.
    pub(super) now: Instant,
    /// Both clocks, at the last look.
    wall: Option<(Instant, u64)>,
    /// Whose clock is measured.
    of: Option<NodeKey>,
    /// Heartbeats under way: number and time.
    beats: VecDeque<(u64, Instant)>,
    /// The beginnings of the window and of the next one.
    since: Option<(Sample, Sample)>,
    warned: bool,
    /// The measure was broken once, and a whole window has not passed since.
    struck: bool,
    /// Who gets no heartbeats, because its clock is faster, and until when; and who gets no votes, because it is slower.
    shunned: [Option<(NodeKey, Instant)>; 2],
}

/// An ack: when its heartbeat was sent, when it came, and what the other clock showed in between, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Sample {
    sent: Instant,
    heard: Instant,
    theirs: u64,
}

impl Clocks {
    pub(super) fn new(rate_error_permille: u32, rules: Rules) -> Self {
        Self {
            rules,
            rho: rate_error_permille.into(),
            now: Instant::ZERO,
            wall: None,
            of: None,
            beats: VecDeque::new(),
            since: None,
            warned: false,
            struck: false,
            shunned: [None; 2],
        }
    }

    /// The wall clock shows so many milliseconds. How far it jumped ahead of this clock since the last look, if it did.
    pub(super) fn jumped(&mut self, now: Instant, wall: u64) -> Option<Duration> {
        let (then, before) = self.wall.replace((now, wall)).filter(|_| self.rules.on(Rule::JumpGuard))?;
        let passed = now.since(then);
        let ahead = Duration::from_millis(wall.checked_sub(before)?).checked_sub(passed)?;
        let allowed = passed.as_nanos() * u128::from(self.rho) / 100 + SLACK.as_nanos();
        (ahead.as_nanos() > allowed).then_some(ahead)
    }

    /// A heartbeat goes out.
    pub(super) fn beat(&mut self, to: NodeKey, sequence: u64) {
        if self.of != Some(to) {
            (self.of, self.since, self.warned, self.struck) = (Some(to), None, false, false);
            self.beats.clear();
        }
        if self.beats.len() == BEATS {
            self.beats.pop_front();
        }
        self.beats.push_back((sequence, self.now));
    }

    /// An ack came, which left when the other clock showed so many microseconds.
    pub(super) fn ack(&mut self, from: NodeKey, sequence: u64, clock: u64) -> Option<Alarm> {
        if self.of != Some(from) || !self.rules.on(Rule::RateWatched) {
            return None;
        }
        let found = self.beats.iter().find(|(number, _)| *number == sequence)?;
        let sample = Sample { sent: found.1, heard: self.now, theirs: clock.checked_mul(1_000)? };
        self.beats.retain(|(number, _)| *number > sequence);
        let (first, second) = *self.since.get_or_insert((sample, sample));
        if self.now.since(second.heard) >= WINDOW {
            self.since = Some((second, sample));
            self.struck = false;
        }
        if let Some(faster) = self.apart(first, sample, self.rho, 1_000) {
            self.since = None;
            let again = core::mem::replace(&mut self.struck, true);
            if again {
                self.shunned[usize::from(faster)] = Some((from, self.now + SHUN));
            }
            let notice = Notice::ClockBroken { of: from, faster };
            return Some(match (faster, again) {
                (true, _) => Alarm::End(notice),
                (false, true) => Alarm::Distrust(notice),
                (false, false) => Alarm::Tell(notice),
            });
        }
        let faster = self.apart(first, sample, self.rho, 2_000).filter(|_| !self.warned)?;
        self.warned = true;
        Some(Alarm::Tell(Notice::ClockStrays { of: from, faster }))
    }

    /// Whether no two clocks that are wrong by `rho` of `of` at most can give both samples: the other one is faster, or not.
    fn apart(&self, first: Sample, last: Sample, rho: u64, of: u64) -> Option<bool> {
        let theirs = u128::from(last.theirs.checked_sub(first.theirs)?);
        let (least, most) = (last.sent.since(first.heard).as_nanos(), last.heard.since(first.sent).as_nanos());
        let (slow, fast, slack) = (u128::from(of - rho), u128::from(of + rho), SLACK.as_nanos());
        if theirs * slow > (most + slack) * fast {
            Some(true)
        } else if (theirs + slack) * fast < least * slow {
            Some(false)
        } else {
            None
        }
    }

    /// Whether that process gets no heartbeats now, because its clock is faster than it may be.
    pub(super) fn is_too_fast(&self, node: NodeKey) -> bool {
        self.shuns(node, true)
    }

    /// Whether that process gets no votes now, because its clock is slower than it may be.
    pub(super) fn is_too_slow(&self, node: NodeKey) -> bool {
        self.shuns(node, false)
    }

    fn shuns(&self, node: NodeKey, faster: bool) -> bool {
        self.shunned[usize::from(faster)].is_some_and(|(shunned, until)| shunned == node && self.now < until)
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::id::{Incarnation, NodeId};

    const PEER: NodeKey = NodeKey { id: NodeId(2), incarnation: Incarnation(1) };

    fn clocks() -> Clocks {
        Clocks::new(10, Rules::all())
    }

    /// Heartbeats every 500 ms for so long, each under way for `way` ms, to a clock of so many ticks per million of ours:
    /// when there was which alarm.
    fn beats(clocks: &mut Clocks, from: u64, seconds: u64, way: u64, rate: u64) -> Vec<(u64, Alarm)> {
        let mut alarms = Vec::new();
        for beat in (0..seconds * 2).map(|beat| from + beat * 500) {
            clocks.now = Instant::from_millis(beat);
            clocks.beat(PEER, beat);
            // It is stamped at one end of the way and then at the other.
            let stamped = beat + if beat % 1_000 == 0 { way } else { 0 };
            clocks.now = Instant::from_millis(beat + way);
            alarms.extend(clocks.ack(PEER, beat, stamped * rate / 1_000).map(|alarm| (beat, alarm)));
        }
        alarms
    }

    #[test]
    fn clocks_within_the_bound_raise_no_alarm_whatever_the_way_takes() {
        for rate in [990_100, 1_000_000, 1_010_000] {
            for way in [0, 1, 200, 5_000] {
                let alarms = beats(&mut clocks(), 0, 600, way, rate);
                let told = alarms.iter().all(|(_, alarm)| matches!(alarm, Alarm::Tell(Notice::ClockStrays { .. })));
                assert!(told && alarms.len() <= 1, "{rate} {way}: {alarms:?}");
            }
        }
    }

    #[test]
    fn half_of_what_is_allowed_is_told_once() {
        let alarms = beats(&mut clocks(), 0, 1_000, 2, 1_015_000);
        assert_eq!(alarms.len(), 1);
        assert_eq!(alarms[0].1, Alarm::Tell(Notice::ClockStrays { of: PEER, faster: true }));
        assert_eq!(beats(&mut clocks(), 0, 1_000, 2, 1_009_000), [], "less than that is not");
    }

    #[test]
    fn a_broken_clock_is_struck_once_and_then_shunned() {
        for (rate, faster) in [(1_030_000, true), (970_000, false)] {
            let mut clocks = clocks();
            let alarms = beats(&mut clocks, 0, 30, 2, rate);
            let broken = Notice::ClockBroken { of: PEER, faster };
            let (first, then) = match faster {
                true => (Alarm::End(broken), Alarm::End(broken)),
                false => (Alarm::Tell(broken), Alarm::Distrust(broken)),
            };
            let strays = Alarm::Tell(Notice::ClockStrays { of: PEER, faster });
            let struck: Vec<_> = alarms.iter().filter(|(_, alarm)| *alarm != strays).collect();
            assert!(struck[0].1 == first && struck[0].0 <= 7_000, "{alarms:?}");
            assert!(struck.len() >= 2 && struck[1..].iter().all(|(_, alarm)| *alarm == then), "{alarms:?}");
            assert_eq!((clocks.is_too_fast(PEER), clocks.is_too_slow(PEER)), (faster, !faster));
            assert!(!clocks.shuns(NodeKey { incarnation: Incarnation(2), ..PEER }, faster), "a new process");
            clocks.now = clocks.now + SHUN;
            assert!(!clocks.shuns(PEER, faster), "its clock may have been mended");
        }
    }

    #[test]
    fn one_strike_in_a_window_is_forgiven() {
        let mut clocks = clocks();
        beats(&mut clocks, 0, 10, 2, 1_000_000);
        // Frozen for a second: the other clock went on.
        clocks.now = Instant::from_millis(11_000);
        clocks.beat(PEER, 1);
        assert!(matches!(clocks.ack(PEER, 1, 12_000_000), Some(Alarm::End(_))));
        assert_eq!(beats(&mut clocks, 20_000, 130, 2, 1_000_000), []);
        assert!(!clocks.struck && !clocks.is_too_fast(PEER));
    }

    #[test]
    fn a_wall_clock_that_goes_ahead_is_a_jump_and_one_that_goes_back_is_none() {
        let mut clocks = clocks();
        let mut look = |at: u64, wall: u64| clocks.jumped(Instant::from_millis(at), wall);
        assert_eq!(look(0, 1_000_000), None, "nothing to compare with");
        assert_eq!(look(100, 1_000_160), None, "within 10 % and 50 ms");
        assert_eq!(look(200, 1_000_321), Some(Duration::from_millis(61)));
        assert_eq!(look(300, 1_000_421), None, "once");
        assert_eq!(look(400, 900_000), None, "set back");
        assert_eq!(look(500, 900_100), None);
        assert_eq!(look(10_500, 910_900), None, "800 ms in 10 s");
        assert_eq!(look(10_500, 913_000), Some(Duration::from_millis(2_100)));
    }
}
