//! The codec's laws: what is encoded comes back in any portions; what is not a frame is refused
//! without a panic and without memory.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use wire::limits::*;
use wire::*;

/// Text with what JSON escapes, and more than one byte a character.
const TEXT: &str = "a \"b\\ \u{1}\n é \u{1F600}";

/// Decodes a stream that arrives in the given portions (repeated) up to its end.
fn decode_all<F: Frame>(bytes: &[u8], portions: &[usize]) -> Result<Vec<F>, DecodeError> {
    let mut decoder = Decoder::<F>::new();
    let mut frames = Vec::new();
    let mut rest = bytes;
    let mut portions = portions.iter().copied().cycle();
    while !rest.is_empty() {
        let (now, later) = rest.split_at(portions.next().unwrap_or(1).clamp(1, rest.len()));
        rest = later;
        let mut now = now;
        while let Some(frame) = decoder.decode(&mut now)? {
            frames.push(frame);
        }
        assert!(now.is_empty(), "no frame means that the input is used up");
        assert!(decoder.allocated() <= MAX_FRAME_BYTES);
    }
    decoder.finish()?;
    Ok(frames)
}

fn raw_frame(version: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes().to_vec();
    bytes.push(version);
    bytes.extend_from_slice(payload);
    bytes
}

fn ready(tools: Vec<ToolDescription>) -> SpokeFrame {
    let server = ServerInfo {
        name: "mail".into(),
        version: "1".into(),
    };
    SpokeFrame::Ready { server, tools }
}

fn tool(name: &str, description: &str, input_schema: &str) -> ToolDescription {
    ToolDescription {
        name: name.into(),
        description: description.into(),
        input_schema: input_schema.into(),
        hints: Hints {
            read_only: Some(true),
            ..Hints::default()
        },
    }
}

fn result(content: &str, claims: Vec<String>, images: Vec<String>) -> SpokeFrame {
    SpokeFrame::Result {
        id: u64::MAX,
        content: content.to_owned(),
        is_error: true,
        claims,
        images,
        exact: None,
    }
}

fn call(tool: &str, arguments: &str, timeout_ms: u64) -> HubFrame {
    HubFrame::Call {
        id: 1,
        tool: tool.into(),
        arguments: arguments.into(),
        timeout_ms,
        traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
    }
}

fn command(argv: &[&str], name: &str, cwd: &str) -> AppCommand {
    AppCommand {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        env: BTreeMap::from([(name.to_owned(), "value".to_owned())]),
        cwd: cwd.into(),
    }
}

fn start(app: AppCommand, limits: AppLimits) -> HubFrame {
    let offer = Offer::default();
    HubFrame::Start { app, limits, offer }
}

fn reply(reply: Reply) -> HubFrame {
    HubFrame::Reply { request: 1, reply }
}

fn field(name: &str, kind: FieldKind) -> Field {
    Field {
        name: name.to_owned(),
        title: String::new(),
        description: String::new(),
        required: true,
        kind,
    }
}

fn text_field(name: &str) -> Field {
    let kind = FieldKind::Text {
        min_length: None,
        max_length: Some(9),
    };
    field(name, kind)
}

fn choices(name: &str, count: usize) -> Field {
    let option = FieldOption {
        value: "x".to_owned(),
        title: TEXT.to_owned(),
    };
    field(name, FieldKind::Choices(vec![option; count]))
}

fn asks(message: &str, fields: Vec<Field>) -> SpokeFrame {
    let message = message.to_owned();
    SpokeFrame::Request {
        call: 1,
        request: 1,
        form: Form { message, fields },
    }
}

/// One of each kind.
fn hub_frames() -> Vec<HubFrame> {
    vec![
        start(command(&["a", TEXT], "A", "/"), AppLimits::default()),
        call("a/b-c.d_1", "{\"a\": [1, \"é\"]}", MAX_TIMEOUT_MS),
        HubFrame::Run {
            program: command(&["a", TEXT], "A", "/"),
        },
        HubFrame::Signal { signal: 15 },
        HubFrame::Cancel { id: 0 },
        HubFrame::Pause { id: 1 },
        HubFrame::Resume { id: u64::MAX },
        reply(Reply::Accepted("{\"a\":1}".to_owned())),
        reply(Reply::Declined),
        reply(Reply::Dismissed),
        reply(Reply::Refused(Refusal::Policy)),
        HubFrame::Stop,
    ]
}

fn spoke_frames() -> Vec<SpokeFrame> {
    use FailureReason as R;
    let quote = || Quote::head(TEXT);
    let reasons = [
        R::SpawnFailed(Some(2)),
        R::AppExited {
            status: None,
            signal: Some(9),
        },
        R::LineTooLong(7),
        R::Flood {
            max_messages: 1,
            max_bytes: 2,
        },
        R::Protocol {
            breach: Breach::CallAnswer,
            said: quote(),
        },
        R::AppError {
            code: -1,
            said: quote(),
        },
        R::InvalidArguments(quote()),
        R::Cancelled,
        R::Spoke(SpokeFault::Internal),
    ];
    let mut frames = vec![
        ready(vec![tool("a", TEXT, "{}"), tool("b", "", "{\"a\":{}}")]),
        result(TEXT, vec!["integrity:x".into()], vec!["AAAA".into()]),
        asks(TEXT, vec![text_field("a"), choices("b", 2)]),
        SpokeFrame::Refused {
            wish: Wish::Question,
            why: Refusal::Tool(ToolProblem::Name),
            times: 8,
            said: quote(),
        },
        SpokeFrame::AppFailed {
            reason: R::OutputClosed,
            stderr: Quote::tail(TEXT),
        },
    ];
    frames.extend(reasons.map(|reason| SpokeFrame::CallFailed { id: 1, reason }));
    frames
}

proptest! {
    #[test]
    fn frames_survive_any_portions(portions in vec(1..200_usize, 1..8)) {
        let bytes: Vec<u8> = hub_frames().iter().flat_map(|frame| encode(frame).unwrap()).collect();
        prop_assert_eq!(decode_all::<HubFrame>(&bytes, &portions), Ok(hub_frames()));
        let bytes: Vec<u8> = spoke_frames().iter().flat_map(|frame| encode(frame).unwrap()).collect();
        prop_assert_eq!(decode_all::<SpokeFrame>(&bytes, &portions), Ok(spoke_frames()));
    }

    #[test]
    fn a_cut_stream_is_never_whole(frame in select(spoke_frames()), cut in any::<Index>()) {
        let bytes = encode(&frame).unwrap();
        let cut = cut.index(bytes.len());
        prop_assume!(cut > 0);
        prop_assert_eq!(decode_all::<SpokeFrame>(&bytes[..cut], &[7]), Err(DecodeError::Truncated));
    }

    #[test]
    fn arbitrary_bytes_never_panic_or_cost_more_than_they_are(bytes in vec(any::<u8>(), 0..4096), portion in 1..64_usize) {
        let mut decoder = Decoder::<SpokeFrame>::new();
        let mut fed = 0;
        for portion in bytes.chunks(portion) {
            fed += portion.len();
            let mut input = portion;
            while let Ok(Some(_)) = decoder.decode(&mut input) {}
            prop_assert!(decoder.allocated() <= 2 * fed);
        }
    }

    #[test]
    fn a_changed_byte_gives_a_legal_frame_or_an_error(frame in select(spoke_frames()), at in any::<Index>(), byte: u8) {
        let mut bytes = encode(&frame).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(frames) = decode_all::<SpokeFrame>(&bytes, &[64]) {
            for frame in frames {
                prop_assert_eq!(frame.check(), Ok(()));
            }
        }
    }
}

#[test]
fn our_words_never_repeat_the_apps() {
    for frame in spoke_frames() {
        if let SpokeFrame::CallFailed { reason, .. } = frame {
            assert!(!reason.to_string().contains(TEXT), "{reason}");
            assert!(reason.quote().is_none_or(|quote| quote.as_str() == TEXT));
        }
    }
}

#[test]
fn a_length_alone_costs_nothing() {
    for length in [MAX_FRAME_BYTES as u32 + 1, u32::MAX] {
        let mut decoder = Decoder::<SpokeFrame>::new();
        let mut input = &length.to_be_bytes()[..];
        let expected = Err(DecodeError::TooLong(length as usize));
        assert_eq!(decoder.decode(&mut input), expected);
        assert_eq!(decoder.allocated(), 0);
    }
    let mut decoder = Decoder::<SpokeFrame>::new();
    let mut header = (MAX_FRAME_BYTES as u32).to_be_bytes().to_vec();
    header.push(WIRE_VERSION);
    assert_eq!(decoder.decode(&mut header.as_slice()), Ok(None));
    assert_eq!(decoder.allocated(), 0);
    assert_eq!(decoder.decode(&mut &[b'x'; 100][..]), Ok(None));
    assert!(decoder.allocated() <= 200);
    assert_eq!(decoder.finish(), Err(DecodeError::Truncated));
}

#[test]
fn another_version_is_its_own_error_and_stays() {
    let mut decoder = Decoder::<SpokeFrame>::new();
    let found = WIRE_VERSION + 1;
    let bytes = raw_frame(found, b"\"stop\"");
    let expected = Err(DecodeError::Version { found });
    assert_eq!(decoder.decode(&mut bytes.as_slice()), expected);
    let good = encode(&ready(vec![])).unwrap();
    assert_eq!(decoder.decode(&mut good.as_slice()), expected);
}

#[test]
fn the_largest_legal_frames_fit_and_their_buffer_is_given_back() {
    let claims = vec!["\u{1}".repeat(MAX_CLAIM_BYTES); MAX_CLAIMS];
    let images = vec!["A".repeat(MAX_IMAGES_BYTES / MAX_IMAGES); MAX_IMAGES];
    let text = "\u{1}".repeat(MAX_TOOLS_BYTES / MAX_TOOLS - 16);
    let tools = (0..MAX_TOOLS).map(|i| tool(&format!("t{i}"), &text, "{}"));
    for frame in [
        result(&"\u{1}".repeat(MAX_RESULT_BYTES), claims, images),
        ready(tools.collect()),
    ] {
        let bytes = encode(&frame).unwrap();
        let mut decoder = Decoder::<SpokeFrame>::new();
        assert_eq!(decoder.decode(&mut bytes.as_slice()), Ok(Some(frame)));
        assert_eq!(decoder.allocated(), 0);
    }
}

#[test]
fn payloads_that_are_not_frames_are_refused() {
    for payload in [
        "",
        "null",
        "\"ready\"",
        "{\"result\":{\"id\":1,\"content\":\"x\"}}",
        "{\"result\":{\"id\":1,\"content\":\"x\",\"is_error\":false,\"label\":[]}}",
        "{\"result\":{\"id\":-1,\"content\":\"x\",\"is_error\":false}}",
        "{\"result\":{\"id\":1,\"id\":2,\"content\":\"x\",\"is_error\":false}}",
        "{\"call\":{\"id\":1,\"tool\":\"t\",\"arguments\":\"{}\",\"timeout_ms\":1}}",
        "{\"cancel\":{\"id\":1}} {}",
        "{\"result\":{\"id\":1,\"content\":\"\\ud800\",\"is_error\":false}}",
    ] {
        let bytes = raw_frame(WIRE_VERSION, payload.as_bytes());
        let result = decode_all::<SpokeFrame>(&bytes, &[9]);
        assert_eq!(result, Err(DecodeError::Malformed), "{payload}");
    }
    for (payload, error) in [
        (
            "[".repeat(MAX_FRAME_BYTES),
            json::JsonError::TooDeep(MAX_FRAME_DEPTH),
        ),
        (
            format!("[{}0]", "0,".repeat(MAX_FRAME_NODES)),
            json::JsonError::TooManyNodes(MAX_FRAME_NODES),
        ),
    ] {
        let bytes = raw_frame(WIRE_VERSION, payload.as_bytes());
        let result = decode_all::<SpokeFrame>(&bytes, &[65_536]);
        assert_eq!(result, Err(DecodeError::Json(error)));
    }
}

/// A frame beyond its limits is refused by the sender and, written past the sender, by the receiver.
fn check_refused<F: Frame + std::fmt::Debug + PartialEq>(frames: Vec<F>) {
    for frame in frames {
        let sent = encode(&frame);
        assert!(matches!(sent, Err(EncodeError::Violation(_))), "{frame:?}");
        let bytes = raw_frame(WIRE_VERSION, &serde_json::to_vec(&frame).unwrap());
        let read = decode_all::<F>(&bytes, &[65_536]);
        assert!(matches!(read, Err(DecodeError::Violation(_))), "{frame:?}");
    }
}

#[test]
fn frames_beyond_their_limits_are_refused_at_both_ends() {
    let tools = |count: usize, schema: &str| {
        let tools = (0..count).map(|i| tool(&format!("t{i}"), "", schema));
        ready(tools.collect())
    };
    let one =
        |name: &str, description: &str, schema: &str| ready(vec![tool(name, description, schema)]);
    let long = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes));
    let described = |i: usize| Field {
        title: "x".repeat(MAX_FIELD_TEXT_BYTES),
        description: "x".repeat(MAX_FIELD_TEXT_BYTES),
        ..text_field(&i.to_string())
    };
    let x = |count: usize| "x".repeat(count);
    check_refused(vec![
        result(&x(MAX_RESULT_BYTES + 1), vec![], vec![]),
        result("", vec![], vec!["A".into(); MAX_IMAGES + 1]),
        result("", vec![], vec!["A".repeat(MAX_IMAGES_BYTES / 2 + 1); 2]),
        result("", vec!["a".into(); MAX_CLAIMS + 1], vec![]),
        result("", vec![x(MAX_CLAIM_BYTES + 1)], vec![]),
        tools(MAX_TOOLS + 1, "{}"),
        tools(17, &long(MAX_SCHEMA_BYTES - 20)),
        ready(vec![tool("a", "", "{}"), tool("a", "", "{}")]),
        one("a b", "", "{}"),
        one("", "", "{}"),
        // A Cyrillic letter.
        one("а", "", "{}"),
        one("a", "", "[]"),
        one("a", "", "{"),
        one(
            "a",
            "",
            &format!("{{\"a\":{}{}}}", "[".repeat(64), "]".repeat(64)),
        ),
        one("a", &x(MAX_DESCRIPTION_BYTES + 1), "{}"),
        one("a", "", &long(MAX_SCHEMA_BYTES)),
        SpokeFrame::Ready {
            server: ServerInfo {
                name: x(MAX_SERVER_INFO_BYTES + 1),
                version: String::new(),
            },
            tools: vec![],
        },
        asks(&x(MAX_QUESTION_BYTES + 1), vec![]),
        asks(
            "?",
            (0..=MAX_FIELDS)
                .map(|i| text_field(&i.to_string()))
                .collect(),
        ),
        asks("?", vec![text_field("a"), text_field("a")]),
        asks("?", vec![text_field("")]),
        asks("?", vec![text_field(&x(MAX_FIELD_TEXT_BYTES + 1))]),
        asks("?", (0..MAX_FIELDS).map(described).collect()),
        asks("?", vec![choices("a", 0)]),
        asks("?", vec![choices("a", MAX_OPTIONS), choices("b", 1)]),
    ]);
    let limits = |change: &dyn Fn(&mut AppLimits)| {
        let mut limits = AppLimits::default();
        change(&mut limits);
        start(command(&["a"], "A", "/"), limits)
    };
    let of = |argv: &[&str], name: &str, cwd: &str| {
        start(command(argv, name, cwd), AppLimits::default())
    };
    check_refused(vec![
        call("t", "[1]", 1),
        call("t", "{}", 0),
        call("t", "{}", MAX_TIMEOUT_MS + 1),
        call("t t", "{}", 1),
        call("t", &long(MAX_ARGUMENTS_BYTES), 1),
        HubFrame::Call {
            id: 1,
            tool: "t".to_owned(),
            arguments: "{}".to_owned(),
            timeout_ms: 1,
            traceparent: Some("0".repeat(MAX_TRACEPARENT_BYTES + 1)),
        },
        of(&[], "A", "/"),
        of(&[""], "A", "/"),
        of(&["a\0"], "A", "/"),
        of(&["a"], "A", "here"),
        of(&["a"], "", "/"),
        of(&["a"], "A=B", "/"),
        limits(&|it| it.max_concurrent_calls = 0),
        limits(&|it| it.max_line_bytes = u32::MAX),
        reply(Reply::Accepted("[]".to_owned())),
        reply(Reply::Accepted(long(MAX_FORM_ANSWER_BYTES))),
    ]);
}

proptest! {
    #[test]
    fn what_is_read_from_a_line_answers_the_form(lines in vec(".{0,12}|[0-9 ,.-]{1,6}|yes|no", 4), required: bool) {
        let integer = FieldKind::Integer { minimum: Some(1), maximum: None };
        let mut fields = vec![text_field("a"), choices("b", 3), field("c", FieldKind::Boolean), field("d", integer)];
        fields.iter_mut().for_each(|field| field.required = required);
        let form = Form { message: "?".to_owned(), fields };
        let mut answer = serde_json::Map::new();
        let mut missing = false;
        for (field, line) in form.fields.iter().zip(&lines) {
            match field.read(line) {
                Ok(Some(value)) => {
                    answer.insert(field.name.clone(), value);
                }
                Ok(None) => prop_assert!(!field.required),
                Err(_) => missing |= field.required,
            }
        }
        prop_assert_eq!(form.accepts(&answer).is_err(), missing);
        let answer = serde_json::Value::Object(answer).to_string();
        prop_assert_eq!(reply(Reply::Accepted(answer)).check(), Ok(()));
    }
}

#[test]
fn a_filter_shows_the_tools_that_its_patterns_fit() {
    let filter = |only: Option<&[&str]>, hidden: &[&str]| {
        let own = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        let (only, hidden) = (only.map(own), own(hidden));
        ToolFilter { only, hidden }
    };
    for (pattern, fits, others) in [
        ("read", &["read"][..], &["read_file", "Read", ""][..]),
        ("read_*", &["read_", "read_a/b"], &["read", "pre_read_"]),
        ("*_file", &["_file", "a_file_file"], &["file", "a_file_"]),
        ("a*b*c", &["abc", "a-b-b-c"], &["ac", "acb", "ab"]),
        ("a*a", &["aa", "aba"], &["a"]),
        ("*", &["x", ""], &[]),
    ] {
        let only = filter(Some(&[pattern]), &[]);
        let hidden = filter(None, &[pattern]);
        let all = fits.iter().map(|name| (name, true));
        for (name, fits) in all.chain(others.iter().map(|name| (name, false))) {
            assert_eq!(only.shows(name), fits, "{pattern} {name}");
            assert_eq!(hidden.shows(name), !fits, "{pattern} {name}");
        }
    }
    assert!(!filter(Some(&[]), &[]).shows("a"));
    assert!(!filter(Some(&["a*"]), &["*b"]).shows("ab"));
    let named = filter(Some(&["a*", "b"]), &["c"]);
    assert_eq!(named.unmatched(&["a1"]).collect::<Vec<_>>(), ["b", "c"]);
}
