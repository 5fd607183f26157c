//! Certificates and keys from the text of PEM files.

use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::{Error, FileFault};

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
    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, Error> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.text).collect();
        let found = found.map_err(|error| self.fault(FileFault::UnreadableCertificate(error)))?;
        if found.is_empty() { Err(self.fault(FileFault::NoCertificate)) } else { Ok(found) }
    }

    /// All certificates, as authorities that others are signed by.
    ///
    /// # Errors
    /// As [`Self::certificates`], or where one cannot sign others.
    pub(crate) fn authorities(&self) -> Result<RootCertStore, Error> {
        let mut authorities = RootCertStore::empty();
        for certificate in self.certificates()? {
            let added = authorities.add(certificate);
            added.map_err(|error| self.fault(FileFault::NoAuthority(error)))?;
        }
        Ok(authorities)
    }

    /// The first private key.
    ///
    /// # Errors
    /// Where there is none that can be read; those with a passphrase cannot.
    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>, Error> {
        PrivateKeyDer::from_pem_slice(&self.text).map_err(|error| self.fault(FileFault::NoKey(error)))
    }

    /// What is wrong with it.
    pub(crate) fn fault(&self, fault: FileFault) -> Error {
        Error::File { file: self.name.clone(), fault }
    }
}
