//! The twins of labels, labelled text, calls and what belongs to a step.

use ifc::{Approval, ArgumentPath, Arguments, Call, Label, Labeled, Lattice, Unread};
use serde::{Deserialize, Deserializer, Serialize};

use super::unreadable;
use crate::Refinement;

/// The twin of a type, as it is stored.
pub trait Stored<T>: Sized {
    /// The twin of a value.
    fn write(value: &T, lattice: &Lattice) -> Self;

    /// The value.
    ///
    /// # Errors
    /// The twin does not have the form of one.
    fn read(self, lattice: &Lattice) -> Result<T, String>;
}

/// The twins of these values.
pub fn write_all<'a, S: Stored<T>, T: 'a>(
    values: impl IntoIterator<Item = &'a T>,
    lattice: &Lattice,
) -> Vec<S> {
    let values = values.into_iter();
    values.map(|value| S::write(value, lattice)).collect()
}

/// The values of these twins.
///
/// # Errors
/// One of them cannot be read.
pub fn read_all<S: Stored<T>, T>(stored: Vec<S>, lattice: &Lattice) -> Result<Vec<T>, String> {
    let stored = stored.into_iter();
    stored.map(|stored| stored.read(lattice)).collect()
}

/// Reads a member that may be null and must not be missing.
///
/// # Errors
/// It has another form.
pub fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Option::deserialize(from)
}

/// A label by the names of its taints: `untrusted:mail`, `form:secret:card` for one of a checked form,
/// `trust:NUMBER:untrusted:mail` for one that an endorsement has, and `any` for ⊤. Each taint of a chain has its own name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredLabel(Vec<String>);

/// The name of ⊤.
const ANY: &str = "any";
/// Before the number of an endorsement.
const TRUST: &str = "trust:";

impl StoredLabel {
    /// The label if each of its names is known, and it is not ⊤. For what allows something by it.
    #[must_use]
    pub fn known(&self, lattice: &Lattice) -> Option<Label> {
        let names = self.0.iter();
        names.map(|name| named(name, lattice)).collect()
    }
}

impl Stored<Label> for StoredLabel {
    fn write(label: &Label, lattice: &Lattice) -> Self {
        Self(names(label, lattice).unwrap_or_else(|| vec![ANY.to_owned()]))
    }

    fn read(self, lattice: &Lattice) -> Result<Label, String> {
        Ok(self.known(lattice).unwrap_or(Label::top()))
    }
}

fn names(label: &Label, lattice: &Lattice) -> Option<Vec<String>> {
    let plain = lattice.taint_names(label.plain())?.into_iter();
    let mut names: Vec<String> = plain.map(str::to_owned).collect();
    for (number, taints) in label.endorsements() {
        let before = match *number {
            Label::FORM => Lattice::FORM.to_owned(),
            number => format!("{TRUST}{number:016x}:"),
        };
        let endorsed = lattice.taint_names(taints)?.into_iter();
        names.extend(endorsed.map(|name| format!("{before}{name}")));
    }
    Some(names)
}

fn named(name: &str, lattice: &Lattice) -> Option<Label> {
    if let Some(formed) = name.strip_prefix(Lattice::FORM) {
        return Some(lattice.taint(formed)?.formed());
    }
    let Some(trusted) = name.strip_prefix(TRUST) else {
        return lattice.taint(name);
    };
    let (number, name) = trusted.split_once(':')?;
    let number = u64::from_str_radix(number, 16).ok()?;
    let taint = lattice.taint(name)?;
    (number != Label::FORM).then(|| taint.endorse_tcb(&taint, number))
}

/// A text, and its regions: begin, end, label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredText {
    text: String,
    regions: Vec<(usize, usize, StoredLabel)>,
}

impl Stored<Labeled> for StoredText {
    fn write(text: &Labeled, lattice: &Lattice) -> Self {
        let regions = text.regions().map(|(span, label)| {
            let label = StoredLabel::write(label, lattice);
            (span.start, span.end, label)
        });
        Self {
            regions: regions.collect(),
            text: text.reveal_tcb().to_owned(),
        }
    }

    fn read(self, lattice: &Lattice) -> Result<Labeled, String> {
        let regions = self.regions.into_iter().map(|(start, end, label)| {
            // A region without taints is no region.
            match label.read(lattice)? {
                label if label.is_bottom() => Err(unreadable("a region has no label")),
                label => Ok((start..end, label)),
            }
        });
        let regions = regions.collect::<Result<Vec<_>, String>>()?;
        let text = Labeled::with_regions_tcb(self.text, regions);
        text.ok_or_else(|| unreadable("the regions of a text do not fit it"))
    }
}

/// A call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredCall {
    app: String,
    tool: String,
    arguments: StoredText,
    label: StoredLabel,
}

impl Stored<Call> for StoredCall {
    fn write(call: &Call, lattice: &Lattice) -> Self {
        Self {
            app: call.app.clone(),
            tool: call.tool.clone(),
            arguments: StoredText::write(&call.arguments.to_labeled(), lattice),
            label: StoredLabel::write(&call.label, lattice),
        }
    }

    fn read(self, lattice: &Lattice) -> Result<Call, String> {
        let arguments = Arguments::parse_labeled(&self.arguments.read(lattice)?);
        Ok(Call {
            app: self.app,
            tool: self.tool,
            arguments: arguments.map_err(unreadable)?,
            label: self.label.read(lattice)?,
        })
    }
}

/// What the user's yes to a call endorsed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredApproval {
    call: StoredCall,
    data: Vec<String>,
    taints: StoredLabel,
}

impl StoredApproval {
    /// The twin of an approval.
    #[must_use]
    pub fn write(approval: &Approval, lattice: &Lattice) -> Self {
        Self {
            call: StoredCall::write(approval.call(), lattice),
            data: paths(approval.data()),
            taints: StoredLabel::write(approval.taints(), lattice),
        }
    }

    /// The approval; `None` if the lattice has one of its taints no more.
    ///
    /// # Errors
    /// It has another form.
    pub fn read(self, lattice: &Lattice) -> Result<Option<Approval>, String> {
        let (call, data) = (self.call.read(lattice)?, read_paths(&self.data)?);
        let taints = self.taints.known(lattice);
        Ok(taints.map(|taints| Approval::given_tcb(call, data, taints)))
    }
}

/// What a server gave with a step and needs back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredUnread {
    provider: String,
    members: String,
    calls: Vec<(Option<String>, String)>,
}

impl Stored<Unread> for StoredUnread {
    fn write(unread: &Unread, _: &Lattice) -> Self {
        let Unread {
            provider,
            members,
            calls,
        } = unread.clone();
        Self {
            provider,
            members,
            calls,
        }
    }

    fn read(self, _: &Lattice) -> Result<Unread, String> {
        Ok(Unread {
            provider: self.provider,
            members: self.members,
            calls: self.calls,
        })
    }
}

/// A call that came out again from less.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredRefinement {
    at: usize,
    call: usize,
    after: usize,
    label: StoredLabel,
    data: Vec<String>,
}

impl Stored<Refinement> for StoredRefinement {
    fn write(made: &Refinement, lattice: &Lattice) -> Self {
        Self {
            at: made.at,
            call: made.call,
            after: made.after,
            label: StoredLabel::write(&made.label, lattice),
            data: paths(&made.data),
        }
    }

    fn read(self, lattice: &Lattice) -> Result<Refinement, String> {
        Ok(Refinement {
            at: self.at,
            call: self.call,
            after: self.after,
            label: self.label.read(lattice)?,
            data: read_paths(&self.data)?,
        })
    }
}

fn paths<'a>(paths: impl IntoIterator<Item = &'a ArgumentPath>) -> Vec<String> {
    paths.into_iter().map(ToString::to_string).collect()
}

fn read_paths<T: FromIterator<ArgumentPath>>(paths: &[String]) -> Result<T, String> {
    let paths = paths.iter().map(|path| path.parse());
    paths.collect::<Result<T, _>>().map_err(unreadable)
}
