//! Permissions: a model that they are compared with, and each way in which one ends.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};

use ifc::{Direction, Effect, Label, Lattice, Order};
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
    Action::Tool { app, tool }
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
        tool(mail, "example.com"),
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
    }
}

fn find(permissions: &Permissions, action: &Action, now: i64) -> Option<PermissionId> {
    permissions.find(action, &label(&[]), at(now)).unwrap()
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
        let found = permissions.find(&action, &label(taints), at(1)).unwrap();
        assert_eq!(found.is_some(), covered, "{taints:?}");
    }
}

#[test]
fn what_is_unknown_or_over_cannot_be_granted() {
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
fn what_another_process_revokes_stops_the_very_next_look() {
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
fn the_list_says_what_has_become_of_each() {
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
    let found = changed.find(&actions()[3], &secret, at(9)).unwrap();
    assert_eq!(found, None);
}

#[test]
fn a_permission_that_cannot_be_read_allows_nothing() {
    let (_folder, path) = place();
    let permissions = open(&path);
    let action = actions().remove(11);
    let id = permissions
        .grant(&always(action.clone(), label(&[])), at(0))
        .unwrap();
    let sqlite = rusqlite::Connection::open(&path).unwrap();
    sqlite
        .execute("UPDATE permission SET object = '*.example.com'", [])
        .unwrap();
    let refused = permissions.find(&action, &label(&[]), at(1));
    assert!(matches!(refused, Err(PermissionError::Unreadable { id: which, .. }) if which == id));
    assert!(permissions.revoke(id).unwrap());
    assert_eq!(find(&permissions, &action, 1), None);
    // The file takes no kind but ours.
    let other = sqlite.execute(
        "INSERT INTO permission (id, kind, object, app, identity, taints, granted) VALUES (?1, 'irreversible', 'x', 'y', ?2, '[]', 0)",
        ([1_u8; 16], [1_u8; 32]),
    );
    assert!(other.is_err());
}

#[test]
fn the_export_has_everything() {
    let (_folder, path) = place();
    let permissions = open(&path);
    let id = permissions
        .grant(&always(actions().remove(4), label(&["secret"])), at(7))
        .unwrap();
    let domain = Grant {
        expires: Some(at(9)),
        ..always(actions().remove(10), label(&[]))
    };
    permissions.grant(&domain, at(8)).unwrap();
    let json = permissions.export(&Apps::new(), at(8)).unwrap();
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read["version"], 2);
    let expected = serde_json::json!({
        "id": id.to_string(),
        "action": {
            "kind": "collaboration",
            "from": {"name": "mail", "identity": "01".repeat(32)},
            "to": {"name": "calendar", "identity": "02".repeat(32)},
            "functionality": "dates",
            "direction": "answering",
        },
        "taints": ["secret"],
        "granted": 7,
        "expires": null,
        "standing": {"is": "apps-changed", "apps": ["mail", "calendar"]},
    });
    assert_eq!(read["permissions"][0], expected);
    assert_eq!(read["permissions"][1]["action"]["domain"], "example.com");
}

/// What is done to permissions.
#[derive(Debug, Clone)]
enum Doing {
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

fn doings() -> impl Strategy<Value = Vec<Doing>> {
    let action = 0..actions().len();
    let (grant, find) = (action.clone(), action);
    let doing = prop_oneof![
        4 => (grant, any::<[bool; 3]>(), prop::option::of(1_i64..20))
            .prop_map(|(action, taints, lasts)| Doing::Grant { action, taints, lasts }),
        8 => (find, any::<[bool; 3]>())
            .prop_map(|(action, taints)| Doing::Find { action, taints }),
        2 => any::<prop::sample::Index>().prop_map(Doing::Revoke),
        2 => (1_i64..12).prop_map(Doing::Wait),
        1 => Just(Doing::OpenAgain),
    ];
    prop::collection::vec(doing, 1..40)
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
    fn permissions_are_a_list(doings in doings()) {
        let (_folder, path) = place();
        let (mut first, second) = (open(&path), open(&path));
        let actions = actions();
        let mut model: Vec<Modelled> = Vec::new();
        let mut now = 100;
        for (turn, doing) in doings.into_iter().enumerate() {
            let file = if turn % 2 == 0 { &first } else { &second };
            match doing {
                Doing::Grant { action, taints: limit, lasts } => {
                    let grant = Grant {
                        action: actions[action].clone(),
                        limit: taints(limit),
                        expires: lasts.map(|lasts| at(now + lasts)),
                    };
                    let id = file.grant(&grant, at(now)).unwrap();
                    model.retain(|old| (old.action, old.taints) != (action, limit));
                    let expires = lasts.map(|lasts| now + lasts);
                    model.push(Modelled { id, action, taints: limit, granted: now, expires });
                }
                Doing::Find { action, taints: under } => {
                    let covers = |kept: &&Modelled| {
                        let below = under.iter().zip(kept.taints).all(|(has, may)| !has || may);
                        let in_time = kept.granted <= now && kept.expires.is_none_or(|end| now < end);
                        kept.action == action && below && in_time
                    };
                    let expected = model.iter().find(covers).map(|kept| kept.id);
                    for handle in [&first, &second] {
                        let found = handle.find(&actions[action], &taints(under), at(now)).unwrap();
                        prop_assert_eq!(found, expected);
                    }
                }
                Doing::Revoke(index) if !model.is_empty() => {
                    let kept = model.remove(index.index(model.len()));
                    // A grant drops what has expired.
                    let revoked = file.revoke(kept.id).unwrap();
                    prop_assert!(revoked || kept.expires.is_some_and(|end| end <= now));
                }
                Doing::Wait(time) => now += time,
                Doing::OpenAgain => first = open(&path),
                Doing::Revoke(_) => {}
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
