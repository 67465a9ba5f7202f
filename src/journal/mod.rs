//! Makes records durable and gives them back, without knowing what they mean.
