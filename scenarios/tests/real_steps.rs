//! The steps of a real program counted beside a model of them: a shell that reads a number and writes the next one makes
//! more steps than read, truncate and write, as it reads byte by byte. Brute force over every interleaving of the model
//! says how many classes there are; the search over the real program has to run each of them once.

use std::{collections::HashSet, fs};

use scenarios::answer;

/// What the real workers run. Opening, closing and exiting are steps, too, but touch nothing that another step changes.
const COUNT: &str = "read n < count; echo $((n + 1)) > count";

/// Where a modelled worker is.
#[derive(Clone, Copy, PartialEq)]
enum At {
    /// At a byte of the file, with the number read so far.
    Read(usize, u32),
    /// At emptying the file, with the number.
    Empty(u32),
    /// At writing the number.
    Write(u32),
    Over,
}

/// A step: worker, its how manieth step, whether it writes.
type Event = (usize, usize, bool);

#[derive(Default)]
struct Counted {
    interleavings: usize,
    classes: HashSet<Vec<(Event, Event)>>,
}

impl Counted {
    /// Every interleaving that begins with `made`.
    fn go_on(&mut self, content: &str, workers: &[At], made: &mut Vec<Event>) {
        if workers.iter().all(|at| *at == At::Over) {
            self.interleavings += 1;
            // A class is the order of those that meet.
            let pairs = made.iter().enumerate().flat_map(|(n, a)| made[n + 1..].iter().map(move |b| (*a, *b)));
            let mut class: Vec<_> = pairs.filter(|(a, b)| a.0 == b.0 || a.2 || b.2).collect();
            class.sort_unstable();
            self.classes.insert(class);
            return;
        }
        for (number, at) in workers.iter().enumerate() {
            let mut after = content.to_owned();
            let next = match *at {
                At::Over => continue,
                At::Read(place, value) => match content.as_bytes().get(place) {
                    None | Some(b'\n') => At::Empty(value + 1),
                    Some(digit) => At::Read(place + 1, value * 10 + u32::from(digit - b'0')),
                },
                At::Empty(value) => {
                    after.clear();
                    At::Write(value)
                }
                At::Write(value) => {
                    after = format!("{value}\n");
                    At::Over
                }
            };
            let mut workers = workers.to_vec();
            workers[number] = next;
            let turn = made.iter().filter(|event| event.0 == number).count();
            made.push((number, turn, !matches!(at, At::Read(..))));
            self.go_on(&after, &workers, made);
            made.pop();
        }
    }
}

/// What brute force counts, and what the search over the real program says that it ran.
fn both(workers: usize) -> ((usize, usize), (usize, usize)) {
    let mut counted = Counted::default();
    counted.go_on("0\n", &vec![At::Read(0, 0); workers], &mut Vec::new());

    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("count"), "0\n").expect("the counter");
    let options = ["explore", "--all", "--search", "exhaustive", "--max-schedules", "5000", "--"];
    let words = ["sh", "-c", COUNT].join("\0");
    let words = vec![words.as_str(); workers].join("\0:::\0");
    let words: Vec<&str> = words.split('\0').collect();
    let found = answer(dir.path(), &[&options[..], &words].concat());
    let explored = &found.report()["explored"];
    assert_eq!((found.exit, &explored["exhausted"]), (Some(1), &true.into()), "{explored}");
    let number = |key: &str| explored[key].as_u64().and_then(|n| usize::try_from(n).ok()).expect("a number");
    ((counted.classes.len(), counted.interleavings), (number("classes"), number("schedules")))
}

#[test]
fn two_shells_have_22_classes_of_68_interleavings_and_each_is_run_once() {
    assert_eq!(both(2), ((22, 68), (22, 22)));
}

#[test]
fn three_shells_have_2214_classes_of_29796_interleavings_and_each_is_run_once() {
    assert_eq!(both(3), ((2_214, 29_796), (2_214, 2_214)));
}
