//! Who is a member, through crashes and returns.
//!
//! ```text
//!            Joined                 Lost
//!   absent ----------> attending ----------> lost
//!      ^                 |    ^               |  |
//!      |      Left       |    |    Joined     |  |
//!      +-----------------+    +---------------+  |
//!      +-----------------------------------------+
//!          Left, or lost for as long as it takes to be forgotten
//! ```

use alloc::vec::Vec;

use super::roster::Member;
use crate::machine::{Machine, Outbox};
use crate::time::{Duration, Instant};

/// What an [`Attendance`] hears.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// A member joined, or came back, or says something else about itself than before.
    Joined(Member),
    /// A member left and said so: it is none from now on.
    Left(u64),
    /// A member is gone without a word. Hands keep it until it is forgotten.
    Lost(u64),
}

/// What an [`Attendance`] orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attended {
    /// The members are others than before: deal hands anew, of which each changes by one member at most.
    Changed,
}

/// The members that hands are dealt from. A member that crashes stays one, with its place in every hand, until
/// `forget_after` has passed: what crashed it cannot walk from hand to hand faster than that. One that comes back in
/// time finds its place; one that leaves in good order gives it up at once.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Attendance {
    /// In the order of their ids.
    members: Vec<Member>,
    /// Those that are lost, with the time to forget them, in the order of their ids.
    lost: Vec<(u64, Instant)>,
    forget_after: Duration,
}

impl Attendance {
    /// Nobody yet.
    #[must_use]
    pub const fn new(forget_after: Duration) -> Self {
        Self { members: Vec::new(), lost: Vec::new(), forget_after }
    }

    /// The members, lost ones included, in the order of their ids.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Whether a member is lost, but not forgotten. O(log lost).
    #[must_use]
    pub fn is_lost(&self, id: u64) -> bool {
        self.lost.binary_search_by_key(&id, |(id, _)| *id).is_ok()
    }

    fn join(&mut self, now: Instant, member: Member, out: &mut (impl Outbox<Attended> + ?Sized)) {
        let returned = self.find_again(member.id);
        match self.members.binary_search_by_key(&member.id, |member| member.id) {
            Err(at) => self.members.insert(at, member),
            // It may have come back with nothing: readers must not take it for one that has been there all along.
            Ok(at) if returned => {
                self.members[at] = Member { since: member.since.max(now), ..member };
            }
            Ok(at) if self.members[at] == member => return,
            Ok(at) => self.members[at] = member,
        }
        out.emit(Attended::Changed);
    }

    fn leave(&mut self, id: u64, out: &mut (impl Outbox<Attended> + ?Sized)) {
        self.find_again(id);
        if let Ok(at) = self.members.binary_search_by_key(&id, |member| member.id) {
            self.members.remove(at);
            out.emit(Attended::Changed);
        }
    }

    fn lose(&mut self, now: Instant, id: u64) {
        let known = self.members.binary_search_by_key(&id, |member| member.id).is_ok();
        if let (true, Err(at)) = (known, self.lost.binary_search_by_key(&id, |(id, _)| *id)) {
            self.lost.insert(at, (id, now + self.forget_after));
        }
    }

    /// Takes a member off the list of the lost; whether it was there.
    fn find_again(&mut self, id: u64) -> bool {
        let found = self.lost.binary_search_by_key(&id, |(id, _)| *id);
        found.is_ok_and(|at| self.lost.remove(at).0 == id)
    }
}

impl Machine for Attendance {
    type Input = Heard;
    type Output = Attended;

    /// O(members). What is said about strangers, or twice, changes nothing.
    fn handle(&mut self, now: Instant, input: Heard, out: &mut (impl Outbox<Attended> + ?Sized)) {
        match input {
            Heard::Joined(member) => self.join(now, member, out),
            Heard::Left(id) => self.leave(id, out),
            Heard::Lost(id) => self.lose(now, id),
        }
    }

    fn expire(&mut self, now: Instant, out: &mut (impl Outbox<Attended> + ?Sized)) {
        let due = |lost: &(u64, Instant)| lost.1 <= now;
        if !self.lost.iter().any(due) {
            return;
        }
        let Self { members, lost, .. } = self;
        members.retain(|member| !lost.iter().any(|lost| lost.0 == member.id && due(lost)));
        lost.retain(|lost| !due(lost));
        out.emit(Attended::Changed);
    }

    fn deadline(&self) -> Option<Instant> {
        self.lost.iter().map(|(_, forget_at)| *forget_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn a_crash_is_forgotten_in_its_time_and_a_leaver_at_once() {
        let (mut attendance, mut out) = (Attendance::new(SECOND), Vec::new());
        (1..=3).for_each(|id| attendance.handle(ms(0), Heard::Joined(Member::new(id, 0)), &mut out));
        assert_eq!(out.len(), 3);
        let ids = |attendance: &Attendance| attendance.members().iter().map(|member| member.id).collect::<Vec<_>>();
        attendance.handle(ms(100), Heard::Lost(2), &mut out);
        // Said twice, it takes no longer.
        attendance.handle(ms(500), Heard::Lost(2), &mut out);
        assert_eq!((out.len(), ids(&attendance), attendance.is_lost(2)), (3, alloc::vec![1, 2, 3], true));
        attendance.handle(ms(600), Heard::Left(1), &mut out);
        assert_eq!((out.len(), ids(&attendance)), (4, alloc::vec![2, 3]));
        assert_eq!(attendance.deadline(), Some(ms(1_100)));
        let before = attendance.clone();
        attendance.expire(ms(1_099), &mut out);
        assert_eq!(attendance, before, "an early call changes nothing");
        attendance.expire(ms(1_100), &mut out);
        assert_eq!((out.len(), ids(&attendance), attendance.deadline()), (5, alloc::vec![3], None));
    }

    #[test]
    fn who_comes_back_keeps_the_place_and_counts_as_new_for_readers() {
        let (mut attendance, mut out) = (Attendance::new(SECOND), Vec::new());
        attendance.handle(ms(0), Heard::Joined(Member::new(7, 0)), &mut out);
        attendance.handle(ms(100), Heard::Lost(7), &mut out);
        attendance.handle(ms(200), Heard::Joined(Member::new(7, 0)), &mut out);
        attendance.expire(ms(5_000), &mut out);
        // dskit #165: a re-registration with its old time was passed over by readers.
        assert_eq!(attendance.members()[0].since, ms(200));
        assert_eq!((attendance.members().len(), attendance.deadline()), (1, None));
        attendance.handle(ms(6_000), Heard::Lost(99), &mut out);
        attendance.handle(ms(6_000), Heard::Left(99), &mut out);
        assert_eq!((out.len(), attendance.deadline()), (2, None), "strangers change nothing");
    }
}
