//! Certificates and keys from the text of PEM files.

use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// The text of a PEM file.
pub struct Pem {
    /// The name in errors, which tells an operator which file to mend.
    pub name: String,
    /// Its contents.
    pub text: Vec<u8>,
}

impl Pem {
    /// All certificates, in the order of the text.
    ///
    /// # Errors
    /// Where there is none, or one cannot be read.
    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.text).collect();
        let found = found
            .map_err(|error| format!("{} holds a certificate that cannot be read: {error}", self.name))?;
        if found.is_empty() { Err(format!("{} holds no certificate (PEM)", self.name)) } else { Ok(found) }
    }

    /// All certificates, as authorities that others are signed by.
    ///
    /// # Errors
    /// As [`Self::certificates`], or where one cannot sign others.
    pub(crate) fn authorities(&self) -> Result<RootCertStore, String> {
        let mut authorities = RootCertStore::empty();
        for certificate in self.certificates()? {
            let refused =
                |error| format!("{} holds a certificate that cannot be an authority: {error}", self.name);
            authorities.add(certificate).map_err(refused)?;
        }
        Ok(authorities)
    }

    /// The first private key.
    ///
    /// # Errors
    /// Where there is none that can be read; those with a passphrase cannot.
    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>, String> {
        PrivateKeyDer::from_pem_slice(&self.text).map_err(|error| {
            format!("{} holds no private key without a passphrase (PEM): {error}", self.name)
        })
    }
}
