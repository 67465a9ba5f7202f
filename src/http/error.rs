//! Error replies: all of them have the same JSON envelope, [`ErrorBody`].

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};

use crate::desk::SubmitError;
use crate::key::BadKey;
use crate::token::BadToken;
use crate::wire::{BadBody, Code, ErrorBody, Notice};

/// An error reply. Boxed, because it is large and rare.
#[derive(Debug)]
pub struct ApiError(Box<ErrorParts>);

#[derive(Debug)]
struct ErrorParts {
    body: ErrorBody,
    retry_after_seconds: Option<u64>,
    /// Close the connection instead of replying.
    close_without_reply: bool,
}

/// Marks a response that must not be sent: the transport closes the connection instead. Used when it is not known
/// whether a command was carried out (a 503 would promise that nothing was granted; a closed connection promises nothing),
/// and when the client is gone.
#[derive(Clone)]
pub struct CloseWithoutReply;

pub type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    /// An error with a code and a sentence, and no further facts.
    pub fn new(code: Code, sentence: impl Into<String>) -> Self {
        Self::from(ErrorBody::new(code, sentence))
    }

    /// The client has closed its connection, and nothing is sent to it.
    pub fn client_gone() -> Self {
        let mut error = Self::new(Code::Unavailable, "the client has closed the connection");
        error.0.close_without_reply = true;
        error
    }

    /// Sets `Retry-After`, at least one second.
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.0.retry_after_seconds = Some(seconds.max(1));
        self
    }

    /// Adds the notices for the calling session.
    pub fn with_notices(mut self, notices: Vec<Notice>) -> Self {
        if !notices.is_empty() {
            let notices = serde_json::to_value(notices).expect("notices are plain data");
            self.0.body.more.insert("notices".to_owned(), notices);
        }
        self
    }

    /// Adds the ids under which the history of a request that waited can be asked.
    pub fn with_reservation_ids(mut self, ids: Option<Vec<String>>) -> Self {
        self.0.body.reservation_ids = ids;
        self
    }

    /// The same error in other words.
    pub fn with_sentence(mut self, sentence: String) -> Self {
        self.0.body.error = sentence;
        self
    }

    pub fn code(&self) -> Code {
        self.0.body.code
    }

    /// The sentence for people.
    pub fn sentence(&self) -> &str {
        &self.0.body.error
    }

    /// The body, to be sent in another form; the error itself if nothing may be sent.
    pub fn into_body(self) -> Result<ErrorBody, ApiError> {
        if self.0.close_without_reply { Err(self) } else { Ok(self.0.body) }
    }
}

impl From<ErrorBody> for ApiError {
    fn from(body: ErrorBody) -> Self {
        Self(Box::new(ErrorParts { body, retry_after_seconds: None, close_without_reply: false }))
    }
}

impl From<BadBody> for ApiError {
    fn from(bad: BadBody) -> Self {
        Self::from(ErrorBody::from(bad))
    }
}

impl From<BadKey> for ApiError {
    fn from(bad: BadKey) -> Self {
        let code = match &bad {
            BadKey::Path(_) => Code::InvalidPath,
            BadKey::Form(_) => Code::InvalidKey,
            BadKey::Namespace(_) => Code::OperationNotPermitted,
        };
        Self::new(code, bad.to_string())
    }
}

impl From<BadToken> for ApiError {
    fn from(bad: BadToken) -> Self {
        Self::new(Code::Unauthenticated, bad.to_string())
    }
}

impl From<SubmitError> for ApiError {
    fn from(trouble: SubmitError) -> Self {
        let mut error = Self::new(Code::Unavailable, trouble.to_string()).retry_after(1);
        error.0.close_without_reply = trouble == SubmitError::OutcomeUnknown;
        error
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let ErrorParts { body, retry_after_seconds, close_without_reply } = *self.0;
        let status = StatusCode::from_u16(body.code.status()).expect("codes have valid statuses");
        let json = serde_json::to_vec(&body).expect("an error body is plain data");
        let mut response = (status, [(CONTENT_TYPE, "application/json")], json).into_response();
        if body.code == Code::Unauthenticated {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = retry_after_seconds {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        if close_without_reply {
            response.extensions_mut().insert(CloseWithoutReply);
        }
        response
    }
}
