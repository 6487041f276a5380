//! Whose tools a conversation has, and what its model calls them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ifc::Call;

/// The apps of one conversation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Apps {
    /// None: a vanilla spoke (SecGPT §4.2.5).
    None,
    /// One app, in a conversation of its own (SecGPT §4.2). Its tools have the app's own names.
    One(String),
    /// Several apps in one conversation. Each tool has a qualified name ([`Call::qualified`]), so that
    /// no app can offer a tool under another's name.
    Joint(BTreeSet<String>),
    /// A client that has the tools of one app under the app's own names, and tools of others under names of its own.
    Client(String, Arc<OtherTools>),
    /// No tool at all, and the answers of several apps that were asked each by itself
    /// ([`TurnMachine::gather`](crate::TurnMachine::gather)): what they said is put together here.
    Each(BTreeSet<String>),
}

/// The app and the tool behind a name.
pub type OtherTools = BTreeMap<String, (String, String)>;

impl Apps {
    /// These apps, isolated if there is only one.
    pub fn of(names: impl IntoIterator<Item = String>) -> Self {
        let mut names: BTreeSet<String> = names.into_iter().collect();
        match names.len() {
            0 => Self::None,
            1 => names.pop_first().map_or(Self::None, Self::One),
            _ => Self::Joint(names),
        }
    }

    /// Their names.
    #[must_use]
    pub fn names(&self) -> BTreeSet<String> {
        match self {
            Self::None => BTreeSet::new(),
            Self::One(app) => BTreeSet::from([app.clone()]),
            Self::Client(app, others) => {
                let others = others.values().map(|(app, _)| app);
                others.chain([app]).cloned().collect()
            }
            Self::Joint(apps) | Self::Each(apps) => apps.clone(),
        }
    }

    /// Those whose tools the conversation has.
    #[must_use]
    pub fn with_tools(&self) -> BTreeSet<String> {
        match self {
            Self::Each(_) => BTreeSet::new(),
            _ => self.names(),
        }
    }

    /// The model's name of a tool of one of these apps.
    #[must_use]
    pub fn shown(&self, app: &str, tool: &str) -> String {
        match self {
            Self::None | Self::One(_) | Self::Each(_) => tool.to_owned(),
            Self::Client(_, others) => {
                let is_it =
                    |(_, other): &(_, &(String, String))| (&*other.0, &*other.1) == (app, tool);
                let name = others.iter().find(is_it).map(|(name, _)| name.as_str());
                name.unwrap_or(tool).to_owned()
            }
            Self::Joint(_) => Call::qualified(app, tool),
        }
    }

    /// Two apps whose tools could be confused: their qualified names can be the same.
    #[must_use]
    pub fn clash(&self) -> Option<(&str, &str)> {
        match self {
            Self::None | Self::One(_) | Self::Client(..) | Self::Each(_) => None,
            Self::Joint(apps) => Call::confusable(apps),
        }
    }

    /// The app and the tool that the model means. `None` where no app has such a tool's name, or two
    /// could: a name with two readings means no tool.
    #[must_use]
    pub fn resolve(&self, shown: &str) -> Option<(String, String)> {
        match self {
            Self::None | Self::Each(_) => None,
            Self::One(app) => Some((app.clone(), shown.to_owned())),
            Self::Client(app, others) => {
                let other = others.get(shown).cloned();
                Some(other.unwrap_or_else(|| (app.clone(), shown.to_owned())))
            }
            Self::Joint(apps) => {
                let reading = |app: &String| {
                    let tool = shown.strip_prefix(app.as_str())?.strip_prefix(SEPARATOR)?;
                    Some((app.clone(), tool.to_owned()))
                };
                let mut readings = apps.iter().filter_map(reading);
                readings.next().filter(|_| readings.next().is_none())
            }
        }
    }
}

/// The separator of app and tool in a qualified name.
const SEPARATOR: &str = "__";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn joint<const N: usize>(apps: [&str; N]) -> Apps {
        Apps::of(apps.map(str::to_owned))
    }

    #[test]
    fn a_tool_is_found_under_the_name_that_is_shown() {
        let apps = joint(["files", "db"]);
        let found = Some(("db".to_owned(), "insert".to_owned()));
        assert_eq!(apps.resolve(&apps.shown("db", "insert")), found);
        for unknown in ["insert", "db_insert", "mail__send", "__insert", ""] {
            assert_eq!(apps.resolve(unknown), None, "{unknown}");
        }
        assert_eq!(joint(["db"]).shown("db", "insert"), "insert");
        assert_eq!(joint([]).resolve("insert"), None);
        let each = Apps::Each(apps.names());
        assert_eq!(each.resolve("db__insert"), None);
        assert!(each.with_tools().is_empty() && each.names() == apps.with_tools());
    }

    #[test]
    fn a_client_has_tools_of_its_own_and_of_others() {
        let pair = |app: &str, tool: &str| (app.to_owned(), tool.to_owned());
        let others = OtherTools::from([("mcp__s__send".to_owned(), pair("mail", "send"))]);
        let apps = Apps::Client("agent".to_owned(), Arc::new(others));
        assert_eq!(apps.resolve("mcp__s__send"), Some(pair("mail", "send")));
        assert_eq!(apps.shown("mail", "send"), "mcp__s__send");
        // No name makes a tool of the client's that of another app.
        for own in ["send", "mail__send", "mcp__s__read"] {
            assert_eq!(apps.resolve(own), Some(pair("agent", own)));
            assert_eq!(apps.shown("agent", own), own);
        }
        assert_eq!(
            apps.names(),
            BTreeSet::from(["agent", "mail"].map(str::to_owned))
        );
        assert_eq!(apps.clash(), None);
    }

    #[test]
    fn a_name_with_two_readings_is_nobodys() {
        // The tool `b__c` of `a`, or the tool `c` of `a__b`?
        assert_eq!(joint(["a", "a__b"]).resolve("a__b__c"), None);
        assert!(joint(["a", "a__b"]).clash().is_some());
        assert!(joint(["a", "ab", "b_c", "a_b"]).clash().is_none());
        // The tool `_b` of `a`, or the tool `b` of `a_`?
        assert_eq!(joint(["a", "a_"]).resolve("a___b"), None);
    }

    proptest! {
        /// No name of an app or a tool makes its tools those of another app.
        #[test]
        fn no_app_takes_anothers_name(
            apps in prop::collection::btree_set("[ab_]{1,4}", 2..4),
            tool in "[ab_]{1,5}",
        ) {
            let joint = Apps::Joint(apps.clone());
            for app in &apps {
                if let Some(found) = joint.resolve(&joint.shown(app, &tool)) {
                    prop_assert_eq!(found, (app.clone(), tool.clone()));
                }
            }
        }
    }
}
