//! The attempts by frames.

use std::io::{self, IoSlice, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};
use wire::WIRE_VERSION;
use wire::limits::{
    MAX_CLAIM_BYTES, MAX_CLAIMS, MAX_FRAME_BYTES, MAX_FRAME_DEPTH, MAX_FRAME_NODES,
    MAX_RESULT_BYTES, MAX_TOOLS,
};

use super::line::{
    FORGED, Line, SOUND, failed, framed, header, question, ready, ready_with, refused, result,
    result_with, tool, tool_with,
};

/// What an attempt does on its line.
pub(super) type Act = Box<dyn Fn(&mut Line) -> io::Result<()>>;

pub(crate) struct FrameAttempt {
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
    /// Whether the hub must end the spoke for it; otherwise it is enough that nothing is gained.
    pub(crate) ends: bool,
    pub(super) code: Act,
}

impl FrameAttempt {
    /// What is to be seen if the walls hold.
    pub(crate) const fn expected(&self) -> &'static str {
        match self.ends {
            true => "this spoke is ended, with nothing gained; the hub and another spoke go on",
            false => "nothing is gained; the hub and another spoke go on",
        }
    }
}

pub(crate) fn attempts() -> Vec<FrameAttempt> {
    let mut list = List {
        group: "",
        all: Vec::new(),
    };
    headers(&mut list);
    payloads(&mut list);
    starts(&mut list);
    exchanges(&mut list);
    requests(&mut list);
    floods(&mut list);
    list.all
}

struct List {
    group: &'static str,
    all: Vec<FrameAttempt>,
}

type Code = fn(&mut Line) -> io::Result<()>;

impl List {
    /// The hub must end the spoke for it.
    fn ends(&mut self, name: &'static str, code: Code) {
        self.add(name, true, Box::new(code));
    }

    /// It is enough that nothing is gained.
    fn gains_nothing(&mut self, name: &'static str, code: Code) {
        self.add(name, false, Box::new(code));
    }

    /// These frames after the first call, whose id they are made with. The hub must end the spoke for them.
    fn answer(&mut self, name: &'static str, frames: fn(u64) -> Vec<Value>) {
        let code = move |line: &mut Line| {
            let id = line.called()?;
            frames(id).iter().try_for_each(|frame| line.say(frame))
        };
        self.add(name, true, Box::new(code));
    }

    /// These bytes as a frame after the first call. The hub must end the spoke for them.
    fn payload(&mut self, name: &'static str, payload: fn(u64) -> Vec<u8>) {
        let code = move |line: &mut Line| {
            let id = line.called()?;
            line.payload(&payload(id))
        };
        self.add(name, true, Box::new(code));
    }

    /// A start with these tools. The hub must end the spoke for it.
    fn start(&mut self, name: &'static str, tools: fn() -> Value) {
        let code = move |line: &mut Line| {
            line.started()?;
            line.say(&ready_with(tools()))
        };
        self.add(name, true, Box::new(code));
    }

    fn add(&mut self, name: &'static str, ends: bool, code: Act) {
        let group = self.group;
        self.all.push(FrameAttempt {
            group,
            name,
            ends,
            code,
        });
    }
}

/// A forged result for the call under way, in a frame of another version.
fn in_version(line: &mut Line, version: u8) -> io::Result<()> {
    let id = line.called()?;
    line.raw(&framed(version, &text(&result(id, FORGED))))
}

fn text(frame: &Value) -> Vec<u8> {
    frame.to_string().into_bytes()
}

fn headers(list: &mut List) {
    list.group = "frames: headers";
    list.ends("a frame of the version before", |it| {
        in_version(it, WIRE_VERSION - 1)
    });
    list.ends("a frame of the version after", |it| {
        in_version(it, WIRE_VERSION + 1)
    });
    list.ends("a frame of version 0", |it| in_version(it, 0));
    list.ends("a frame of version 255", |it| in_version(it, u8::MAX));
    list.payload("a frame of no bytes", |_| Vec::new());
    list.ends("a frame that is one byte too long", |line| {
        line.called()?;
        let length = u32::try_from(MAX_FRAME_BYTES + 1).unwrap_or(u32::MAX);
        line.raw(&header(WIRE_VERSION, length))
    });
    list.ends("a frame of four gigabytes", |line| {
        line.called()?;
        // With bytes behind it: a hub that believes the length has something to collect.
        line.raw(&header(WIRE_VERSION, u32::MAX))?;
        endless(line, b" ")
    });
    list.ends("half a header", |line| {
        line.called().and_then(|_| line.raw(&[0, 0]))
    });
    list.ends("half a header, and the end", |line| {
        line.called()?;
        line.raw(&[0, 0])?;
        std::process::exit(0)
    });
    list.ends("half a frame", |line| {
        let frame = framed(WIRE_VERSION, &text(&result(line.called()?, FORGED)));
        line.raw(frame.get(..frame.len() / 2).unwrap_or_default())
    });
    list.ends("half a frame, and the end", |line| {
        let frame = framed(WIRE_VERSION, &text(&result(line.called()?, FORGED)));
        line.raw(frame.get(..frame.len() - 1).unwrap_or_default())?;
        std::process::exit(0)
    });
    list.gains_nothing("a frame byte by byte", |line| {
        for byte in framed(WIRE_VERSION, &text(&result(line.called()?, SOUND))) {
            line.raw(&[byte])?;
        }
        // Slow and sound: the call is to be answered as if the frame had come at once.
        line.go_on()
    });
    list.payload("a longest frame of nothing but spaces", |_| {
        vec![b' '; MAX_FRAME_BYTES]
    });
    list.gains_nothing("a frame with descriptors of the spoke's", |line| {
        let frame = framed(WIRE_VERSION, &text(&result(line.called()?, SOUND)));
        let null = std::fs::File::open("/dev/null")?;
        // The frame itself is sound. What must not happen is that the hub keeps what came along with it.
        let null = [null.as_fd(); 16];
        let mut room = [std::mem::MaybeUninit::uninit(); 256];
        let mut ancillary = SendAncillaryBuffer::new(&mut room);
        ancillary.push(SendAncillaryMessage::ScmRights(&null));
        sendmsg(
            &line.channel,
            &[IoSlice::new(&frame)],
            &mut ancillary,
            SendFlags::empty(),
        )?;
        line.go_on()
    });
}

fn payloads(list: &mut List) {
    list.group = "frames: what is in them";
    list.payload("no JSON", |_| FORGED.into());
    list.payload("JSON that is no frame", |_| b"[]".to_vec());
    list.payload("a frame that only the hub sends", |_| {
        br#"{"call":{"id":1,"tool":"sound","arguments":"{}","timeout_ms":1}}"#.to_vec()
    });
    list.payload("a kind of frame that there is not", |_| {
        br#"{"approve":{"id":1}}"#.to_vec()
    });
    list.payload("two frames in one", |id| {
        let (mut one, other) = (result(id, FORGED), ready(FORGED));
        if let (Some(one), Some(other)) = (one.as_object_mut(), other.as_object()) {
            one.extend(other.clone());
        }
        text(&one)
    });
    list.payload("two frames behind one header", |id| {
        text(&result(id, FORGED)).repeat(2)
    });
    list.answer("a frame with a field more", |_| {
        vec![result_with("label", "public", FORGED)]
    });
    list.payload("a frame that says a field twice", |id| {
        let text = result(id, FORGED).to_string();
        text.replace(r#""id":"#, r#""id":1,"id":"#).into()
    });
    list.payload("a frame without a field", |id| {
        format!(r#"{{"result":{{"id":{id},"content":"{FORGED}"}}}}"#).into()
    });
    list.payload("text that is none", |id| {
        let mut text = text(&result(id, FORGED));
        if let Some(place) = text.iter_mut().find(|byte| **byte == b'f') {
            *place = 0xff;
        }
        text
    });
    list.payload("values that are nested without end", |_| {
        "[".repeat(MAX_FRAME_DEPTH + 1).into()
    });
    list.payload("values nested a million deep", |_| {
        "[".repeat(1 << 20).into()
    });
    list.payload("more values than a frame has", |_| {
        format!("[{}0]", "0,".repeat(MAX_FRAME_NODES)).into()
    });
    list.answer("a result that is one byte too long", |id| {
        vec![result(id, &"x".repeat(MAX_RESULT_BYTES + 1))]
    });
    list.answer("one claim too many about a result", |_| {
        vec![result_with(
            "claims",
            vec!["public"; MAX_CLAIMS + 1],
            FORGED,
        )]
    });
    list.answer("a claim that is one byte too long", |_| {
        vec![result_with(
            "claims",
            vec!["x".repeat(MAX_CLAIM_BYTES + 1)],
            FORGED,
        )]
    });
}

fn starts(list: &mut List) {
    list.group = "frames: the start";
    list.ends("nothing at all", |line| line.started());
    list.ends("a result before the start", |line| {
        line.say(&result(1, FORGED))
    });
    list.ends("a question before the start", |line| {
        line.say(&question(1, 1))
    });
    list.ends("the end instead of a start", |_| std::process::exit(0));
    list.ends("ready twice, with other tools", |line| {
        line.ready()?;
        line.say(&ready(FORGED))
    });
    list.answer("ready again, while a call runs", |id| {
        vec![ready(FORGED), result(id, FORGED)]
    });
    list.start("one tool too many", || {
        (0..=MAX_TOOLS)
            .map(|number| tool(&format!("{FORGED}-{number}")))
            .collect()
    });
    list.start("two tools of one name", || {
        json!([tool(FORGED), tool(FORGED)])
    });
    list.start("a tool whose name ends the line", || {
        json!([tool("forged\nsluice: allowed")])
    });
    list.start("a tool whose name is an escape of the terminal's", || {
        json!([tool("forged\u{1b}[2J")])
    });
    list.start("a tool whose schema is none", || {
        json!([tool_with("input_schema", "[]")])
    });
    list.start("a description without end", || {
        json!([tool_with("description", &"x".repeat(1 << 20))])
    });
}

fn exchanges(list: &mut List) {
    list.group = "frames: calls and their results";
    list.answer("a result for another call", |id| {
        vec![result(id + 1, FORGED)]
    });
    list.answer("a result for call 0", |_| vec![result(0, FORGED)]);
    list.answer("a result for a call below none", |_| {
        vec![result(-1, FORGED)]
    });
    list.answer("a result for the last of all numbers", |_| {
        vec![result(u64::MAX, FORGED)]
    });
    list.answer("a result for a call by its name", |id| {
        vec![result(id.to_string(), FORGED)]
    });
    list.answer("a result for a call and a half", |id| {
        vec![result(id as f64 + 0.5, FORGED)]
    });
    list.answer("the same result again", |id| {
        vec![result(id, SOUND), result(id, FORGED)]
    });
    // An old id must not answer a new call, whose arguments the user may have been asked about.
    list.ends("the result of the last call, for the next", |line| {
        let id = line.called()?;
        line.say(&result(id, SOUND))?;
        line.call()?;
        line.say(&result(id, FORGED))
    });
    // Numbers of calls can be guessed, so an answer can be sent ahead: it must not count for a call with other arguments.
    list.answer("a result before its call", |id| {
        vec![result(id, SOUND), result(id + 1, FORGED)]
    });
    list.answer("both: the result, and that it failed", |id| {
        vec![result(id, SOUND), failed(id, "unknown_tool")]
    });
    list.answer("the failure of a call that nobody made", |id| {
        vec![failed(id + 7, "output_closed")]
    });
    list.answer("that a call was cancelled, which nobody did", |id| {
        vec![failed(id, "cancelled")]
    });
    list.answer("no answer at all", |_| Vec::new());
    list.ends("the end instead of an answer", |line| {
        line.called()?;
        std::process::exit(0)
    });
    list.gains_nothing("that the app failed, with words for the terminal", |line| {
        line.called()?;
        let stderr = format!("\u{1b}]0;{FORGED}\u{7}\nsluice: allowed");
        line.say(&json!({"app_failed": {"reason": "output_closed", "stderr": stderr}}))
    });
}

fn requests(list: &mut List) {
    list.group = "frames: questions";
    list.answer("a question for another call", |id| {
        vec![question(id + 1, 1)]
    });
    list.ends("a question while no call runs", |line| {
        line.ready()?;
        line.say(&question(1, 1))
    });
    list.answer("a question after its call", |id| {
        vec![result(id, SOUND), question(id, 1)]
    });
    list.answer("a form of ten thousand fields", |id| {
        let field =
            json!({"name": "a", "title": "", "description": "", "required": true, "kind": "yes"});
        let ask = json!({"user": {"message": FORGED, "fields": vec![field; 10_000]}});
        vec![json!({"request": {"call": id, "request": 1, "ask": ask}})]
    });
    list.answer("a question of a megabyte", |id| {
        let ask = json!({"user": {"message": FORGED.repeat(1 << 17), "fields": []}});
        vec![json!({"request": {"call": id, "request": 1, "ask": ask}})]
    });
}

fn floods(list: &mut List) {
    list.group = "frames: without end";
    list.ends("bytes without end", |line| {
        line.called()?;
        endless(line, &[0xff])
    });
    list.ends("frames without end", |line| {
        line.called()?;
        let frame = framed(WIRE_VERSION, &text(&refused()));
        endless(line, &frame)
    });
    list.ends("a frame that never ends", |line| {
        line.called()?;
        line.raw(&header(
            WIRE_VERSION,
            u32::try_from(MAX_FRAME_BYTES).unwrap_or(u32::MAX),
        ))?;
        loop {
            line.raw(b" ")?;
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    list.ends("not a byte is read", |line| {
        line.ready()?;
        // The hub's words stay in the channel from here on.
        std::thread::sleep(Duration::from_secs(60));
        Ok(())
    });
    list.ends("words on stderr without end", |line| {
        line.called()?;
        let words = FORGED.repeat(1000);
        loop {
            std::io::stderr().write_all(words.as_bytes())?;
        }
    });
}

fn endless(line: &mut Line, bytes: &[u8]) -> io::Result<()> {
    let many = bytes.repeat((1 << 20) / bytes.len());
    loop {
        line.raw(&many)?;
    }
}
