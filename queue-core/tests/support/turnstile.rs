//! One given schedule: real threads that each wait for their turn, one step at a time.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::storage::{Gate, Step};
use super::world::World;

/// Which actor goes next, once for each step: 0 means the one that went last, `k` the `k`-th after it, counting only
/// those that can go and going round. Beyond its end a schedule is all zeros.
///
/// So the all-zero schedule runs the actors one after the other, and every schedule is a valid one: it can be generated
/// and shrunk without care.
pub(crate) type Schedule = [u8];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    /// Between two steps.
    Running,
    /// At a step, and can take it.
    Ready,
    /// At a step that has to wait for a lock.
    Blocked,
    /// At its end.
    Ended,
}

#[derive(Debug)]
struct State {
    world: World,
    actors: Vec<Status>,
    turn: Option<usize>,
    /// Who took which step.
    trace: Vec<(usize, &'static str)>,
    given_up: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Turnstile {
    shared: Arc<(Mutex<State>, Condvar)>,
    actor: usize,
}

/// What came of a schedule.
#[derive(Debug)]
pub(crate) struct Run<T> {
    /// What each actor returned.
    pub(crate) results: Vec<T>,
    /// The world at the end.
    pub(crate) world: World,
    /// Who took which step, in order.
    pub(crate) trace: Vec<(usize, &'static str)>,
}

/// Runs one thread per actor under the schedule.
///
/// # Panics
/// If all that are left wait for each other, or if an actor panics.
pub(crate) fn run<T: Send>(world: World, schedule: &Schedule, actors: &[&(dyn Fn(Turnstile) -> T + Sync)]) -> Run<T> {
    let state =
        State { world, actors: vec![Status::Running; actors.len()], turn: None, trace: Vec::new(), given_up: false };
    let shared = Arc::new((Mutex::new(state), Condvar::new()));
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = actors
            .iter()
            .enumerate()
            .map(|(actor, body)| {
                let gate = Turnstile { shared: shared.clone(), actor };
                scope.spawn(move || {
                    let _end = End(gate.clone());
                    body(gate)
                })
            })
            .collect();
        direct(&shared, schedule);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let state = lock(&shared.0);
    Run { results, world: state.world.clone(), trace: state.trace.clone() }
}

/// Gives out the turns until every actor has ended.
fn direct(shared: &(Mutex<State>, Condvar), schedule: &Schedule) {
    let mut choices = schedule.iter().map(|&choice| usize::from(choice));
    let mut last = 0;
    loop {
        let state = lock(&shared.0);
        let mut state = shared
            .1
            .wait_while(state, |state| state.turn.is_some() || state.actors.contains(&Status::Running))
            .unwrap();
        let count = state.actors.len();
        let ready: Vec<_> = (0..count)
            .map(|distance| (last + distance) % count)
            .filter(|&actor| state.actors[actor] == Status::Ready)
            .collect();
        if ready.is_empty() {
            state.given_up = state.actors.contains(&Status::Blocked);
            shared.1.notify_all();
            return;
        }
        last = ready[choices.next().unwrap_or(0) % ready.len()];
        state.turn = Some(last);
        shared.1.notify_all();
    }
}

impl Gate for Turnstile {
    fn step<T>(&self, name: &'static str, mut act: impl FnMut(&mut World) -> Step<T>) -> T {
        let (mutex, changed) = &*self.shared;
        let mut state = lock(mutex);
        state.actors[self.actor] = Status::Ready;
        changed.notify_all();
        loop {
            state = changed.wait_while(state, |state| state.turn != Some(self.actor) && !state.given_up).unwrap();
            if state.given_up {
                drop(state);
                panic!("deadlock: {name} waits for a lock that nobody will give up");
            }
            state.turn = None;
            let before = state.world.releases();
            let done = act(&mut state.world);
            state.trace.push((self.actor, name));
            if state.world.releases() != before {
                for actor in state.actors.iter_mut().filter(|actor| **actor == Status::Blocked) {
                    *actor = Status::Ready;
                }
            }
            state.actors[self.actor] = match done {
                Step::Done(_) => Status::Running,
                Step::Blocked => Status::Blocked,
            };
            changed.notify_all();
            if let Step::Done(result) = done {
                return result;
            }
        }
    }
}

/// Says that an actor has ended, however it does.
struct End(Turnstile);

impl Drop for End {
    fn drop(&mut self) {
        let (mutex, changed) = &*self.0.shared;
        lock(mutex).actors[self.0.actor] = Status::Ended;
        changed.notify_all();
    }
}

fn lock(mutex: &Mutex<State>) -> MutexGuard<'_, State> {
    mutex.lock().unwrap()
}
