//! How a node recognises that a request comes from another node of its cluster: a header that is signed with the secret
//! that the nodes share. A client that sends such a header cannot sign it, so it is dropped.

use aws_lc_rs::hmac;
use axum::extract::Request;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::text;

pub const HOP: HeaderName = HeaderName::from_static("dibs-hop");

/// The name of a node, in its response to another one that looks for it.
pub const NODE: HeaderName = HeaderName::from_static("dibs-node");

pub struct HopSecret(hmac::Key);

impl HopSecret {
    pub fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// Marks a request as sent by this node.
    pub fn sign(&self, node: &str, request: &mut Request) {
        let value = HeaderValue::from_str(&self.value(node, request.method(), request.uri().path()));
        request.headers_mut().insert(HOP, value.expect("the name of a node fits a header"));
    }

    /// The value of the header.
    pub fn value(&self, node: &str, method: &Method, path: &str) -> String {
        let tag = hmac::sign(&self.0, &signed(node, method, path));
        format!("{node} {}", text::hex::encode(tag.as_ref()))
    }

    /// Whether a node of this cluster has signed the request.
    pub fn verifies(&self, method: &Method, path: &str, headers: &HeaderMap) -> bool {
        headers
            .get(HOP)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| self.verifies_value(method, path, value))
    }

    /// The same with the value of the header.
    pub fn verifies_value(&self, method: &Method, path: &str, value: &str) -> bool {
        let Some((node, tag)) = value.split_once(' ') else { return false };
        text::hex::decode(tag).is_some_and(|tag| hmac::verify(&self.0, &signed(node, method, path), &tag).is_ok())
    }
}

fn signed(node: &str, method: &Method, path: &str) -> Vec<u8> {
    format!("{node}\n{method}\n{path}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_node_with_the_secret_can_sign() {
        let (secret, other) = (HopSecret::new(b"one"), HopSecret::new(b"two"));
        let mut request = Request::builder().method("POST").uri("/api/x").body(axum::body::Body::empty()).unwrap();
        secret.sign("a", &mut request);
        let headers = request.headers().clone();
        assert!(secret.verifies(&Method::POST, "/api/x", &headers));
        assert!(!other.verifies(&Method::POST, "/api/x", &headers));
        assert!(!secret.verifies(&Method::GET, "/api/x", &headers));
        assert!(!secret.verifies(&Method::POST, "/api/y", &headers));
        for bad in ["", "a", "a ", "a zz", "a 00", "ü 00"] {
            let headers = HeaderMap::from_iter([(HOP, HeaderValue::from_bytes(bad.as_bytes()).unwrap())]);
            assert!(!secret.verifies(&Method::POST, "/api/x", &headers), "{bad:?}");
        }
    }
}
