//! Which permissions count, and for what.

use ifc::Direction;
use server::Selections;

use super::*;

const QUERY: ChosenFor<'_> = ChosenFor::Query;

/// The permissions of one file, for apps of which `metro` has this identity.
fn permitted(folder: &std::path::Path, metro: u8, keep_for: KeepFor) -> Permitted {
    // The store creates the folder with mode 0700.
    let path = folder.join("state/permissions.sqlite");
    let identity = |digest| Identity::from_digest([digest; 32]);
    let name = |name: &str| Name::new(name).unwrap();
    Permitted {
        permissions: Permissions::open(&path, Lattice::four_point()).unwrap(),
        apps: Apps::from([
            (name("metro"), identity(metro)),
            (name("quick"), identity(2)),
            (name("night"), identity(3)),
        ]),
        keep_for,
        attended: true,
        tools: Mutex::default(),
    }
}

fn among<const N: usize>(apps: [&str; N]) -> Vec<String> {
    apps.map(str::to_owned).to_vec()
}

#[test]
fn a_choice_is_for_these_apps_and_this_identity() {
    let folder = tempfile::tempdir().unwrap();
    let first = permitted(folder.path(), 1, KeepFor::default());
    let both = among(["quick", "metro"]);
    assert_eq!(first.find(QUERY, &both), None);
    let id = first.keep(QUERY, &both, "metro").unwrap();
    let found = Some(("metro".to_owned(), id));
    // In later sessions too, in any order of the names.
    let later = permitted(folder.path(), 1, KeepFor::default());
    assert_eq!(later.find(QUERY, &among(["metro", "quick"])), found);
    for others in [among(["metro"]), among(["metro", "quick", "mail"])] {
        assert_eq!(later.find(QUERY, &others), None, "{others:?}");
    }
    let changed = permitted(folder.path(), 9, KeepFor::default());
    assert_eq!(changed.find(QUERY, &both), None);
    assert!(later.keep(QUERY, &both, "mail").is_err());
    assert_eq!(later.find(QUERY, &both), found);
}

#[test]
fn another_choice_takes_the_place_of_the_first_and_can_be_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let permitted = permitted(folder.path(), 1, "7d".parse().unwrap());
    let both = among(["metro", "quick"]);
    permitted.keep(QUERY, &both, "metro").unwrap();
    permitted.keep(QUERY, &both, "quick").unwrap();
    let all = permitted.permissions.list(&permitted.apps, now()).unwrap();
    let [kept] = all.as_slice() else {
        panic!("{all:?}");
    };
    let days = (kept.expires.unwrap().millis() - kept.granted.millis()) / 86_400_000;
    assert!((6..=7).contains(&days), "{days} days");
    assert_eq!(permitted.find(QUERY, &both).unwrap().0, "quick");
    permitted.permissions.revoke(kept.id).unwrap();
    assert_eq!(permitted.find(QUERY, &both), None);
}

#[test]
fn a_choice_for_a_functionality_is_for_no_other_and_for_no_query() {
    let folder = tempfile::tempdir().unwrap();
    let permitted = permitted(folder.path(), 1, KeepFor::default());
    let (both, rides) = (among(["metro", "quick"]), ChosenFor::Functionality("rides"));
    let id = permitted.keep(rides, &both, "quick").unwrap();
    assert_eq!(permitted.find(rides, &both), Some(("quick".to_owned(), id)));
    for other in [QUERY, ChosenFor::Functionality("fares")] {
        assert_eq!(permitted.find(other, &both), None);
    }
    // Another app that serves it changes nothing; without the chosen app there is no choice.
    let three = among(["metro", "quick", "night"]);
    assert_eq!(permitted.find(rides, &three).unwrap().0, "quick");
    assert_eq!(permitted.find(rides, &among(["metro", "night"])), None);
}

#[test]
fn a_collaboration_is_of_these_apps_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let first = permitted(folder.path(), 1, KeepFor::default());
    let collaboration = |asks: &str, serves: &str, direction| ifc::Collaboration {
        asks: asks.to_owned(),
        serves: serves.to_owned(),
        functionality: "rides".to_owned(),
        direction,
    };
    let it = collaboration("metro", "quick", Direction::Answering);
    let untrusted = Lattice::four_point().label("untrusted").unwrap();
    let keep = |label| ifc::Permissions::keep(&first, Permissible::Collaboration(&it), label);
    let id = keep(&untrusted).unwrap();
    let found = |permitted: &Permitted, it: &ifc::Collaboration, label: &Label| {
        ifc::Permissions::find(permitted, Permissible::Collaboration(it), label)
    };
    let later = self::permitted(folder.path(), 1, KeepFor::default());
    assert_eq!(found(&later, &it, &untrusted), Some(id));
    assert_eq!(found(&later, &it, &Label::top()), None);
    for other in [
        collaboration("metro", "quick", Direction::Asking),
        collaboration("quick", "metro", Direction::Answering),
    ] {
        assert_eq!(found(&later, &other, &untrusted), None, "{other:?}");
    }
    let changed = self::permitted(folder.path(), 9, KeepFor::default());
    assert_eq!(found(&changed, &it, &untrusted), None);
    // An unknown label is never kept.
    assert!(keep(&Label::top()).is_err());
}

/// Permissions for the calls of a tool.
mod calls {
    use ifc::Permissions;

    use super::super::{Effect, Label, Permissible, Permitted, ToolDescription};
    use super::{KeepFor, permitted};

    fn tool(schema: &str, description: &str) -> ToolDescription {
        ToolDescription {
            name: "remove".to_owned(),
            description: description.to_owned(),
            input_schema: schema.to_owned(),
            hints: wire::Hints::default(),
        }
    }

    /// A call of the tool with the argument `id`.
    fn remove(app: &'static str, effect: Effect) -> Permissible<'static> {
        Permissible::Tool {
            app,
            tool: "remove",
            effect,
            arguments: ifc::Bounds::new(r#"{"id":7}"#.to_owned(), false),
        }
    }

    const SCHEMA: &str = r#"{"properties":{"id":{"type":"integer"}}}"#;

    /// A permitted session of the app `metro`, which lists this tool.
    fn with_tool(folder: &std::path::Path, tool: ToolDescription) -> Permitted {
        let permitted = permitted(folder, 1, KeepFor::default());
        permitted.note("metro", &[tool]);
        permitted
    }

    #[test]
    fn a_permission_for_calls_is_for_the_tool_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (none, write) = (Label::bottom(), Effect::Write);
        let first = with_tool(folder.path(), tool(SCHEMA, "Removes one."));
        let id = first.keep(remove("metro", write), &none).unwrap();
        let found = |it: &Permitted, app| it.find(remove(app, write), &none);
        let later = with_tool(folder.path(), tool(SCHEMA, "Removes one."));
        assert_eq!(found(&later, "metro"), Some(id));
        // The same name in another app.
        later.note("quick", &[tool(SCHEMA, "Removes one.")]);
        assert_eq!(found(&later, "quick"), None);
        // Another description or schema, a tool that is not listed, and one that is listed in two ways.
        let wider = SCHEMA.replace("integer", "string");
        for tool in [tool(SCHEMA, "Removes all."), tool(&wider, "Removes one.")] {
            let changed = with_tool(folder.path(), tool.clone());
            assert_eq!(found(&changed, "metro"), None);
            later.note("metro", &[tool]);
            assert!(!later.can_keep(remove("metro", write)));
            later.note("metro", &[self::tool(SCHEMA, "Removes one.")]);
            assert_eq!(found(&later, "metro"), None);
        }
        let unlisted = permitted(folder.path(), 1, KeepFor::default());
        assert_eq!(found(&unlisted, "metro"), None);
        assert!(unlisted.keep(remove("metro", write), &none).is_err());
    }

    #[test]
    fn an_argument_that_is_described_as_code_is_not_permitted_for_good() {
        let folder = tempfile::tempdir().unwrap();
        for (schema, expected) in [
            (SCHEMA.to_owned(), true),
            (
                SCHEMA.replace(r#"{"type""#, r#"{"description":"An SQL statement","type""#),
                false,
            ),
            (
                SCHEMA.replace(r#"{"type""#, r#"{"items":{"title":"Code to run"},"type""#),
                false,
            ),
            (
                SCHEMA.replace(r#"{"type""#, r#"{"description":"The decoder","type""#),
                true,
            ),
        ] {
            let permitted = with_tool(folder.path(), tool(&schema, ""));
            assert_eq!(
                permitted.can_keep(remove("metro", Effect::Write)),
                expected,
                "{schema}"
            );
            assert!(permitted.can_keep(remove("metro", Effect::Read)));
        }
    }

    #[test]
    fn without_a_terminal_only_permissions_for_scripts_count() {
        let folder = tempfile::tempdir().unwrap();
        let session = |attended, scripts| Permitted {
            attended,
            keep_for: KeepFor {
                scripts,
                ..KeepFor::default()
            },
            ..with_tool(folder.path(), tool(SCHEMA, ""))
        };
        let find = |attended, scripts| {
            let it = session(attended, scripts);
            it.find(remove("metro", Effect::Write), &Label::bottom())
        };
        let keep = |scripts| {
            let it = session(true, scripts);
            it.keep(remove("metro", Effect::Write), &Label::bottom())
                .unwrap()
        };
        let id = keep(false);
        assert_eq!(find(true, false), Some(id));
        assert_eq!(find(false, false), None);
        assert_eq!(find(true, true), None, "so that it can be given again");
        let id = keep(true);
        for (attended, scripts) in [(true, false), (false, false), (true, true)] {
            assert_eq!(find(attended, scripts), Some(id.clone()));
        }
    }
}
