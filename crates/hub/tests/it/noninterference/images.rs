//! Images of results, and what may be known of them where.

use ifc::{Call, History, Image, Label, Message, Policy};
use serde_json::Value;

use super::labels::{Taints, taints, union};
use super::random::{Random, hash};
use super::rules::Rules;
use super::world::{Side, Words, World};

/// What images of results showed: of which call, and with which label of their own.
#[derive(Debug, Default)]
pub(crate) struct Shown(Vec<(Call, Label, String)>);

impl Shown {
    /// The images of what a call returned: of the app's own secrets, where the rules take what they cannot
    /// look into for one.
    pub(crate) fn bring(
        &mut self,
        words: &mut Words,
        world: &World,
        side: Side,
        (call, made_at): (&Call, &Taints),
    ) -> Vec<Image> {
        let rules = Rules(world.clone());
        let opaque = rules.label_result(call, String::new(), true).label();
        let images = images(world, side, call, &opaque);
        for image in &images {
            let shown = String::from_utf8_lossy(image.bytes()).into_owned();
            words.learn(&shown, &union(&taints(&opaque), made_at));
            self.0.push((call.clone(), opaque.clone(), shown));
        }
        images
    }

    /// Labels have fallen. An image is no text of the history: it falls with its call, as far as to what no
    /// rule has looked into.
    pub(crate) fn relearn(&self, words: &mut Words, world: &World, history: &History) {
        for (label, message) in history.messages() {
            let Message::Assistant { calls, .. } = message else {
                continue;
            };
            for past in calls {
                let fallen = union(
                    &taints(&past.label(label)),
                    &taints(&past.arguments.label()),
                );
                let wrote = read(past.arguments.reveal_tcb());
                for (call, opaque, shown) in &self.0 {
                    let named = past.tool == world.apps().shown(&call.app, &call.tool);
                    if named && wrote == read(&call.arguments.to_json()) {
                        words.learn(shown, &union(&taints(opaque), &fallen));
                    }
                }
            }
        }
    }
}

/// A model writes arguments with blanks and in an order of its own.
fn read(arguments: &str) -> Option<Value> {
    serde_json::from_str(arguments).ok()
}

fn images(world: &World, side: Side, call: &Call, opaque: &Label) -> Vec<Image> {
    let (seed, arguments) = (world.seed.to_string(), call.arguments.to_json());
    let tool = world.apps().shown(&call.app, &call.tool);
    let call = hash(&["images", &seed, &tool, &arguments]);
    // How many there are is structure, as the regions of its text are.
    let mut same = Random::new(call);
    let count = if same.chance(20) { same.below(3) } else { 0 };
    let mut random = match (world.above(opaque), side) {
        (false, _) | (true, Side::A) => same,
        (true, Side::B) => Random::new(call ^ 1),
    };
    let bytes = |random: &mut Random| [b"\x89PNG\r\n\x1a\n ", random.word().as_bytes()].concat();
    let images = (0..count).filter_map(|_| Image::read(bytes(&mut random)));
    images.collect()
}
