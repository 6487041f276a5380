//! Labels of results that were labelled before: a client sends every result with every request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ifc::{Call, Labeled, Policy};
use quick_cache::{Weighter, unsync::Cache};
use sha2::{Digest as _, Sha256};

use super::transcript::{Digest, field};

/// Shorter results are labelled in less time than it takes to look them up.
const WORTHWHILE: usize = 4 << 10;
/// Bytes of text in the cache: some hundred long conversations.
const BYTES: usize = 64 << 20;

/// Results by the digest of everything that their labels depend on. A policy is pure, so that it
/// makes no difference whose result it was, and none what is evicted: that is labelled anew.
pub(super) struct LabelCache(Mutex<Cache<Digest, Arc<Labeled>, Bytes>>);

#[derive(Clone)]
struct Bytes;

impl Weighter<Digest, Arc<Labeled>> for Bytes {
    fn weight(&self, _: &Digest, labeled: &Arc<Labeled>) -> u64 {
        labeled.len() as u64
    }
}

impl Default for LabelCache {
    fn default() -> Self {
        // The number of entries is an estimate only; the bytes are the bound.
        let cache = Cache::with_weighter(BYTES / WORTHWHILE, BYTES as u64, Bytes);
        Self(Mutex::new(cache))
    }
}

impl LabelCache {
    pub(super) fn label(&self, policy: &dyn Policy, call: &Call, text: String) -> Labeled {
        if text.len() < WORTHWHILE {
            return policy.label_result(call, text, false);
        }
        let key = key(call, &text);
        let known = self.lock().get(&key).cloned();
        if let Some(known) = known {
            return Labeled::clone(&known);
        }
        // Labelled without the lock: a large result takes a while.
        let labeled = policy.label_result(call, text, false);
        self.lock().insert(key, Arc::new(labeled.clone()));
        labeled
    }

    fn lock(&self) -> MutexGuard<'_, Cache<Digest, Arc<Labeled>, Bytes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn it_is_bounded() {
        let policy = Counting(AtomicUsize::new(0));
        let cache = LabelCache::default();
        let call = Call {
            app: "app".to_owned(),
            tool: "tool".to_owned(),
            arguments: Arguments::none(),
            label: Label::bottom(),
        };
        for number in 0..20 {
            let text = format!("{number:04}").repeat(BYTES / 32);
            cache.label(&policy, &call, text);
            assert!(cache.lock().weight() <= BYTES as u64);
        }
        let huge = "x".repeat(BYTES + 1);
        assert!(cache.label(&policy, &call, huge).label().is_top());
    }
}
