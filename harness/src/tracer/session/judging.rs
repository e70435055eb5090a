//! The scenario's own commands: setup, state and check, each run in the world without choice points.

use std::{ffi::OsString, fs, io, path::Path};

use super::Session;
use crate::{
    explore,
    scenario::{Command, Ends},
    tracer::{
        sandbox,
        schedule::{Finished, Order, Worker},
        start::Program,
    },
    world::{ActorEnd, CheckResult, Ended, Outcome, Plan, Policy, TimeModel},
};

/// Numbers of the actors that setup, check and state run as: beyond any worker's.
const COMMAND_ACTOR: usize = 0;

/// What the scenario's state (exit code and output) and check commands said of an outcome.
pub(super) type Judged = (Option<(Option<i32>, Vec<u8>)>, Option<CheckResult>);

impl Session {
    /// Runs state and check, each in a copy of the final world.
    pub(super) fn judge(&mut self, outcome: &Outcome) -> io::Result<Judged> {
        let last = self.left(outcome);
        let (variant, boot) = (self.machine.variant, self.machine.boot);
        // The trace and the ends of the run being judged are kept aside.
        let steps = std::mem::take(&mut self.machine.steps);
        let actors = std::mem::take(&mut self.machine.actors);
        let warnings = std::mem::take(&mut self.machine.warnings);
        let mut state = None;
        let mut check = None;
        let results = [("NOCLOBBER_RESULTS", OsString::from(sandbox::results()))];
        if let Some(command) = self.scenario.oracle.state.clone() {
            self.reset(&last, variant, 1)?;
            self.machine.boot = boot;
            self.write_results(outcome)?;
            let end = self.command(&command, &results).map_err(io::Error::other)?;
            state = Some((end.exit, end.stdout));
        }
        if let Some(command) = self.scenario.check.clone() {
            self.reset(&last, variant, 1)?;
            self.machine.boot = boot;
            self.write_results(outcome)?;
            let end = self.command(&command, &results).map_err(io::Error::other)?;
            let output = [end.stdout, end.stderr].concat();
            check = Some(CheckResult { passed: end.exit == Some(0), exit: end.exit, output });
        }
        self.machine.steps = steps;
        self.machine.actors = actors;
        self.machine.warnings = warnings;
        Ok((state, check))
    }

    fn write_results(&self, outcome: &Outcome) -> io::Result<()> {
        let dir = Path::new(sandbox::results());
        for entry in fs::read_dir(dir)? {
            fs::remove_file(entry?.path())?;
        }
        let mut all = serde_json::Map::new();
        for (worker, end) in self.scenario.workers.iter().zip(&outcome.actors) {
            all.insert(
                worker.name.clone(),
                serde_json::json!({"exit": end.exit, "signal": end.signal, "ended_by": end.ended_by}),
            );
            fs::write(dir.join(format!("{}.out", worker.name)), &end.stdout)?;
            fs::write(dir.join(format!("{}.err", worker.name)), &end.stderr)?;
        }
        fs::write(dir.join("results.json"), serde_json::Value::Object(all).to_string())
    }

    /// Runs a shell command in the world, controlled as one actor without choice points.
    pub(super) fn command(&mut self, text: &str, more: &[(&str, OsString)]) -> Result<ActorEnd, String> {
        let env = self.environment(&self.scenario.env, more);
        let program = Program::new(&Command::Shell(text.to_owned()), &env)?;
        let worker = Worker { program, after: Vec::new(), ends: Ends::Exit };
        let mut chooser = explore::chooser(&Plan::from_policy(Policy::Stay));
        let delays = std::mem::take(&mut self.machine.delays);
        let faults = std::mem::take(&mut self.machine.faults);
        self.machine.explored = false;
        let order = Order {
            workers: std::slice::from_ref(&worker),
            chooser: chooser.as_mut(),
            serial: Some(vec![COMMAND_ACTOR]),
            timeline: false,
            time: TimeModel::Fair,
            output_limit: self.scenario.limits.output_bytes,
            choices: Vec::new(),
            cut: None,
        };
        let result = self.machine.run(order, &self.filters);
        self.machine.explored = true;
        self.machine.delays = delays;
        self.machine.faults = faults;
        let Finished { ended, .. } = result.map_err(|e| {
            let _ = self.machine.kill_all();
            e.to_string()
        })?;
        if ended != Ended::Done {
            return Err(format!("`{text}` does not end: {ended:?}"));
        }
        let mut actor = std::mem::take(&mut self.machine.actors[COMMAND_ACTOR]);
        if let Some(capture) = &actor.capture {
            [actor.end.stdout, actor.end.stderr] = capture.bytes();
        }
        Ok(actor.end)
    }
}
