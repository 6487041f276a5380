//! A resolver's side of DNS (RFC 1035), as much of it as a spoke needs: one question, one address.

use std::net::Ipv4Addr;

use crate::DomainName;

/// The longest query that is read. One name takes 255 bytes at most, what EDNS adds is about 30.
pub const MAX_QUERY: usize = 512;

/// Seconds that an answer may be kept. The address is the name's as long as the spoke lives; what was
/// denied may be allowed later.
const TTL: u32 = 60;

const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;
const CLASS_INTERNET: u16 = 1;
const HEADER: usize = 12;
/// The longest name as it is sent, with the lengths of its parts.
const MAX_NAME: usize = 255;
/// The flags of a response with recursion available, and the bits that it takes from the query.
const RESPONSE: u16 = 0x8080;
const RECURSION_DESIRED: u16 = 0x0100;
/// Query or response, and the kind of query: both 0 in a query that is answered.
const NOT_A_QUERY: u16 = 0xf800;
/// Points to the question's name, right behind the header.
const NAME_OF_QUESTION: u16 = 0xc00c;

/// A query with one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query<'a> {
    id: u16,
    flags: u16,
    /// The question as it came: a client may compare it to the byte.
    question: &'a [u8],
    name: String,
    kind: u16,
    class: u16,
}

/// What a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// An IPv4 address.
    Address,
    /// An IPv6 address: no name has one.
    AddressV6,
    /// Anything else.
    Other,
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// This address.
    Address(Ipv4Addr),
    /// The name exists, and has nothing of the kind.
    Nothing,
    /// There is no such name. Resolvers take it for final, so a program fails at once.
    NoSuchName,
    /// It is not answered.
    Refused,
}

impl Answer {
    fn code(self) -> u16 {
        match self {
            Self::Address(_) | Self::Nothing => 0,
            Self::NoSuchName => 3,
            Self::Refused => 5,
        }
    }
}

impl<'a> Query<'a> {
    /// Reads a query. `None` for what is none, or has another number of questions: it gets no answer.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() > MAX_QUERY {
            return None;
        }
        let mut reader = Reader(bytes);
        let (id, flags, questions) = (reader.u16()?, reader.u16()?, reader.u16()?);
        // A response, above all, is not answered: two programs could otherwise answer each other without end.
        if flags & NOT_A_QUERY != 0 || questions != 1 {
            return None;
        }
        // What follows the question (EDNS) changes nothing: no answer is long.
        let _counts = reader.take(HEADER - 6)?;
        let start = reader.0;
        let name = read_name(&mut reader)?;
        let (kind, class) = (reader.u16()?, reader.u16()?);
        let question = start.get(..start.len() - reader.0.len())?;
        Some(Self {
            id,
            flags,
            question,
            name,
            kind,
            class,
        })
    }

    /// The name in question, or as much of it as can be shown: it may be none that exists.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.name
    }

    /// The name in question, if it is one that a spoke can ask for.
    #[must_use]
    pub fn name(&self) -> Option<DomainName> {
        DomainName::new(&self.name).ok()
    }

    /// What is wanted of the name.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        match (self.class, self.kind) {
            (CLASS_INTERNET, TYPE_A) => Wanted::Address,
            (CLASS_INTERNET, TYPE_AAAA) => Wanted::AddressV6,
            _ => Wanted::Other,
        }
    }

    /// The response with this answer.
    #[must_use]
    pub fn response(&self, answer: Answer) -> Vec<u8> {
        let count = u16::from(matches!(answer, Answer::Address(_)));
        let flags = RESPONSE | self.flags & RECURSION_DESIRED | answer.code();
        let mut out = Vec::with_capacity(HEADER + self.question.len() + 16);
        for number in [self.id, flags, 1, count, 0, 0] {
            out.extend(number.to_be_bytes());
        }
        out.extend(self.question);
        if let Answer::Address(address) = answer {
            for number in [NAME_OF_QUESTION, TYPE_A, CLASS_INTERNET] {
                out.extend(number.to_be_bytes());
            }
            out.extend(TTL.to_be_bytes());
            out.extend(4_u16.to_be_bytes());
            out.extend(address.octets());
        }
        out
    }
}

/// The bytes that are not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }
}

/// A name without pointers, which a question has no use for. What is no ASCII is replaced: no name has it.
fn read_name(reader: &mut Reader<'_>) -> Option<String> {
    let mut name = String::new();
    loop {
        let length = reader.u8()?;
        if length == 0 {
            return Some(name);
        }
        if !name.is_empty() {
            name.push('.');
        }
        // As it is sent, a name has its first length and the end besides.
        let sent = name.len() + usize::from(length) + 2;
        // Two high bits mark a pointer, and 63 is the longest part.
        if length > 63 || sent > MAX_NAME {
            return None;
        }
        // A dot within a part would make two of it.
        let plain = |byte: &u8| match byte {
            b'.' => '?',
            byte if byte.is_ascii_graphic() => char::from(*byte),
            _ => '?',
        };
        name.extend(reader.take(length.into())?.iter().map(plain));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &[&[u8]], kind: u16) -> Vec<u8> {
        let mut bytes = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
        for label in name {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend(*label);
        }
        bytes.push(0);
        bytes.extend(kind.to_be_bytes());
        bytes.extend(1_u16.to_be_bytes());
        // EDNS, as glibc and Go send it.
        bytes.extend([0, 0, 41, 4, 0xb0, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    #[test]
    fn a_question_gets_its_address() {
        let bytes = query(&[b"Api", b"example", b"org"], 1);
        let query = Query::read(&bytes).unwrap();
        assert_eq!(query.name().unwrap().as_str(), "api.example.org");
        assert_eq!(query.wanted(), Wanted::Address);
        let answer = query.response(Answer::Address(Ipv4Addr::new(198, 18, 0, 1)));
        assert_eq!(
            answer[..12],
            [0xab, 0xcd, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]
        );
        // The question is repeated as it was written.
        assert_eq!(answer[12..33], bytes[12..33]);
        let record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 0, 1];
        assert_eq!(answer[33..], record);
        let denied = query.response(Answer::NoSuchName);
        assert_eq!(denied[..8], [0xab, 0xcd, 0x81, 0x83, 0, 1, 0, 0]);
        assert_eq!(denied.len(), 33);
    }

    #[test]
    fn other_kinds_and_other_names_are_told_apart() {
        let bytes = query(&[b"a", b"example", b"org"], 28);
        assert_eq!(Query::read(&bytes).unwrap().wanted(), Wanted::AddressV6);
        let bytes = query(&[b"a", b"example", b"org"], 65);
        assert_eq!(Query::read(&bytes).unwrap().wanted(), Wanted::Other);
        for (name, shown) in [
            (&[&b"example.org"[..], b"evil"][..], "example?org.evil"),
            (&[b"ex\0mple", b"org"], "ex?mple.org"),
            (&[b"org"], "org"),
            (&[], ""),
        ] {
            let bytes = query(name, 1);
            let query = Query::read(&bytes).unwrap();
            assert_eq!((query.text(), query.name()), (shown, None));
        }
    }

    #[test]
    fn what_is_no_query_gets_no_answer() {
        let good = query(&[b"example", b"org"], 1);
        for cut in 0..good.len() - 11 {
            assert_eq!(Query::read(&good[..cut]), None, "{cut} bytes");
        }
        let change = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            bytes
        };
        for bytes in [
            change(2, 0x81), // a response
            change(2, 0x28), // an update
            change(5, 2),    // two questions
            change(5, 0),
            change(12, 0xc0), // a pointer
            change(12, 64),
            vec![0; MAX_QUERY + 1],
        ] {
            assert_eq!(Query::read(&bytes), None);
        }
        let long = [&[b'a'; 63][..]; 5];
        assert_eq!(Query::read(&query(&long, 1)), None);
        // The longest name has 127 parts of one letter.
        let parts = [&b"a"[..]; 128];
        assert!(Query::read(&query(&parts[..127], 1)).is_some());
        assert_eq!(Query::read(&query(&parts, 1)), None);
    }
}
