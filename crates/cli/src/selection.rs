//! The choice among several apps that could do what was asked: what is shown, and what a line means.

use hub::trace::escape;
use server::{Selection, SelectionView};

use crate::keep_for::KeepFor;

/// Each app by itself.
const EACH: &str = "each";

/// Before an app's name: keep the choice.
const ALWAYS: &str = "always ";

/// What there is to choose, in the lines of a question.
pub(crate) fn text(view: &SelectionView, keep_for: KeepFor) -> String {
    let apps = names(view);
    let (mut text, whenever) = match &view.serving {
        None => (
            format!(
                "| Your request may need several apps, and no group lets them meet: {apps}.\n\
                 | Name the one that shall do it, or \"{EACH}\": then each is asked by itself, and what they say is put together.\n"
            ),
            format!("a request may need {apps}"),
        ),
        Some(serving) => {
            let (asks, what) = (escape(&serving.asks), escape(&serving.functionality));
            (
                format!(
                    "| {asks} asks for {what}, and several apps serve it: {apps}.\n\
                     | Name the one that shall, for this session and whichever app asks.\n"
                ),
                format!("an app asks for {what}"),
            )
        }
    };
    if view.can_keep {
        text += &format!(
            "| \"{ALWAYS}APP\" takes that app whenever {whenever}, {keep_for} (sluice permissions).\n"
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

/// What a line means; `None` if nobody knows. The end of input and an empty line are none of them.
pub(crate) fn read(line: Option<&str>, view: &SelectionView) -> Option<Selection> {
    let app = |name: &str| view.apps.iter().find(|app| *app == name).cloned();
    let typed = line.unwrap_or_default().trim();
    // An app's own name is the app, whatever else it means.
    if let Some(app) = app(typed) {
        return Some(Selection::App { app, keep: false });
    }
    match typed {
        "" | "none" | "no" => Some(Selection::None),
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
        let kept = "\"always APP\" takes that app whenever an app asks for fare";
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
        let keep_for = "7d".parse().unwrap();
        let kept = "\"always APP\" takes that app whenever a request may need metro, Quick, for 7 days, or until you revoke it (sluice permissions).";
        assert!(text(&view(true), keep_for).contains(kept));
        assert!(!text(&view(false), keep_for).contains("always"));
        assert!(!prompt(&view(false)).contains("always"));
        let lines = text(&view(true), keep_for);
        assert!(lines.lines().all(|line| line.starts_with("| ")), "{lines}");
    }
}
