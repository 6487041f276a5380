//! The user of the machine whose process this is: the name under which answers are recorded, and sessions ask.

use std::fs;

/// The name of this process's user. Not `$USER`, which anything that starts the process can set to another name.
pub(crate) fn name() -> String {
    let uid = rustix::process::getuid().as_raw();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    // Users of a directory service are in no file. No token can have this name: a name of theirs may be another's.
    named(&users, uid).unwrap_or_else(|| format!("uid {uid}"))
}

/// The name of a user in the lines of `/etc/passwd` (passwd(5)).
fn named(users: &str, uid: u32) -> Option<String> {
    let mut lines = users.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| {
        let name = fields
            .next()
            .filter(|name| config::is_approver_name(name))?;
        let own = fields.nth(1)?.parse::<u32>().ok()?;
        (own == uid).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_name_of_the_file() {
        let users = "root:x:0:0:root:/root:/bin/sh\n# a comment\n\n+::::::\nada:x:1000:100:Ada:/home/ada:\nbad name:x:7:7::/:\neve:x:1001";
        for (uid, expected) in [
            (0, Some("root")),
            (1000, Some("ada")),
            (1001, Some("eve")),
            (7, None),
            (100, None),
        ] {
            assert_eq!(named(users, uid).as_deref(), expected, "{uid}");
        }
    }
}
