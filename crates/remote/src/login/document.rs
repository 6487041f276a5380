//! Documents of the servers of a login, and what is sent to them.

use names::WebUrl;
use reqwest::header::HeaderMap;
use reqwest::{Method, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::http::{Http, JSON, Request, body};
use crate::step::is_code;
use crate::trouble::Trouble;

/// The longest document about a server or about tokens. They have a few thousand bytes.
const MAX_DOCUMENT: usize = 64 << 10;

/// The document at this address; `None` if there is none.
pub(super) async fn document<T: DeserializeOwned>(
    http: &Http,
    at: &WebUrl,
) -> Result<Option<T>, Trouble> {
    let request = Request {
        method: Method::GET,
        to: at,
        accept: JSON,
        body: None,
        headers: HeaderMap::new(),
    };
    let response = http.raw(&request).await?;
    match response.status() {
        status if status.is_success() => read(response).await.map(Some),
        // Not 404 alone: servers that demand a token for each path answer 401 or 403 for a document that they do not have.
        status if status.is_client_error() => Ok(None),
        status => Err(Trouble::Status(status)),
    }
}

/// Sends a body to an authorization server: its answer, or the code of its refusal.
pub(super) async fn post<T: DeserializeOwned>(
    http: &Http,
    to: &WebUrl,
    body: (&'static str, Vec<u8>),
    headers: HeaderMap,
) -> Result<Result<T, String>, Trouble> {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    let request = Request {
        method: Method::POST,
        to,
        accept: JSON,
        body: Some(body),
        headers,
    };
    let response = http.raw(&request).await?;
    match response.status() {
        status if status.is_success() => read(response).await.map(Ok),
        status if status.is_client_error() => match read::<Refusal>(response).await {
            // The code alone: a description beside it is the server's own words.
            Ok(refusal) if is_code(&refusal.error) => Ok(Err(refusal.error)),
            _ => Err(Trouble::Status(status)),
        },
        status => Err(Trouble::Status(status)),
    }
}

async fn read<T: DeserializeOwned>(response: Response) -> Result<T, Trouble> {
    let text = body(response, MAX_DOCUMENT).await?;
    // The reason would quote the text.
    serde_json::from_slice(&text)
        .map_err(|_| Trouble::Form("its document is not what was asked for"))
}

/// The address of a document about what is at `of`: its path follows that of the document (RFC 8414 §3.1).
pub(super) fn well_known(of: &WebUrl, document: &str) -> WebUrl {
    let path = of.path().trim_end_matches('/');
    of.with_path(&format!("/.well-known/{document}{path}"))
}
