//! One SMTP conversation (RFC 5321) without sockets: lines in, replies out.

/// Longest accepted line with its CRLF. RFC 5321 §4.5.3.1 asks for 512 (commands) and 1000 (text); the rest is
/// room for extensions, and still small enough that no client can make the server hold much.
pub(crate) const MAX_LINE_BYTES: usize = 4096;
/// Largest accepted message. Ten times what the tests and the demo send.
pub(crate) const MAX_MESSAGE_BYTES: usize = 10 * 1024 * 1024;
/// Most recipients of one message: what RFC 5321 §4.5.3.1.8 asks for at least.
const MAX_RECIPIENTS: usize = 100;
/// Longest accepted path (RFC 5321 §4.5.3.1.3).
const MAX_PATH_BYTES: usize = 256;
/// Wrong commands until the client is sent away, so that a confused one does not loop for ever.
const MAX_ERRORS: usize = 20;

/// An accepted message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The envelope sender; empty for bounces.
    pub from: String,
    /// The envelope recipients, in order.
    pub to: Vec<String>,
    /// Header and body with CRLF line ends and dots restored; bytes that are not UTF-8 are replaced.
    pub data: String,
}

/// What the server must do after one line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// A line of message text was taken; nothing is sent.
    Silent,
    /// Send this reply (without its CRLF).
    Reply(String),
    /// Send this reply, then close the connection.
    Close(String),
    /// A whole message: store it, then confirm or refuse it.
    Message(Received),
}

#[derive(Debug, Default)]
pub(crate) struct Session {
    greeted: bool,
    from: Option<String>,
    to: Vec<String>,
    /// `Some` between DATA and the final dot.
    data: Option<Vec<u8>>,
    /// The message outgrew the limit: it is read to its end, and refused there.
    oversized: bool,
    errors: usize,
}

impl Session {
    /// Takes one line without its CRLF.
    pub(crate) fn line(&mut self, line: &[u8]) -> Output {
        if self.data.is_some() {
            return self.text(line);
        }
        let Ok(line) = str::from_utf8(line) else {
            return self.refuse("500 5.5.2 a command is ASCII text");
        };
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match verb.to_ascii_uppercase().as_str() {
            "HELO" | "EHLO" if rest.is_empty() => self.refuse("501 5.5.4 name yourself: EHLO host"),
            "HELO" => self.greet("250 smtp-sink".to_owned()),
            "EHLO" => self.greet(format!(
                "250-smtp-sink\r\n250-SIZE {MAX_MESSAGE_BYTES}\r\n250-8BITMIME\r\n250 PIPELINING"
            )),
            "MAIL" => self.mail(rest),
            "RCPT" => self.rcpt(rest),
            "DATA" => self.data(rest),
            "RSET" => {
                self.reset();
                Output::Reply("250 2.0.0 reset".to_owned())
            }
            "NOOP" => Output::Reply("250 2.0.0 ok".to_owned()),
            "VRFY" => Output::Reply("252 2.5.2 send the mail and see".to_owned()),
            "QUIT" => Output::Close("221 2.0.0 goodbye".to_owned()),
            "STARTTLS" | "AUTH" | "EXPN" | "HELP" => self.refuse("502 5.5.1 not offered here"),
            _ => self.refuse("500 5.5.1 unknown command"),
        }
    }

    fn greet(&mut self, reply: String) -> Output {
        // A greeting in the middle of a session discards the message under way (RFC 5321 §4.1.4).
        self.reset();
        self.greeted = true;
        Output::Reply(reply)
    }

    fn mail(&mut self, argument: &str) -> Output {
        if !self.greeted {
            return self.refuse("503 5.5.1 say EHLO first");
        }
        if self.from.is_some() {
            return self.refuse("503 5.5.1 one MAIL for each message");
        }
        let Some((path, parameters)) = path(argument, "FROM:") else {
            return self.refuse("501 5.5.4 write MAIL FROM:<address>");
        };
        // The empty path is the sender of bounces (RFC 5321 §4.5.5).
        if !path.is_empty() && !is_mailbox(path) {
            return self.refuse("501 5.1.7 this is not an address");
        }
        for parameter in parameters.split_ascii_whitespace() {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match name.to_ascii_uppercase().as_str() {
                "SIZE" => match value.parse::<usize>() {
                    Ok(size) if size <= MAX_MESSAGE_BYTES => {}
                    Ok(_) => return self.refuse("552 5.3.4 message too large"),
                    Err(_) => return self.refuse("501 5.5.4 SIZE is a number"),
                },
                "BODY" if ["7BIT", "8BITMIME"].contains(&value.to_ascii_uppercase().as_str()) => {}
                _ => return self.refuse("555 5.5.4 unknown parameter"),
            }
        }
        self.from = Some(path.to_owned());
        Output::Reply("250 2.1.0 ok".to_owned())
    }

    fn rcpt(&mut self, argument: &str) -> Output {
        if self.from.is_none() {
            return self.refuse("503 5.5.1 say MAIL first");
        }
        let Some((path, parameters)) = path(argument, "TO:") else {
            return self.refuse("501 5.5.4 write RCPT TO:<address>");
        };
        if !is_mailbox(path) && !path.eq_ignore_ascii_case("postmaster") {
            return self.refuse("501 5.1.3 this is not an address");
        }
        if !parameters.is_empty() {
            return self.refuse("555 5.5.4 unknown parameter");
        }
        if self.to.len() >= MAX_RECIPIENTS {
            return self.refuse("452 4.5.3 too many recipients");
        }
        self.to.push(path.to_owned());
        Output::Reply("250 2.1.5 ok".to_owned())
    }

    fn data(&mut self, argument: &str) -> Output {
        if !argument.is_empty() {
            return self.refuse("501 5.5.4 DATA has no argument");
        }
        if self.to.is_empty() {
            return self.refuse("503 5.5.1 say MAIL and RCPT first");
        }
        self.data = Some(Vec::new());
        Output::Reply("354 end with a line that holds one dot".to_owned())
    }

    /// One line of message text, with the transparency of RFC 5321 §4.5.2: a leading dot was added by the client.
    fn text(&mut self, line: &[u8]) -> Output {
        if line == b"." {
            return self.finish();
        }
        let line = line.strip_prefix(b".").unwrap_or(line);
        if let Some(data) = &mut self.data {
            if data.len() + line.len() + 2 > MAX_MESSAGE_BYTES {
                // Not refused yet: the client sends the whole message before it reads a reply.
                self.oversized = true;
            } else {
                data.extend_from_slice(line);
                data.extend_from_slice(b"\r\n");
            }
        }
        Output::Silent
    }

    fn finish(&mut self) -> Output {
        let from = self.from.take().unwrap_or_default();
        let to = std::mem::take(&mut self.to);
        let data = self.data.take().unwrap_or_default();
        let oversized = self.oversized;
        self.reset();
        if oversized {
            return self.refuse("552 5.3.4 message too large");
        }
        Output::Message(Received {
            from,
            to,
            data: String::from_utf8_lossy(&data).into_owned(),
        })
    }

    fn reset(&mut self) {
        self.from = None;
        self.to.clear();
        self.data = None;
        self.oversized = false;
    }

    fn refuse(&mut self, reply: &str) -> Output {
        self.errors += 1;
        if self.errors > MAX_ERRORS {
            return Output::Close("421 4.7.0 too many errors".to_owned());
        }
        Output::Reply(reply.to_owned())
    }
}

/// Splits `FROM:<path> parameters` into path (source route removed, RFC 5321 appendix C) and parameters.
fn path<'a>(argument: &'a str, keyword: &str) -> Option<(&'a str, &'a str)> {
    let head = argument.get(..keyword.len())?;
    if !head.eq_ignore_ascii_case(keyword) {
        return None;
    }
    let rest = argument
        .get(keyword.len()..)?
        .trim_start()
        .strip_prefix('<')?;
    let (path, parameters) = rest.split_once('>')?;
    if path.len() > MAX_PATH_BYTES {
        return None;
    }
    let path = match path.split_once(':') {
        Some((route, mailbox)) if route.starts_with('@') => mailbox,
        _ => path,
    };
    Some((path, parameters.trim()))
}

fn is_mailbox(path: &str) -> bool {
    // No control characters, blanks or brackets: what is printed of an envelope is one line.
    let printable = path
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'<');
    printable
        && path
            .rsplit_once('@')
            .is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Feeds lines, returns the three-digit codes of the replies and the messages.
    fn talk(lines: &[&str]) -> (Vec<String>, Vec<Received>) {
        let mut session = Session::default();
        let (mut codes, mut messages) = (Vec::new(), Vec::new());
        for line in lines {
            match session.line(line.as_bytes()) {
                Output::Silent => {}
                Output::Reply(reply) | Output::Close(reply) => codes.push(reply[..3].to_owned()),
                Output::Message(message) => messages.push(message),
            }
        }
        (codes, messages)
    }

    #[test]
    fn a_message_is_taken_and_its_dots_are_restored() {
        let (codes, messages) = talk(&[
            "EHLO me",
            "MAIL FROM:<a@x.org> BODY=8BITMIME SIZE=10",
            "RCPT TO:<b@y.org>",
            "rcpt to: <@r:c@y.org>",
            "DATA",
            "Subject: t",
            "",
            "..",
            "..dots",
            "plain",
            ".",
            "QUIT",
        ]);
        assert_eq!(codes, ["250", "250", "250", "250", "354", "221"]);
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0].from, "a@x.org");
        assert_eq!(messages[0].to, ["b@y.org", "c@y.org"]);
        assert_eq!(
            messages[0].data,
            "Subject: t\r\n\r\n.\r\n.dots\r\nplain\r\n"
        );
    }

    #[test]
    fn wrong_order_and_wrong_syntax_are_refused() {
        for (lines, want) in [
            (vec!["MAIL FROM:<a@x>"], vec!["503"]),
            (vec!["EHLO"], vec!["501"]),
            (vec!["HELO a", "RCPT TO:<a@x>"], vec!["250", "503"]),
            (vec!["HELO a", "DATA"], vec!["250", "503"]),
            (
                vec!["HELO a", "MAIL FROM:<a@x>", "MAIL FROM:<a@x>"],
                vec!["250", "250", "503"],
            ),
            (
                vec!["HELO a", "MAIL FROM:<a@x>", "RSET", "RCPT TO:<a@x>"],
                vec!["250", "250", "250", "503"],
            ),
            (vec!["HELO a", "MAIL FROM:a@x"], vec!["250", "501"]),
            (vec!["HELO a", "MAIL FROM:<a>"], vec!["250", "501"]),
            (vec!["HELO a", "MAIL FROM:<a b@x>"], vec!["250", "501"]),
            (
                vec!["HELO a", "MAIL FROM:<>", "RCPT TO:<>"],
                vec!["250", "250", "501"],
            ),
            (
                vec!["HELO a", "MAIL FROM:<a@x> SIZE=99999999999"],
                vec!["250", "552"],
            ),
            (vec!["HELO a", "MAIL FROM:<a@x> X=1"], vec!["250", "555"]),
            (
                vec!["AUTH PLAIN", "STARTTLS", "WHAT"],
                vec!["502", "502", "500"],
            ),
        ] {
            assert_eq!(talk(&lines).0, want, "{lines:?}");
        }
    }

    #[test]
    fn a_message_over_the_limit_is_read_to_its_end_and_refused() {
        let mut session = Session::default();
        for line in ["HELO a", "MAIL FROM:<a@x>", "RCPT TO:<b@x>", "DATA"] {
            session.line(line.as_bytes());
        }
        let line = vec![b'x'; 4000];
        for _ in 0..=MAX_MESSAGE_BYTES / line.len() {
            assert_eq!(session.line(&line), Output::Silent);
        }
        assert!(matches!(session.line(b"."), Output::Reply(reply) if reply.starts_with("552")));
        assert!(matches!(session.line(b"NOOP"), Output::Reply(reply) if reply.starts_with("250")));
    }

    #[test]
    fn a_client_that_only_errs_is_sent_away() {
        let mut session = Session::default();
        let closed = (0..=MAX_ERRORS).any(|_| matches!(session.line(b"?"), Output::Close(_)));
        assert!(closed);
    }

    proptest! {
        #[test]
        fn any_lines_are_answered_and_text_survives(lines in prop::collection::vec("[ -~]{0,60}", 0..20)) {
            let mut session = Session::default();
            for line in &lines {
                session.line(line.as_bytes());
            }
            let mut session = Session::default();
            for line in ["HELO a", "MAIL FROM:<a@x>", "RCPT TO:<b@x>", "DATA"] {
                session.line(line.as_bytes());
            }
            for line in &lines {
                let stuffed = if line.starts_with('.') { format!(".{line}") } else { line.clone() };
                prop_assert_eq!(session.line(stuffed.as_bytes()), Output::Silent);
            }
            let want: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
            let Output::Message(message) = session.line(b".") else { panic!("no message") };
            prop_assert_eq!(message.data, want);
        }
    }
}
