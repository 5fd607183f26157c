//! The client's side: the certificates that we take, and the one that we show.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::error::{Error, FileFault};
use crate::{Authorities, Identity};

/// How a server's certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerCheck {
    /// Not at all: nobody can listen, but anybody can pretend to be the server.
    None,
    /// The certificate comes from one of our authorities, for any host.
    Authority,
    /// The certificate comes from one of our authorities and is for the host that we connect to.
    Name,
}

/// The checks and the certificate of a client. One for all workers, so that sessions of one can be resumed by the others; a
/// change counts for connections that begin after it.
pub struct Connector {
    config: RwLock<Arc<ClientConfig>>,
}

impl Connector {
    /// Checks servers like this. `authorities` are needed where there is a check. `identity` is shown to servers that ask.
    ///
    /// # Errors
    /// What is missing or cannot be used.
    pub fn new(
        check: ServerCheck,
        authorities: Option<&Authorities>,
        identity: Option<Identity>,
    ) -> Result<Self, Error> {
        Ok(Self { config: RwLock::new(config(check, authorities, identity)?) })
    }

    /// Checks and shows something else from here on, as [`Self::new`].
    ///
    /// # Errors
    /// As [`Self::new`]; nothing has changed then.
    pub fn change(
        &self,
        check: ServerCheck,
        authorities: Option<&Authorities>,
        identity: Option<Identity>,
    ) -> Result<(), Error> {
        let fresh = config(check, authorities, identity)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn config(
    check: ServerCheck,
    authorities: Option<&Authorities>,
    identity: Option<Identity>,
) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let chain = match (check, authorities) {
        (ServerCheck::None, _) => None,
        (_, None) => {
            return Err(Error::NoAuthority);
        }
        (_, Some(authorities)) => Some(
            WebPkiServerVerifier::builder_with_provider(
                Arc::clone(&authorities.store),
                Arc::clone(&provider),
            )
            .build()
            .map_err(|error| authorities.fault(FileFault::UselessAuthorities(error)))?,
        ),
    };
    let verifier = Arc::new(Verifier { chain, names: check == ServerCheck::Name, algorithms });
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    Ok(Arc::new(match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => builder.with_client_cert_resolver(identity.into_resolver()),
    }))
}

/// Checks as much as was asked for; that the peer has its certificate's key, always.
#[derive(Debug)]
struct Verifier {
    chain: Option<Arc<WebPkiServerVerifier>>,
    names: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is the last thing that is checked: all else was in order.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.names => Ok(ServerCertVerified::assertion()),
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
