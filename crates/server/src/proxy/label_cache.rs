//! Labels of results that were labelled before: a client sends every result with every request.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use ifc::{Call, Labeled, Policy};
use sha2::{Digest as _, Sha256};

use super::transcript::{Digest, field};

/// Shorter results are labelled in less time than it takes to look them up.
const WORTHWHILE: usize = 4 << 10;
/// Bytes of text in each of the two generations.
const GENERATION: usize = 32 << 20;

/// Results by the digest of everything that their labels depend on. A policy is pure, so that it
/// makes no difference whose result it was.
///
/// Two generations: what is used moves to the young one, and when that is full, the old one is
/// dropped.
#[derive(Default)]
pub(super) struct LabelCache(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashMap<Digest, Arc<Labeled>>,
    old: HashMap<Digest, Arc<Labeled>>,
    /// Of the young one.
    bytes: usize,
}

impl LabelCache {
    /// The result as the policy labels it.
    pub(super) fn label(&self, policy: &dyn Policy, call: &Call, text: String) -> Labeled {
        if text.len() < WORTHWHILE {
            return policy.label_result(call, text, false);
        }
        let key = key(call, &text);
        if let Some(known) = self.lock().find(&key) {
            return Labeled::clone(&known);
        }
        let labeled = policy.label_result(call, text, false);
        self.lock().keep(key, Arc::new(labeled.clone()));
        labeled
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn find(&mut self, key: &Digest) -> Option<Arc<Labeled>> {
        if let Some(known) = self.young.get(key) {
            return Some(known.clone());
        }
        let known = self.old.remove(key)?;
        self.keep(*key, known.clone());
        Some(known)
    }

    fn keep(&mut self, key: Digest, labeled: Arc<Labeled>) {
        if self.bytes + labeled.len() > GENERATION {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += labeled.len();
        self.young.insert(key, labeled);
    }
}

/// Everything that a policy is asked with.
fn key(call: &Call, text: &str) -> Digest {
    let mut hash = Sha256::new();
    let label = format!("{:?}", call.label);
    let arguments = call.arguments.to_json();
    for part in [&*call.app, &*call.tool, &*arguments, &*label, text] {
        field(&mut hash, Some(part));
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ifc::{Arguments, Label, PolicyError, Rule, Sink};

    use super::*;

    /// Labels by tool, and counts.
    struct Counting(AtomicUsize);

    impl Policy for Counting {
        fn rule(&self, _: &Sink<'_>) -> Result<Rule, PolicyError> {
            Err(PolicyError("none".to_owned()))
        }

        fn label_result(&self, call: &Call, result: String, _: bool) -> Labeled {
            self.0.fetch_add(1, Ordering::Relaxed);
            match call.tool.as_str() {
                "trusted" => Labeled::trusted_tcb(result),
                _ => Labeled::unknown(result),
            }
        }
    }

    #[test]
    fn a_result_is_labelled_once_and_never_as_another_tools() {
        let policy = Counting(AtomicUsize::new(0));
        let cache = LabelCache::default();
        let call = |tool: &str| Call {
            app: "app".to_owned(),
            tool: tool.to_owned(),
            arguments: Arguments::none(),
            label: Label::bottom(),
        };
        let text = "x".repeat(WORTHWHILE);
        for _ in 0..3 {
            let trusted = cache.label(&policy, &call("trusted"), text.clone());
            assert!(trusted.label().is_bottom() && trusted.reveal_tcb() == text);
            let other = cache.label(&policy, &call("other"), text.clone());
            assert!(other.label().is_top());
        }
        assert_eq!(policy.0.load(Ordering::Relaxed), 2);
        let above = Call {
            label: Label::top(),
            ..call("trusted")
        };
        cache.label(&policy, &above, text);
        assert_eq!(policy.0.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn it_is_bounded_and_keeps_what_is_used() {
        let policy = Counting(AtomicUsize::new(0));
        let cache = LabelCache::default();
        let call = Call {
            app: "app".to_owned(),
            tool: "tool".to_owned(),
            arguments: Arguments::none(),
            label: Label::bottom(),
        };
        let one = "1".repeat(GENERATION / 4);
        cache.label(&policy, &call, one.clone());
        for number in 0..20 {
            let text = format!("{number:04}").repeat(GENERATION / 16);
            cache.label(&policy, &call, text);
            cache.label(&policy, &call, one.clone());
        }
        assert_eq!(policy.0.load(Ordering::Relaxed), 21);
        let generations = cache.lock();
        let (young, old) = (&generations.young, &generations.old);
        let bytes = young.values().chain(old.values()).map(|text| text.len());
        assert!(bytes.sum::<usize>() <= 2 * GENERATION);
    }
}
