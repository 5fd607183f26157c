//! Certificates and keys from the text of PEM files.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroizing;

use crate::certificate::{self, Validity};
use crate::error::{Error, FileFault};

/// The text of a PEM file.
pub struct Pem {
    /// The name in errors, which tells an operator which file to mend.
    pub name: String,
    /// Its contents, which may be a private key.
    pub text: Zeroizing<Vec<u8>>,
}

/// Certificates that others are signed by.
#[derive(Clone)]
pub struct Authorities {
    /// [`Pem::name`].
    name: String,
    pub(crate) store: Arc<RootCertStore>,
}

impl Authorities {
    /// All certificates of a PEM file.
    ///
    /// # Errors
    /// Where there is none, one cannot be read, or one cannot sign others.
    pub fn from_pem(pem: &Pem) -> Result<Self, Error> {
        let mut store = RootCertStore::empty();
        for certificate in pem.certificates()? {
            let added = store.add(certificate);
            added.map_err(|error| pem.fault(FileFault::NoAuthority(error)))?;
        }
        Ok(Self { name: pem.name.clone(), store: Arc::new(store) })
    }

    /// What is wrong with them.
    pub(crate) fn fault(&self, fault: FileFault) -> Error {
        Error::File { file: self.name.clone(), fault }
    }
}

impl Pem {
    /// When its certificates count, in the order of the text, of those that say so in a form that is known; nothing where
    /// they cannot be read.
    #[must_use]
    pub fn validities(&self) -> Vec<Validity> {
        let certificates = self.certificates().unwrap_or_default();
        certificates.iter().filter_map(|der| certificate::validity(der)).collect()
    }

    /// All certificates, in the order of the text.
    ///
    /// # Errors
    /// Where there is none, or one cannot be read.
    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, Error> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.text).collect();
        let found = found.map_err(|error| self.fault(FileFault::UnreadableCertificate(error)))?;
        if found.is_empty() { Err(self.fault(FileFault::NoCertificate)) } else { Ok(found) }
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
