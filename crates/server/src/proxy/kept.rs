//! Values by digest, within limits.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::{Duration, Instant},
};

use super::transcript::Digest;

/// Values by digest. Where there are too many, the tenant with the most weight loses its least recently used ones: no client
/// can make the proxy forget what belongs to quieter clients.
pub(super) struct Kept<V> {
    entries: HashMap<Digest, Entry<V>>,
    weight: usize,
    uses: u64,
}

struct Entry<V> {
    value: V,
    tenant: Digest,
    weight: usize,
    /// The number of its last use, and the time.
    used: u64,
    used_at: Instant,
}

impl<V> Kept<V> {
    pub(super) fn new() -> Self {
        Self {
            entries: HashMap::new(),
            weight: 0,
            uses: 0,
        }
    }

    /// How often values were used or inserted so far.
    pub(super) fn uses(&self) -> u64 {
        self.uses
    }

    /// The value, which is now the most recently used one. One that was not used for longer than `age` is removed.
    pub(super) fn touch(&mut self, digest: &Digest, age: Duration, now: Instant) -> Option<&mut V> {
        let used_at = self.entries.get(digest)?.used_at;
        if now.saturating_duration_since(used_at) > age {
            self.remove(digest);
            return None;
        }
        let entry = self.entries.get_mut(digest)?;
        self.uses += 1;
        (entry.used, entry.used_at) = (self.uses, now);
        Some(&mut entry.value)
    }

    /// Some value of this tenant.
    pub(super) fn any_of(&self, tenant: &Digest) -> Option<&V> {
        let mut entries = self.entries.values();
        let own = entries.find(|entry| entry.tenant == *tenant);
        own.map(|entry| &entry.value)
    }

    pub(super) fn insert(
        &mut self,
        digest: Digest,
        tenant: Digest,
        value: V,
        weight: usize,
        now: Instant,
    ) {
        self.remove(&digest);
        self.uses += 1;
        self.weight += weight;
        let entry = Entry {
            value,
            tenant,
            weight,
            used: self.uses,
            used_at: now,
        };
        self.entries.insert(digest, entry);
    }

    /// Removes values until at most `count` of at most `weight` are left. Those of the highest rank go first. If any must
    /// go, an eighth of the room is freed, so that the pass over all of them is seldom made.
    pub(super) fn shrink<R: Ord + Copy>(
        &mut self,
        count: usize,
        weight: usize,
        rank: impl Fn(&V) -> R,
    ) {
        if self.entries.len() <= count && self.weight <= weight {
            return;
        }
        let (count, weight) = (count - count / 8, weight - weight / 8);
        // By tenant: its weight, and its entries with the first victim at the end.
        let mut tenants: HashMap<Digest, (usize, Vec<_>)> = HashMap::new();
        for (digest, entry) in &self.entries {
            let (weight, victims) = tenants.entry(entry.tenant).or_default();
            *weight += entry.weight;
            victims.push((rank(&entry.value), Reverse(entry.used), *digest));
        }
        // The tenant whose entry goes next is the greatest.
        let place = |weight: usize, victims: Vec<(R, Reverse<u64>, Digest)>| {
            let (rank, used, _) = *victims.last()?;
            Some((rank, weight, used, victims))
        };
        let places = tenants.into_values().filter_map(|(weight, mut victims)| {
            victims.sort_unstable();
            place(weight, victims)
        });
        let mut heap: BinaryHeap<_> = places.collect();
        while self.entries.len() > count || self.weight > weight {
            let Some((_, left, _, mut victims)) = heap.pop() else {
                break;
            };
            let removed = victims.pop().map_or(0, |(.., digest)| self.remove(&digest));
            heap.extend(place(left.saturating_sub(removed), victims));
        }
    }

    fn remove(&mut self, digest: &Digest) -> usize {
        let weight = self.entries.remove(digest).map_or(0, |entry| entry.weight);
        self.weight -= weight;
        weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_secs(10);

    /// Inserts values of this weight for a tenant and shrinks to 16 of 100 in all.
    fn insert(kept: &mut Kept<bool>, tenant: u8, digests: std::ops::Range<u8>, weight: usize) {
        for digest in digests {
            let now = Instant::now();
            kept.insert([digest; 32], [tenant; 32], false, weight, now);
            kept.shrink(16, 100, |first| *first);
            assert!(kept.entries.len() <= 16 && kept.weight <= 100);
            let sum: usize = kept.entries.values().map(|entry| entry.weight).sum();
            assert_eq!(sum, kept.weight);
        }
    }

    fn has(kept: &Kept<bool>, digest: u8) -> bool {
        kept.entries.contains_key(&[digest; 32])
    }

    #[test]
    fn a_flood_of_one_tenant_removes_nothing_of_another() {
        let mut kept = Kept::new();
        insert(&mut kept, 1, 0..2, 1);
        insert(&mut kept, 2, 10..99, 1);
        insert(&mut kept, 2, 100..110, 30);
        // One that is larger than everything is not kept.
        insert(&mut kept, 2, 110..111, 101);
        assert!(has(&kept, 0) && has(&kept, 1) && !has(&kept, 110));
        // The other tenant gets as much as the first has.
        insert(&mut kept, 2, 120..127, 1);
        insert(&mut kept, 1, 130..150, 1);
        let of_first = (130..150).filter(|digest| has(&kept, *digest));
        assert!(of_first.count() >= 5 && has(&kept, 126));
    }

    #[test]
    fn the_highest_rank_goes_first_and_then_the_least_recently_used() {
        let mut kept = Kept::new();
        let now = Instant::now();
        for digest in 0..4 {
            kept.insert([digest; 32], [1; 32], digest == 3, 1, now);
        }
        kept.touch(&[0; 32], AGE, now);
        kept.shrink(2, 100, |first| *first);
        assert!(has(&kept, 0) && has(&kept, 2) && kept.entries.len() == 2);
    }

    #[test]
    fn a_value_is_removed_when_its_age_is_over() {
        let mut kept = Kept::new();
        let now = Instant::now();
        kept.insert([1; 32], [1; 32], false, 5, now);
        assert!(kept.touch(&[1; 32], AGE, now + AGE).is_some());
        assert!(kept.touch(&[1; 32], AGE, now + AGE * 3).is_none());
        assert_eq!((kept.entries.len(), kept.weight), (0, 0));
    }
}
