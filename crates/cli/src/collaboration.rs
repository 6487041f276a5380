//! What apps may do together, in words: the same in a question and in the list of permissions.

use hub::trace::escape;
use ifc::Direction;

/// What one app may do with another, after its own name: "ask mail for dates", "take dates from mail".
pub(crate) fn may(serves: &str, functionality: &str, direction: Direction) -> String {
    let (serves, functionality) = (escape(serves), escape(functionality));
    match direction {
        Direction::Asking => format!("ask {serves} for {functionality}"),
        Direction::Answering => format!("take {functionality} from {serves}"),
    }
}

/// The taints of what may flow, in words.
pub(crate) fn with(taints: &[String]) -> String {
    match taints.is_empty() {
        true => "with nothing untrusted or secret".to_owned(),
        false => format!("with {}", escape(&taints.join(", "))),
    }
}
