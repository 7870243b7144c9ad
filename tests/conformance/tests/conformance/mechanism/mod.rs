//! Mechanisms, ZAP handlers, certificates.

mod certificate_files;
mod security;
mod zap_handlers;
