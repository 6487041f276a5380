//! An address, a reference that stands in an answer of it, and a path, a line each. What is read has one form, which is read as the
//! same; nothing but this machine is asked without TLS; and no reference or path leads a request for one origin to another one
//! under its name.

use names::{Place, WebUrl};

pub(crate) fn names_web_url(bytes: &[u8]) -> bool {
    let Ok(input) = std::str::from_utf8(bytes) else {
        return false;
    };
    let mut lines = input.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let Ok(base) = WebUrl::new(line()) else {
        return false;
    };
    check(&base);
    if let Ok(joined) = base.join(line()) {
        check(&joined);
        assert_eq!(joined.is_same_site(&base), base.is_same_site(&joined));
        assert!(joined.origin() != base.origin() || joined.is_same_site(&base));
    }
    let moved = base.with_path(line());
    check(&moved);
    assert_eq!(moved.origin(), base.origin());
    assert_eq!(moved.place(), base.place());
    // Everything of a server is within its root, and what is below a part of it is within that part.
    assert!(moved.is_within(&base.with_path("/")));
    let part = moved.with_path(&format!("{}/part", moved.path()));
    assert!(part.is_within(&moved) && !moved.is_within(&part));
    true
}

fn check(url: &WebUrl) {
    let text = url.as_str();
    assert!(text.is_ascii() && !text.contains([' ', '#']), "{text:?}");
    if let Ok(again) = WebUrl::new(text) {
        assert_eq!(&again, url);
    } else {
        assert!(text.len() > 2048, "{text:?} cannot be read again");
    }
    let place = url.place();
    match &place {
        Place::Named(name) => assert!(url.is_tls() && url.host() == name.as_str(), "{text:?}"),
        Place::ThisMachine => assert!(["localhost", "127.0.0.1"].contains(&url.host())),
    }
    // What stands before the path is the origin and nothing else: no user, and no other host.
    let origin = url.origin();
    let rest = text.strip_prefix(origin.as_str());
    assert!(rest.is_some_and(|rest| rest.starts_with('/')), "{text:?}");
    assert!(url.is_within(url));
}
