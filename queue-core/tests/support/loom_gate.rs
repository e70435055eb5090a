//! All schedules: loom takes every order of the steps.

use std::sync::{Arc, Mutex};

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread::{self, Thread};

use super::storage::{Gate, Step};
use super::world::World;

/// A world that any thread of a loom model may step in.
///
/// Each step first changes one of loom's atomics: that is the point at which loom may go on with any other thread, and
/// as all steps change the same atomic, it takes every order of them. Between two such points only one thread runs, so
/// the world itself needs no modelled lock; what the queue locks is a lock in that world.
#[derive(Clone)]
pub(crate) struct LoomGate {
    shared: Arc<Shared>,
    actor: usize,
}

struct Shared {
    steps: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    world: World,
    /// Those who wait for a lock.
    waiting: Vec<Thread>,
    trace: Trace,
}

/// Who took which step.
pub(crate) type Trace = Vec<(usize, &'static str)>;

impl LoomGate {
    /// To be called inside of `loom::model`.
    pub(crate) fn new(world: World) -> Self {
        let state = State { world, waiting: Vec::new(), trace: Vec::new() };
        let shared = Arc::new(Shared { steps: AtomicUsize::new(0), state: Mutex::new(state) });
        LoomGate { shared, actor: 0 }
    }

    /// The same world for another actor.
    pub(crate) fn of(&self, actor: usize) -> Self {
        let shared = self.shared.clone();
        LoomGate { shared, actor }
    }

    /// The world and how it came about; to be asked when all threads have ended.
    pub(crate) fn end(&self) -> (World, Trace) {
        let state = self.shared.state.lock().unwrap();
        (state.world.clone(), state.trace.clone())
    }
}

impl Gate for LoomGate {
    fn step<T>(&self, name: &'static str, mut act: impl FnMut(&mut World) -> Step<T>) -> T {
        loop {
            self.shared.steps.fetch_add(1, Ordering::SeqCst);
            let mut state = self.shared.state.lock().unwrap();
            let before = state.world.releases();
            let done = act(&mut state.world);
            state.trace.push((self.actor, name));
            let freed = match state.world.releases() != before {
                true => std::mem::take(&mut state.waiting),
                false => Vec::new(),
            };
            if matches!(done, Step::Blocked) {
                state.waiting.push(thread::current());
            }
            drop(state);
            freed.iter().for_each(Thread::unpark);
            match done {
                Step::Done(result) => return result,
                Step::Blocked => thread::park(),
            }
        }
    }
}
