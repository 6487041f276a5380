//! A server that writes one odd element in each message: the app lives, and what restricts a label is not lost.
//!
//! `SLUICE_ODD_MESSAGES` is the number of messages, of a fixed seed. Each thirtieth one is a list of tools.

use serde_json::json;
use wire::*;

use crate::hub::*;

/// Numbers that are the same in each run (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }

    fn of<'a>(&mut self, among: &[&'a str]) -> &'a str {
        among.get(self.roll(among.len())).unwrap()
    }
}

/// Values that stand where another one belongs. The private characters are bytes that are no UTF-8.
const ODD: [&str; 22] = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "7",
    "1.10",
    "1e400",
    "12345678901234567890123",
    r#""""#,
    r#""x""#,
    r#""\ud800""#,
    r#""\u0000""#,
    "\"\u{e0ff}\u{e0fe}\"",
    "[]",
    "[null]",
    "[[[]]]",
    "{}",
    r#"{"a":1,"a":2}"#,
    r#"{"type":"text"}"#,
    r#"{"type":7,"text":"x"}"#,
    "{\"\u{202e}\":1}",
];

/// What goes before a frame.
const BEFORE: [&str; 8] = [
    "",
    "",
    "log\n",
    "{\"level\":30}\n",
    "\n\n",
    "{\"jsonrpc\":\"2.0\",\"method\":7}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":4711,\"result\":{}}\n",
    "\u{feff}[[[[[\n",
];

/// A frame that answers the call, and whether its result restricts its label.
fn frame(dice: &mut Dice) -> (String, bool) {
    // One of the members is odd, or stands twice, or is left out.
    let members = [
        (
            "content",
            r#"[{"type":"text","text":"heron"},{"type":"image","data":"QUJD","mimeType":"image/png"}]"#,
        ),
        ("structuredContent", r#"{"title":"heron","n":1.0}"#),
        ("isError", "true"),
        ("_meta", r#"{"ifc":{"integrity":"untrusted"}}"#),
        ("extra", "{}"),
    ];
    let odd = dice.roll(members.len());
    let how = dice.roll(6);
    let mut parts = Vec::new();
    for (at, (name, value)) in members.into_iter().enumerate() {
        let mut part = format!("\"{name}\":{value}");
        match how {
            _ if at != odd => {}
            0 => continue,
            1 => part = format!("{part},\"{name}\":{}", dice.of(&ODD)),
            // Inside: the first value of it.
            2 => part = part.replacen("heron", &format!("x\",\"y\":{},\"z\":\"", dice.of(&ODD)), 1),
            3 => {
                part = part.replacen("\"untrusted\"", dice.of(&ODD), 1).replacen(
                    "true",
                    dice.of(&ODD),
                    1,
                )
            }
            _ => part = format!("\"{name}\":{}", dice.of(&ODD)),
        }
        parts.push(part);
    }
    // It restricts, or is no claim that can be read, as long as it says anything of `ifc`.
    let restricts = parts
        .iter()
        .any(|part| part.starts_with("\"_meta\"") && part.contains("\"ifc\""));
    let result = format!("{{{}}}", parts.join(","));
    let envelope = match dice.roll(8) {
        0 => format!("{{\"id\":\"ID\",\"result\":{result}}}"),
        1 => format!("{{\"result\":{result},\"jsonrpc\":\"2.0\",\"id\":ID}}"),
        2 => format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":ID,\"error\":{}}}",
            dice.of(&ODD)
        ),
        3 => format!(
            "{{\"jsonrpc\":{},\"id\":ID,\"result\":{result}}}",
            dice.of(&ODD)
        ),
        _ => format!("{{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{result}}}"),
    };
    (format!("{}{envelope}\n", dice.of(&BEFORE)), restricts)
}

/// A list of four: a tool like any other, one of which a value is odd, one of which two members are, and an odd value.
fn list(dice: &mut Dice) -> String {
    let parts = [
        ("{\"name\":", "\"odd\""),
        (",\"description\":", "\"Reads.\""),
        (",\"icons\":[{\"src\":", "\"data:x\""),
        (",\"sizes\":", "[\"48x48\"]"),
        ("}],\"inputSchema\":{\"type\":", "\"object\""),
        (",\"properties\":{\"text\":{\"type\":", "\"string\""),
        (",\"maxLength\":", "9"),
        (",\"pattern\":", "\"^a\""),
        (",\"items\":{\"$ref\":", "\"#\""),
        ("}}},\"required\":", "[\"text\"]"),
        ("},\"annotations\":{\"readOnlyHint\":", "false"),
        (",\"destructiveHint\":", "true"),
        ("},\"outputSchema\":", "{}"),
    ];
    let at = dice.roll(parts.len());
    let odd: String = (parts.iter().enumerate())
        .map(|(part, (name, value))| match part == at {
            true => format!("{name}{}", dice.of(&ODD)),
            false => format!("{name}{value}"),
        })
        .collect();
    let (schema, hints, value) = (dice.of(&ODD), dice.of(&ODD), dice.of(&ODD));
    let next = match dice.roll(4) {
        0 => format!(",\"nextCursor\":{}", dice.of(&ODD)),
        _ => String::new(),
    };
    format!(
        "{{\"tools\":[{odd}}},{{\"name\":\"echo\",\"inputSchema\":{{\"type\":\"object\"}}}},\
         {{\"name\":\"bare\",\"inputSchema\":{schema},\"annotations\":{hints}}},{value}]{next}}}"
    )
}

#[test]
fn an_app_outlives_its_odd_lists() {
    let mut dice = Dice(20_261_127);
    for _ in 0..count() / 30 {
        let list = list(&mut dice);
        let mut hub = Hub::start(&format!("lists {list}"));
        let tools = match hub.next() {
            Some(SpokeFrame::Ready { tools, .. }) => tools,
            other => panic!("{list}: {other:?}"),
        };
        assert!(tools.iter().any(|tool| tool.name == "echo"), "{list}");
        // Each is offered, or a note says why it is not. Those of a page that comes again are left out as well.
        let left_out = |(wish, why, ..): &&Told| *wish == Wish::Tool && *why != Refusal::Unchecked;
        let left_out: u64 = hub.refused.iter().filter(left_out).map(|it| it.2).sum();
        assert!(tools.len() as u64 + left_out >= 4, "{list}");
        let reads = tools.iter().any(|tool| tool.hints.read_only == Some(true));
        assert!(!reads || list.contains("\"readOnlyHint\":true"), "{list}");
        hub.call(1, TEXT, 60_000);
        assert_eq!(hub.result(1), "hello", "{list}");
    }
}

fn count() -> u64 {
    std::env::var("SLUICE_ODD_MESSAGES").map_or(300, |it| it.parse().unwrap())
}

#[test]
fn an_app_outlives_its_odd_messages() {
    let messages = count();
    let mut hub = Hub::ready("writes");
    let mut dice = Dice(20_261_126);
    let (mut results, mut failures) = (0_u64, 0_u64);
    for id in 0..messages {
        let (written, restricts) = frame(&mut dice);
        hub.call(id, &json!({ "text": written }).to_string(), 60_000);
        match hub.next() {
            Some(SpokeFrame::Result { id: of, claims, .. }) => {
                assert_eq!(of, id);
                assert!(!restricts || !claims.is_empty(), "{written}");
                results += 1;
            }
            Some(SpokeFrame::CallFailed { id: of, reason }) => {
                assert_eq!(of, id);
                assert!(!reason.ends_app(), "{written}: {reason}");
                failures += 1;
            }
            other => panic!("{written}: {other:?}"),
        }
    }
    assert!(
        results > messages / 3 && failures > messages / 10,
        "{results} and {failures}"
    );
}
