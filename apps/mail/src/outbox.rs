//! Composing a message and handing it to the SMTP server.

use std::time::Duration;

use app_support::is_address;
use lettre::Transport;
use lettre::address::{Address, Envelope};
use lettre::message::header::{ContentType, MIME_VERSION_1_0};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::{Error, SmtpTransport};

use crate::config::{Security, Smtp};
use crate::error::MailError;

/// Most recipients of one message: a person's mail, not a campaign.
pub(crate) const MAX_RECIPIENTS: usize = 20;
pub(crate) const MAX_SUBJECT_CHARS: usize = 200;
/// Longest body that is sent; more than a model writes.
pub(crate) const MAX_BODY_CHARS: usize = 100_000;
/// How long each step of the exchange with the server may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Sends a text message from the configured address; returns when the server has accepted it.
pub(crate) fn send(smtp: &Smtp, to: &[String], subject: &str, body: &str) -> Result<(), MailError> {
    let message = compose(smtp, to, subject, body)?;
    transport(smtp)?
        .send(&message)
        .map_err(|error| MailError::Smtp(explain(&error)))?;
    Ok(())
}

fn compose(smtp: &Smtp, to: &[String], subject: &str, body: &str) -> Result<Message, MailError> {
    if to.is_empty() || to.len() > MAX_RECIPIENTS {
        return Err(MailError::BadRecipientCount(MAX_RECIPIENTS));
    }
    // A line break in a subject would begin another header, such as `Bcc`.
    if subject.chars().any(char::is_control) || subject.chars().count() > MAX_SUBJECT_CHARS {
        return Err(MailError::BadSubject(MAX_SUBJECT_CHARS));
    }
    let is_text = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    if body.chars().count() > MAX_BODY_CHARS || !body.chars().all(is_text) {
        return Err(MailError::BadBody(MAX_BODY_CHARS));
    }
    let mut builder = Message::builder()
        .from(smtp.from.clone())
        .subject(subject)
        // `None` makes lettre generate an id.
        .message_id(None);
    let mut recipients = Vec::new();
    for (number, address) in (1..).zip(to) {
        let address = address.trim();
        let parsed: Option<Address> = is_address(address).then(|| address.parse().ok()).flatten();
        let parsed = parsed.ok_or(MailError::BadRecipient(number))?;
        builder = builder.to(Mailbox::new(None, parsed.clone()));
        recipients.push(parsed);
    }
    // The envelope is stated, not derived from the headers: it is what decides who gets the mail.
    let envelope =
        Envelope::new(Some(smtp.from.email.clone()), recipients).map_err(|_| MailError::Compose)?;
    builder
        .envelope(envelope)
        .header(MIME_VERSION_1_0)
        .header(ContentType::TEXT_PLAIN)
        .body(body.to_owned())
        .map_err(|_| MailError::Compose)
}

fn transport(smtp: &Smtp) -> Result<SmtpTransport, MailError> {
    // "Dangerous" only says that TLS is not on by itself; it is set in the next line, and never opportunistic.
    let mut builder = SmtpTransport::builder_dangerous(&smtp.host)
        .port(smtp.port)
        .tls(tls(smtp).map_err(|error| MailError::Smtp(explain(&error)))?)
        .timeout(Some(TIMEOUT));
    if let Some((user, password)) = &smtp.login {
        builder = builder.credentials(Credentials::new(user.clone(), password.clone()));
    }
    Ok(builder.build())
}

fn tls(smtp: &Smtp) -> Result<Tls, Error> {
    let parameters = |name: &String| {
        let builder = TlsParameters::builder(name.clone());
        match &smtp.authority {
            Some(authority) => builder
                .certificate_store(CertificateStore::None)
                .add_root_certificate(authority.clone()),
            None => builder.certificate_store(CertificateStore::WebpkiRoots),
        }
        .build()
    };
    Ok(match &smtp.security {
        Security::None => Tls::None,
        Security::StartTls(name) => Tls::Required(parameters(name)?),
        Security::Tls(name) => Tls::Wrapper(parameters(name)?),
    })
}

/// What went wrong, without the words of the server: they are text from outside.
fn explain(error: &Error) -> String {
    if let Some(code) = error.status() {
        let again = if error.is_transient() {
            "try again later"
        } else {
            "check the addresses"
        };
        return format!("the SMTP server refused it with code {code}, {again}");
    }
    if error.is_timeout() {
        return "the SMTP server did not answer in time, try again later".to_owned();
    }
    if error.is_tls() {
        return "the secure connection failed: check SMTP_TLS and SMTP_TLS_NAME".to_owned();
    }
    if error.is_client() {
        return "the SMTP server lacks what SMTP_TLS or SMTP_USER asks for".to_owned();
    }
    "the SMTP server cannot be reached: check SMTP_SERVER".to_owned()
}
