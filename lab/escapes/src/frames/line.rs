//! The spoke's end of its channel, without any manners.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};
use wire::{Decoder, Hints, HubFrame, SpokeFrame, ToolDescription, WIRE_VERSION};

/// What stands in everything that must not count: tools, results, questions.
pub(crate) const FORGED: &str = "forged";
/// The tool of a spoke that does as it should, and what it answers.
pub(crate) const SOUND: &str = "sound";
/// How long a sound spoke takes for a call, so that others can do something meanwhile.
const WORK: Duration = Duration::from_millis(100);

pub(crate) struct Line {
    pub(crate) channel: UnixStream,
    decoder: Decoder<HubFrame>,
    /// What arrived behind the last frame.
    rest: Vec<u8>,
}

impl Line {
    pub(super) fn new(channel: UnixStream) -> Self {
        Self {
            channel,
            decoder: Decoder::new(),
            rest: Vec::new(),
        }
    }

    /// Answers every call as it should, until the hub has enough.
    pub(super) fn be_sound(&mut self) -> io::Result<()> {
        self.ready()?;
        self.go_on()
    }

    /// Answers every call from now on as a sound spoke does.
    pub(super) fn go_on(&mut self) -> io::Result<()> {
        loop {
            let id = self.call()?;
            std::thread::sleep(WORK);
            self.say(&result(id, SOUND))?;
        }
    }

    /// The next frame of the hub.
    fn next(&mut self) -> io::Result<HubFrame> {
        let mut portion = vec![0; 1 << 16];
        loop {
            let mut input = self.rest.as_slice();
            let frame = self.decoder.decode(&mut input).map_err(io::Error::other)?;
            self.rest = input.to_vec();
            if let Some(frame) = frame {
                return Ok(frame);
            }
            match self.channel.read(&mut portion)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => self.rest.extend(portion.iter().take(length)),
            }
        }
    }

    /// Waits until it is to start.
    pub(super) fn started(&mut self) -> io::Result<()> {
        match self.next()? {
            HubFrame::Start { .. } => Ok(()),
            other => Err(io::Error::other(format!("no start: {other:?}"))),
        }
    }

    pub(super) fn ready(&mut self) -> io::Result<()> {
        self.started()?;
        self.say(&ready(SOUND))
    }

    /// Waits for a call; its id.
    pub(super) fn call(&mut self) -> io::Result<u64> {
        loop {
            if let HubFrame::Call { id, .. } = self.next()? {
                return Ok(id);
            }
        }
    }

    /// Starts as it should and waits for the first call.
    pub(super) fn called(&mut self) -> io::Result<u64> {
        self.ready()?;
        self.call()
    }

    /// Sends a frame of this version's form, whatever is in it.
    pub(super) fn say(&mut self, frame: &Value) -> io::Result<()> {
        self.payload(frame.to_string().as_bytes())
    }

    /// Sends these bytes as a frame.
    pub(super) fn payload(&mut self, payload: &[u8]) -> io::Result<()> {
        self.raw(&framed(WIRE_VERSION, payload))
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.channel.write_all(bytes)
    }
}

/// A header that announces so many bytes.
pub(super) fn header(version: u8, length: u32) -> Vec<u8> {
    let mut header = length.to_be_bytes().to_vec();
    header.push(version);
    header
}

pub(super) fn framed(version: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = header(version, u32::try_from(payload.len()).unwrap_or(u32::MAX));
    frame.extend(payload);
    frame
}

/// A frame of the product's form, to be changed.
fn of(frame: &impl serde::Serialize) -> Value {
    serde_json::to_value(frame).unwrap_or_default()
}

/// A tool as a spoke describes it.
pub(super) fn tool(name: &str) -> Value {
    of(&ToolDescription {
        name: name.to_owned(),
        description: String::new(),
        input_schema: r#"{"type":"object"}"#.to_owned(),
        hints: Hints::default(),
    })
}

/// The same, with something else in the place of one field.
pub(super) fn tool_with(field: &str, value: &str) -> Value {
    changed(tool(FORGED), field, value)
}

/// The app runs and has this tool.
pub(super) fn ready(tool_name: &str) -> Value {
    ready_with(json!([tool(tool_name)]))
}

pub(super) fn ready_with(tools: Value) -> Value {
    json!({"ready": {"server": {"name": "hostile", "version": "1"}, "tools": tools}})
}

/// A result, whoever asked for it.
pub(super) fn result(id: impl Into<Value>, content: &str) -> Value {
    result_with("id", id, content)
}

/// A result of call 1, with something else in the place of one field.
pub(super) fn result_with(field: &str, value: impl Into<Value>, content: &str) -> Value {
    let frame = of(&SpokeFrame::Result {
        id: 1,
        content: content.to_owned(),
        is_error: false,
        claims: Vec::new(),
        images: Vec::new(),
        exact: None,
    });
    let inner = frame.get("result").cloned().unwrap_or_default();
    json!({"result": changed(inner, field, value)})
}

fn changed(mut fields: Value, field: &str, value: impl Into<Value>) -> Value {
    if let Some(fields) = fields.as_object_mut() {
        fields.insert(field.to_owned(), value.into());
    }
    fields
}

pub(super) fn question(call: u64, request: u64) -> Value {
    let ask = json!({"user": {"message": FORGED, "fields": []}});
    json!({"request": {"call": call, "request": request, "ask": ask}})
}

pub(super) fn failed(id: u64, reason: impl Into<Value>) -> Value {
    let reason: Value = reason.into();
    json!({"call_failed": {"id": id, "reason": reason}})
}

pub(super) fn refused() -> Value {
    json!({"refused": {"wish": "question", "why": "no_call", "times": 1}})
}
