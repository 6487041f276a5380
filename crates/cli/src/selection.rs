//! The choice among several apps that could answer: the question, and the meaning of a typed line.

use hub::trace::escape;
use server::{Selection, SelectionView};

use crate::keep_for::KeepFor;

/// Each app separately.
const EACH: &str = "each";

/// No app.
const NO: [&str; 3] = ["", "none", "no"];

/// Before an app's name: keep the choice.
const ALWAYS: &str = "always ";

/// The question.
pub(crate) fn text(view: &SelectionView, keep_for: KeepFor) -> String {
    let apps = names(view);
    let (mut text, whenever) = match &view.serving {
        None => (
            format!(
                "| Several apps may be needed, and no group lets them share a conversation: {apps}.\n\
                 | Name one, or type \"{EACH}\" to ask each separately and combine the answers.\n"
            ),
            format!("a request may need {apps}"),
        ),
        Some(serving) => {
            let (asks, what) = (escape(&serving.asks), escape(&serving.functionality));
            (
                format!(
                    "| {asks} asks for {what}, and several apps serve it: {apps}.\n\
                     | Name the one to use in this session, for every app that asks.\n"
                ),
                format!("an app asks for {what}"),
            )
        }
    };
    if view.can_keep {
        text += &format!(
            "| \"{ALWAYS}APP\" uses that app whenever {whenever}, {keep_for} (`sluice permissions`).\n"
        );
    }
    text
}

/// The line that asks.
pub(crate) fn prompt(view: &SelectionView) -> String {
    let always = match view.can_keep {
        true => format!(", {ALWAYS}APP"),
        false => String::new(),
    };
    let each = match view.serving {
        None => format!(", {EACH}"),
        Some(_) => String::new(),
    };
    format!("Type {}{each}{always} and Enter [none]: ", names(view))
}

/// The meaning of a line; `None` if it is unclear. The end of input and an empty line choose no app.
pub(crate) fn read(line: Option<&str>, view: &SelectionView) -> Option<Selection> {
    let app = |name: &str| view.apps.iter().find(|app| *app == name).cloned();
    let typed = line.unwrap_or_default().trim();
    // Before `each`, so that an app may be called so. A no stays a no.
    if let Some(app) = app(typed).filter(|_| !NO.contains(&typed)) {
        return Some(Selection::App { app, keep: false });
    }
    match typed {
        typed if NO.contains(&typed) => Some(Selection::None),
        EACH if view.serving.is_none() => Some(Selection::Each),
        _ => {
            let app = app(typed.strip_prefix(ALWAYS).filter(|_| view.can_keep)?.trim())?;
            Some(Selection::App { app, keep: true })
        }
    }
}

fn names(view: &SelectionView) -> String {
    escape(&view.apps.join(", "))
}

#[cfg(test)]
mod tests {
    use server::ServingView;

    use super::*;

    fn view(can_keep: bool) -> SelectionView {
        let apps = ["metro", "Quick"].map(str::to_owned).to_vec();
        SelectionView {
            apps,
            serving: None,
            can_keep,
        }
    }

    fn app(app: &str, keep: bool) -> Option<Selection> {
        let app = app.to_owned();
        Some(Selection::App { app, keep })
    }

    #[test]
    fn only_what_was_offered_is_a_choice() {
        for (line, expected) in [
            (Some("metro\n"), app("metro", false)),
            (Some(" Quick \r"), app("Quick", false)),
            (Some("always metro\n"), app("metro", true)),
            (Some("each\n"), Some(Selection::Each)),
            (Some("\n"), Some(Selection::None)),
            (Some("none"), Some(Selection::None)),
            (None, Some(Selection::None)),
            (Some("met"), None),
            (Some("always"), None),
            (Some("always mail"), None),
            (Some("alwaysmetro"), None),
            (Some("metro, Quick"), None),
        ] {
            assert_eq!(read(line, &view(true)), expected, "{line:?}");
        }
        assert_eq!(read(Some("always metro"), &view(false)), None);
        let mut named_no = view(true);
        named_no.apps.push("no".to_owned());
        assert_eq!(read(Some("no"), &named_no), Some(Selection::None));
    }

    #[test]
    fn of_apps_that_serve_another_one_is_chosen() {
        let view = SelectionView {
            serving: Some(ServingView {
                asks: "rider".to_owned(),
                functionality: "fare\n| Type".to_owned(),
            }),
            ..view(true)
        };
        let shown = text(&view, KeepFor::default());
        assert!(shown.starts_with(
            "| rider asks for fare\\n| Type, and several apps serve it: metro, Quick.\n"
        ));
        let kept = "\"always APP\" uses that app whenever an app asks for fare";
        assert!(shown.contains(kept) && !shown.contains(EACH), "{shown}");
        assert_eq!(
            prompt(&view),
            "Type metro, Quick, always APP and Enter [none]: "
        );
        assert_eq!(read(Some("each"), &view), None);
        assert_eq!(read(Some("always Quick"), &view), app("Quick", true));
    }

    #[test]
    fn the_question_says_what_would_be_kept() {
        let kept = "\"always APP\" uses that app whenever a request may need metro, Quick, for 7 days, or until you revoke it";
        let lines = text(&view(true), "7d".parse().unwrap());
        assert!(lines.contains(kept), "{lines}");
        assert!(lines.lines().all(|line| line.starts_with("| ")), "{lines}");
        let without = text(&view(false), KeepFor::default()) + &prompt(&view(false));
        assert!(!without.contains("always"), "{without}");
    }
}
