//! How busy this node's machine is: its processors and memory, within the bounds of its container, for placement rules that
//! look at them. Linux only; elsewhere nodes say how many entities are awake, and no more.

use std::boxed::Box;
use std::fs::read_to_string;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::string::String;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use super::clock;
use super::runtime::Runtime;
use super::shared::{Shared, ToControl};
use crate::allocation::{PeakHold, Stats};
use crate::node::Input;
use crate::time::Instant;

/// How often.
const EVERY: Duration = Duration::from_secs(1);
/// Half of what is left of a peak is forgotten after so long.
const HALF_LIFE: Duration = Duration::from_secs(5);
/// A kernel's word for no limit is at least that.
const NO_LIMIT: u64 = 1 << 60;

/// A user's way to measure.
pub(super) struct Measure(pub(super) Box<dyn FnMut() -> Stats + Send>);

impl core::fmt::Debug for Measure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Measure")
    }
}

/// Measures until the node stops.
pub(super) async fn watch<R: Runtime>(shared: Arc<Shared>, runtime: R, mut measure: Option<Measure>) {
    let mut vitals = Vitals::new(Path::new("/"));
    let (mut cpu, mut memory) = (PeakHold::new(HALF_LIFE), PeakHold::new(HALF_LIFE));
    let weak = Arc::downgrade(&shared);
    drop(shared);
    loop {
        match weak.upgrade() {
            Some(shared) if !shared.is_stopped() => {
                let entities = u32::try_from(shared.awake()).unwrap_or(u32::MAX);
                let stats = match &mut measure {
                    // It is the user's code: a panic in it must not end the reports.
                    Some(Measure(measure)) => {
                        let measured = catch_unwind(AssertUnwindSafe(measure)).unwrap_or_default();
                        Stats { entities, ..measured }
                    }
                    None => {
                        let now = clock::now();
                        let measured = vitals.measure(now);
                        Stats {
                            cpu_permille: u16::try_from(cpu.sample(now, measured.cpu_permille.into())).unwrap_or(1_000),
                            memory_used: memory.sample(now, measured.memory_used),
                            entities,
                            ..measured
                        }
                    }
                };
                shared.tell_control(ToControl::Input(Input::Measured(stats)));
            }
            _ => return,
        }
        runtime.sleep(EVERY).await;
    }
}

/// Where the numbers come from, and what they were last.
struct Vitals {
    root: PathBuf,
    /// This process's group in the tree of version 2, and in those of processors and of memory of version 1.
    group: PathBuf,
    processor_group: PathBuf,
    memory_group: PathBuf,
    cores: u64,
    last: Option<(Instant, u64)>,
}

impl Vitals {
    fn new(root: &Path) -> Self {
        let groups = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        let of = |controller: &str| {
            let line = groups.lines().filter_map(|line| line.split_once(':')).find_map(|(_, rest)| {
                let (names, path) = rest.split_once(':')?;
                let known = if controller.is_empty() {
                    names.is_empty()
                } else {
                    names.split(',').any(|name| name == controller)
                };
                known.then_some(path)
            });
            PathBuf::from(line.unwrap_or("/").trim_start_matches('/'))
        };
        Self {
            root: root.to_path_buf(),
            group: of(""),
            processor_group: of("cpuacct"),
            memory_group: of("memory"),
            cores: available_parallelism().map_or(1, |cores| cores.get() as u64),
            last: None,
        }
    }

    /// All but the entities.
    fn measure(&mut self, now: Instant) -> Stats {
        let cpu_permille = match (self.processor_time(), self.last) {
            (Some(busy), Some((before, was))) => {
                self.last = Some((now, busy));
                let span = u64::try_from(now.since(before).as_micros()).unwrap_or(u64::MAX);
                let could = span.saturating_mul(self.milli_cores()) / 1_000;
                (busy.saturating_sub(was).saturating_mul(1_000) / could.max(1)).min(1_000)
            }
            (busy, _) => {
                self.last = busy.map(|busy| (now, busy));
                0
            }
        };
        let (memory_used, memory_limit) = self.memory();
        Stats { cpu_permille: u16::try_from(cpu_permille).unwrap_or(1_000), memory_used, memory_limit, entities: 0 }
    }

    fn unified(&self, file: &str) -> Option<String> {
        // Within a namespace of its own a process's group is the root of what it sees.
        let tree = self.root.join("sys/fs/cgroup");
        read_to_string(tree.join(&self.group).join(file)).or_else(|_| read_to_string(tree.join(file))).ok()
    }

    fn former(&self, controller: &str, group: &Path, file: &str) -> Option<u64> {
        let tree = self.root.join("sys/fs/cgroup").join(controller);
        let text = read_to_string(tree.join(group).join(file)).or_else(|_| read_to_string(tree.join(file))).ok()?;
        text.trim().parse().ok()
    }

    /// Microseconds of processors used: by the group, else by the machine.
    fn processor_time(&self) -> Option<u64> {
        let unified = self.unified("cpu.stat").and_then(|text| field(&text, "usage_usec"));
        let former = || self.former("cpuacct", &self.processor_group, "cpuacct.usage").map(|nanos| nanos / 1_000);
        unified.or_else(former).or_else(|| {
            let stat = read_to_string(self.root.join("proc/stat")).ok()?;
            let mut fields =
                stat.lines().next()?.split_ascii_whitespace().skip(1).map_while(|word| word.parse::<u64>().ok());
            let [user, nice, system, _, _, irq, soft, steal] = core::array::from_fn(|_| fields.next().unwrap_or(0));
            // In hundredths of a second.
            Some((user + nice + system + irq + soft + steal) * 10_000)
        })
    }

    /// Thousandths of processors that the group may use.
    fn milli_cores(&self) -> u64 {
        let all = self.cores * 1_000;
        let unified = || {
            let text = self.unified("cpu.max")?;
            let (quota, period) = text.trim().split_once(' ')?;
            Some((quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?))
        };
        let former = || {
            let quota = self.former("cpu", &self.processor_group, "cpu.cfs_quota_us")?;
            Some((quota, self.former("cpu", &self.processor_group, "cpu.cfs_period_us")?))
        };
        let quota = unified().or_else(former).filter(|(quota, period)| *quota > 0 && *period > 0);
        quota.map_or(all, |(quota, period)| (quota.saturating_mul(1_000) / period).clamp(1, all))
    }

    /// Bytes used, without what the kernel may drop at once, and bytes that may be; zeros: not known.
    fn memory(&self) -> (u64, u64) {
        let machine = read_to_string(self.root.join("proc/meminfo")).unwrap_or_default();
        let kilobytes = |name| field(&machine, name).map_or(0, |kilobytes| kilobytes * 1_024);
        let total = kilobytes("MemTotal:");
        let number = |text: String| text.trim().parse::<u64>().ok();
        let unified = || {
            let used = number(self.unified("memory.current")?)?;
            let idle = self.unified("memory.stat").and_then(|text| field(&text, "inactive_file")).unwrap_or(0);
            Some((used.saturating_sub(idle), self.unified("memory.max").and_then(number)))
        };
        let former = || {
            let used = self.former("memory", &self.memory_group, "memory.usage_in_bytes")?;
            let tree = self.root.join("sys/fs/cgroup/memory").join(&self.memory_group);
            let idle =
                read_to_string(tree.join("memory.stat")).ok().and_then(|text| field(&text, "total_inactive_file"));
            let limit = self.former("memory", &self.memory_group, "memory.limit_in_bytes");
            Some((used.saturating_sub(idle.unwrap_or(0)), limit))
        };
        match unified().or_else(former) {
            Some((used, limit)) => {
                let limit = limit.filter(|limit| *limit < NO_LIMIT).unwrap_or(total);
                (used, if total > 0 { limit.min(total) } else { limit })
            }
            None => (total.saturating_sub(kilobytes("MemAvailable:")), total),
        }
    }
}

/// The number after a name.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next() == Some(name)).then(|| words.next()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};

    use super::*;

    /// A tree of files under a folder of its own.
    struct Tree(PathBuf);
    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(std::format!("vitals-{name}-{}", std::process::id()));
            let tree = Self(root);
            files.iter().for_each(|(path, text)| tree.write(path, text));
            tree
        }
        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            create_dir_all(path.parent().unwrap()).unwrap();
            write(path, text).unwrap();
        }
    }
    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_container_is_measured_by_its_own_bounds() {
        let tree = Tree::new(
            "unified",
            &[
                ("proc/self/cgroup", "0::/pod/app\n"),
                ("proc/meminfo", "MemTotal:       8000 kB\nMemAvailable:   6000 kB\n"),
                ("sys/fs/cgroup/pod/app/cpu.stat", "usage_usec 1000000\nuser_usec 7\n"),
                ("sys/fs/cgroup/pod/app/cpu.max", "50000 100000\n"),
                ("sys/fs/cgroup/pod/app/memory.current", "3000000\n"),
                ("sys/fs/cgroup/pod/app/memory.stat", "anon 1\ninactive_file 1000000\n"),
                ("sys/fs/cgroup/pod/app/memory.max", "4000000\n"),
            ],
        );
        let mut vitals = Vitals::new(&tree.0);
        assert_eq!(vitals.measure(Instant::from_millis(1_000)).cpu_permille, 0, "nothing to compare with yet");
        // A quarter of a second of half a processor, in one second.
        tree.write("sys/fs/cgroup/pod/app/cpu.stat", "usage_usec 1250000\n");
        let stats = vitals.measure(Instant::from_millis(2_000));
        assert_eq!((stats.cpu_permille, stats.memory_used, stats.memory_limit), (500, 2_000_000, 4_000_000));
    }

    #[test]
    fn older_kernels_and_bare_machines_are_measured_as_well() {
        let tree = Tree::new(
            "former",
            &[
                ("proc/self/cgroup", "4:memory:/app\n2:cpu,cpuacct:/app\n0::/\n"),
                ("proc/meminfo", "MemTotal:       8000 kB\nMemAvailable:   6000 kB\n"),
                ("sys/fs/cgroup/cpuacct/app/cpuacct.usage", "1000000000\n"),
                ("sys/fs/cgroup/cpu/app/cpu.cfs_quota_us", "100000\n"),
                ("sys/fs/cgroup/cpu/app/cpu.cfs_period_us", "100000\n"),
                ("sys/fs/cgroup/memory/app/memory.usage_in_bytes", "3000000\n"),
                ("sys/fs/cgroup/memory/app/memory.limit_in_bytes", "9223372036854771712\n"),
            ],
        );
        let mut vitals = Vitals::new(&tree.0);
        vitals.measure(Instant::from_millis(1_000));
        tree.write("sys/fs/cgroup/cpuacct/app/cpuacct.usage", "1900000000\n");
        let stats = vitals.measure(Instant::from_millis(2_000));
        assert_eq!((stats.cpu_permille, stats.memory_used, stats.memory_limit), (900, 3_000_000, 8_192_000));

        let bare = Tree::new(
            "bare",
            &[
                ("proc/meminfo", "MemTotal:       8000 kB\nMemAvailable:   6000 kB\n"),
                ("proc/stat", "cpu  10 0 10 900 5 0 0 0\n"),
            ],
        );
        let mut vitals = Vitals { cores: 2, ..Vitals::new(&bare.0) };
        vitals.measure(Instant::from_millis(1_000));
        bare.write("proc/stat", "cpu  60 0 60 1000 5 0 0 0\n");
        let stats = vitals.measure(Instant::from_millis(2_000));
        assert_eq!((stats.cpu_permille, stats.memory_used, stats.memory_limit), (500, 2_048_000, 8_192_000));
    }

    #[test]
    fn nothing_known_is_nothing_said() {
        let none = Tree::new("none", &[]);
        let mut vitals = Vitals::new(&none.0);
        vitals.measure(Instant::from_millis(1));
        assert_eq!(vitals.measure(Instant::from_millis(2)), Stats::default());
    }
}
