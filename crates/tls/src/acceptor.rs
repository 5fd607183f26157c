//! The server's side: our certificate, and the certificates that we take.

use std::sync::{Arc, PoisonError, RwLock};

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::crypto::aws_lc_rs::{self, Ticketer};
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use rustls::{InconsistentKeys, ServerConfig};
use rustls_pki_types::PrivateKeyDer;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, FileFault};
use crate::{Authorities, Pem, certificate};

/// The certificate that a server shows, and its demand for one of the client's. One for all workers; a change counts for
/// connections that begin after it.
pub struct Acceptor {
    shown: RwLock<Shown>,
}

/// The settings that a connection begins with.
#[derive(Clone)]
pub(crate) struct Shown {
    pub(crate) config: Arc<ServerConfig>,
    /// The SHA-256 digest of our certificate.
    pub(crate) fingerprint: [u8; 32],
    /// Until when it counts, in seconds since 1970, where that can be read.
    expiry: Option<u64>,
}

/// A certificate and the key that belongs to it.
#[derive(Clone)]
pub struct Identity(CertifiedKey);

impl Identity {
    /// From PEM files: our certificate, followed by those that lead to a known authority, and its key.
    ///
    /// # Errors
    /// All that is wrong with which file, in words that show nothing of the key.
    pub fn from_pem(certificate: &Pem, key: &Pem) -> Result<Self, Vec<Error>> {
        let signing = key
            .key()
            .and_then(|found| signing_key(found).map_err(|error| key.fault(FileFault::UselessKey(error))));
        let (chain, signing) = match (certificate.certificates(), signing) {
            (Ok(chain), Ok(signing)) => (chain, signing),
            (chain, signing) => return Err(chain.err().into_iter().chain(signing.err()).collect()),
        };
        let certified = CertifiedKey::new(chain, signing);
        // Certificates without extensions (X.509 version 1) serve as well, and cannot be compared.
        if let Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) = certified.keys_match() {
            return Err(vec![key.fault(FileFault::OtherKey(certificate.name.clone()))]);
        }
        Ok(Self(certified))
    }

    /// A fresh certificate that nobody vouches for: enough to encrypt, not to be told from another.
    ///
    /// # Errors
    /// Where no key can be made, which is a system without random bytes.
    pub fn self_signed() -> Result<Self, Error> {
        let failed = |error: rcgen::Error| Error::NotMade(error.to_string());
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, "Onramp, made at its start");
        let mut parameters = CertificateParams::new([String::from("localhost")]).map_err(failed)?;
        parameters.distinguished_name = name;
        // P-256: the fastest to sign with of those that every client knows.
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = parameters.self_signed(&key).map_err(failed)?;
        let key = PrivateKeyDer::try_from(key.serialize_der())
            .map_err(|reason| Error::NotMade(String::from(reason)))?;
        let signing = signing_key(key).map_err(|error| Error::NotMade(error.to_string()))?;
        Ok(Self(CertifiedKey::new(vec![certificate.der().clone()], signing)))
    }

    /// For the builders of rustls.
    pub(crate) fn into_resolver(self) -> Arc<SingleCertAndKey> {
        Arc::new(SingleCertAndKey::from(self.0))
    }
}

impl Acceptor {
    /// With this identity. With `client_authorities` clients are asked for a certificate and may show none, but one that they show
    /// has to come from one of these. Without them nobody is asked.
    ///
    /// # Errors
    /// Authorities that cannot be used, or a system without random bytes.
    pub fn new(identity: Identity, client_authorities: Option<&Authorities>) -> Result<Self, Error> {
        Ok(Self { shown: RwLock::new(shown(identity, client_authorities)?) })
    }

    /// Takes another identity and other authorities, as [`Self::new`]. Connections that stand go on; tickets of earlier ones are
    /// void, since they vouch for certificates that were checked against other authorities.
    ///
    /// # Errors
    /// As [`Self::new`]; nothing has changed then.
    pub fn change(&self, identity: Identity, client_authorities: Option<&Authorities>) -> Result<(), Error> {
        let fresh = shown(identity, client_authorities)?;
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// Until when our certificate counts, in seconds since 1970; `None` where it does not say so in a form that is known.
    pub fn expiry(&self) -> Option<u64> {
        self.shown().expiry
    }

    pub(crate) fn shown(&self) -> Shown {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn shown(identity: Identity, client_authorities: Option<&Authorities>) -> Result<Shown, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = match client_authorities {
        None => Arc::new(NoClientAuth),
        Some(authorities) => {
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&authorities.store), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()
                .map_err(|error| authorities.fault(FileFault::UselessAuthorities(error)))?
        }
    };
    let fingerprint = identity.0.cert.first().map(|own| Sha256::digest(own).into()).unwrap_or_default();
    let expiry = identity.0.cert.first().and_then(|own| certificate::expiry(own));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(identity.into_resolver());
    config.ticketer = Ticketer::new().map_err(Error::NoTicketKeys)?;
    // Few of MySQL's clients come back with a ticket, and each costs bytes and time.
    config.send_tls13_tickets = 1;
    Ok(Shown { config: Arc::new(config), fingerprint, expiry })
}

fn signing_key(key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, rustls::Error> {
    aws_lc_rs::default_provider().key_provider.load_private_key(key)
}
