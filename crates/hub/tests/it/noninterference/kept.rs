//! What the users of a world have allowed for good, in earlier sessions and while it is played.

use std::sync::Mutex;

use hub::Asked;
use ifc::{Collaboration, Direction, Label, Permissible, Permissions};

use super::labels::{flows_taints, taints, union};
use super::random::{Random, hash};
use super::world::{APPS, Side, World};

/// What a permission is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum About {
    /// An app and its tool.
    Tool(String, String),
    Apps(Collaboration),
    Domain(String, String),
}

impl About {
    fn of(what: Permissible<'_>) -> Self {
        match what {
            Permissible::Tool { app, tool, .. } => Self::Tool(app.to_owned(), tool.to_owned()),
            Permissible::Collaboration(collaboration) => Self::Apps(collaboration.clone()),
            // The turn machine opens no connection.
            Permissible::Domain { app, domain } => Self::Domain(app.to_owned(), domain.to_owned()),
        }
    }
}

/// A permission of an earlier session.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) about: About,
    pub(crate) taints: Label,
    /// The side that has it, if only one has.
    pub(crate) only: Option<Side>,
}

impl Kept {
    /// Some of a world. Those that only one side has are about taints none of which is below the limit, and
    /// about no messages that are asked about whatever their label: at ⊥ such a permission counts too.
    pub(crate) fn some(world: &World, pool: &[Label]) -> Vec<Self> {
        let mut random = Random::new(hash(&[&world.seed.to_string(), "kept"]));
        // ⊤ is never kept.
        let pool: Vec<&Label> = pool.iter().filter(|label| !label.is_top()).collect();
        // Of tools that serve others too: nobody else's request passes by that.
        let serving = world.services.iter().flat_map(|service| &service.tools);
        let tools = world.tools.iter().chain(serving);
        let tools = tools.map(|tool| (About::Tool(tool.app.to_owned(), tool.name.clone()), false));
        let asked = world.services.iter().flat_map(|service| {
            let serving = service.tools.iter().map(move |tool| (service, tool.app));
            serving.flat_map(|(service, app)| {
                Direction::ALL.map(|direction| {
                    let about = Collaboration {
                        asks: APPS[0].to_owned(),
                        serves: app.to_owned(),
                        functionality: service.name.clone(),
                        direction,
                    };
                    (About::Apps(about), service.is_strict())
                })
            })
        });
        let mut found = Vec::new();
        for (about, is_strict) in tools.chain(asked) {
            // Messages that nothing permits are what other tests are about.
            let often = if matches!(about, About::Apps(_)) {
                30
            } else {
                80
            };
            if pool.is_empty() || !random.chance(often) {
                continue;
            }
            let one_sided = !is_strict && random.chance(60);
            // Of many taints, so that some of them cover something.
            let label: Label = (0..4).map(|_| *random.pick(&pool)).collect();
            let taints = match one_sided {
                true => label.beyond(&world.limit),
                false => label,
            };
            let side = *random.pick(&[Side::A, Side::B]);
            let only = one_sided.then_some(side);
            found.push(Self {
                about,
                taints,
                only,
            });
        }
        found
    }
}

/// The permissions of one side of a world.
#[derive(Debug)]
pub(crate) struct Cabinet(Mutex<Vec<(String, About, Label)>>);

/// How permissions are named that are not on both sides.
pub(crate) const APART: &str = "apart";

impl Cabinet {
    pub(crate) fn of(world: &World, side: Side) -> Self {
        let kept = world.kept.iter().enumerate();
        let kept = kept.filter(|(_, kept)| kept.only.is_none_or(|only| only == side));
        let kept = kept.map(|(at, kept)| {
            let name = match kept.only {
                None => format!("shared{at}"),
                Some(_) => format!("{APART}{at}"),
            };
            (name, kept.about.clone(), kept.taints.clone())
        });
        Self(Mutex::new(kept.collect()))
    }

    /// Whether one of them covers what is under this label and over this limit; without a limit, all of it.
    pub(crate) fn covers(&self, about: &About, label: &Label, limit: Option<&Label>) -> bool {
        let kept = self.0.lock().unwrap();
        kept.iter().any(|(_, of, under)| {
            let allowed = match limit {
                Some(limit) => union(&taints(limit), &taints(under)),
                None => taints(under),
            };
            of == about && flows_taints(&taints(label), &allowed)
        })
    }
}

impl Permissions for Cabinet {
    fn can_keep(&self, _: Permissible<'_>) -> bool {
        true
    }

    fn find(&self, what: Permissible<'_>, under: &Label) -> Option<String> {
        let about = About::of(what);
        let kept = self.0.lock().unwrap();
        let covers =
            |(_, of, taints): &&(String, About, Label)| *of == about && under.flows_to(taints);
        kept.iter().find(covers).map(|(name, ..)| name.clone())
    }

    fn keep(&self, what: Permissible<'_>, under: &Label) -> Result<String, String> {
        let mut kept = self.0.lock().unwrap();
        let name = format!("{APART}-said{}", kept.len());
        kept.push((name.clone(), About::of(what), under.clone()));
        Ok(name)
    }
}

/// Whether a user who says yes to this says it for good: only about taints of which none is below the limit,
/// and not about messages that are asked about whatever their label.
pub(crate) fn is_kept(world: &World, question: &Asked) -> bool {
    let covers = question.covers();
    let is_above = !covers.is_bottom() && covers.meet(&world.limit).is_bottom();
    question.choices().contains(&ifc::Answer::Always) && is_above && !question.rule().always_ask
}
