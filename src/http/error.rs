//! Refusals on their way out: one envelope for all of them.

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};

use crate::desk::SubmitError;
use crate::key::BadKey;
use crate::token::BadToken;
use crate::wire::{BadBody, Code, ErrorBody, Notice};

/// A refusal. Boxed, because it is large and rare.
#[derive(Debug)]
pub struct ApiError(Box<Refusal>);

#[derive(Debug)]
struct Refusal {
    body: ErrorBody,
    retry_after_seconds: Option<u64>,
    hang_up: bool,
}

/// On an answer that must not be given: whoever asked is hung up on. A 503 promises that nothing was granted, and a
/// connection that breaks promises nothing.
#[derive(Clone)]
pub struct HangUp;

/// What handlers answer.
pub type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    /// A refusal without facts.
    pub fn new(code: Code, sentence: impl Into<String>) -> Self {
        Self::from(ErrorBody::new(code, sentence))
    }

    /// The client may come back after so many seconds.
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.0.retry_after_seconds = Some(seconds.max(1));
        self
    }

    /// Tells the session what it should know besides.
    pub fn with_notices(mut self, notices: Vec<Notice>) -> Self {
        if !notices.is_empty() {
            let notices = serde_json::to_value(notices).expect("notices are plain data");
            self.0.body.more.insert("notices".to_owned(), notices);
        }
        self
    }

    /// The code, for logs and tests.
    pub fn code(&self) -> Code {
        self.0.body.code
    }
}

impl From<ErrorBody> for ApiError {
    fn from(body: ErrorBody) -> Self {
        Self(Box::new(Refusal { body, retry_after_seconds: None, hang_up: false }))
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
        error.0.hang_up = trouble == SubmitError::OutcomeUnknown;
        error
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Refusal { body, retry_after_seconds, hang_up } = *self.0;
        let status = StatusCode::from_u16(body.code.status()).expect("codes have valid statuses");
        let json = serde_json::to_vec(&body).expect("a refusal is plain data");
        let mut response = (status, [(CONTENT_TYPE, "application/json")], json).into_response();
        if body.code == Code::Unauthenticated {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = retry_after_seconds {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        if hang_up {
            response.extensions_mut().insert(HangUp);
        }
        response
    }
}
