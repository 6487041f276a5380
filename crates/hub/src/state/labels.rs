//! The twins of labels, labelled text, calls and what belongs to a step.

use ifc::{Approval, Arguments, Call, Label, Labeled, Lattice, Unread};
use serde::{Deserialize, Serialize};

use super::twin::{Stored, Word, unreadable};
use crate::{Refinement, twin};

/// A label by the names of its taints: `untrusted:mail`, `form:secret:card` for one of a checked form,
/// `trust:NUMBER:untrusted:mail` for one that an endorsement has, and `any` for ⊤. Each taint of a chain has its own name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredLabel(Vec<String>);

/// The name of ⊤.
const ANY: &str = "any";
/// Before the number of an endorsement.
const TRUST: &str = "trust:";

impl Stored<Label> for StoredLabel {
    fn write(label: &Label, lattice: &Lattice) -> Self {
        Self(names(label, lattice).unwrap_or_else(|| vec![ANY.to_owned()]))
    }

    fn read(self, lattice: &Lattice) -> Result<Label, String> {
        let known: Option<Label> = self.0.iter().map(|name| named(name, lattice)).collect();
        Ok(known.unwrap_or(Label::top()))
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

/// A text, and the spans and labels of its regions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredText {
    text: String,
    regions: Vec<((usize, usize), StoredLabel)>,
}

impl Stored<Labeled> for StoredText {
    fn write(text: &Labeled, lattice: &Lattice) -> Self {
        let regions = text.regions();
        let regions = regions.map(|(span, label)| {
            let span = (span.start, span.end);
            (span, StoredLabel::write(label, lattice))
        });
        Self {
            regions: regions.collect(),
            text: text.reveal_tcb().to_owned(),
        }
    }

    fn read(self, lattice: &Lattice) -> Result<Labeled, String> {
        let regions: Vec<(_, Label)> = self.regions.read(lattice)?;
        // A region without taints is no region.
        let are_labelled = regions.iter().all(|(_, label)| !label.is_bottom());
        let text = Labeled::with_regions_tcb(self.text, regions).filter(|_| are_labelled);
        text.ok_or_else(|| unreadable("the regions of a text do not fit it"))
    }
}

/// The twin of arguments: their text.
impl Stored<Arguments> for StoredText {
    fn write(arguments: &Arguments, lattice: &Lattice) -> Self {
        Self::write(&arguments.to_labeled(), lattice)
    }

    fn read(self, lattice: &Lattice) -> Result<Arguments, String> {
        let text: Labeled = self.read(lattice)?;
        Arguments::parse_labeled(&text).map_err(unreadable)
    }
}

twin! {
    pub StoredCall of Call {
        app: String,
        tool: String,
        arguments: StoredText,
        label: StoredLabel,
    }
}

twin! {
    pub StoredUnread of Unread {
        provider: String,
        members: String,
        calls: Vec<(Option<String>, String)>,
    }
}

twin! {
    pub StoredRefinement of Refinement {
        at: usize,
        call: usize,
        after: usize,
        label: StoredLabel,
        data: Vec<Word>,
    }
}

/// The twin of an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredApproval {
    call: StoredCall,
    data: Vec<Word>,
    taints: StoredLabel,
}

impl Stored<Approval> for StoredApproval {
    fn write(approval: &Approval, lattice: &Lattice) -> Self {
        Self {
            call: Stored::write(approval.call(), lattice),
            data: Stored::write(approval.data(), lattice),
            taints: Stored::write(approval.taints(), lattice),
        }
    }

    fn read(self, lattice: &Lattice) -> Result<Approval, String> {
        let (call, data) = (self.call.read(lattice)?, self.data.read(lattice)?);
        Ok(Approval::given_tcb(call, data, self.taints.read(lattice)?))
    }
}
