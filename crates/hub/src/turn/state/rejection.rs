//! Why a proposed call is none.

use std::fmt;

use ifc::ArgumentsError;

use crate::isc::Malformed;

/// Why a proposed call makes no sense. Of what a model wrote it quotes at most the name of an argument, and of what apps
/// say only names of tools that flow to the label of the call's step.
pub(crate) enum Rejection {
    /// No tool that was offered has this name.
    UnknownTool,
    /// These tools of several apps have this name, which was said without an app.
    SeveralTools(Vec<String>),
    /// The arguments are not one JSON object.
    Arguments(ArgumentsError),
    /// They are not what the user's rules say that the tool takes: why, in one line.
    Parameters(String),
    /// The request is not of the form that its functionality has.
    Request(Malformed),
    /// Nobody serves this functionality here.
    NoFunctionality,
    /// Whoever serves it waits for this very request.
    Circle,
    /// So many apps wait for each other already.
    TooFar(usize),
    /// The step has more calls than a step may have.
    TooMany(usize),
}

impl From<ArgumentsError> for Rejection {
    fn from(error: ArgumentsError) -> Self {
        Self::Arguments(error)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownTool => f.write_str("there is no such tool"),
            Self::SeveralTools(names) => write!(
                f,
                "several apps have a tool of this name; call one of them by its full name: {}",
                names.join(" or ")
            ),
            Self::Arguments(error) => error.fmt(f),
            Self::Parameters(why) => write!(f, "{why}; make the call again with correct arguments"),
            Self::Request(why) => write!(f, "the request is not of its form: {why}"),
            Self::NoFunctionality => f.write_str("no app serves this functionality"),
            Self::Circle => f.write_str("every app that serves it waits for this request"),
            Self::TooFar(hops) => write!(f, "{hops} apps wait for each other already"),
            Self::TooMany(limit) => write!(
                f,
                "too many calls in one step; make at most {limit} at a time"
            ),
        }
    }
}
