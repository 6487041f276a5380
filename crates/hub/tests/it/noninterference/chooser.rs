//! Who chooses the regions of a step.

use ifc::{History, RegionId, Relevance};

use super::world::{Choice, World};

/// Who chooses the regions.
pub(crate) trait Chooser {
    fn choose(&mut self, history: &History, turn: usize, step: usize) -> Result<Relevance, String>;
}

/// The choices that are written in the world: the same on both sides, below its limit.
pub(crate) struct Fixed<'a>(pub(crate) &'a World);

impl Chooser for Fixed<'_> {
    fn choose(&mut self, history: &History, turn: usize, step: usize) -> Result<Relevance, String> {
        // Conversations that serve requests have steps with numbers of their own.
        let choice = self
            .0
            .choices
            .get(turn)
            .and_then(|steps| steps.get((step - 1) % steps.len().max(1)));
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for region in history.regions() {
            let side = if self.0.above(region.label) {
                &mut high
            } else {
                &mut low
            };
            side.push(region.id);
        }
        let pick = |from: &[RegionId], bits: u64| -> Vec<RegionId> {
            let chosen = from
                .iter()
                .enumerate()
                .filter(|(at, _)| bits >> (at % 64) & 1 == 1);
            chosen.map(|(_, id)| *id).collect()
        };
        let chosen = match choice.copied().unwrap_or(Choice::Everything) {
            Choice::Everything => return Ok(Relevance::Everything),
            Choice::Failure => return Err("the screener failed".to_owned()),
            Choice::UnknownRegion => vec![RegionId(u32::MAX)],
            Choice::Below(bits) => pick(&low, bits),
            Choice::Above(bits) => {
                let mut chosen = pick(&high, bits.rotate_left(32));
                if chosen.is_empty() {
                    chosen.extend(high.first());
                }
                [chosen, pick(&low, bits)].concat()
            }
        };
        Ok(Relevance::Only(chosen.into_iter().collect()))
    }
}
