//! A whole benchmark: every case again and again, in turns, so that what else the machine does meets all alike.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use thiserror::Error;

use super::{
    Need,
    advice::advise,
    case::Case,
    catalogue::Tools,
    competitor::Competitor,
    floor::{self, Floor},
    machine::Machine,
    results::{Conditions, FloorResult, Missing, Noise, Quantiles, Results, Run},
    run_slice::{SliceError, Stage, Timing},
    sample::{Sample, Times},
    stats::{differences, median, quantile},
    talker::TalkError,
};

/// How long a floor is measured each time.
const FLOOR_TIME: Duration = Duration::from_millis(15);

/// How many examples of what was wrong are kept of a case.
const EXAMPLES: usize = 4;

/// What is to be measured.
#[derive(Debug)]
pub struct Suite {
    /// Who.
    pub competitors: Vec<Competitor>,
    /// Under which loads.
    pub cases: Vec<Case>,
    /// Where: in a folder of its own in each of these.
    pub dirs: Vec<PathBuf>,
    /// How often.
    pub repetitions: usize,
    /// How long each time.
    pub timing: Timing,
    /// No repetition begins that would end after this, if there were two already. A busy machine takes its time to start
    /// processes.
    pub budget: Option<Duration>,
    /// What the user needs.
    pub needs: Vec<Need>,
    /// The programs that take part.
    pub tools: Tools,
}

/// Who is told how far it is.
pub trait Progress {
    /// So many slices are to come.
    fn begin(&mut self, slices: usize);
    /// A slice begins.
    fn slice(&mut self, label: &str);
    /// A repetition is over; so far this was found.
    fn repetition(&mut self, so_far: &Results);
    /// It is over.
    fn end(&mut self);
}

/// Why there is no benchmark.
#[derive(Debug, Error)]
pub enum BenchError {
    /// A directory cannot be used.
    #[error("{}: {source}\n  name a folder that can be written to with --dir", .dir.display())]
    Dir {
        /// Which.
        dir: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A floor cannot be measured there.
    #[error("{}: cannot measure what system calls cost there: {source}", .dir.display())]
    Floor {
        /// Where.
        dir: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// What is known of a case so far.
#[derive(Default)]
struct Tally {
    samples: Vec<Sample>,
    floors: Vec<f64>,
    lost: u64,
    duplicated: u64,
    foreign: u64,
    damaged: u64,
    examples: Vec<String>,
    error: Option<String>,
}

impl Suite {
    /// Measures until everything is measured or somebody interrupts.
    ///
    /// # Errors
    /// [`BenchError`]: a directory that cannot be used. What goes wrong with a competitor is in the results.
    pub fn run(&self, progress: &mut dyn Progress, interrupt: &AtomicBool) -> Result<Results, BenchError> {
        let begun = Instant::now();
        let machine = Machine::here(&self.dirs, &self.tools);
        let homes = self.dirs.iter().map(|dir| Home::at(dir)).collect::<Result<Vec<_>, _>>()?;
        let mut floors: Vec<Floor> = Vec::new();
        let mut missing: Vec<Missing> = Vec::new();
        let mut tallies: Vec<Tally> = self.cases.iter().map(|_| Tally::default()).collect();
        let absent = self.absent(&homes[0], interrupt, &mut missing)?;
        let active: Vec<usize> = (0..self.cases.len()).filter(|&n| !absent[self.cases[n].competitor]).collect();
        progress.begin(active.len() * self.repetitions);
        let mut measured_basics = false;
        for repetition in 0..self.repetitions {
            if !measured_basics && !interrupt.load(Ordering::Relaxed) {
                let folder = homes[0].fresh()?;
                floors.extend(floor::basics(folder.path(), FLOOR_TIME).map_err(|e| homes[0].floor(e))?);
                measured_basics = true;
            }
            let ids = self.measure_floors(&homes, &mut floors, interrupt)?;
            for n in order(&active, repetition, self.repetitions) {
                if interrupt.load(Ordering::Relaxed) {
                    break;
                }
                let (case, tally) = (self.cases[n], &mut tallies[n]);
                // What does not answer once costs its patience; it is not tried again.
                if tally.error.is_some() {
                    progress.slice("");
                    continue;
                }
                progress.slice(&self.label(case));
                let folder = homes[case.dir].fresh()?;
                let competitor = &self.competitors[case.competitor];
                let stage = Stage { competitor, case, dir: folder.path(), interrupt };
                match stage.run(self.timing) {
                    Ok(slice) => {
                        let found = &slice.conservation;
                        tally.lost += found.lost;
                        tally.duplicated += found.duplicated;
                        tally.foreign += found.foreign;
                        tally.damaged += u64::from(found.damaged.is_some());
                        let room = EXAMPLES.saturating_sub(tally.examples.len());
                        tally.examples.extend(found.damaged.iter().chain(&found.examples).take(room).cloned());
                        tally.samples.push(Sample::of(&slice, competitor.one_lock && case.processes > 1));
                        let id = floor::rewrite_id(case);
                        let us = ids.iter().find(|(one, _)| *one == id).map_or(f64::NAN, |(_, us)| *us);
                        tally.floors.push(us);
                    }
                    Err(SliceError::Talk { why: TalkError::Interrupted, .. }) => break,
                    Err(why) => tally.error = Some(why.to_string()),
                }
            }
            let so_far = self.results(&machine, &floors, &tallies, &missing, begun, interrupt);
            progress.repetition(&so_far);
            if interrupt.load(Ordering::Relaxed) || self.is_over(begun.elapsed(), repetition + 1) {
                break;
            }
        }
        progress.end();
        Ok(self.results(&machine, &floors, &tallies, &missing, begun, interrupt))
    }

    /// Whether another repetition would take too long.
    fn is_over(&self, elapsed: Duration, done: usize) -> bool {
        let each = elapsed / u32::try_from(done).unwrap_or(u32::MAX);
        done >= 2 && self.budget.is_some_and(|budget| elapsed + each > budget)
    }

    /// Which competitors cannot run here at all; they are named in the results.
    fn absent(
        &self,
        home: &Home<'_>,
        interrupt: &AtomicBool,
        missing: &mut Vec<Missing>,
    ) -> Result<Vec<bool>, BenchError> {
        let mut absent = vec![false; self.competitors.len()];
        for (n, competitor) in self.competitors.iter().enumerate().filter(|(_, one)| one.peer) {
            let Some(case) = self.cases.iter().find(|case| case.competitor == n) else { continue };
            let folder = home.fresh()?;
            let case = Case { kept: 0, processes: 1, ..*case };
            let tried = Stage { competitor, case, dir: folder.path(), interrupt }.fill();
            if let Err(SliceError::Talk { why, .. }) = tried
                && why != TalkError::Interrupted
            {
                absent[n] = true;
                missing.push(Missing { strategy: competitor.name.clone(), why: why.to_string() });
            }
        }
        Ok(absent)
    }

    /// Measures each case's floor anew; returned are this repetition's.
    fn measure_floors(
        &self,
        homes: &[Home<'_>],
        floors: &mut Vec<Floor>,
        interrupt: &AtomicBool,
    ) -> Result<Vec<(String, f64)>, BenchError> {
        let mut now: Vec<(String, f64)> = Vec::new();
        for case in &self.cases {
            let id = floor::rewrite_id(*case);
            if interrupt.load(Ordering::Relaxed) || now.iter().any(|(one, _)| *one == id) {
                continue;
            }
            let folder = homes[case.dir].fresh()?;
            let measured =
                floor::rewrite(folder.path(), *case, self.timing.measured).map_err(|e| homes[case.dir].floor(e))?;
            let mut add = |id: &str, what: &dyn Fn() -> String, us| match floors.iter_mut().find(|one| one.id == id) {
                Some(floor) => floor.samples.push(us),
                None => floors.push(Floor { id: id.to_owned(), what: what(), samples: vec![us] }),
            };
            add(&id, &|| floor::rewrite_what(*case), measured.us);
            if let Some(us) = measured.hand_over_us {
                let what = || format!("from unlocking to the next who waited, median, of {id}");
                add(&floor::hand_over_id(*case), &what, us);
            }
            now.push((id, measured.us));
        }
        Ok(now)
    }

    fn label(&self, case: Case) -> String {
        let name = &self.competitors[case.competitor].name;
        let (durability, processes, kept) = (case.durability, case.processes, case.kept);
        format!("{name}, {processes} processes, {kept} tasks, durability {durability}")
    }

    fn results(
        &self,
        machine: &Machine,
        floors: &[Floor],
        tallies: &[Tally],
        missing: &[Missing],
        begun: Instant,
        interrupt: &AtomicBool,
    ) -> Results {
        let floor: Vec<FloorResult> = floors
            .iter()
            .filter_map(|floor| {
                let us = median(&floor.samples)?;
                Some(FloorResult { id: floor.id.clone(), what: floor.what.clone(), us })
            })
            .collect();
        let measured = self.cases.iter().zip(tallies).filter(|(_, t)| !t.samples.is_empty() || t.error.is_some());
        let runs: Vec<Run> = measured
            .map(|(case, tally)| self.result(*case, tally, &machine.dirs[case.dir].filesystem, &floor))
            .collect();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mut results = Results {
            schema: 1,
            machine: machine.clone(),
            settings: Conditions {
                repetitions: tallies.iter().map(|tally| tally.samples.len()).max().unwrap_or(0),
                planned: self.repetitions,
                measured_ms: millis(self.timing.measured),
                warm_up_ms: millis(self.timing.warm_up),
                seconds: begun.elapsed().as_secs_f64(),
            },
            noise: noise(&runs),
            floor,
            runs,
            missing: missing.to_vec(),
            advice: Vec::new(),
            ended_by: if interrupt.load(Ordering::Relaxed) { "interrupt" } else { "done" }.to_owned(),
        };
        results.advice = advise(&results, &self.needs);
        results
    }

    fn result(&self, case: Case, tally: &Tally, filesystem: &str, floors: &[FloorResult]) -> Run {
        let competitor = &self.competitors[case.competitor];
        let samples = &tally.samples;
        let merged = |times: fn(&Sample) -> &Times| {
            let mut all = Times::default();
            samples.iter().for_each(|sample| all.add(times(sample)));
            all
        };
        let middle = |value: fn(&Sample) -> f64| median(&samples.iter().map(value).collect::<Vec<_>>()).unwrap_or(0.0);
        let latency = merged(|sample| &sample.latency);
        let ops_per_s = middle(|sample| sample.ops_per_s);
        let floor_id = floor::rewrite_id(case);
        let floor_us = floors.iter().find(|floor| floor.id == floor_id).map_or(f64::NAN, |floor| floor.us);
        let windows: Vec<f64> = samples.iter().flat_map(|sample| sample.windows.iter().copied()).collect();
        let ratio_to_floor = Some(1e6 / ops_per_s / floor_us).filter(|ratio| ratio.is_finite());
        Run {
            strategy: competitor.name.clone(),
            peer: competitor.peer,
            durability: case.durability,
            dir: self.dirs[case.dir].clone(),
            filesystem: filesystem.to_owned(),
            processes: case.processes,
            kept: case.kept,
            task_bytes: case.task_bytes,
            think_us: case.think_us,
            ops: samples.iter().map(|sample| sample.ops).sum(),
            ops_per_s,
            repetitions: samples.iter().map(|sample| sample.ops_per_s).collect(),
            by_floor: samples
                .iter()
                .zip(&tally.floors)
                .map(|(s, us)| 1e6 / s.ops_per_s / us)
                .filter(|ratio| ratio.is_finite())
                .collect(),
            failed: samples.iter().map(|sample| sample.failed).sum(),
            wait_us: quantiles(&merged(|sample| &sample.wait)),
            latency_us: quantiles(&latency),
            push_us: quantiles(&merged(|sample| &sample.push)),
            take_us: quantiles(&merged(|sample| &sample.take)),
            hand_over_us: quantiles(&merged(|sample| &sample.hand_over)),
            latency_curve: curve(&latency),
            fairness: middle(|sample| sample.fairness),
            fairness_100ms: quantile(&windows, 0.1).unwrap_or(0.0),
            cpu_us_per_op: middle(|sample| sample.cpu_us),
            bytes_per_op: middle(|sample| sample.bytes),
            disk_bytes_per_op: middle(|sample| sample.disk_bytes),
            lost: tally.lost,
            duplicated: tally.duplicated,
            foreign: tally.foreign,
            damaged: tally.damaged,
            examples: tally.examples.clone(),
            known_to_lose: competitor.loses,
            portable: competitor.portable,
            floor_id,
            ratio_to_floor,
            // Who broke the queue has no operation that ends, and longer would not help: the damage is what is said.
            error: tally.error.clone().or_else(|| self.idle(samples).filter(|_| tally.damaged == 0)),
        }
    }

    /// What is said of somebody who did nothing in time.
    fn idle(&self, samples: &[Sample]) -> Option<String> {
        let idle = !samples.is_empty() && samples.iter().all(|sample| sample.ops == 0);
        idle.then(|| format!("no operation ended within {:?}: --measure longer", self.timing.measured))
    }
}

/// A directory that was named.
struct Home<'a> {
    dir: &'a Path,
}

impl<'a> Home<'a> {
    fn at(dir: &'a Path) -> Result<Home<'a>, BenchError> {
        let home = Home { dir };
        // Whether that works is better known before than in the middle.
        home.fresh().map(|_| home)
    }

    /// An empty folder, which goes when it is dropped.
    fn fresh(&self) -> Result<tempfile::TempDir, BenchError> {
        let made = tempfile::Builder::new().prefix(".noclobber-bench-").tempdir_in(self.dir);
        made.map_err(|source| BenchError::Dir { dir: self.dir.to_owned(), source })
    }

    fn floor(&self, source: std::io::Error) -> BenchError {
        BenchError::Floor { dir: self.dir.to_owned(), source }
    }
}

/// The order of a repetition: each begins at another place, and every other one goes backwards, so that nobody always
/// follows the same one.
fn order(active: &[usize], repetition: usize, repetitions: usize) -> Vec<usize> {
    let mut order = active.to_vec();
    if !order.is_empty() {
        let turn = repetition * order.len() / repetitions.max(1);
        order.rotate_left(turn % active.len());
    }
    if repetition % 2 == 1 {
        order.reverse();
    }
    order
}

fn quantiles(times: &Times) -> Quantiles {
    Quantiles {
        p50: times.quantile_us(0.5),
        p90: times.quantile_us(0.9),
        p99: times.quantile_us(0.99),
        p999: times.quantile_us(0.999),
        max: times.max_us(),
    }
}

fn curve(times: &Times) -> Vec<(f64, f64)> {
    const PARTS: [f64; 14] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 1.0];
    PARTS.iter().filter_map(|&part| Some((part, times.quantile_us(part)?))).collect()
}

fn noise(runs: &[Run]) -> Noise {
    let groups: Vec<Vec<f64>> = runs.iter().filter(|run| !run.wrong()).map(|run| run.repetitions.clone()).collect();
    let all = differences(&groups);
    let part = |log: f64| log.exp() - 1.0;
    let halves: Vec<f64> = groups
        .iter()
        .filter_map(|group| {
            let half = |odd: usize| {
                let values: Vec<f64> = group.iter().skip(odd).step_by(2).copied().collect();
                median(&values)
            };
            let ratio = (half(0)? / half(1)?).ln().abs();
            ratio.is_finite().then_some(ratio)
        })
        .collect();
    Noise {
        pairs: all.len(),
        median: median(&all).map(part),
        p95: quantile(&all, 0.95).map(part),
        a_a: median(&halves).map(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_repetition_has_everybody_in_another_order() {
        let active = [0, 2, 3, 5, 7];
        let orders: Vec<Vec<usize>> = (0..4).map(|n| order(&active, n, 4)).collect();
        for one in &orders {
            let mut sorted = one.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, active);
        }
        assert_ne!(orders[0][0], orders[2][0]);
        assert_eq!(order(&[], 1, 3), [0usize; 0]);
    }
}
