use super::*;
use std::cell::Cell;
use std::rc::Rc;

#[derive(Clone, Default)]
struct Fake(Rc<Cell<bool>>);

impl Recorded for Fake {
    fn is_held(&self) -> bool {
        self.0.get()
    }
}

struct Case {
    book: Book<Fake>,
    pinned: Vec<usize>,
    large: bool,
    follows: bool,
}

impl Case {
    fn new(pinned: &[usize]) -> Case {
        Case { book: Book::default(), pinned: pinned.to_vec(), large: false, follows: false }
    }

    fn turn(&mut self, sizes: &[i64], addresses: &[usize]) -> Turn {
        let is_pinned = |n: usize| self.pinned.contains(&n);
        self.book.turn(&Call { sizes, addresses, is_pinned: &is_pinned, is_large: &|_| self.large, follows: self.follows })
    }

    /// Calls, and records where asked to: p, r or R (replay).
    fn step(&mut self, sizes: &[i64], addresses: &[usize]) -> char {
        match self.turn(sizes, addresses) {
            Turn::Plain => 'p',
            Turn::Record(wanted) => {
                self.book.add(wanted, Fake::default());
                'r'
            }
            Turn::Replay(_) => 'R',
        }
    }

    fn steps(&mut self, calls: &[&[usize]]) -> String {
        calls.iter().map(|addresses| self.step(&[], addresses)).collect()
    }
}

#[test]
fn the_second_call_is_recorded_and_the_third_replayed() {
    let mut case = Case::new(&[]);
    assert_eq!(case.steps(&[&[1, 2], &[1, 2], &[1, 2], &[1, 2]]), "prRR");
    assert_eq!(case.book.to_string(), "sizes [], copied []: (1 recordings, 0 held, 2 replays)");
}

#[test]
fn an_input_that_moves_is_copied() {
    let mut case = Case::new(&[1]);
    assert_eq!(case.steps(&[&[1, 9], &[2, 9], &[3, 9], &[4, 9], &[5, 9]]), "pprRR");
    assert!(case.book.to_string().starts_with("sizes [], copied [0]"), "{}", case.book);
}

#[test]
fn an_input_that_moves_late_is_recorded_again_at_another_place() {
    let mut case = Case::new(&[1]);
    assert_eq!(case.steps(&[&[1, 9], &[1, 9], &[1, 9], &[2, 9], &[1, 9], &[3, 9]]), "prRprR");
}

/// What a forward pass saves: it moves, until that pass is recorded; then it lies where that recording has it.
#[test]
fn an_input_that_comes_to_rest_is_not_copied() {
    let mut case = Case::new(&[]);
    assert_eq!(case.steps(&[&[1], &[2]]), "pp");
    case.pinned = vec![0];
    assert_eq!(case.steps(&[&[7], &[7], &[7]]), "prR");
    assert!(case.book.to_string().starts_with("sizes [], copied []"), "{}", case.book);
    case.pinned.clear();
    assert_eq!(case.steps(&[&[3], &[4]]), "pr");
    case.pinned = vec![0];
    assert_eq!(case.steps(&[&[7], &[7]]), "RR", "copied for good");
}

/// The gradient of a loss: torch allocates it at the same place when everything else is recorded.
#[test]
fn an_input_that_lies_still_is_not_copied_any_more() {
    let mut case = Case { large: true, ..Case::new(&[]) };
    assert_eq!(case.steps(&[&[1], &[2], &[2], &[2], &[2], &[2]]), "pppprR");
    assert!(case.book.to_string().starts_with("sizes [], copied []"), "{}", case.book);
    assert_eq!(case.steps(&[&[4], &[5], &[5], &[5], &[5], &[5], &[5]]), "prRRRRR", "copied for good");
    assert!(case.book.to_string().starts_with("sizes [], copied [0]"), "{}", case.book);
}

/// A backward pass, in the first step in which its forward pass is recorded: 0 is what that has saved, 1 the gradient of the loss.
#[test]
fn what_follows_a_recording_is_recorded_at_once() {
    let mut case = Case { follows: true, ..Case::new(&[0]) };
    assert_eq!(case.steps(&[&[1, 5], &[7, 5], &[7, 6], &[7, 5]]), "prRR");
    assert!(case.book.to_string().starts_with("sizes [], copied [1]"), "{}", case.book);
    let mut large = Case { follows: true, large: true, ..Case::new(&[0]) };
    assert_eq!(large.steps(&[&[1, 5], &[7, 6], &[7, 6], &[7, 6], &[7, 6]]), "ppprR", "when it lies still");
}

#[test]
fn a_small_input_is_copied_rather_than_waited_for() {
    let mut case = Case::new(&[]);
    assert_eq!(case.steps(&[&[1], &[2], &[2], &[2], &[2], &[2]]), "pprRRR");
    assert!(case.book.to_string().starts_with("sizes [], copied [0]"), "{}", case.book);
}

#[test]
fn a_weight_is_never_copied_but_part_of_the_key() {
    let mut case = Case::new(&[1]);
    assert_eq!(case.steps(&[&[1, 9], &[1, 9], &[1, 9], &[1, 8], &[1, 8], &[1, 8], &[1, 9]]), "prRprRR");
    assert_eq!(case.book.len(), 2);
}

/// A backward pass of two forward recordings that take turns.
#[test]
fn addresses_that_take_turns_are_recorded_both() {
    let mut case = Case::new(&[0]);
    assert_eq!(case.steps(&[&[1], &[2], &[1], &[2], &[1], &[2]]), "pprrRR");
}

#[test]
fn results_that_are_held_are_not_written() {
    let mut case = Case::new(&[]);
    assert_eq!(case.steps(&[&[1], &[1]]), "pr");
    let Turn::Replay(first) = case.turn(&[], &[1]) else { panic!("a replay") };
    case.book.get_mut(first).0.set(true);
    let Turn::Record(second) = case.turn(&[], &[1]) else { panic!("elsewhere") };
    assert!(second.lends);
    let second = case.book.add(second, Fake::default());
    let Turn::Replay(place) = case.turn(&[], &[1]) else { panic!("a replay") };
    assert_eq!(place, second);
    case.book.get_mut(second).0.set(true);
    let Turn::Record(third) = case.turn(&[], &[1]) else { panic!("once more") };
    assert!(!third.lends, "the last one copies");
    let third = case.book.add(third, Fake::default());
    assert_eq!(case.turn(&[], &[1]), Turn::Replay(third));
    case.book.get_mut(first).0.set(false);
    assert_eq!(case.turn(&[], &[1]), Turn::Replay(first));
}

#[test]
fn every_list_of_sizes_has_its_own() {
    let mut case = Case::new(&[]);
    let calls: [&[i64]; 6] = [&[4], &[5], &[4], &[5], &[4], &[5]];
    assert_eq!(calls.iter().map(|sizes| case.step(sizes, &[1])).collect::<String>(), "pprrRR");
}

#[test]
fn what_was_not_used_for_longest_makes_room() {
    let mut case = Case::new(&[]);
    for n in 0..MOST_RECORDINGS as i64 + 1 {
        let steps: String = (0..8).map(|_| case.step(&[n], &[1])).collect();
        assert_eq!(steps, "prRRRRRR");
    }
    assert_eq!(case.book.len(), MOST_RECORDINGS);
    assert_eq!(case.step(&[MOST_RECORDINGS as i64], &[1]), 'R');
    assert_eq!(case.step(&[0], &[1]), 'r', "it was seen before, and is gone");
    assert_eq!(case.book.refusal(), None);
}

#[test]
fn recordings_that_nobody_replays_end_it() {
    let mut case = Case::new(&[0]);
    for n in 0..(MOST_RECORDINGS + MOST_WASTED as usize) {
        case.step(&[], &[n]);
        case.step(&[], &[n]);
    }
    assert!(case.book.refusal().is_some_and(|why| why.contains("too often")));
    assert_eq!(case.steps(&[&[0], &[0]]), "pp");
    assert_eq!(case.book.len(), 0);
}

#[test]
fn what_is_refused_runs_plainly() {
    let mut case = Case::new(&[]);
    assert_eq!(case.steps(&[&[1], &[1]]), "pr");
    case.book.refuse("it waits for the GPU".into());
    assert_eq!(case.steps(&[&[1], &[1]]), "pp");
    assert_eq!(case.book.to_string(), "refused: it waits for the GPU");
}
