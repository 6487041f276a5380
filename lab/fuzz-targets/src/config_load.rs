//! A configuration and the file that it names, as somebody else wrote them: the first character chooses between TOML and an
//! `mcpServers` file, a NUL parts the two. Reading must not panic, every mistake must have a place in its file, and what is
//! accepted must be a policy that denies what it does not know.

use std::io;
use std::path::Path;

use config::Config;
use ifc::{Arguments, Call, Label, Policy, Sink};

pub(crate) fn config_load(bytes: &[u8]) -> bool {
    let Ok(input) = std::str::from_utf8(bytes) else {
        return false;
    };
    let (kind, rest) = input.split_at_checked(1).unwrap_or(("", input));
    let (first, second) = rest.split_once('\0').unwrap_or((rest, ""));
    let path = Path::new(if kind == "j" {
        "servers.json"
    } else {
        "sluice.toml"
    });
    let read = |asked: &Path| match asked == path {
        true => Ok(first.to_owned()),
        // Whatever the file is called: a manifest, conditions, servers.
        false if !second.is_empty() => Ok(second.to_owned()),
        false => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    match Config::load_with(path, &read) {
        Err(errors) => {
            assert!(errors.count() > 0);
            for error in errors.iter() {
                assert!(error.line > 0 && error.column > 0 && error.width > 0);
                // A file of somebody else's must not write to the terminal that shows its mistakes.
                assert!(!error.to_string().contains('\u{1b}'));
            }
            false
        }
        Ok(config) => {
            let call = Call {
                app: "no such app".to_owned(),
                tool: "t".to_owned(),
                arguments: Arguments::none(),
                label: Label::bottom(),
            };
            // Whatever was accepted, an app that is not in it has no rule, and its results have the label ⊤.
            let policy = config.policy();
            assert!(policy.rule(&Sink::Call(&call)).is_err());
            assert!(
                policy
                    .label_result(&call, "x".to_owned(), false)
                    .label()
                    .is_top()
            );
            true
        }
    }
}
