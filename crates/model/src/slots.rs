//! Which of the model's sequences serves a prompt, and how much of it is already there.
//!
//! Sequences are shared between purposes, spokes and sessions. What is shared is only the work of
//! reading: a prompt reuses exactly the tokens that it begins with itself, and those would have
//! given the same state. Nothing of another prompt can reach an answer. (Timing tells that an
//! equal prefix was read before; a reader of timings inside the hub can read prompts as well.)

#[derive(Debug, Default, Clone)]
struct Slot {
    tokens: Vec<i32>,
    /// How many of them were the prompt; the rest is the answer.
    prompt: usize,
    used: u64,
}

#[derive(Debug)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    clock: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) slot: usize,
    /// Tokens to keep in it; always less than the prompt has, since the last one must be read.
    pub(crate) keep: usize,
    pub(crate) copy_from: Option<usize>,
}

/// A shared beginning shorter than this is read again rather than copied: a copy moves a whole
/// sequence's memory.
const COPY_LEAST: usize = 32;

impl Slots {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            slots: vec![Slot::default(); count.max(1)],
            clock: 0,
        }
    }

    /// Chooses a sequence: the one that the prompt continues; else the least recently used one,
    /// with a copy of the longest shared beginning. What it held beyond `keep` is forgotten.
    pub(crate) fn place(&mut self, prompt: &[i32]) -> Place {
        self.clock += 1;
        // The last token must be decoded in any case, since its logits give the first token of the
        // answer.
        let most = prompt.len().saturating_sub(1);
        let shared = |slot: &Slot| common_prefix(&slot.tokens, prompt).min(most);
        let slots = || self.slots.iter().enumerate();
        // Among equals the newest, so that the oldest stays free to be evicted.
        let best = slots().max_by_key(|(_, slot)| (shared(slot), slot.used));
        let oldest = slots().min_by_key(|(_, slot)| slot.used);
        let (Some((best, best_slot)), Some((oldest, _))) = (best, oldest) else {
            return Place::default();
        };
        let keep = shared(best_slot);
        // A conversation that goes on keeps most of the prompt that its sequence holds.
        // Compared with what the sequence really holds: a cancelled prompt was read in part only.
        let continues = keep * 2 >= best_slot.prompt.min(best_slot.tokens.len());
        let is_copied = keep >= COPY_LEAST;
        let (slot, keep, copy_from) = match continues || best == oldest {
            true => (best, keep, None),
            false if is_copied => (oldest, keep, Some(best)),
            false => (oldest, 0, None),
        };
        let place = Place {
            slot,
            keep,
            copy_from,
        };
        // Recorded before it is done: if the copy or the removal fails, the caller forgets the slot.
        let kept: Vec<i32> = prompt.iter().take(place.keep).copied().collect();
        let clock = self.clock;
        if let Some(slot) = self.slots.get_mut(place.slot) {
            slot.tokens = kept;
            slot.prompt = prompt.len();
            slot.used = clock;
        }
        place
    }

    /// The sequence has read these tokens as well.
    pub(crate) fn extend(&mut self, slot: usize, tokens: impl IntoIterator<Item = i32>) {
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.tokens.extend(tokens);
        }
    }

    /// The sequence's content is unknown after an error.
    pub(crate) fn forget(&mut self, slot: usize) {
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = Slot::default();
        }
    }
}

fn common_prefix(a: &[i32], b: &[i32]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(slots: &mut Slots, prompt: &[i32]) -> Place {
        let place = slots.place(prompt);
        slots.extend(place.slot, prompt.iter().skip(place.keep).copied());
        place
    }

    #[test]
    fn a_conversation_stays_in_its_sequence_and_others_do_not_disturb_it() {
        let mut slots = Slots::new(2);
        let step: Vec<i32> = (0..100).collect();
        let judge: Vec<i32> = (1000..1100).collect();
        let first = read(&mut slots, &step);
        let second = read(&mut slots, &judge);
        assert_eq!((first.keep, second.keep), (0, 0));
        assert_ne!(first.slot, second.slot);
        let longer: Vec<i32> = (0..150).collect();
        assert_eq!(
            read(&mut slots, &longer),
            Place {
                slot: first.slot,
                keep: 100,
                copy_from: None
            }
        );
        // Exactly the same prompt again: its last token is read again.
        assert_eq!(read(&mut slots, &longer).keep, 149);
    }

    #[test]
    fn a_new_conversation_copies_a_long_shared_beginning_and_evicts_the_oldest() {
        let mut slots = Slots::new(2);
        let one: Vec<i32> = (0..300).collect();
        let first = read(&mut slots, &one);
        let two: Vec<i32> = (0..100).chain(2000..2200).collect();
        let second = read(&mut slots, &two);
        assert_eq!((second.keep, second.copy_from), (100, Some(first.slot)));
        assert_ne!(second.slot, first.slot);
        let three: Vec<i32> = (5000..5010).collect();
        assert_eq!(
            read(&mut slots, &three).slot,
            first.slot,
            "least recently used"
        );
    }

    #[test]
    fn nothing_is_kept_of_a_different_prompt() {
        let mut slots = Slots::new(1);
        read(&mut slots, &[1, 2, 3]);
        let place = slots.place(&[9, 2, 3]);
        assert_eq!(place.keep, 0);
        slots.forget(place.slot);
        assert_eq!(slots.place(&[9, 2, 3]).keep, 0);
        assert_eq!(slots.place(&[]).keep, 0);
    }
}
