//! The keys of the audit log, which are derived from the secret of the deployment.

use ring::hmac;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

/// Bytes of the shortest secret that keys are derived from.
const SHORTEST: usize = 16;

/// Signs heads, and makes the digests of contents.
///
/// The digests are keyed: a reader of the log without the secret of the deployment cannot check a guess of a short argument.
pub struct AuditKeys {
    pair: Ed25519KeyPair,
    digests: hmac::Key,
}

impl AuditKeys {
    /// The keys of this secret. Every process with the same secret has the same ones.
    ///
    /// # Errors
    /// The secret is too short.
    pub fn new(secret: &[u8]) -> Result<Self, &'static str> {
        if secret.len() < SHORTEST {
            return Err("the secret of the deployment is too short for keys");
        }
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let derived = |what: &str| hmac::sign(&secret, what.as_bytes());
        let seed = derived("sluice audit, signature of heads");
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.as_ref());
        let digests = derived("sluice audit, digests of contents");
        Ok(Self {
            pair: pair.map_err(|_| "no key can be made from the secret of the deployment")?,
            digests: hmac::Key::new(hmac::HMAC_SHA256, digests.as_ref()),
        })
    }

    /// The public key in hexadecimal digits: what [`verify`](super::verify()) takes.
    pub fn public(&self) -> String {
        hex(self.pair.public_key().as_ref())
    }

    /// The digest of a content.
    pub fn digest(&self, content: &str) -> String {
        hex(hmac::sign(&self.digests, content.as_bytes()).as_ref())
    }

    pub(super) fn sign(&self, statement: &str) -> String {
        hex(self.pair.sign(statement.as_bytes()).as_ref())
    }
}

/// Whether this key has signed this statement. Keys and signatures are lowercase hexadecimal digits, so that each has one form.
pub(super) fn is_signed(key: &str, statement: &str, signature: &str) -> bool {
    let (Some(key), Some(signature)) = (bytes(key), bytes(signature)) else {
        return false;
    };
    let key = UnparsedPublicKey::new(&ED25519, key);
    key.verify(statement.as_bytes(), &signature).is_ok()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    // The form is the one of `hex`: no sign, no capital letter, no half of a byte.
    bytes
        .collect::<Option<Vec<u8>>>()
        .filter(|it| hex(it) == digits)
}
