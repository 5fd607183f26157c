//! Certificates and keys from the text of PEM files.

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// All certificates of a text, in its order.
///
/// # Errors
/// Where there is none, or one cannot be read.
pub(crate) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let found = found.map_err(|error| format!("a certificate cannot be read: {error}"))?;
    if found.is_empty() { Err(String::from("it holds no certificate (PEM)")) } else { Ok(found) }
}

/// The first key of a text.
///
/// # Errors
/// Where there is none that can be read; those with a passphrase cannot.
pub(crate) fn key(text: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(text)
        .map_err(|error| format!("it holds no private key without a passphrase (PEM): {error}"))
}
