//! What in a machine's state has a name or a place in time rather than a value: for model checkers.
//!
//! Two states that differ only in the names of terms, sessions or heartbeats behave alike, and so do two that differ only in
//! when it is now. A checker that could not rename would never see the end of any machine that counts. So every control
//! machine shows its marks, and the checker gives them the smallest names that keep every comparison.

use crate::id::{NodeKey, Term, Token};
use crate::time::Instant;

/// One part of a machine's state that a model checker may rename.
#[derive(PartialEq, Eq, Debug)]
pub enum Mark<'a> {
    /// A deadline on which safety rests, or that bounds what the machine remembers. It is only ever compared with now.
    Deadline(&'a mut Instant),
    /// A moment that only paces the machine: nothing becomes unsafe if it comes at once, late or never.
    Pace(&'a mut Instant),
    /// The deadline that an answer under way would bring about. One that becomes [`Instant::ZERO`] is forgotten.
    Extension(&'a mut Instant),
    /// A term. Compared with other terms.
    Term(&'a mut Term),
    /// The term that is in force again if the present one turns out never to have been. The default stands for none.
    Fallback(&'a mut Term),
    /// A term that is over, kept to answer what comes too late. One that becomes the default is forgotten.
    Spent(&'a mut Term),
    /// A process.
    Node(&'a mut NodeKey),
    /// A grant. Compared with other grants of its shard; its counter is that of a term.
    Token(&'a mut Token),
    /// How many grants a reign has made, and which reign: the next token's number is one more.
    Grants(Term, &'a mut u32),
    /// A number that a process counts up. Compared with others of its process and sort only.
    Number(NodeKey, Sort, &'a mut u64),
    /// A version of the list that the voters keep for a reign. Compared with others of that reign; zero: none.
    Version(Term, &'a mut u32),
    /// A number that has no say in who reigns or who owns.
    Aside(&'a mut u64),
    /// Likewise, a yes or no.
    Remark(&'a mut bool),
}

/// What a [`Mark::Number`] counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Sort {
    /// The rounds of a candidate or coordinator. Zero: none yet.
    Round,
    /// The sessions of a node. A remembered one that becomes zero is forgotten.
    Session,
    /// The heartbeats of a node.
    Sequence,
    /// The commands to a node: consecutive, so they can be shifted but not ranked.
    Command,
    /// The versions of a node's report. Zero: none.
    Report,
}

/// Shows the moments among the marks.
pub(crate) fn instants(f: &mut dyn FnMut(&mut Instant)) -> impl FnMut(Mark<'_>) {
    move |mark| {
        if let Mark::Deadline(at) | Mark::Pace(at) | Mark::Extension(at) = mark {
            f(at);
        }
    }
}
