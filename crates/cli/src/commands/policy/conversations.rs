//! The conversations of a recorded session: apps that were asked each by itself, apps that answered others, and the
//! clients of a proxy.

use hub::trace::{Flow, Message, escape};
use ifc::Stage;

use super::recorded::Recorded;

/// The decisions of one conversation.
pub(super) struct Group<'a> {
    /// Its name; `None` is the session's own.
    name: Option<&'a str>,
    /// Its decisions, in order.
    pub(super) decisions: Vec<&'a Recorded<'a>>,
    /// The numbers of the decisions in other conversations by which it was asked.
    pub(super) asked_by: Vec<usize>,
}

/// The conversations, in the order in which each first decided something.
pub(super) fn groups<'a>(decisions: &'a [Recorded<'a>]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for one in decisions {
        match groups
            .iter_mut()
            .find(|group| group.name == one.conversation)
        {
            Some(group) => group.decisions.push(one),
            None => groups.push(Group {
                name: one.conversation,
                decisions: vec![one],
                // Over all decisions: the question may stand in a conversation that comes later in the list.
                asked_by: decisions
                    .iter()
                    .filter(|other| asks(other, one.conversation))
                    .map(|other| other.number)
                    .collect(),
            }),
        }
    }
    groups
}

/// Whether a decision was about the request that a conversation serves: it is called `APP for APP`.
fn asks(one: &Recorded<'_>, name: Option<&str>) -> bool {
    let Flow::Message(Message {
        from, to, stage, ..
    }) = one.flow
    else {
        return false;
    };
    stage == Stage::Request.name() && name == Some(&format!("{to} for {from}"))
}

impl Group<'_> {
    /// Its name, and who asked it. A trace is a file that may come from anywhere.
    pub(super) fn heading(&self) -> String {
        let name = match self.name {
            Some(name) => format!("conversation {}", escape(name)),
            None => "the session's own conversation".to_owned(),
        };
        let numbers: Vec<String> = self.asked_by.iter().map(usize::to_string).collect();
        let asked = match numbers.as_slice() {
            [] => String::new(),
            [one] => format!(", asked by call {one}"),
            several => format!(", asked by calls {}", several.join(", ")),
        };
        format!("{name}{asked}\n")
    }
}
