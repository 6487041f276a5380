//! `sluice permissions revoke`: what the user takes back is taken back, whatever else is wrong.

use ifc::{Label, Lattice};
use store::{Action, App, Grant, Identity, Name, PermissionId, Permissions, Time};

use crate::trust::stage::{CONFIG, Stage, text};

/// The user's permissions, with two in them.
fn stage() -> (Stage, Permissions, [PermissionId; 2]) {
    let stage = Stage::new(CONFIG);
    let file = stage.state("permissions.sqlite");
    let permissions = Permissions::open(&file, Lattice::four_point()).unwrap();
    let ids = ["fares", "rides"].map(|functionality| {
        let name = |name: &str| Name::new(name).unwrap();
        let app = App {
            name: name("notes"),
            identity: Identity::from_digest([1; 32]),
        };
        let grant = Grant {
            action: Action::Selection {
                functionality: name(functionality),
                app,
            },
            limit: Label::bottom(),
            expires: None,
            scripts: false,
        };
        permissions.grant(&grant, Time::from_millis(1)).unwrap()
    });
    (stage, permissions, ids)
}

/// The command that the error names does what it is named for.
#[test]
fn a_permission_that_cannot_be_read_can_be_revoked() {
    let (stage, permissions, [damaged, other]) = stage();
    let file = rusqlite::Connection::open(stage.state("permissions.sqlite")).unwrap();
    let damage = "UPDATE permission SET taints = 'not a list' WHERE id = ?1";
    file.execute(damage, [damaged.as_bytes()]).unwrap();
    let config = stage.path("sluice.toml");
    let config = config.to_str().unwrap();
    let listed = stage.run(&["permissions", "list", "--config", config]);
    let said = text(&listed.stderr);
    assert!(!listed.status.success(), "{said}");
    assert!(
        said.contains(&format!("{damaged} cannot be read")) && said.contains("revoke it"),
        "{said}"
    );
    let id = damaged.to_string();
    let revoked = stage.run(&["permissions", "revoke", &id, "--config", config]);
    assert!(revoked.status.success(), "{}", text(&revoked.stderr));
    assert_eq!(permissions.ids().unwrap(), [other]);
}

/// A session that runs goes on with the configuration that it began with, and with its permissions.
#[test]
fn a_mistake_in_the_configuration_keeps_nothing_allowed() {
    let (stage, permissions, [first, second]) = stage();
    // Not trusted either.
    stage.write("sluice.toml", "this is [no configuration");
    let begins = &first.to_string()[..12];
    let mistyped = stage.run(&["permissions", "revoke", begins, "not an id"]);
    assert_eq!(mistyped.status.code(), Some(1));
    assert_eq!(permissions.ids().unwrap(), [first, second], "all or none");
    let revoked = stage.run(&["permissions", "revoke", begins]);
    assert!(revoked.status.success(), "{}", text(&revoked.stderr));
    assert_eq!(permissions.ids().unwrap(), [second]);
}

#[test]
fn all_are_revoked_when_the_user_says_so() {
    let (stage, permissions, both) = stage();
    let unasked = stage.run(&["permissions", "revoke", "--all"]);
    assert_eq!(unasked.status.code(), Some(3), "{}", text(&unasked.stderr));
    assert_eq!(permissions.ids().unwrap(), both);
    let revoked = stage.run(&["permissions", "revoke", "--all", "--yes"]);
    assert!(revoked.status.success(), "{}", text(&revoked.stderr));
    assert_eq!(permissions.ids().unwrap(), []);
}
