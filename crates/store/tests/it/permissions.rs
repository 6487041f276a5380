//! Permissions: a model that they are compared with, and each way in which one ends.

use std::path::{Path, PathBuf};

use ifc::{Bounds, Direction, Effect, Label, Lattice, Order};
use proptest::prelude::*;
use store::{
    Action, App, Apps, Domain, Grant, Identity, Name, PermissionError, PermissionId, Permissions,
    ReversibleTool, Standing, Time,
};
use tempfile::TempDir;

const TAINTS: [&str; 3] = ["untrusted:mail", "untrusted:web", "secret"];

fn lattice() -> Lattice {
    let apps = Order::Categories(vec!["mail".to_owned(), "web".to_owned()]);
    Lattice::new(&apps, &Order::TwoPoint).unwrap()
}

fn label(names: &[&str]) -> Label {
    lattice().labels(names.iter().copied()).unwrap()
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn app(app: &str, identity: u8) -> App {
    App {
        name: name(app),
        identity: Identity::from_digest([identity; 32]),
    }
}

fn tool(app: App, tool: &str) -> Action {
    let tool = ReversibleTool::new(name(tool), Effect::Write).unwrap();
    Action::Tool {
        app,
        tool,
        definition: Identity::from_digest([5; 32]),
        arguments: Bounds::default(),
    }
}

fn with(action: Action, bounds: &str) -> Action {
    match action {
        Action::Tool {
            app,
            tool,
            definition,
            ..
        } => Action::Tool {
            app,
            tool,
            definition,
            arguments: Bounds::new(bounds.to_owned(), false),
        },
        other => other,
    }
}

/// One action of each kind, and others that differ from one of them in one field.
fn actions() -> Vec<Action> {
    let collaboration = |from, to, functionality: &str, direction| Action::Collaboration {
        from,
        to,
        functionality: name(functionality),
        direction,
    };
    let (mail, calendar) = (app("mail", 1), app("calendar", 2));
    let egress = |app: &App, domain| Action::Egress {
        app: app.clone(),
        domain: Domain::new(domain).unwrap(),
    };
    let selection = |functionality, app: &App| Action::Selection {
        functionality: name(functionality),
        app: app.clone(),
    };
    let dates = |direction| collaboration(mail.clone(), calendar.clone(), "dates", direction);
    vec![
        selection("dates", &mail),
        selection("dates", &calendar),
        selection("rides", &mail),
        dates(Direction::Asking),
        dates(Direction::Answering),
        collaboration(calendar.clone(), mail.clone(), "dates", Direction::Asking),
        collaboration(mail.clone(), calendar.clone(), "rides", Direction::Asking),
        collaboration(app("mail", 9), calendar.clone(), "dates", Direction::Asking),
        collaboration(mail.clone(), app("calendar", 9), "dates", Direction::Asking),
        egress(&mail, "dates"),
        egress(&mail, "example.com"),
        egress(&mail, "sub.example.com"),
        tool(mail.clone(), "dates"),
        tool(mail.clone(), "example.com"),
        with(tool(mail.clone(), "dates"), r#"{"id":1}"#),
        with(tool(mail.clone(), "dates"), r#"{"id":"1"}"#),
        with(tool(mail, "dates"), r#"{"id":1,"to":null}"#),
        tool(app("mail", 9), "dates"),
    ]
}

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store/permissions.db");
    (folder, path)
}

fn open(path: &Path) -> Permissions {
    Permissions::open(path, lattice()).unwrap()
}

fn at(millis: i64) -> Time {
    Time::from_millis(millis)
}

fn always(action: Action, limit: Label) -> Grant {
    Grant {
        action,
        limit,
        expires: None,
        scripts: false,
    }
}

fn find(permissions: &Permissions, action: &Action, now: i64) -> Option<PermissionId> {
    permissions
        .find(action, &label(&[]), at(now), false)
        .unwrap()
}

#[test]
fn a_permission_covers_its_action_and_no_other() {
    for granted in actions() {
        let (_folder, path) = place();
        let id = open(&path)
            .grant(&always(granted.clone(), label(&[])), at(0))
            .unwrap();
        // Read back from the file.
        let permissions = open(&path);
        for action in actions() {
            let found = find(&permissions, &action, 1);
            assert_eq!(
                found,
                (action == granted).then_some(id),
                "{granted:?} for {action:?}"
            );
        }
    }
}

#[test]
fn a_permission_covers_labels_below_its_taints_only() {
    let (_folder, path) = place();
    let action = actions().remove(0);
    let limit = label(&["untrusted:mail", "secret"]);
    open(&path)
        .grant(&always(action.clone(), limit), at(0))
        .unwrap();
    let permissions = open(&path);
    for (taints, covered) in [
        (&[][..], true),
        (&["untrusted:mail"], true),
        (&["secret", "untrusted:mail"], true),
        (&["untrusted:web"], false),
        (&["untrusted:mail", "untrusted:web", "secret"], false),
        (&["any"], false),
    ] {
        let found = permissions
            .find(&action, &label(taints), at(1), false)
            .unwrap();
        assert_eq!(found.is_some(), covered, "{taints:?}");
    }
}

#[test]
fn unknown_and_expired_limits_are_refused() {
    let (_folder, path) = place();
    let permissions = open(&path);
    let action = actions().remove(0);
    let refused = permissions.grant(&always(action.clone(), Label::top()), at(0));
    assert!(matches!(refused, Err(PermissionError::Unlimited)));
    let over = Grant {
        expires: Some(at(5)),
        ..always(action.clone(), label(&[]))
    };
    let refused = permissions.grant(&over, at(5));
    assert!(matches!(refused, Err(PermissionError::AlreadyExpired)));
    assert_eq!(find(&permissions, &action, 4), None);
}

#[test]
fn a_revocation_stops_the_next_look_of_each_process() {
    let (_folder, path) = place();
    let (one, other) = (open(&path), open(&path));
    let action = actions().remove(0);
    for now in 1..50 {
        let id = one
            .grant(&always(action.clone(), label(&[])), at(now))
            .unwrap();
        assert_eq!(find(&other, &action, now), Some(id));
        assert!(one.revoke(id).unwrap());
        assert_eq!(find(&other, &action, now), None);
        assert!(!other.revoke(id).unwrap());
        // And not by our own hand alone.
        let id = other
            .grant(&always(action.clone(), label(&[])), at(now))
            .unwrap();
        assert_eq!(find(&one, &action, now), Some(id));
        let sqlite = rusqlite::Connection::open(&path).unwrap();
        sqlite.execute("DELETE FROM permission", []).unwrap();
        assert_eq!(find(&one, &action, now), None);
        assert_eq!(find(&other, &action, now), None);
    }
}

#[test]
fn a_permission_given_again_has_no_double() {
    let (_folder, path) = place();
    let permissions = open(&path);
    let action = actions().remove(0);
    let grant = always(action.clone(), label(&["secret"]));
    let first = permissions.grant(&grant, at(0)).unwrap();
    let second = permissions.grant(&grant, at(1)).unwrap();
    assert_eq!(find(&permissions, &action, 2), Some(second));
    assert!(!permissions.revoke(first).unwrap());
    assert!(permissions.revoke(second).unwrap());
    assert_eq!(find(&permissions, &action, 2), None);
}

#[test]
fn the_list_says_which_count() {
    let (_folder, path) = place();
    let permissions = open(&path);
    let grants = [
        always(tool(app("mail", 1), "draft"), label(&[])),
        Grant {
            expires: Some(at(50)),
            ..always(tool(app("mail", 1), "list"), label(&[]))
        },
        always(actions().remove(3), label(&["secret"])),
        always(tool(app("gone", 3), "x"), label(&[])),
    ];
    for (time, grant) in (0..).zip(&grants) {
        permissions.grant(grant, at(time)).unwrap();
    }
    let apps = |mail| -> Apps {
        let apps = [app("mail", mail), app("calendar", 2)];
        apps.map(|app| (app.name, app.identity))
            .into_iter()
            .collect()
    };
    let standings = |permissions: &Permissions, mail, now| {
        let listed = permissions.list(&apps(mail), at(now)).unwrap();
        listed
            .into_iter()
            .map(|kept| kept.standing)
            .collect::<Vec<_>>()
    };
    let changed = |app| Standing::AppsChanged(vec![name(app)]);
    use Standing::{Expired, NotYet, TaintsChanged, Valid};
    let gone = changed("gone");
    assert_eq!(
        standings(&permissions, 1, 49),
        [Valid, Valid, Valid, gone.clone()]
    );
    assert_eq!(
        standings(&permissions, 1, 50),
        [Valid, Expired, Valid, gone.clone()]
    );
    assert_eq!(standings(&permissions, 1, -1)[0], NotYet);
    let mail = changed("mail");
    assert_eq!(
        standings(&permissions, 9, 9),
        [mail.clone(), mail.clone(), mail, gone.clone()]
    );
    // The configuration gives another meaning to what the user agreed to.
    let levels = Order::Levels(["public", "team", "secret"].map(str::to_owned).to_vec());
    let other = Lattice::new(&Order::TwoPoint, &levels).unwrap();
    let secret = other.label("secret").unwrap();
    let changed = Permissions::open(&path, other).unwrap();
    assert_eq!(
        standings(&changed, 1, 9),
        [Valid, Valid, TaintsChanged, gone]
    );
    let found = changed.find(&actions()[3], &secret, at(9), false).unwrap();
    assert_eq!(found, None);
}

#[test]
fn a_damaged_permission_allows_nothing() {
    let (_folder, path) = place();
    let permissions = open(&path);
    let action = actions().remove(11);
    let grant = always(action.clone(), label(&[]));
    let sqlite = rusqlite::Connection::open(&path).unwrap();
    for damage in ["object = '*.example.com'", "taints = 'not a list'"] {
        let id = permissions.grant(&grant, at(0)).unwrap();
        let damage = format!("UPDATE permission SET {damage}");
        sqlite.execute(&damage, []).unwrap();
        let found = permissions.find(&action, &label(&[]), at(1), false);
        assert!(!matches!(found, Ok(Some(_))), "{damage}");
        let listed = permissions.list(&Apps::new(), at(1));
        assert!(
            matches!(listed, Err(PermissionError::Unreadable { id: which, .. }) if which == id)
        );
        assert_eq!(permissions.ids().unwrap(), [id]);
        assert!(permissions.revoke(id).unwrap());
    }
    assert_eq!(find(&permissions, &action, 1), None);
    // The file takes no kind but ours.
    let other = sqlite.execute(
        "INSERT INTO permission (id, kind, object, app, identity, taints, granted) VALUES (?1, 'irreversible', 'x', 'y', ?2, '[]', 0)",
        ([1_u8; 16], [1_u8; 32]),
    );
    assert!(other.is_err());
}

/// A permission for scripts counts everywhere, and another one at a terminal only.
#[test]
fn only_a_permission_for_scripts_counts_without_a_terminal() {
    let (_folder, path) = place();
    let permissions = open(&path);
    let action = actions().remove(0);
    let look = |scripts| permissions.find(&action, &label(&[]), at(1), scripts);
    let first = permissions.grant(&always(action.clone(), label(&[])), at(0));
    let first = first.unwrap();
    assert_eq!(
        (look(false).unwrap(), look(true).unwrap()),
        (Some(first), None)
    );
    let grant = Grant {
        scripts: true,
        ..always(action.clone(), label(&[]))
    };
    let second = permissions.grant(&grant, at(0)).unwrap();
    assert_eq!(
        (look(false).unwrap(), look(true).unwrap()),
        (Some(second), Some(second))
    );
    assert_eq!(
        permissions.ids().unwrap(),
        [second],
        "in place of the first"
    );
}

/// A file of an earlier version: what covered any arguments of a tool is gone, and the rest stays.
#[test]
fn permissions_for_any_arguments_are_dropped() {
    for version in [1, 2] {
        let (_folder, path) = place();
        let (selection, call) = (actions().remove(0), actions().remove(12));
        for action in [&selection, &call] {
            let grant = always(action.clone(), label(&[]));
            open(&path).grant(&grant, at(0)).unwrap();
        }
        let sqlite = rusqlite::Connection::open(&path).unwrap();
        sqlite
            .execute_batch(&format!(
                "ALTER TABLE permission DROP COLUMN definition;
                 ALTER TABLE permission DROP COLUMN arguments;
                 ALTER TABLE permission DROP COLUMN folders;
                 ALTER TABLE permission DROP COLUMN scripts;
                 PRAGMA user_version = {version};"
            ))
            .unwrap();
        let permissions = open(&path);
        assert_eq!(permissions.ids().unwrap().len(), 1, "version {version}");
        assert!(find(&permissions, &selection, 1).is_some());
        assert!(find(&permissions, &call, 1).is_none());
        // And it takes new ones.
        permissions
            .grant(&always(call.clone(), label(&[])), at(1))
            .unwrap();
        assert!(find(&permissions, &call, 1).is_some());
    }
}

/// Revoked and expired permissions and doubles leave the log too.
#[test]
fn removed_permissions_leave_nothing_in_the_log() {
    let (_folder, path) = place();
    let permissions = open(&path);
    let action = actions().remove(0);
    let log = || {
        std::fs::metadata(path.with_extension("db-wal"))
            .unwrap()
            .len()
    };
    let grant = |expires: Option<i64>| Grant {
        expires: expires.map(at),
        ..always(action.clone(), label(&[]))
    };
    permissions.grant(&grant(None), at(1)).unwrap();
    assert!(log() > 0);
    for (expires, now) in [(Some(10), 2), (None, 20)] {
        permissions.grant(&grant(expires), at(now)).unwrap();
        assert_eq!(log(), 0);
    }
    let id = permissions.ids().unwrap().remove(0);
    assert!(permissions.revoke(id).unwrap() && !permissions.revoke(id).unwrap());
    assert_eq!(log(), 0);
}

/// A use of permissions.
#[derive(Debug, Clone)]
enum Use {
    Grant {
        action: usize,
        taints: [bool; 3],
        lasts: Option<i64>,
    },
    Find {
        action: usize,
        taints: [bool; 3],
    },
    Revoke(prop::sample::Index),
    Wait(i64),
    OpenAgain,
}

fn uses() -> impl Strategy<Value = Vec<Use>> {
    let action = 0..actions().len();
    let (grant, find) = (action.clone(), action);
    let one = prop_oneof![
        4 => (grant, any::<[bool; 3]>(), prop::option::of(1_i64..20))
            .prop_map(|(action, taints, lasts)| Use::Grant { action, taints, lasts }),
        8 => (find, any::<[bool; 3]>())
            .prop_map(|(action, taints)| Use::Find { action, taints }),
        2 => any::<prop::sample::Index>().prop_map(Use::Revoke),
        2 => (1_i64..12).prop_map(Use::Wait),
        1 => Just(Use::OpenAgain),
    ];
    prop::collection::vec(one, 1..40)
}

/// A permission of the model.
struct Modelled {
    id: PermissionId,
    action: usize,
    taints: [bool; 3],
    granted: i64,
    expires: Option<i64>,
}

fn taints(which: [bool; 3]) -> Label {
    let names = TAINTS.iter().zip(which).filter(|(_, has)| *has);
    label(&names.map(|(name, _)| *name).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Permissions are a list that is searched from its beginning to its end, whichever of two
    /// processes does what.
    #[test]
    fn permissions_are_a_list(uses in uses()) {
        let (_folder, path) = place();
        let (mut first, second) = (open(&path), open(&path));
        let actions = actions();
        let mut model: Vec<Modelled> = Vec::new();
        let mut now = 100;
        for (turn, one) in uses.into_iter().enumerate() {
            let file = if turn % 2 == 0 { &first } else { &second };
            match one {
                Use::Grant { action, taints: limit, lasts } => {
                    let grant = Grant {
                        action: actions[action].clone(),
                        limit: taints(limit),
                        expires: lasts.map(|lasts| at(now + lasts)),
                        scripts: false,
                    };
                    let id = file.grant(&grant, at(now)).unwrap();
                    model.retain(|old| (old.action, old.taints) != (action, limit));
                    let expires = lasts.map(|lasts| now + lasts);
                    model.push(Modelled { id, action, taints: limit, granted: now, expires });
                }
                Use::Find { action, taints: under } => {
                    let covers = |kept: &&Modelled| {
                        let below = under.iter().zip(kept.taints).all(|(has, may)| !has || may);
                        let in_time = kept.granted <= now && kept.expires.is_none_or(|end| now < end);
                        kept.action == action && below && in_time
                    };
                    let expected = model.iter().find(covers).map(|kept| kept.id);
                    for handle in [&first, &second] {
                        let found = handle.find(&actions[action], &taints(under), at(now), false).unwrap();
                        prop_assert_eq!(found, expected);
                    }
                }
                Use::Revoke(index) if !model.is_empty() => {
                    let kept = model.remove(index.index(model.len()));
                    // A grant drops what has expired.
                    let revoked = file.revoke(kept.id).unwrap();
                    prop_assert!(revoked || kept.expires.is_some_and(|end| end <= now));
                }
                Use::Wait(time) => now += time,
                Use::OpenAgain => first = open(&path),
                Use::Revoke(_) => {}
            }
        }
        let listed = first.list(&Apps::new(), at(now)).unwrap();
        for kept in &listed {
            prop_assert!(model.iter().any(|modelled| modelled.id == kept.id));
        }
        let mut lasting = model.iter().filter(|kept| kept.expires.is_none_or(|end| now < end));
        prop_assert!(lasting.all(|kept| listed.iter().any(|found| found.id == kept.id)));
    }
}
