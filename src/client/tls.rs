//! HTTPS: which certificates the client trusts, and what is wrong with one that it does not.
//!
//! Nothing here runs unless an address begins with `https://`.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Trusts the authorities of this system (or those in `SSL_CERT_FILE` and `SSL_CERT_DIR`), and those in `ca_file`. The
/// error is a sentence.
pub fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = ca_file {
        let failed = |error: rustls::pki_types::pem::Error| {
            format!("the CA file {} (git config dibs.caFile) cannot be used: {error}", file.display())
        };
        let certificates = CertificateDer::pem_file_iter(file).map_err(failed)?;
        let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        if roots.add_parsable_certificates(certificates).0 == 0 {
            return Err(format!("the CA file {} (git config dibs.caFile) has no certificate in it", file.display()));
        }
    }
    if roots.is_empty() {
        return Err("this system has no certificate authorities; install them (ca-certificates), or name a file with \
                    them in SSL_CERT_FILE"
            .to_owned());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Speaks TLS over a connection to this host. The error completes "the server at … sent ".
pub async fn handshake(
    connector: &TlsConnector,
    host: &str,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| "nothing, as no certificate can have its name")?;
    connector.connect(name, stream).await.map_err(|error| what_was_sent(&error))
}

fn what_was_sent(error: &io::Error) -> String {
    use rustls::Error;
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let what = match inner {
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "a certificate of an authority that this machine does not trust (name the authority's file with: \
             git config --global dibs.caFile FILE)"
        }
        Some(Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => "a certificate for another name",
        Some(Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. })) => {
            "a certificate that has expired"
        }
        Some(Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        )) => "a certificate that is not valid yet",
        Some(Error::InvalidCertificate(_)) => "a certificate that is not valid",
        Some(Error::InvalidMessage(_)) => "something that is not TLS",
        _ => return format!("no certificate ({error})"),
    };
    what.to_owned()
}
