//! Who reads what a call sends: limits that depend on the recipients that its arguments name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use ifc::{Call, Label, Labeled};
use serde_json::Value;

use crate::place::Place;

/// Most readers that a question names.
const SHOWN: usize = 8;

/// What readers may read beyond what is public, by name: addresses, domains, and names of other kinds such as channels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readers {
    /// By address or other name, as [`canonical`] writes it.
    names: BTreeMap<String, Label>,
    /// By domain in small letters: what every address at this domain may read.
    domains: BTreeMap<String, Label>,
}

/// `audience = { of = ["to", "cc"], … }`: the limit of a call is raised by what every recipient may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audience {
    /// The arguments that name the recipients. They belong to the control part.
    pub of: Vec<String>,
    /// What the recipients may read.
    pub readers: Arc<Readers>,
    /// The place of the key.
    pub place: Place,
}

impl Readers {
    /// Adds what a reader may read: an address, every address at `@example.org`, or another name.
    pub fn add(&mut self, name: &str, label: &Label) {
        // `@ann` without a dot is a name in a chat.
        let domain = name.strip_prefix('@').filter(|name| name.contains('.'));
        let entry = match domain {
            Some(domain) => self.domains.entry(domain.to_ascii_lowercase()),
            None => self.names.entry(canonical(name).into_owned()),
        };
        let may_read = entry.or_default();
        *may_read = may_read.join(label);
    }

    /// Whether a recipient of a call can have this name: others are in no list, or programs disagree about where they lead.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        let is_one =
            !matches!(name, "" | "@") && !name.contains([',', ';', '*']) && name.trim() == name;
        is_one && (!name.contains('@') || name.starts_with('@') || address(name).is_some())
    }

    /// What this reader may read; ⊥ for one that is not known.
    fn may_read(&self, name: &str) -> Label {
        let name = canonical(name);
        let own = self.names.get(&*name).cloned().unwrap_or_default();
        let domain = address(&name).and_then(|(_, domain)| self.domains.get(domain));
        domain.map_or_else(|| own.clone(), |all| own.join(all))
    }

    /// Everything that any reader may read.
    #[must_use]
    pub fn all(&self) -> Label {
        self.names.values().chain(self.domains.values()).collect()
    }

    /// The readers that may read text of this label, in words.
    pub(crate) fn of(&self, label: &Label) -> String {
        let may_read = |(_, own): &(&String, &Label)| label.flows_to(own);
        let names = self.names.iter().filter(may_read);
        let names = names.map(|(name, _)| name.clone());
        let domains = self.domains.iter().filter(may_read);
        let domains = domains.map(|(domain, _)| format!("@{domain}"));
        let all: Vec<String> = names.chain(domains).collect();
        let shown = all.iter().take(SHOWN).map(String::as_str);
        let shown = shown.collect::<Vec<_>>().join(", ");
        match all.len() {
            0 => "it may go to no recipient that the policy knows".to_owned(),
            count if count > SHOWN => format!("it may go to {shown} and {} more", count - SHOWN),
            _ => format!("it may go to {shown}"),
        }
    }
}

impl Audience {
    /// What all recipients of a call may read; ⊥ if it names none, or one that cannot be read.
    pub(crate) fn limit(&self, call: &Call) -> Label {
        let mut recipients = Vec::new();
        for name in &self.of {
            let Some(value) = call.arguments.get(name).map(Labeled::reveal_tcb) else {
                continue;
            };
            match recipients_in(value) {
                Some(named) => recipients.extend(named),
                None => return Label::bottom(),
            }
        }
        let labels = recipients.iter().map(|name| self.readers.may_read(name));
        labels
            .reduce(|all, one| all.meet(&one))
            .unwrap_or(Label::bottom())
    }
}

/// The recipients that a value names: a text with commas or semicolons between them, or a list of such texts. `None` for
/// another value.
fn recipients_in(json: &str) -> Option<Vec<String>> {
    let split = |text: &str| {
        let names = text.split([',', ';']).map(str::trim);
        let names = names.filter(|name| !name.is_empty());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    match serde_json::from_str(json).ok()? {
        Value::Null => Some(Vec::new()),
        Value::String(text) => Some(split(&text)),
        Value::Array(items) => {
            let names = items.iter().map(|item| item.as_str().map(split));
            let names: Option<Vec<_>> = names.collect();
            Some(names?.into_iter().flatten().collect())
        }
        _ => None,
    }
}

/// The local part and the domain of a plain address. One with a display name, a comment, quotes or a route (`%`, `!`) is
/// none: programs disagree about where such a mail goes.
fn address(name: &str) -> Option<(&str, &str)> {
    let (local, domain) = name.split_once('@')?;
    let is_atom = |c: char| c.is_alphanumeric() || "#$&'*+-/=?^_`{|}~.".contains(c);
    let is_host = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let is_plain = !local.is_empty() && !domain.is_empty();
    (is_plain && local.chars().all(is_atom) && domain.chars().all(is_host))
        .then_some((local, domain))
}

/// A name as it is compared: of an address the domain in small letters. The local part is the business of the receiving
/// server: `Ann@` and `ann+x@` may be other people than `ann@`.
fn canonical(name: &str) -> Cow<'_, str> {
    match address(name) {
        Some((local, domain)) => format!("{local}@{}", domain.to_ascii_lowercase()).into(),
        None => name.into(),
    }
}
