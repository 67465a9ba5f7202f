//! Reads the certificate and the key with which the server speaks TLS.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::config::ReloadableSettings;

/// The largest certificate or key file, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The TLS configuration with the configured files; none if none are configured. Each error is one sentence.
pub fn load(settings: &ReloadableSettings) -> Result<Option<Arc<ServerConfig>>> {
    match (&settings.tls_cert, &settings.tls_key) {
        (Some(certificate), Some(key)) => load_files(&certificate.value, &key.value).map(Some),
        _ => Ok(None),
    }
}

fn load_files(certificate_file: &Path, key_file: &Path) -> Result<Arc<ServerConfig>> {
    let (bytes, _) = read(certificate_file, "certificate")?;
    let shown = certificate_file.display();
    let certificates: Vec<CertificateDer<'_>> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .with_context(|| format!("the TLS certificate {shown} is not a PEM file"))?;
    if certificates.is_empty() {
        bail!("the TLS certificate {shown} has no certificate in it; write the whole chain there as PEM");
    }
    let certificates = certificates.into_iter().map(CertificateDer::into_owned).collect();

    let (bytes, mode) = read(key_file, "key")?;
    let shown = key_file.display();
    if mode & 0o007 != 0 {
        let mode = mode & 0o7777;
        bail!("the TLS key {shown} can be read by other users (mode {mode:04o}); run: chmod 600 {key_file:?}");
    }
    // The error of the library could repeat what is in the file.
    let Ok(key) = PrivateKeyDer::from_pem_slice(&bytes) else {
        bail!("the TLS key {shown} has no private key in it; write it there as PEM, without a password");
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions")
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .with_context(|| {
            let certificate = certificate_file.display();
            format!("the TLS certificate {certificate} and the key {shown} cannot be used together")
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The content and the mode of a file.
fn read(file: &Path, what: &str) -> Result<(Vec<u8>, u32)> {
    let failed = || format!("cannot read the TLS {what} {}", file.display());
    // Opening a pipe would wait for a writer, so the file type is checked first.
    if !std::fs::metadata(file).with_context(failed)?.is_file() {
        bail!("the TLS {what} {} is not a file; name another one", file.display());
    }
    let opened = File::open(file).with_context(failed)?;
    let mode = opened.metadata().with_context(failed)?.mode();
    let mut bytes = Vec::new();
    opened.take(FILE_BYTES_MAX).read_to_end(&mut bytes).with_context(failed)?;
    Ok((bytes, mode))
}
