//! Recognises text that was seen labelled when it comes back without its label.
//!
//! A client that holds its conversation itself may compact it, pass the output of a sub-agent as the
//! user's words, or put what it retrieved into its instructions. What it brings in this way has no
//! label of its own, so it is compared with everything that the same tenant's conversations have
//! seen labelled: results, outputs, and what was recognised before.
//!
//! - **What is found.** Each run of 32 letters and digits that a text shares with a labelled one
//!   gets that one's label (`prints`), with any change of case, white space, punctuation, line
//!   breaks, escapes, tags, terminal colours and look-alike letters (`letters`); so do the gaps
//!   between close matches (`parts`). A labelled field
//!   below 24 letters is found if it is a sentence (three words, eight letters) and comes back whole.
//! - **What is not.** Shorter pieces, translations and paraphrases, encodings such as base64, and
//!   text that came before it was seen labelled.
//! - **The user's messages stay whole.** All of a message has the labels of the sentences that it repeats, or none of it has
//!   ([`KnownTexts::recognise_message`]). An address, a path, a name or an id is no sentence beside words of
//!   the user's (`words`).
//! - **The first recognition stays.** A text keeps the labels that it got when it came to its place in a
//!   conversation for the first time: it cannot depend on what came later, such as a result that
//!   repeats the user's words.
//! - **Forgetting fails closed.** Memory is bounded (`generations`). Once something labelled was
//!   forgotten, everything that is not known gets at least the join of the labels of what was.
//!
//! No tenant can learn or change anything of another one, except by being forgotten where there
//! are too many: then new tenants begin with the labels of the forgotten ones. A client that is
//! known only by a name of its own choice can be any number of tenants, so those whose
//! name was never confirmed ([`KnownTexts::confirm`]) give way first, and leave nothing behind:
//! no model has answered them.

mod generations;
mod letters;
mod parts;
mod prints;
mod shared;
mod words;

use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use ifc::{Label, Labeled};

pub use self::{generations::Place, parts::restricted, shared::Shared, words::is_identifier};

use self::{
    generations::Generations,
    letters::{Letters, in_views},
    parts::{GAP, Matches},
    prints::{Gram, Lengths},
};

/// Names a tenant: one party, whose conversations may know of each other.
pub type TenantName = [u8; 32];

/// A text beyond it is not read but taken for the worst: a conversation has no room for it.
const TEXT_LIMIT: usize = 4 << 20;
/// Fingerprints that are looked up at once.
const BATCH: usize = 1024;

/// Bounds of what is remembered for recognition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecognitionLimits {
    /// Bytes of one tenant. Labelled text takes about four bytes a letter, unlabelled none.
    pub tenant_bytes: usize,
    /// Bytes of all tenants. Beyond them the largest gives way, first among those that are idle and were never
    /// confirmed.
    pub bytes: usize,
    /// Tenants. Beyond them the least recently used one is forgotten, likewise.
    pub tenants: usize,
}

impl Default for RecognitionLimits {
    fn default() -> Self {
        Self {
            // More than ten megabytes of labelled text: a week of one busy agent.
            tenant_bytes: 64 << 20,
            bytes: 512 << 20,
            tenants: 4096,
        }
    }
}

/// What all tenants' conversations have seen labelled.
pub struct Recogniser {
    limits: RecognitionLimits,
    tenants: Mutex<Tenants>,
    bytes: Arc<AtomicUsize>,
    is_journaling: bool,
}

/// Something that one recogniser has learnt, for another that has to know the same ([`KnownTexts::apply`]).
#[derive(Debug, Clone, PartialEq)]
pub enum Learned {
    /// A labelled text.
    Text {
        /// Where it was seen, if that is known.
        place: Option<Place>,
        /// The text.
        text: Labeled,
        /// Whether only runs count that are labelled from end to end, as of a text that was recognised.
        inside: bool,
    },
    /// What the text at this place was recognised as when it came there first.
    Recognised {
        /// The place.
        place: Place,
        /// The parts with labels, by their bytes.
        parts: Vec<(Range<usize>, Label)>,
    },
    /// There was text of this label that is not remembered.
    Lost(Label),
}

struct Tenants {
    all: HashMap<TenantName, Slot>,
    /// The join of the labels of what forgotten tenants knew.
    forgotten: Label,
    tick: u64,
}

struct Slot {
    tenant: Arc<Tenant>,
    used: u64,
}

struct Tenant {
    known: Mutex<Generations>,
    confirmed: AtomicBool,
    /// What was learnt since [`KnownTexts::take_news`]; `None` if no one takes it.
    news: Option<Mutex<Vec<Learned>>>,
}

impl Tenant {
    fn note(&self, news: impl FnOnce() -> Learned) {
        if let Some(all) = &self.news {
            lock(all).push(news());
        }
    }
}

/// What one tenant's conversations have seen labelled.
pub struct KnownTexts<'a> {
    recogniser: &'a Recogniser,
    tenant: Arc<Tenant>,
}

/// A tenant does not give way to new ones while this exists.
#[must_use]
pub struct Hold {
    _tenant: Arc<Tenant>,
}

impl Slot {
    fn is_confirmed(&self) -> bool {
        self.tenant.confirmed.load(Ordering::Relaxed)
    }

    /// Whether no handle to it is left. Handles are given out under the lock of all tenants only, so that under it a slot
    /// without one stays so.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.tenant) == 1
    }
}

impl Recogniser {
    /// Knows nothing yet.
    pub fn new(limits: RecognitionLimits) -> Self {
        Self {
            limits,
            tenants: Mutex::new(Tenants {
                all: HashMap::new(),
                forgotten: Label::bottom(),
                tick: 0,
            }),
            bytes: Arc::default(),
            is_journaling: false,
        }
    }

    /// The same, with a journal of what each tenant's conversations learn. It has to be [taken](KnownTexts::take_news)
    /// from time to time.
    #[must_use]
    pub fn journaling(self) -> Self {
        Self {
            is_journaling: true,
            ..self
        }
    }

    /// One tenant's texts.
    pub fn tenant(&self, name: TenantName) -> KnownTexts<'_> {
        let mut tenants = lock(&self.tenants);
        tenants.tick += 1;
        let tick = tenants.tick;
        if !tenants.all.contains_key(&name) {
            self.make_room(&mut tenants);
        }
        // Any new tenant may be one that was forgotten, so each begins with the labels of those.
        let forgotten = &tenants.forgotten.clone();
        let slot = tenants.all.entry(name).or_insert_with(|| {
            let known = Generations::new(forgotten.clone(), self.limits.tenant_bytes);
            let tenant = Arc::new(Tenant {
                known: Mutex::new(known),
                confirmed: AtomicBool::new(false),
                news: self.is_journaling.then(Mutex::default),
            });
            Slot { tenant, used: tick }
        });
        slot.used = tick;
        let tenant = slot.tenant.clone();
        KnownTexts {
            recogniser: self,
            tenant,
        }
    }

    /// Forgets the least recently used idle tenants, until there is room for one: first those that
    /// were never confirmed.
    fn make_room(&self, tenants: &mut Tenants) {
        while tenants.all.len() >= self.limits.tenants {
            let idle = tenants.all.iter().filter(|(_, slot)| slot.is_idle());
            let Some(name) = idle
                .min_by_key(|(_, slot)| (slot.is_confirmed(), slot.used))
                .map(|(name, _)| *name)
            else {
                break;
            };
            if let Some(slot) = tenants.all.remove(&name) {
                let known = lock(&slot.tenant.known);
                // By its labels, not its texts: the next tenant cannot tell what was forgotten, and the tenant
                // itself may come back. One that was never confirmed is as if it had never come: else any client could
                // have all new tenants begin with labels of its choice.
                if slot.is_confirmed() {
                    tenants.forgotten = tenants.forgotten.join(&known.label());
                }
                self.bytes.fetch_sub(known.bytes(), Ordering::Relaxed);
            }
        }
    }

    /// Lets the tenant that has most give way while all have too much.
    fn shrink(&self) {
        while self.bytes.load(Ordering::Relaxed) > self.limits.bytes {
            // Held until the tenant has given way, so that two requests do not both take the same one for the largest.
            // It is always taken before a tenant's own lock.
            let tenants = lock(&self.tenants);
            let sizes = tenants.all.values().map(|slot| {
                let known = &slot.tenant.known;
                let bytes = lock(known).bytes();
                let first = bytes > 0 && slot.is_idle() && !slot.is_confirmed();
                ((first, bytes), known)
            });
            let Some((_, largest)) = sizes.max_by_key(|(size, _)| *size) else {
                return;
            };
            let mut largest = lock(largest);
            let before = largest.bytes();
            largest.forget_old();
            let freed = before.saturating_sub(largest.bytes());
            self.bytes.fetch_sub(freed, Ordering::Relaxed);
            // All are empty: the sum is too high by what another thread has freed and is about to subtract.
            if before == 0 {
                return;
            }
        }
    }
}

impl KnownTexts<'_> {
    /// Takes note that the tenant's name cannot be made up, such as a key that a server has accepted.
    pub fn confirm(&self) {
        self.tenant.confirmed.store(true, Ordering::Relaxed);
    }

    /// Keeps the tenant from giving way, as this handle does, and for longer.
    pub fn hold(&self) -> Hold {
        Hold {
            _tenant: self.tenant.clone(),
        }
    }

    /// Remembers the labelled parts of a text that was seen at `place`, or nowhere in particular.
    pub fn learn(&self, place: Option<&Place>, text: &Labeled) {
        if self.keep(place, text, Reach::Across) {
            self.tenant.note(|| match text.len() <= TEXT_LIMIT {
                true => Learned::Text {
                    place: place.copied(),
                    text: text.clone(),
                    inside: false,
                },
                false => Learned::Lost(text.label()),
            });
        }
    }

    /// The same of a text that every recogniser of this tenant learns by itself: it is not in the journal.
    pub fn learn_own(&self, place: Option<&Place>, text: &Labeled) {
        self.keep(place, text, Reach::Across);
    }

    /// Takes the journal, oldest first. What cannot be stored has to be [put back](Self::put_back).
    #[must_use]
    pub fn take_news(&self) -> Vec<Learned> {
        let news = self.tenant.news.as_ref();
        news.map_or_else(Vec::new, |news| std::mem::take(&mut lock(news)))
    }

    /// Puts what was taken in front of the journal again.
    pub fn put_back(&self, mut news: Vec<Learned>) {
        if let Some(all) = &self.tenant.news {
            let mut all = lock(all);
            news.append(&mut all);
            *all = news;
        }
    }

    /// Learns what another recogniser of the same tenant has learnt. The order does not matter, except that the first
    /// recognition of a place stays.
    pub fn apply(&self, news: Learned) {
        match news {
            Learned::Text {
                place,
                text,
                inside,
            } => {
                let reach = if inside { Reach::Inside } else { Reach::Across };
                self.keep(place.as_ref(), &text, reach);
            }
            Learned::Recognised { place, parts } => self.change(|known| {
                if known.recognised(&place).is_none() {
                    known.remember_parts(place, parts.into());
                }
            }),
            Learned::Lost(label) => self.change(|known| known.give_up(&label)),
        }
    }

    /// False if there is nothing in it to remember, or it is known.
    fn keep(&self, place: Option<&Place>, text: &Labeled, reach: Reach) -> bool {
        if text.regions().len() == 0 {
            return false;
        }
        if let Some(place) = place
            && lock(&self.tenant.known).is_learned(place)
        {
            return false;
        }
        // Without the lock: this takes the time.
        let prints = (text.len() <= TEXT_LIMIT).then(|| labelled_prints(text, reach));
        self.change(|known| {
            match prints {
                Some((prints, phrases)) => {
                    known.look_for(phrases);
                    for (print, label) in prints {
                        known.keep(print, &label);
                    }
                }
                None => known.give_up(&text.label()),
            }
            if let Some(place) = place {
                known.learned(*place);
            }
        });
        true
    }

    /// Takes note that there were texts of this label which are not remembered.
    pub fn forget(&self, label: &Label) {
        self.change(|known| known.give_up(label));
        self.tenant.note(|| Learned::Lost(label.clone()));
    }

    /// The text with the labels of what it repeats, beside those that it has. What is labelled for sure
    /// is learnt too, so that words which were put between labelled ones are known from then on.
    #[must_use]
    pub fn recognise(&self, place: &Place, text: Labeled) -> Labeled {
        self.recognise_by(place, text, None)
    }

    /// The same for a message in the user's role: all of it has the labels of the sentences that it repeats, or none of it
    /// has. A user also types what only names a thing, such as an address or a path that stands in a result. Parts that have
    /// labels before, such as an attached file, have those of what they repeat themselves. `passed` is the label of the same
    /// message as a text that a call has passed on; ⊥ if none has.
    #[must_use]
    pub fn recognise_message(&self, place: &Place, text: Labeled, passed: &Label) -> Labeled {
        self.recognise_by(place, text, Some(passed))
    }

    fn recognise_by(&self, place: &Place, text: Labeled, message: Option<&Label>) -> Labeled {
        if text.len() > TEXT_LIMIT {
            // Unread, it may repeat anything.
            return text.restrict(&Label::top());
        }
        let phrases = {
            let mut known = lock(&self.tenant.known);
            // As when it came here for the first time. Compared anew, it would show by its labels what was seen since
            // then.
            if let Some(parts) = known.recognised(place) {
                return restricted(text, &parts);
            }
            (!known.is_empty()).then(|| known.phrases())
        };
        let mut matches = Vec::new();
        if let Some(phrases) = phrases {
            // Of a message it matters which runs are shared as a whole, so that close ones are not joined yet.
            let gap = if message.is_some() { 0 } else { GAP };
            in_views(text.reveal_tcb(), |view, letters| {
                matches.push(self.matches(Matches::new(view, gap), letters, phrases));
            });
        }
        let mut repeated = None;
        let mut text = text;
        if let Some(passed) = message {
            let mut sentences = Label::bottom();
            for view in &matches {
                let (inserted, own) = view.in_message(&text);
                text = restricted(text, &inserted);
                sentences = sentences.join(&own);
            }
            if sentences.is_bottom() {
                matches.clear();
            }
            repeated = Some(sentences.join(passed));
        }
        let sure = matches.iter().fold(text.clone(), |sure, view| {
            restricted(sure, &view.clone().sure(text.reveal_tcb()))
        });
        // Only what is sure is learnt: with its margins a text would grow by them each time that it comes back.
        let (prints, phrases) = labelled_prints(&sure, Reach::Inside);
        let recognised = match &repeated {
            Some(repeated) => text.restrict(repeated),
            None => matches.into_iter().fold(text, |text, view| {
                let possible = view.possible(text.reveal_tcb());
                restricted(text, &possible)
            }),
        };
        let is_news = !prints.is_empty();
        let recognised = self.change(|known| {
            known.look_for(phrases);
            for (print, label) in prints {
                known.keep(print, &label);
            }
            // By what is forgotten now: fingerprints may have gone while the text was compared without the lock.
            let recognised = recognised.restrict(known.forgotten());
            known.remember_parts(*place, parts(&recognised).into());
            recognised
        });
        if is_news {
            self.tenant.note(|| Learned::Text {
                place: None,
                text: sure,
                inside: true,
            });
        }
        self.tenant.note(|| Learned::Recognised {
            place: *place,
            parts: parts(&recognised),
        });
        recognised
    }

    fn matches(
        &self,
        mut matches: Matches,
        letters: &mut Letters<'_>,
        phrases: Lengths,
    ) -> Matches {
        let mut batch = Vec::with_capacity(BATCH);
        // The lock is taken for a look-up of many at once, and not for reading the text.
        let look_up = |batch: &mut Vec<Gram>, matches: &mut Matches| {
            let known = lock(&self.tenant.known);
            for gram in batch.drain(..) {
                if let Some(label) = known.find(gram.print) {
                    matches.add(&gram, label);
                }
            }
        };
        prints::grams(letters, phrases, |gram| {
            batch.push(gram);
            if batch.len() >= BATCH {
                look_up(&mut batch, &mut matches);
            }
        });
        look_up(&mut batch, &mut matches);
        matches
    }

    fn change<T>(&self, change: impl FnOnce(&mut Generations) -> T) -> T {
        let mut known = lock(&self.tenant.known);
        let before = known.bytes();
        let changed = change(&mut known);
        let after = known.bytes();
        // `shrink` takes the lock of every tenant, this one's included.
        drop(known);
        let sum = &self.recogniser.bytes;
        match after.checked_sub(before) {
            Some(more) => sum.fetch_add(more, Ordering::Relaxed),
            None => sum.fetch_sub(before - after, Ordering::Relaxed),
        };
        if after > before {
            self.recogniser.shrink();
        }
        changed
    }
}

/// Which fingerprints are kept where a label begins or ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Those that cover anything labelled: a result is recognised by the structure around its fields.
    Across,
    /// Those that cover nothing else: a text that was recognised does not grow each time it comes.
    Inside,
}

/// The fingerprints of what is not ⊥ in a text, each with the label of what it covers, and how many
/// letters the phrases among them have.
fn labelled_prints(text: &Labeled, reach: Reach) -> (Vec<(u64, Label)>, Lengths) {
    let regions: Vec<_> = text.regions().collect();
    let mut prints = Vec::new();
    let mut phrases = 0;
    if regions.is_empty() {
        return (prints, phrases);
    }
    in_views(text.reveal_tcb(), |view, letters| {
        // Fingerprints come in order, so that a region which one of them has passed is passed for good.
        let mut first = 0;
        prints::winnowed(letters, |gram| {
            let passed = regions.iter().skip(first);
            first += passed
                .take_while(|(range, _)| range.end <= gram.bytes.start)
                .count();
            let mut label = Label::bottom();
            let mut covered = gram.bytes.start;
            let touched = regions.iter().skip(first);
            for (range, own) in touched.take_while(|(range, _)| range.start < gram.bytes.end) {
                label = label.join(own);
                // Regions come in order, so a gap before this one is text without a label.
                if range.start <= covered {
                    covered = covered.max(range.end);
                }
            }
            let is_inside = covered >= gram.bytes.end;
            if !label.is_bottom() && (is_inside || reach == Reach::Across) {
                prints.push((gram.print, label));
            }
        });
        for (range, label) in runs(&regions) {
            let part = text.reveal_tcb().get(range).unwrap_or_default();
            if let Some((print, phrase)) = prints::short(part, view) {
                prints.push((print, label));
                phrases |= phrase;
            }
        }
    });
    (prints, phrases)
}

/// The parts of a text that have labels.
fn parts(text: &Labeled) -> Vec<(Range<usize>, Label)> {
    let own = text.regions();
    own.map(|(range, label)| (range, label.clone())).collect()
}

/// Regions that touch each other, together.
fn runs(regions: &[(Range<usize>, &Label)]) -> Vec<(Range<usize>, Label)> {
    let mut runs: Vec<(Range<usize>, Label)> = Vec::new();
    for (range, label) in regions {
        match runs.last_mut() {
            Some((last, known)) if last.end == range.start => {
                last.end = range.end;
                *known = known.join(label);
            }
            _ => runs.push((range.clone(), (*label).clone())),
        }
    }
    runs
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
