//! What a client sent, in a form that can be compared: the digest of a conversation's beginning.

use ifc::{Arguments, Label};
use sha2::{Digest as _, Sha256};

use crate::api::{answer::CallOut, error::ApiError};
use crate::consult::random;
use crate::conversation::{Message, Role};

/// Names the beginning of one conversation of one client, up to some message.
pub(super) type Digest = [u8; 32];

/// The digest of everything so far: each link covers the one before it.
#[derive(Clone)]
pub(super) struct Chain {
    tenant: Digest,
    digest: Digest,
    /// The same without the conversation's name.
    place: Digest,
}

/// One message as the chain sees it. Two writings of one message, such as two orders of the
/// members of a call's arguments, are one message: clients parse and write again what they got.
pub(super) struct Link<'a> {
    pub(super) role: &'a str,
    pub(super) name: Option<&'a str>,
    pub(super) text: &'a str,
    pub(super) calls: Vec<[&'a str; 3]>,
    pub(super) answers: Option<&'a str>,
    pub(super) images: Vec<Digest>,
}

impl Chain {
    /// The beginning of a conversation. `secret` is of this process alone, so that no client can
    /// prepare a digest; `tenant` and `conversation` keep clients apart.
    pub(super) fn new(secret: &Digest, tenant: &Digest, conversation: Option<&str>) -> Self {
        let mut hash = Sha256::new();
        hash.update(secret);
        hash.update(tenant);
        let place = hash.clone().finalize().into();
        field(&mut hash, conversation);
        Self {
            tenant: *tenant,
            digest: hash.finalize().into(),
            place,
        }
    }

    pub(super) fn push(&mut self, link: &Link<'_>) {
        let mut hash = Sha256::new();
        field(&mut hash, Some(link.role));
        field(&mut hash, link.name);
        field(&mut hash, Some(link.text));
        field(&mut hash, link.answers);
        hash.update(link.calls.len().to_be_bytes());
        for [id, tool, arguments] in &link.calls {
            field(&mut hash, Some(id));
            field(&mut hash, Some(tool));
            field(&mut hash, Some(&canonical(arguments)));
        }
        for image in &link.images {
            hash.update(image);
        }
        let message: Digest = hash.finalize().into();
        for chain in [&mut self.digest, &mut self.place] {
            *chain = Sha256::new()
                .chain_update(*chain)
                .chain_update(message)
                .finalize()
                .into();
        }
    }

    /// Names a text that comes beside the messages, as a member of the request of this kind: the same text has one
    /// place in all conversations of the tenant. Asked of the chain before any message.
    pub(super) fn beside(&self, kind: &str, text: &str) -> Digest {
        let mut hash = Sha256::new();
        hash.update(self.place);
        field(&mut hash, Some(kind));
        field(&mut hash, Some(text));
        hash.finalize().into()
    }

    /// Names an answer by its words, in all conversations of the tenant alike. Asked of the chain before any message.
    pub(super) fn said(&self, text: &str) -> Digest {
        self.beside("said", text.trim())
    }

    /// Names a text that a call passes on, likewise.
    pub(super) fn passed(&self, text: &str) -> Digest {
        self.beside("passed", text.trim())
    }

    pub(super) fn digest(&self) -> Digest {
        self.digest
    }

    /// Names the newest message and all before it, in all conversations of the tenant alike.
    pub(super) fn place(&self) -> Digest {
        self.place
    }

    pub(super) fn tenant(&self) -> Digest {
        self.tenant
    }
}

impl<'a> Link<'a> {
    pub(super) fn of(message: &'a Message) -> Self {
        let calls = message.calls.iter();
        let images = message.images.iter();
        Self {
            role: message.role.name(),
            name: message.name.as_deref(),
            text: match message.role {
                // Some clients trim what they got.
                Role::Assistant => message.text.trim(),
                _ => &message.text,
            },
            calls: calls
                .map(|call| [&*call.id, &*call.tool, &*call.arguments])
                .collect(),
            answers: message.answers.as_deref(),
            images: images.map(|image| hash(image.bytes())).collect(),
        }
    }

    /// An answer of ours, as the client will send it again.
    pub(super) fn answer(text: &'a str, calls: &'a [CallOut]) -> Self {
        let calls = calls.iter();
        Self {
            role: Role::Assistant.name(),
            name: None,
            text: text.trim(),
            calls: calls
                .map(|call| [&*call.id, &*call.name, &*call.arguments])
                .collect(),
            answers: None,
            images: Vec::new(),
        }
    }
}

/// A name that cannot be guessed, of 128 random bits: for calls, answers and questions.
pub(super) fn fresh(prefix: &str) -> Result<String, ApiError> {
    let bytes = random::<16>().map_err(ApiError::internal)?;
    Ok(format!("{prefix}{:032x}", u128::from_be_bytes(bytes)))
}

pub(super) fn hash(text: &[u8]) -> Digest {
    Sha256::digest(text).into()
}

/// Lengths go first, so that no two lists of fields have one writing.
fn field(hash: &mut Sha256, text: Option<&str>) {
    match text {
        None => hash.update([0]),
        Some(text) => {
            hash.update([1]);
            hash.update(text.len().to_be_bytes());
            hash.update(text);
        }
    }
}

/// Arguments in the one form of all their writings. Clients write `1.0` for `1`, but a number that was rounded is another
/// one. Text that readers disagree about, with a name that stands twice for one, has no other form than its own.
pub(super) fn canonical(text: &str) -> String {
    match Arguments::parse(text, &Label::bottom()) {
        Ok(arguments) => arguments.by_value([].iter()),
        Err(_) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(conversation: Option<&str>, links: &[Link<'_>]) -> Digest {
        let mut chain = Chain::new(&[0; 32], &[1; 32], conversation);
        for link in links {
            chain.push(link);
        }
        chain.digest()
    }

    fn says<'a>(role: &'a str, text: &'a str, calls: Vec<[&'a str; 3]>) -> Link<'a> {
        Link {
            role,
            name: None,
            text,
            calls,
            answers: None,
            images: Vec::new(),
        }
    }

    #[test]
    fn writings_of_one_message_are_one_message_and_no_others() {
        let one = |arguments: &'static str| {
            digest(
                None,
                &[says("assistant", "", vec![["1", "send", arguments]])],
            )
        };
        assert_eq!(
            one(r#"{"b":[1,{"y":1.0,"x":"ü"}],"a":null}"#),
            one(r#"{ "a": null, "b": [1, {"x": "\u00fc", "y": 1.0}] }"#)
        );
        assert_eq!(
            one(r#"{"n":[1,-1.50,100,0],"s":"1.0 \" 2\\"}"#),
            one(r#"{"n":[1.0,-15e-1,1E2,0.0],"s":"1.0 \" 2\\"}"#)
        );
        assert_ne!(one(r#"{"a":"1.0"}"#), one(r#"{"a":"1"}"#));
        assert_ne!(one(r#"{"a":1}"#), one(r#"{"a":2}"#));
        // Of the one of these a reader may make the other.
        assert_ne!(one(r#"{"a":"2","a":"1"}"#), one(r#"{"a":"1"}"#));
        assert_ne!(
            one(r#"{"n":21000418450200051332}"#),
            one(r#"{"n":21000418450200051333}"#)
        );
        assert_ne!(one(r#"{"a":1}"#), one(r#"{"a":"1"}"#));
        assert_ne!(one("not json"), one("not  json"));
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        let user = |text| says("user", text, vec![]);
        let all = [
            digest(None, &[user("ab")]),
            digest(None, &[user("a"), user("b")]),
            digest(None, &[says("use", "rab", vec![])]),
            digest(None, &[says("user", "ab", vec![["", "", ""]])]),
            digest(Some(""), &[user("ab")]),
            digest(Some("a"), &[user("ab")]),
            digest(
                None,
                &[Link {
                    images: vec![[0; 32]],
                    ..user("ab")
                }],
            ),
            digest(
                None,
                &[Link {
                    images: vec![[1; 32]],
                    ..user("ab")
                }],
            ),
            digest(None, &[user("b"), user("a")]),
        ];
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
