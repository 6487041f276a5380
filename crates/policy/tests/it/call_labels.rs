//! Labels of results by the arguments of the call.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use ifc::{Arguments, Label, Lattice, Order};
use policy::{ArgumentIs, Folder, Format, LabelPath, LabelRule, Met, ResultLabels, When};
use proptest::prelude::*;

fn label(names: &[&str]) -> Label {
    let categories = Order::Categories(vec!["web".to_owned(), "mail".to_owned()]);
    let lattice = Lattice::new(&categories, &Order::TwoPoint).unwrap();
    lattice.labels(names.iter().copied()).unwrap()
}

fn under(folders: &[&str]) -> When {
    let folders = folders.iter().map(|path| Folder::new(path).unwrap());
    when("path", ArgumentIs::Under(folders.collect()))
}

fn when(argument: &str, is: ArgumentIs) -> When {
    let argument = argument.to_owned();
    When { argument, is }
}

fn one_of(argument: &str, words: &[&str]) -> When {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    when(argument, ArgumentIs::OneOf(words))
}

/// A rule for the text.
fn text(names: &[&str], when: Vec<When>) -> LabelRule {
    LabelRule {
        when,
        ..LabelRule::new(LabelPath::parse("$.text").unwrap(), label(names))
    }
}

/// Everything that is read is from the web and secret, unless a rule says otherwise.
fn rules(rules: Vec<LabelRule>) -> ResultLabels {
    let rest = label(&["untrusted:web", "untrusted:mail", "secret"]);
    ResultLabels::new(rules, Some(rest), Some(Label::bottom()))
}

/// The label of the text that a call with these arguments reads.
fn read(labels: &ResultLabels, arguments: &str) -> Label {
    let arguments = Arguments::parse(arguments, &Label::bottom()).unwrap();
    let labelled = labels.label_for(&arguments, r#"{"text":"x"}"#.to_owned());
    labelled.label()
}

fn path(path: &str) -> String {
    format!("{{\"path\":{}}}", serde_json::to_string(path).unwrap())
}

/// What is in the private folder is secret, in its downloads from the web, and in the notes the user's.
fn folders() -> ResultLabels {
    rules(vec![
        text(&["secret"], vec![under(&["/home/me/private"])]),
        text(
            &["untrusted:web"],
            vec![under(&["/home/me/private/downloads/", "/srv/web"])],
        ),
        text(&[], vec![under(&["/home/me/notes"])]),
    ])
}

#[test]
fn a_folder_is_known_by_its_normal_path() {
    let labels = folders();
    for (arguments, expected) in [
        (path("/home/me/private/a.txt"), vec!["secret"]),
        (path("/home/me/private/a/b c/.d-e_f (1).g"), vec!["secret"]),
        (path("/home/me/notes/é/文"), vec![]),
        (path("/home/me/private/büro"), vec!["secret"]),
        (path("/srv/web/a"), vec!["untrusted:web"]),
        (
            path("/home/me/private/downloads/a"),
            vec!["secret", "untrusted:web"],
        ),
        (
            path("/home/me/private/downloads"),
            vec!["secret", "untrusted:web"],
        ),
        (path("/home/me/notes/a"), vec![]),
        (path("/home/me/notes/"), vec![]),
        (
            r#"{"path":["/home/me/notes/a","/home/me/notes/b"]}"#.to_owned(),
            vec![],
        ),
        (
            r#"{"other":1,"path":"/home/me/notes/a"}"#.to_owned(),
            vec![],
        ),
    ] {
        assert_eq!(read(&labels, &arguments), label(&expected), "{arguments}");
    }
}

#[test]
fn what_may_lead_elsewhere_is_in_no_folder() {
    let labels = folders();
    for argument in [
        "/home/me/notes/../downloads/a",
        "/home/me/notes/..",
        "/home/me/notes/...",
        "/home/me/notes/./a",
        "/home/me/notes//a",
        "home/me/notes/a",
        "./home/me/notes/a",
        "/home/me/notes/a//",
        "/home/me/notes/%2e%2e/a",
        "/home/me/notes/..\\a",
        "/home/me/notes\\a",
        "/home/me/notes/{a,../b}",
        "/home/me/notes/*",
        "/home/me/notes/a?",
        "/home/me/notes/[a]",
        "/home/me/notes/$HOME",
        "/home/me/notes/`a`",
        "/home/me/notes/a;cat /etc/passwd",
        "/home/me/notes/a|b/c",
        "/home/me/notes/a\0b",
        "/home/me/notes/a\nb",
        "/home/me/notes/\u{ff0e}\u{ff0e}/a",
        "/home/me/notes/\u{2025}/a",
        "/home/me/notes/ /a",
        "/home/me/notes/.. /a",
        " /home/me/notes/a",
        "/home/me/notes /a",
        "/home/me/notes2/a",
        "/home/me/Notes/a",
        "/home/me/note",
        "~/notes/a",
        "file:///notes/a",
        "C:/notes/a",
        "",
        "/",
        "/proc/self/root/home/me/private/a",
        // Not known to be out of the folder below it, and listing it may list that folder.
        "/home/me",
        "/home/me/private/DOWNLOADS/a",
        "/home/me/private/down_loads/a",
        "/home/me/private/é",
        "/home/me/private/dé",
        "/home/me/private/Download\u{17f}",
        "/home/me/notes/..+/a",
        "/home/me/notes/_/a",
        "/home/me/private",
        "/home/me/private/",
    ] {
        assert_eq!(
            read(&labels, &path(argument)),
            *labels.worst(),
            "{argument}"
        );
    }
}

#[test]
fn an_argument_that_is_no_text_meets_nothing() {
    let labels = folders();
    for arguments in [
        "{}",
        r#"{"Path":"/home/me/notes/a"}"#,
        r#"{"path":null}"#,
        r#"{"path":1}"#,
        r#"{"path":[]}"#,
        r#"{"path":["/home/me/notes/a",1]}"#,
        r#"{"path":[["/home/me/notes/a"]]}"#,
        r#"{"path":{"path":"/home/me/notes/a"}}"#,
        // A mixture may be labelled as neither.
        r#"{"path":["/home/me/notes/a","/etc/passwd"]}"#,
        r#"{"path":["/home/me/notes/a","/srv/web/a"]}"#,
    ] {
        assert_eq!(read(&labels, arguments), *labels.worst(), "{arguments}");
    }
    let many = |count: usize| {
        let paths = vec!["\"/home/me/notes/a\""; count].join(",");
        read(&labels, &format!("{{\"path\":[{paths}]}}"))
    };
    assert!(many(256).is_bottom());
    assert_eq!(many(257), *labels.worst());
    assert_eq!(
        labels.label(r#"{"text":"x"}"#.to_owned()).label(),
        *labels.worst()
    );
}

#[test]
fn folders_are_written_in_normal_form() {
    for wrong in [
        "", "/", "/a/../b", "/a//b", "a\\b", "/a/*", "~/a", ".", "..", "/a/ ",
    ] {
        assert_eq!(Folder::new(wrong), None, "{wrong}");
    }
    assert_eq!(Folder::new("/a/b/"), Folder::new("/a/b"));
}

/// A rule that raises is left out only where the argument is known to belong elsewhere.
#[test]
fn a_rule_that_raises_counts_unless_it_certainly_does_not() {
    let always = || text(&["untrusted:mail"], Vec::new());
    let secret = || {
        text(
            &["untrusted:mail", "secret"],
            vec![one_of("box", &["private"])],
        )
    };
    let boxed = |name: &str| format!("{{\"box\":{name:?}}}");
    let labels = rules(vec![always(), secret()]);
    // Nobody has said that this is another mailbox.
    assert_eq!(read(&labels, &boxed("inbox")), *labels.worst());
    let public = text(&[], vec![one_of("box", &["inbox"])]);
    let labels = rules(vec![always(), secret(), public]);
    assert_eq!(read(&labels, &boxed("inbox")), label(&["untrusted:mail"]));
    assert_eq!(
        read(&labels, &boxed("private")),
        label(&["untrusted:mail", "secret"])
    );
    // Names that some reader may take for one.
    for doubtful in ["private ", "PRIVATE", "archive", "", "inbox "] {
        assert_eq!(
            read(&labels, &boxed(doubtful)),
            *labels.worst(),
            "{doubtful}"
        );
    }
}

/// A path and a word, or a URL and a word, are not compared: both may be written in several ways.
#[test]
fn of_different_kinds_nothing_is_certain() {
    let secret = |word: &str| text(&["secret"], vec![one_of("path", &[word])]);
    let labels = rules(vec![
        text(&[], vec![under(&["/srv"])]),
        secret("/srv/private"),
    ]);
    assert_eq!(read(&labels, &path("/srv/other")), *labels.worst());
    let host = ArgumentIs::Host(vec!["example.org".to_owned()]);
    let page = "https://example.org/private";
    let labels = rules(vec![text(&[], vec![when("path", host)]), secret(page)]);
    for same in ["/%70rivate", "/a/../private", "//private", "/private?"] {
        let url = format!("https://example.org{same}");
        assert_eq!(read(&labels, &path(&url)), *labels.worst(), "{url}");
    }
    assert_eq!(read(&labels, &path(page)), label(&["secret"]));
}

/// That one argument is known says nothing of another.
#[test]
fn every_condition_must_be_known() {
    let labels = rules(vec![
        text(&[], vec![under(&["notes"]), one_of("mode", &["text"])]),
        text(&["secret"], vec![one_of("mode", &["raw"])]),
    ]);
    let call = |mode: &str| format!("{{\"path\":\"notes/a\",\"mode\":{mode:?}}}");
    assert!(read(&labels, &call("text")).is_bottom());
    // The rule for both arguments does not hold, whatever the path.
    assert_eq!(read(&labels, &call("raw")), label(&["secret"]));
    for mode in ["RAW", "Text", "other"] {
        assert_eq!(read(&labels, &call(mode)), *labels.worst(), "{mode}");
    }
    assert_eq!(read(&labels, &path("notes/a")), *labels.worst());
    let elsewhere = r#"{"path":"mail/a","mode":"text"}"#;
    assert_eq!(read(&labels, elsewhere), *labels.worst());
}

#[test]
fn a_url_is_at_a_host_if_every_reader_says_so() {
    let host = |name: &str| when("url", ArgumentIs::Host(vec![name.to_owned()]));
    let labels = rules(vec![
        text(&[], vec![host("example.org")]),
        text(&["untrusted:web"], vec![host("blog.example.org")]),
    ]);
    let url = |url: &str| read(&labels, &format!("{{\"url\":{url:?}}}"));
    for own in [
        "https://example.org",
        "https://example.org/a?b=https://evil.example#c@d",
        "https://EXAMPLE.org/",
    ] {
        assert!(url(own).is_bottom(), "{own}");
    }
    assert_eq!(url("https://blog.example.org/a"), label(&["untrusted:web"]));
    for other in [
        "http://example.org/",
        "example.org",
        "//example.org/",
        "HTTPS://example.org/",
        "https:/example.org/",
        "https://example.org.evil.example/",
        "https://evil.example/example.org",
        "https://example.org@evil.example/",
        "https://evil.example\\@example.org/",
        "https://example.org\\.evil.example/",
        "https://example.org:444/",
        "https://example.org./",
        "https://example.org%2eevil.example/",
        "https://exam\tple.org/",
        " https://example.org/",
        "https://www.example.org/",
        "https://",
        "",
    ] {
        assert_eq!(url(other), *labels.worst(), "{other}");
    }
}

#[test]
fn an_http_host_is_named_with_its_scheme_and_port() {
    let host = |name: &str| when("url", ArgumentIs::Host(vec![name.to_owned()]));
    let labels = rules(vec![
        text(&[], vec![host("http://wiki.local:8080")]),
        text(&["untrusted:web"], vec![host("http://files.local")]),
        text(&["secret"], vec![host("wiki.local")]),
    ]);
    let url = |url: &str| read(&labels, &format!("{{\"url\":{url:?}}}"));
    assert!(url("http://wiki.local:8080/a?b#c").is_bottom());
    assert!(url("http://WIKI.local:8080").is_bottom());
    assert_eq!(url("http://files.local/"), label(&["untrusted:web"]));
    assert_eq!(url("https://wiki.local/"), label(&["secret"]));
    for other in [
        "http://wiki.local/",
        "http://wiki.local:80/",
        "http://wiki.local:08080/",
        "http://wiki.local.:8080/",
        "http://wiki.local:8080@evil.example/",
        "http://wiki.local:8080.evil.example/",
        "http://files.local:80/",
        "http://files.local@evil.example/",
        "https://wiki.local:8080/",
        "ftp://wiki.local:8080/",
    ] {
        assert_eq!(url(other), *labels.worst(), "{other}");
    }
}

/// Conditions are about rules, wherever these point and whatever else they say.
#[test]
fn keys_and_containers_follow_the_condition_of_their_rule() {
    let of = |path: &str, names: &[&str], key: Option<Label>, when: Vec<When>| LabelRule {
        when,
        key,
        ..LabelRule::new(LabelPath::parse(path).unwrap(), label(names))
    };
    let labels = rules(vec![
        of(
            "$.files.*",
            &["untrusted:mail"],
            Some(Label::bottom()),
            vec![under(&["notes"])],
        ),
        of("$.all", &["secret"], None, vec![under(&["/srv/private"])]),
        of("$.all.one", &[], None, Vec::new()),
    ]);
    let text = r#"{"files":{"name":"v"},"all":{"one":"w"}}"#;
    let label_of = |arguments: &str, part: &str| {
        let arguments = Arguments::parse(arguments, &Label::bottom()).unwrap();
        let labelled = labels.label_for(&arguments, text.to_owned());
        labelled.label_at(text.find(part).unwrap())
    };
    let notes = path("notes/a");
    assert!(label_of(&notes, "name").is_bottom());
    assert_eq!(label_of(&notes, "v\""), label(&["untrusted:mail"]));
    // Nobody knows how a relative path and an absolute one lie.
    assert_eq!(label_of(&notes, "w\""), *labels.worst());
    for part in ["name", "v\"", "w\""] {
        assert_eq!(label_of("{}", part), *labels.worst(), "{part}");
    }
}

/// What lies elsewhere has been described by nobody.
#[test]
fn without_a_label_for_the_rest_other_calls_return_the_unknown() {
    let labels = ResultLabels::new(vec![text(&["secret"], vec![under(&["notes"])])], None, None);
    assert_eq!(read(&labels, &path("notes/a")), Label::top());
    let structured = Some(Label::bottom());
    let labels = ResultLabels::new(
        vec![text(&["secret"], vec![under(&["notes"])])],
        None,
        structured,
    );
    assert_eq!(read(&labels, &path("notes/a")), label(&["secret"]));
    assert_eq!(read(&labels, &path("mail/a")), Label::top());
}

#[test]
fn plain_text_has_labels_by_the_call_too() {
    let mine = LabelRule {
        when: vec![under(&["notes"])],
        ..LabelRule::new(LabelPath::parse("$").unwrap(), Label::bottom())
    };
    let rest = Some(label(&["untrusted:web"]));
    let labels = ResultLabels::new(vec![mine], rest, None).with_format(Format::Text);
    let read = |arguments: &str| {
        let arguments = Arguments::parse(arguments, &Label::bottom()).unwrap();
        labels.label_for(&arguments, "any text".to_owned()).label()
    };
    assert!(read(&path("notes/a")).is_bottom());
    assert_eq!(read(&path("other/a")), *labels.worst());
    let arguments = Arguments::parse(&path("notes/a"), &Label::bottom()).unwrap();
    let met: Vec<Met> = labels.conditions(&arguments).map(|(_, met)| met).collect();
    assert_eq!(met, [Met::Yes]);
}

fn any_path() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "home",
        "me",
        "private",
        "Private",
        "notes",
        "a",
        "..",
        ".",
        "",
        " ",
        "%2e",
        "~",
        "*",
        "é",
        "downloads",
        "srv",
        "web",
    ]);
    let parts = prop::collection::vec(part, 0..7);
    (any::<bool>(), parts)
        .prop_map(|(slash, parts)| format!("{}{}", if slash { "/" } else { "" }, parts.join("/")))
}

proptest! {
    /// Wherever a label is lower than the most restrictive one, the path stays in a named folder when its
    /// parts are followed one by one.
    #[test]
    fn nothing_leaves_a_folder(text in any_path()) {
        let labels = folders();
        let found = read(&labels, &path(&text));
        if found != *labels.worst() {
            let mut at: Vec<&str> = Vec::new();
            for part in text.split('/').filter(|part| !part.is_empty()) {
                prop_assert!(part != "." && part != "..", "{}", text);
                at.push(part);
            }
            let named = ["home/me/private", "srv/web", "home/me/notes"];
            let joined = at.join("/");
            let inside = named.iter().any(|folder| {
                let rest = joined.strip_prefix(folder);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            });
            prop_assert!(inside, "{}", text);
            prop_assert!(text.starts_with('/'));
        }
    }

    /// A condition lowers nothing below what the rules without one say, nor below the label of any rule
    /// whose condition holds, and never gives a label that is not the tool's.
    #[test]
    fn conditions_stay_between_the_rules_and_the_worst(
        paths in prop::collection::vec(any_path(), 1..3),
        always in any::<bool>(),
    ) {
        let mut all = folders().rules().to_vec();
        if always {
            all.push(text(&["untrusted:mail"], Vec::new()));
        }
        let labels = rules(all.clone());
        let arguments = format!("{{\"path\":{}}}", serde_json::to_string(&paths).unwrap());
        let found = read(&labels, &arguments);
        prop_assert!(found.flows_to(labels.worst()));
        if always {
            prop_assert!(label(&["untrusted:mail"]).flows_to(&found));
        }
        for rule in &all {
            // Each rule alone tells whether its own condition holds.
            let alone = rules(vec![rule.clone()]);
            if !rule.when.is_empty() && read(&alone, &arguments) != *alone.worst() {
                prop_assert!(rule.label.flows_to(&found));
            }
        }
    }

    /// A further rule with a condition never lowers what a call reads that does not meet it, and one for the
    /// same values without a condition never lowers anything.
    #[test]
    fn a_further_rule_lowers_only_where_its_condition_holds(argument in any_path()) {
        let before = rules(vec![text(&["secret"], vec![under(&["/srv"])])]);
        let mine = text(&[], vec![under(&["notes"])]);
        let after = rules([before.rules().to_vec(), vec![mine.clone()]].concat());
        let further = rules([before.rules().to_vec(), vec![text(&["untrusted:mail"], Vec::new())]].concat());
        let call = path(&argument);
        let holds = read(&rules(vec![mine]), &call).is_bottom();
        if !holds {
            prop_assert!(read(&before, &call).flows_to(&read(&after, &call)), "{}", argument);
        }
        prop_assert!(read(&before, &call).flows_to(&read(&further, &call)), "{}", argument);
    }
}
