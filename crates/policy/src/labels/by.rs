//! Who wrote a part of a result: a member beside it, or arguments of the call.

use ifc::{Arguments, Labeled, url_host};

use super::folder::Folder;

/// How a label rule tells who wrote the values that it selects.
///
/// The user can vouch for all text of a writer at once, so the name must be one that no stranger fills in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// A text beside the value. It counts only if it has no stranger's label, unless it is believed.
    Sibling {
        /// Its name.
        name: String,
        /// Whether the user's rules believe it although strangers can write it.
        believed: bool,
    },
    /// The host of the `https` URL that this argument is.
    Host(String),
    /// The folder of the path that this argument is.
    Folder(String),
    /// The values of these arguments.
    Arguments(Vec<String>),
}

impl By {
    /// The arguments that tell the writer.
    pub fn arguments(&self) -> &[String] {
        match self {
            Self::Sibling { .. } => &[],
            Self::Host(argument) | Self::Folder(argument) => std::slice::from_ref(argument),
            Self::Arguments(names) => names,
        }
    }

    /// How the writer is known.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Sibling { name, .. } => name.clone(),
            Self::Host(argument) => format!("host of {argument}"),
            Self::Folder(argument) => format!("folder of {argument}"),
            Self::Arguments(names) => names.join(", "),
        }
    }

    /// The name of the writer, if arguments of the call tell it.
    pub(super) fn of_call(&self, arguments: &Arguments) -> Option<String> {
        let text = |argument: &str| -> Option<String> {
            let value = arguments.get(argument).map(Labeled::reveal_tcb)?;
            serde_json::from_str(value).ok()
        };
        match self {
            Self::Sibling { .. } => None,
            // A dot at the end and capital letters make no other host.
            Self::Host(argument) => Some(
                url_host(&text(argument)?)?
                    .trim_end_matches('.')
                    .to_ascii_lowercase(),
            ),
            // A path with `..` or a link in its name has no folder that is known. Where a link leads is not seen.
            Self::Folder(argument) => {
                let path = text(argument)?;
                let file = Folder::new(&path)?;
                let (folder, _) = file.as_str().rsplit_once('/')?;
                Some(Folder::new(folder)?.as_str().to_owned())
            }
            Self::Arguments(names) => {
                let value = |name: &String| {
                    let value = arguments.get(name).map(Labeled::reveal_tcb);
                    Some(format!("{name} {}", value.filter(|it| *it != "null")?))
                };
                let values: Option<Vec<String>> = names.iter().map(value).collect();
                values.map(|values| values.join(", "))
            }
        }
    }
}
