//! Whether a request was read to its end before it was answered.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use axum::{
    http::{HeaderValue, Request, header::CONNECTION},
    response::Response,
};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

/// A request's body, which notes when it has ended.
pub(super) struct Watched {
    body: Incoming,
    ended: Arc<AtomicBool>,
}

/// The end of a request.
pub(super) struct End(Arc<AtomicBool>);

/// Watches how far a request is read.
pub(super) fn watch(request: Request<Incoming>) -> (Request<Watched>, End) {
    let ended = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let end = End(ended.clone());
    (request.map(|body| Watched { body, ended }), end)
}

impl End {
    /// The answer, which says that the connection ends with it where the rest of the request is still to come. Nobody
    /// reads that rest, and a client that does not know would send its next request into a connection that is closing.
    pub(super) fn answered(self, mut response: Response) -> Response {
        if !self.0.load(Ordering::Relaxed) {
            let headers = response.headers_mut();
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.ended.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
