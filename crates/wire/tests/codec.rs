//! The codec's laws: what is encoded comes back in any portions; what is not a frame is refused
//! without a panic and without memory.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use wire::limits::*;
use wire::*;

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
    SpokeFrame::Ready {
        server: ServerInfo {
            name: "mail".into(),
            version: "1".into(),
        },
        tools,
    }
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

fn call(tool: &str, arguments: &str, timeout_ms: u64) -> HubFrame {
    HubFrame::Call {
        id: 1,
        tool: tool.into(),
        arguments: arguments.into(),
        timeout_ms,
    }
}

fn command(argv: &[&str]) -> AppCommand {
    AppCommand {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        env: BTreeMap::new(),
        cwd: "/".into(),
    }
}

fn object() -> impl Strategy<Value = String> {
    btree_map(".{0,8}", ".{0,40}", 0..4).prop_map(|map| serde_json::to_string(&map).unwrap())
}

fn reply() -> impl Strategy<Value = Reply> {
    let refusal = prop_oneof![
        Just(Refusal::NotOffered),
        Just(Refusal::NoCall),
        Just(Refusal::Busy),
        Just(Refusal::TooOften),
        Just(Refusal::Policy),
        Just(Refusal::Failed),
    ];
    prop_oneof![
        object().prop_map(Reply::Accepted),
        Just(Reply::Declined),
        Just(Reply::Dismissed),
        (".{0,80}", ".{0,20}", any::<bool>()).prop_map(|(text, provider, cut)| {
            Reply::Completion(SamplingAnswer {
                text,
                provider,
                cut,
            })
        }),
        refusal.prop_map(Reply::Refused),
    ]
}

fn field_kind() -> impl Strategy<Value = FieldKind> {
    let options = || {
        let option = (".{0,8}", ".{0,8}").prop_map(|(value, title)| FieldOption { value, title });
        vec(option, 1..4)
    };
    let bound = || option::of(any::<i32>());
    prop_oneof![
        (option::of(any::<u32>()), option::of(any::<u32>())).prop_map(
            |(min_length, max_length)| {
                FieldKind::Text {
                    min_length,
                    max_length,
                }
            }
        ),
        (bound(), bound()).prop_map(|(minimum, maximum)| FieldKind::Number { minimum, maximum }),
        (option::of(any::<i64>()), option::of(any::<i64>()))
            .prop_map(|(minimum, maximum)| FieldKind::Integer { minimum, maximum }),
        Just(FieldKind::Boolean),
        options().prop_map(FieldKind::Choice),
        options().prop_map(FieldKind::Choices),
    ]
}

fn form() -> impl Strategy<Value = Form> {
    let field = (".{0,8}", ".{0,8}", any::<bool>(), field_kind());
    (".{0,40}", btree_map(".{1,8}", field, 0..4)).prop_map(|(message, fields)| {
        let field = |(name, (title, description, required, kind))| Field {
            name,
            title,
            description,
            required,
            kind,
        };
        let fields = fields.into_iter().map(field).collect();
        Form { message, fields }
    })
}

fn ask() -> impl Strategy<Value = Ask> {
    let message = (any::<bool>(), ".{0,20}");
    let message = message.prop_map(|(assistant, text)| SamplingMessage { assistant, text });
    let sampling = (".{0,20}", vec(message, 1..4), 1..=u32::MAX);
    let sampling = sampling.prop_map(|(system, messages, max_tokens)| Sampling {
        system,
        messages,
        max_tokens,
    });
    prop_oneof![form().prop_map(Ask::User), sampling.prop_map(Ask::Model)]
}

fn hub_frame() -> impl Strategy<Value = HubFrame> {
    let command = (
        vec("[^\0]{1,12}", 1..5),
        btree_map("[A-Z_]{1,8}", "[^\0]{0,12}", 0..4),
        "/[a-z/]{0,12}",
    )
        .prop_map(|(argv, env, cwd)| AppCommand { argv, env, cwd });
    prop_oneof![
        (
            command,
            1..=MAX_TIMEOUT_MS,
            1..=64_u32,
            vec("/[a-z]{0,8}", 0..3),
            any::<bool>()
        )
            .prop_map(
                |(app, start_timeout_ms, max_concurrent_calls, roots, sampling)| {
                    HubFrame::Start {
                        app,
                        limits: AppLimits {
                            start_timeout_ms,
                            max_concurrent_calls,
                            ..AppLimits::default()
                        },
                        offer: Offer {
                            roots,
                            sampling,
                            resources: sampling,
                            prompts: !sampling,
                        },
                    }
                }
            ),
        (
            any::<u64>(),
            "[a-zA-Z0-9_./-]{1,128}",
            object(),
            1..=MAX_TIMEOUT_MS
        )
            .prop_map(|(id, tool, arguments, timeout_ms)| HubFrame::Call {
                id,
                tool,
                arguments,
                timeout_ms
            }),
        any::<u64>().prop_map(|id| HubFrame::Cancel { id }),
        any::<u64>().prop_map(|id| HubFrame::Pause { id }),
        any::<u64>().prop_map(|id| HubFrame::Resume { id }),
        (any::<u64>(), reply()).prop_map(|(request, reply)| HubFrame::Reply { request, reply }),
        Just(HubFrame::Stop),
    ]
}

fn reason() -> impl Strategy<Value = FailureReason> {
    use FailureReason as R;
    let quote = || ".{0,80}".prop_map(|text| Quote::head(&text));
    let limit = || any::<u64>().prop_map(|limit| Limit { limit });
    let breach = prop_oneof![
        Just(Breach::Initialize),
        Just(Breach::ListTools),
        Just(Breach::CallAnswer),
        Just(Breach::Message),
        Just(Breach::UnknownAnswer)
    ];
    let problem = prop_oneof![
        Just(ToolProblem::Name),
        Just(ToolProblem::Duplicate),
        Just(ToolProblem::SchemaTooLong),
        Just(ToolProblem::SchemaInvalid),
        Just(ToolProblem::TotalTooLong)
    ];
    prop_oneof![
        option::of(any::<i32>()).prop_map(|errno| R::SpawnFailed(SpawnFailed { errno })),
        (option::of(any::<i32>()), option::of(any::<i32>()))
            .prop_map(|(status, signal)| R::AppExited(AppExited { status, signal })),
        Just(R::OutputClosed),
        limit().prop_map(R::LineTooLong),
        Just(R::InvalidJson),
        limit().prop_map(R::TooDeep),
        (any::<u64>(), any::<u64>()).prop_map(|(max_messages, max_bytes)| R::Flood(Flood {
            max_messages,
            max_bytes
        })),
        any::<u64>().prop_map(|ms| R::CallTimeout(Timeout { ms })),
        (breach, quote()).prop_map(|(breach, said)| R::Protocol(Protocol { breach, said })),
        (problem, quote()).prop_map(|(problem, name)| R::BadTool(BadTool { problem, name })),
        (any::<i32>(), quote()).prop_map(|(code, said)| R::AppError(AppError { code, said })),
        quote().prop_map(|problem| R::InvalidArguments(InvalidArguments { problem })),
        Just(R::Cancelled),
        Just(R::Spoke(SpokeFault::Internal)),
    ]
}

fn spoke_frame() -> impl Strategy<Value = SpokeFrame> {
    let tools = btree_map("[a-zA-Z0-9_./-]{1,24}", (".{0,40}", object()), 0..6).prop_map(|tools| {
        tools
            .into_iter()
            .map(|(name, (description, schema))| tool(&name, &description, &schema))
            .collect()
    });
    prop_oneof![
        (".{0,20}", ".{0,20}", tools).prop_map(|(name, version, tools)| SpokeFrame::Ready {
            server: ServerInfo { name, version },
            tools
        }),
        (any::<u64>(), ".{0,300}", any::<bool>()).prop_map(|(id, content, is_error)| {
            SpokeFrame::Result {
                id,
                content,
                is_error,
                claims: vec!["integrity:x".to_owned(); usize::from(is_error)],
                images: vec!["AAAA".to_owned(); usize::from(is_error)],
            }
        }),
        (any::<u64>(), any::<u64>(), ask()).prop_map(|(call, request, ask)| SpokeFrame::Request {
            call,
            request,
            ask
        }),
        (any::<u64>(), reason()).prop_map(|(id, reason)| SpokeFrame::CallFailed { id, reason }),
        any::<u64>().prop_map(|times| SpokeFrame::Refused {
            wish: Wish::Question,
            why: Refusal::Unfit,
            times
        }),
        (reason(), ".{0,80}").prop_map(|(reason, text)| SpokeFrame::AppFailed {
            reason,
            stderr: Quote::tail(&text)
        }),
    ]
}

proptest! {
    #[test]
    fn hub_frames_survive_any_portions(frames in vec(hub_frame(), 0..6), portions in vec(1..200_usize, 1..8)) {
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| encode(frame).unwrap()).collect();
        prop_assert_eq!(decode_all::<HubFrame>(&bytes, &portions), Ok(frames));
    }

    #[test]
    fn spoke_frames_survive_any_portions(frames in vec(spoke_frame(), 0..6), portions in vec(1..200_usize, 1..8)) {
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| encode(frame).unwrap()).collect();
        prop_assert_eq!(decode_all::<SpokeFrame>(&bytes, &portions), Ok(frames));
    }

    #[test]
    fn a_cut_stream_is_never_whole(frame in spoke_frame(), cut in any::<prop::sample::Index>()) {
        let bytes = encode(&frame).unwrap();
        let cut = cut.index(bytes.len());
        prop_assume!(cut > 0);
        prop_assert_eq!(decode_all::<SpokeFrame>(&bytes[..cut], &[7]), Err(DecodeError::Truncated));
    }

    #[test]
    fn arbitrary_bytes_never_panic_or_cost_more_than_they_are(bytes in vec(any::<u8>(), 0..4096), portions in vec(1..64_usize, 1..4)) {
        let mut decoder = Decoder::<SpokeFrame>::new();
        let mut fed = 0;
        for portion in bytes.chunks(portions[0]) {
            fed += portion.len();
            let mut input = portion;
            while let Ok(Some(_)) = decoder.decode(&mut input) {}
            prop_assert!(decoder.allocated() <= 2 * fed);
        }
    }

    #[test]
    fn arbitrary_payloads_are_frames_or_errors(payload in vec(any::<u8>(), 0..512)) {
        let result = decode_all::<SpokeFrame>(&raw_frame(WIRE_VERSION, &payload), &[64]);
        prop_assert!(result.is_err(), "random bytes cannot be a frame: {result:?}");
    }

    #[test]
    fn a_changed_byte_gives_a_legal_frame_or_an_error(frame in spoke_frame(), at in any::<prop::sample::Index>(), byte: u8) {
        let mut bytes = encode(&frame).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(frames) = decode_all::<SpokeFrame>(&bytes, &[64]) {
            for frame in frames {
                prop_assert_eq!(frame.check(), Ok(()));
            }
        }
    }

    #[test]
    fn our_words_never_repeat_the_apps(said in "[a-z]{12,40}") {
        let reason = FailureReason::AppError(AppError { code: -1, said: Quote::head(&said) });
        prop_assert!(!reason.to_string().contains(&said));
        prop_assert_eq!(reason.quote().map(Quote::as_str), Some(said.as_str()));
    }
}

proptest! {
    #[test]
    fn what_is_read_from_a_line_answers_the_form(form in form(), lines in vec(".{0,12}|[0-9 ,.-]{1,6}|yes|no", 4)) {
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
        let reply = HubFrame::Reply { request: 1, reply: Reply::Accepted(serde_json::Value::Object(answer).to_string()) };
        prop_assert_eq!(reply.check(), Ok(()));
    }
}

#[test]
fn a_huge_length_is_refused_before_any_allocation() {
    for length in [MAX_FRAME_BYTES as u32 + 1, 1 << 30, u32::MAX] {
        let mut decoder = Decoder::<SpokeFrame>::new();
        let mut input = &length.to_be_bytes()[..];
        assert_eq!(
            decoder.decode(&mut input),
            Err(DecodeError::TooLong(length as usize))
        );
        assert_eq!(decoder.allocated(), 0);
    }
}

#[test]
fn a_legal_length_alone_costs_nothing() {
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
    let bytes = raw_frame(WIRE_VERSION + 1, b"\"stop\"");
    let expected = Err(DecodeError::Version {
        found: WIRE_VERSION + 1,
    });
    assert_eq!(decoder.decode(&mut bytes.as_slice()), expected);
    let good = encode(&ready(vec![])).unwrap();
    assert_eq!(decoder.decode(&mut good.as_slice()), expected);
}

#[test]
fn the_largest_legal_frames_fit() {
    let worst = "\u{1}".repeat(MAX_RESULT_BYTES);
    let frame = SpokeFrame::Result {
        id: u64::MAX,
        content: worst,
        is_error: true,
        claims: vec!["\u{1}".repeat(MAX_CLAIM_BYTES); MAX_CLAIMS],
        images: vec!["A".repeat(MAX_IMAGES_BYTES / MAX_IMAGES); MAX_IMAGES],
    };
    let bytes = encode(&frame).unwrap();
    assert_eq!(decode_all::<SpokeFrame>(&bytes, &[65_536]), Ok(vec![frame]));

    let text = "\u{1}".repeat(MAX_TOOLS_BYTES / MAX_TOOLS - 16);
    let tools = (0..MAX_TOOLS)
        .map(|i| tool(&format!("t{i}"), &text, "{}"))
        .collect();
    let frame = ready(tools);
    let bytes = encode(&frame).unwrap();
    assert_eq!(decode_all::<SpokeFrame>(&bytes, &[65_536]), Ok(vec![frame]));
}

#[test]
fn a_large_buffer_is_given_back() {
    let frame = SpokeFrame::Result {
        id: 1,
        content: "x".repeat(MAX_RESULT_BYTES),
        is_error: false,
        claims: Vec::new(),
        images: Vec::new(),
    };
    let bytes = encode(&frame).unwrap();
    let mut decoder = Decoder::<SpokeFrame>::new();
    assert!(decoder.decode(&mut bytes.as_slice()).unwrap().is_some());
    assert_eq!(decoder.allocated(), 0);
}

#[test]
fn payloads_that_are_not_frames_are_refused() {
    let cases: &[&str] = &[
        "",
        "null",
        "\"ready\"",
        "{\"result\":{\"id\":1,\"content\":\"x\"}}",
        "{\"result\":{\"id\":1,\"content\":\"x\",\"is_error\":false,\"label\":[]}}",
        "{\"result\":{\"id\":-1,\"content\":\"x\",\"is_error\":false}}",
        "{\"result\":{\"id\":1,\"id\":2,\"content\":\"x\",\"is_error\":false}}",
        "{\"call\":{\"id\":1,\"tool\":\"t\",\"arguments\":\"{}\",\"timeout_ms\":1}}",
        "{\"result\":{\"id\":1,\"content\":\"x\",\"is_error\":false}} {}",
        "{\"result\":{\"id\":1,\"content\":\"\\ud800\",\"is_error\":false}}",
    ];
    for payload in cases {
        let bytes = raw_frame(WIRE_VERSION, payload.as_bytes());
        assert_eq!(
            decode_all::<SpokeFrame>(&bytes, &[9]),
            Err(DecodeError::Malformed),
            "{payload}"
        );
    }
    let deep = "[".repeat(MAX_FRAME_BYTES);
    let bytes = raw_frame(WIRE_VERSION, deep.as_bytes());
    let error = decode_all::<SpokeFrame>(&bytes, &[65_536]);
    assert_eq!(
        error,
        Err(DecodeError::Json(json::JsonError::TooDeep(MAX_FRAME_DEPTH)))
    );
    let wide = format!("[{}0]", "0,".repeat(MAX_FRAME_NODES));
    let error = decode_all::<SpokeFrame>(&raw_frame(WIRE_VERSION, wide.as_bytes()), &[65_536]);
    assert_eq!(
        error,
        Err(DecodeError::Json(json::JsonError::TooManyNodes(
            MAX_FRAME_NODES
        )))
    );
}

/// A frame beyond its limits is refused by the sender and, written past the sender, by the receiver.
fn check_refused<F: Frame + std::fmt::Debug + PartialEq>(frame: &F) {
    assert!(
        matches!(encode(frame), Err(EncodeError::Violation(_))),
        "{frame:?}"
    );
    let bytes = raw_frame(WIRE_VERSION, &serde_json::to_vec(frame).unwrap());
    let result = decode_all::<F>(&bytes, &[65_536]);
    assert!(
        matches!(result, Err(DecodeError::Violation(_))),
        "{frame:?}"
    );
}

#[test]
fn spoke_frames_beyond_their_limits_are_refused_at_both_ends() {
    let long = "x".repeat(MAX_RESULT_BYTES + 1);
    check_refused(&SpokeFrame::Result {
        id: 1,
        content: long,
        is_error: false,
        claims: Vec::new(),
        images: Vec::new(),
    });
    for images in [
        vec!["A".to_owned(); MAX_IMAGES + 1],
        vec!["A".repeat(MAX_IMAGES_BYTES / 2 + 1); 2],
    ] {
        check_refused(&SpokeFrame::Result {
            id: 1,
            content: String::new(),
            is_error: false,
            claims: Vec::new(),
            images,
        });
    }
    for claims in [
        vec!["a".to_owned(); MAX_CLAIMS + 1],
        vec!["a".repeat(MAX_CLAIM_BYTES + 1)],
    ] {
        check_refused(&SpokeFrame::Result {
            id: 1,
            content: String::new(),
            is_error: false,
            claims,
            images: Vec::new(),
        });
    }
    check_refused(&ready(
        (0..=MAX_TOOLS)
            .map(|i| tool(&format!("t{i}"), "", "{}"))
            .collect(),
    ));
    check_refused(&ready(vec![tool("a", "", "{}"), tool("a", "", "{}")]));
    check_refused(&ready(vec![tool("a b", "", "{}")]));
    check_refused(&ready(vec![tool("", "", "{}")]));
    check_refused(&ready(vec![tool("а", "", "{}")]));
    check_refused(&ready(vec![tool("a", "", "[]")]));
    check_refused(&ready(vec![tool("a", "", "{")]));
    check_refused(&ready(vec![tool(
        "a",
        "",
        &format!("{{\"a\":{}{}}}", "[".repeat(64), "]".repeat(64)),
    )]));
    check_refused(&ready(vec![tool(
        "a",
        &"x".repeat(MAX_DESCRIPTION_BYTES + 1),
        "{}",
    )]));
    let schema = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_SCHEMA_BYTES));
    check_refused(&ready(vec![tool("a", "", &schema)]));
    let schema = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_SCHEMA_BYTES - 20));
    check_refused(&ready(
        (0..17)
            .map(|i| tool(&format!("t{i}"), "", &schema))
            .collect(),
    ));
    check_refused(&SpokeFrame::Ready {
        server: ServerInfo {
            name: "x".repeat(MAX_SERVER_INFO_BYTES + 1),
            version: String::new(),
        },
        tools: vec![],
    });
}

#[test]
fn hub_frames_beyond_their_limits_are_refused_at_both_ends() {
    check_refused(&call("t", "[1]", 1));
    check_refused(&call("t", "{}", 0));
    check_refused(&call("t", "{}", MAX_TIMEOUT_MS + 1));
    check_refused(&call("t t", "{}", 1));
    check_refused(&call(
        "t",
        &format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_ARGUMENTS_BYTES)),
        1,
    ));
    let start = |app: AppCommand| HubFrame::Start {
        app,
        limits: AppLimits::default(),
        offer: Offer::default(),
    };
    assert!(encode(&start(command(&["a"]))).is_ok());
    check_refused(&start(command(&[])));
    check_refused(&start(command(&[""])));
    check_refused(&start(command(&["a\0"])));
    check_refused(&start(AppCommand {
        cwd: "here".into(),
        ..command(&["a"])
    }));
    for name in ["", "A=B"] {
        let env = BTreeMap::from([(name.to_owned(), String::new())]);
        check_refused(&start(AppCommand {
            env,
            ..command(&["a"])
        }));
    }
    let limits = AppLimits {
        max_concurrent_calls: 0,
        ..AppLimits::default()
    };
    check_refused(&HubFrame::Start {
        app: command(&["a"]),
        limits,
        offer: Offer::default(),
    });
    let limits = AppLimits {
        max_line_bytes: u32::MAX,
        ..AppLimits::default()
    };
    check_refused(&HubFrame::Start {
        app: command(&["a"]),
        limits,
        offer: Offer::default(),
    });
}

fn text_field(name: &str) -> Field {
    Field {
        name: name.to_owned(),
        title: String::new(),
        description: String::new(),
        required: true,
        kind: FieldKind::Text {
            min_length: None,
            max_length: None,
        },
    }
}

#[test]
fn questions_beyond_their_limits_are_refused_at_both_ends() {
    let asks = |message: &str, fields: Vec<Field>| SpokeFrame::Request {
        call: 1,
        request: 1,
        ask: Ask::User(Form {
            message: message.to_owned(),
            fields,
        }),
    };
    assert_eq!(asks("?", vec![text_field("a")]).check(), Ok(()));
    check_refused(&asks(&"x".repeat(MAX_QUESTION_BYTES + 1), vec![]));
    let many = (0..=MAX_FIELDS).map(|i| text_field(&i.to_string()));
    check_refused(&asks("?", many.collect()));
    check_refused(&asks("?", vec![text_field("a"), text_field("a")]));
    check_refused(&asks("?", vec![text_field("")]));
    let long = "x".repeat(MAX_FIELD_TEXT_BYTES + 1);
    check_refused(&asks("?", vec![text_field(&long)]));
    let described = |i: usize| Field {
        title: "x".repeat(MAX_FIELD_TEXT_BYTES),
        description: "x".repeat(MAX_FIELD_TEXT_BYTES),
        ..text_field(&i.to_string())
    };
    check_refused(&asks("?", (0..MAX_FIELDS).map(described).collect()));
    let choice = |count: usize| Field {
        kind: FieldKind::Choices(vec![
            FieldOption {
                value: "x".to_owned(),
                title: String::new()
            };
            count
        ]),
        ..text_field(&count.to_string())
    };
    check_refused(&asks("?", vec![choice(0)]));
    check_refused(&asks("?", vec![choice(MAX_OPTIONS), choice(1)]));
}

#[test]
fn wishes_for_completions_and_replies_beyond_their_limits_are_refused_at_both_ends() {
    let wish = |texts: &[&str], max_tokens| SpokeFrame::Request {
        call: 1,
        request: 1,
        ask: Ask::Model(Sampling {
            system: String::new(),
            messages: texts
                .iter()
                .map(|text| SamplingMessage {
                    assistant: false,
                    text: (*text).to_owned(),
                })
                .collect(),
            max_tokens,
        }),
    };
    assert_eq!(wish(&["a"], 1).check(), Ok(()));
    check_refused(&wish(&[], 1));
    check_refused(&wish(&["a"], 0));
    check_refused(&wish(&["a"; MAX_SAMPLING_MESSAGES + 1], 1));
    check_refused(&wish(&["a", &"x".repeat(MAX_SAMPLING_BYTES)], 1));
    let reply = |reply| HubFrame::Reply { request: 1, reply };
    check_refused(&reply(Reply::Accepted("[]".to_owned())));
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_FORM_ANSWER_BYTES));
    check_refused(&reply(Reply::Accepted(long)));
    check_refused(&reply(Reply::Completion(SamplingAnswer {
        text: "x".repeat(MAX_SAMPLING_BYTES + 1),
        provider: String::new(),
        cut: false,
    })));
    let offer = |root: &str, count| HubFrame::Start {
        app: command(&["a"]),
        limits: AppLimits::default(),
        offer: Offer {
            roots: vec![root.to_owned(); count],
            ..Offer::default()
        },
    };
    check_refused(&offer("relative", 1));
    check_refused(&offer("/a", MAX_ROOTS + 1));
}
