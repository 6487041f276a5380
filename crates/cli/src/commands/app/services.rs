//! Services on this machine's loopback that the command or the variables of an app name.

use std::collections::BTreeMap;
use std::env;

use config::{filled_in, from_environment};
use hub::trace::Text;

use super::block::Wish;

/// Schemes of addresses that may leave out the port.
const PORTS: [(&str, u16); 5] = [
    ("mongodb", 27017),
    ("mysql", 3306),
    ("postgres", 5432),
    ("postgresql", 5432),
    ("redis", 6379),
];

/// The services, as `127.0.0.1:5432`, each with what names it.
pub(super) fn named(wish: &Wish) -> BTreeMap<String, String> {
    let variables = variables(wish);
    // As one text too, since a port may be an argument of its own.
    let words = wish.command.iter().cloned();
    let words = words.chain([wish.command.join(" ")]);
    let words = words.map(|text| (text, "its command".to_owned()));
    let values = variables.iter().map(|(name, value)| {
        let start = name.strip_suffix("HOST");
        let port = start.and_then(|start| variables.get(&format!("{start}PORT")));
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        (format!("{value}{port}"), name.clone())
    });
    let services = words.chain(values).filter_map(|(text, by)| {
        let service = Text::service(&text).or_else(|| by_scheme(&text));
        Some((service?, by))
    });
    services.collect()
}

/// The variables of an app with their values, those of the user's environment too.
pub(super) fn variables(wish: &Wish) -> BTreeMap<String, String> {
    let own = wish.env_from.iter().filter_map(|entry| {
        let (name, text) = from_environment(entry);
        let value = filled_in(&text, |name| env::var(name).ok()).ok()?;
        Some((name.to_owned(), value))
    });
    wish.env.clone().into_iter().chain(own).collect()
}

/// The service of an address without a port, as `redis://localhost/0`.
fn by_scheme(address: &str) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    let (_, port) = PORTS.iter().find(|(known, _)| *known == scheme)?;
    let host = rest.split(['/', '?']).next()?.rsplit('@').next()?;
    Text::service(&format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_named_in_many_ways() {
        let command = |text: &str| Wish {
            command: text.split(' ').map(str::to_owned).collect(),
            ..Wish::default()
        };
        for (text, expected) in [
            ("x postgresql://me:pw@localhost/db", "localhost:5432"),
            ("x redis://127.0.0.1", "127.0.0.1:6379"),
            ("x redis://127.0.0.1:7000/0", "127.0.0.1:7000"),
            ("x --host localhost --port 80", "localhost:80"),
            ("x http://localhost:8080/v1?a=1", "localhost:8080"),
        ] {
            let found: Vec<_> = named(&command(text)).into_keys().collect();
            assert_eq!(found, [expected], "{text}");
        }
        assert!(named(&command("x redis://db.example.org http://localhost/")).is_empty());
        let env = [
            ("DB_HOST", "localhost"),
            ("DB_NAME", "x"),
            ("DB_PORT", "3306"),
        ];
        let wish = Wish {
            env: env
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..Wish::default()
        };
        let expected = ("localhost:3306".to_owned(), "DB_HOST".to_owned());
        assert_eq!(named(&wish), BTreeMap::from([expected]));
    }
}
