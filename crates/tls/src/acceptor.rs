//! The server's side: our certificate, and whose certificates we take.

use std::sync::{Arc, PoisonError, RwLock};

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::crypto::aws_lc_rs::{self, Ticketer};
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest as _, Sha256};

use crate::pem;

/// What a server shows of itself, and whom it asks for a certificate. One for all workers; a change counts for connections
/// that begin after it.
pub struct Acceptor {
    shown: RwLock<Shown>,
}

/// What a connection begins with.
#[derive(Clone)]
pub(crate) struct Shown {
    pub(crate) config: Arc<ServerConfig>,
    /// The SHA-256 digest of our certificate.
    pub(crate) fingerprint: [u8; 32],
}

/// A certificate and its key.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// From the text of PEM files: our certificate, followed by those that lead to a known authority, and its key.
    ///
    /// # Errors
    /// What is wrong with which, in words that show nothing of the key.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, String> {
        let chain = pem::certificates(certificate).map_err(|reason| format!("tls_certificate: {reason}"))?;
        let key = pem::key(key).map_err(|reason| format!("tls_key: {reason}"))?;
        Ok(Self { chain, key })
    }

    /// A fresh certificate that nobody vouches for: enough to encrypt, not to be told from another.
    ///
    /// # Errors
    /// Where no key can be made, which is a system without random bytes.
    pub fn self_signed() -> Result<Self, String> {
        let failed = |error: rcgen::Error| format!("no certificate can be made: {error}");
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, "Onramp, made at its start");
        let mut parameters = CertificateParams::new([String::from("localhost")]).map_err(failed)?;
        parameters.distinguished_name = name;
        // P-256: the fastest to sign with of those that every client knows.
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = parameters.self_signed(&key).map_err(failed)?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(String::from)?;
        Ok(Self { chain: vec![certificate.der().clone()], key })
    }
}

impl Acceptor {
    /// With this identity. `client_authorities` is the text of a PEM file: clients are asked for a certificate and may show none,
    /// but one that they show has to come from one of these. Without it nobody is asked.
    ///
    /// # Errors
    /// Key and certificate that do not belong together, or authorities that cannot be read.
    pub fn new(identity: Identity, client_authorities: Option<&[u8]>) -> Result<Self, String> {
        Ok(Self { shown: RwLock::new(shown(identity, client_authorities)?) })
    }

    /// Takes another identity and other authorities, as [`Self::new`]. Connections that stand go on; tickets of earlier ones are
    /// void, since they vouch for certificates that were checked against other authorities.
    ///
    /// # Errors
    /// As [`Self::new`]; nothing has changed then.
    pub fn change(&self, identity: Identity, client_authorities: Option<&[u8]>) -> Result<(), String> {
        let fresh = shown(identity, client_authorities)?;
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    pub(crate) fn shown(&self) -> Shown {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn shown(identity: Identity, client_authorities: Option<&[u8]>) -> Result<Shown, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = match client_authorities {
        None => Arc::new(NoClientAuth),
        Some(text) => {
            let roots = roots(text).map_err(|reason| format!("tls_client_ca: {reason}"))?;
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()
                .map_err(|error| format!("tls_client_ca: {error}"))?
        }
    };
    let certified = certified_key(identity, &provider)?;
    let fingerprint = certified.cert.first().map(|own| Sha256::digest(own).into()).unwrap_or_default();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.ticketer = Ticketer::new().map_err(|error| format!("no keys for session tickets: {error}"))?;
    // Few of MySQL's clients come back with a ticket, and each costs bytes and time.
    config.send_tls13_tickets = 1;
    Ok(Shown { config: Arc::new(config), fingerprint })
}

/// Checks that key and certificate belong together, as far as the certificate can be read: old ones without extensions
/// (X.509 version 1) serve as well, and cannot be.
pub(crate) fn certified_key(
    identity: Identity,
    provider: &rustls::crypto::CryptoProvider,
) -> Result<CertifiedKey, String> {
    let Identity { chain, key } = identity;
    let key = provider.key_provider.load_private_key(key).map_err(|error| format!("tls_key: {error}"))?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => {
            Err(String::from("tls_key: it is not the key of the certificate in tls_certificate"))
        }
        _ => Ok(certified),
    }
}

/// The authorities of a text.
pub(crate) fn roots(text: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in pem::certificates(text)? {
        roots.add(certificate).map_err(|error| format!("a certificate cannot be an authority: {error}"))?;
    }
    Ok(roots)
}
