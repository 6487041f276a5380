//! Where the wall time of a command goes.

use std::time::{Duration, Instant};

/// A part of the work, in the order of its start.
struct Phase {
    name: String,
    wall: Duration,
    /// Ran at the same time as another phase, so its time is not a part of the sum.
    beside: bool,
}

/// The parts that a command has done so far.
#[derive(Default)]
pub(crate) struct Phases(Vec<Phase>);

impl Phases {
    /// Does a part of the work and remembers how long it took, whatever came of it.
    pub(crate) fn time<T>(&mut self, name: &str, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = work();
        self.add(name, started.elapsed(), false);
        result
    }

    /// Remembers a part that ran while another one did.
    pub(crate) fn beside(&mut self, name: &str, wall: Duration) {
        self.add(name, wall, true);
    }

    fn add(&mut self, name: &str, wall: Duration, beside: bool) {
        let name = name.to_owned();
        self.0.push(Phase { name, wall, beside });
    }

    /// Whether anything was done at all.
    pub(crate) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// The sum of all parts that did not run beside another.
    pub(crate) fn total(&self) -> Duration {
        let alone = self.0.iter().filter(|phase| !phase.beside);
        alone.map(|phase| phase.wall).sum()
    }

    /// One line per part and one for the sum, in minutes and seconds.
    pub(crate) fn table(&self) -> String {
        let width = self.0.iter().map(|phase| phase.name.len()).max();
        let width = width.unwrap_or(0).max("all".len());
        let mut table = String::new();
        for Phase { name, wall, beside } in &self.0 {
            let note = if *beside { "  (beside the others)" } else { "" };
            table += &format!("  {name:<width$}  {:>6}{note}\n", minutes(*wall));
        }
        table + &format!("  {:<width$}  {:>6}\n", "all", minutes(self.total()))
    }
}

fn minutes(wall: Duration) -> String {
    let seconds = wall.as_secs_f64().round();
    format!("{:.0}:{:02.0}", (seconds / 60.0).floor(), seconds % 60.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phases() -> Phases {
        let mut phases = Phases::default();
        phases.beside("models", Duration::from_secs(61));
        phases.add("build", Duration::from_millis(119_600), false);
        phases.add("demo", Duration::from_secs(5), false);
        phases
    }

    #[test]
    fn what_runs_beside_the_rest_is_shown_and_not_added() {
        let expected = "  models    1:01  (beside the others)\n  build     2:00\n  demo      0:05\n  all       2:05\n";
        assert_eq!(phases().table(), expected);
    }

    #[test]
    fn a_part_that_fails_is_counted_too() {
        let mut phases = Phases::default();
        let result: Result<(), ()> = phases.time("build", || Err(()));
        assert!(result.is_err() && phases.table().contains("build"));
    }
}
