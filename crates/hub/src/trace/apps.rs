//! How a trace writes the apps of a conversation: `null` for none, one as its name, several as a list.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    None,
    One(String),
    Joint(BTreeSet<String>),
}

pub(super) fn serialize<S: Serializer>(apps: &BTreeSet<String>, to: S) -> Result<S::Ok, S::Error> {
    let mut names = apps.iter();
    let written = match (names.next(), names.next()) {
        (None, _) => Written::None,
        (Some(app), None) => Written::One(app.clone()),
        _ => Written::Joint(apps.clone()),
    };
    written.serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeSet<String>, D::Error> {
    Ok(match Written::deserialize(from)? {
        Written::None => BTreeSet::new(),
        Written::One(app) => BTreeSet::from([app]),
        Written::Joint(apps) => apps,
    })
}
