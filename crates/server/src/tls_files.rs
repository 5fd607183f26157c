//! The files that TLS needs, and what is made of them.

use std::path::Path;
use std::sync::Arc;

use config::{BackendTls, Configuration, TlsOptions};
use engine::ClientTls;
use tls::{Acceptor, Connector, Identity, Pem, ServerCheck, Tls};

use crate::Failure;

/// TLS with clients and with the server, for all workers. The files can be read again while both are there.
pub(crate) struct TlsFiles {
    options: TlsOptions,
    /// The certificate that was made at the start, where none is given. A client that has come to know it finds it to the end.
    made: Option<Identity>,
    acceptor: Option<Arc<Acceptor>>,
    connector: Option<Arc<Connector>>,
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// A line that names the option, its file and what is wrong with that.
    pub(crate) fn read(configuration: &Configuration) -> Result<Self, Failure> {
        let options = configuration.tls.clone();
        let offered = |address| configuration.tls_of(address) != ClientTls::Off;
        let (mut made, mut acceptor) = (None, None);
        if configuration.listen.iter().chain(&configuration.admin_listen).any(offered) {
            let identity = match given_identity(&options)? {
                Some(given) => given,
                None => made.insert(Identity::self_signed()?).clone(),
            };
            acceptor = Some(Arc::new(Acceptor::new(identity, client_authorities(&options)?.as_ref())?));
        }
        let connector = match options.backend {
            BackendTls::Disabled => None,
            _ => {
                let authorities = file_of(&options.backend_ca, "backend_tls_ca")?;
                let identity = own_identity(&options)?;
                Some(Arc::new(Connector::new(check(&options), authorities.as_ref(), identity)?))
            }
        };
        Ok(Self { options, made, acceptor, connector })
    }

    /// Takes the files as they are now, for connections that come from here on.
    ///
    /// # Errors
    /// As [`Self::read`]; of the two sides, that whose files cannot be used stays as it was.
    pub(crate) fn read_again(&self) -> Result<(), Failure> {
        let sides = [self.renew_acceptor(), self.renew_connector()];
        let faults: Vec<_> = sides.into_iter().filter_map(Result::err).collect();
        if faults.is_empty() {
            Ok(())
        } else {
            Err(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ").into())
        }
    }

    fn renew_acceptor(&self) -> Result<(), Failure> {
        let Some(acceptor) = &self.acceptor else { return Ok(()) };
        let identity = given_identity(&self.options)?.or_else(|| self.made.clone());
        let identity = identity.ok_or("there is no certificate")?;
        Ok(acceptor.change(identity, client_authorities(&self.options)?.as_ref())?)
    }

    fn renew_connector(&self) -> Result<(), Failure> {
        let (Some(connector), options) = (&self.connector, &self.options) else { return Ok(()) };
        let authorities = file_of(&options.backend_ca, "backend_tls_ca")?;
        Ok(connector.change(check(options), authorities.as_ref(), own_identity(options)?)?)
    }

    /// Returns the certificate that clients are shown, those of the admin port included; `None` where nobody is offered TLS.
    pub(crate) fn acceptor(&self) -> Option<Arc<Acceptor>> {
        self.acceptor.clone()
    }

    /// TLS around a program.
    pub(crate) fn around<P: seam::Program>(&self, program: P) -> Tls<P> {
        Tls::new(program, self.acceptor.clone(), self.connector.clone())
    }
}

/// The RSA keys that servers are known to have.
///
/// # Errors
/// A line that names the option, its file and what is wrong with that.
pub(crate) fn server_keys(options: &TlsOptions) -> Result<Vec<Vec<u8>>, Failure> {
    let Some(Pem { name, text }) = file_of(&options.backend_public_key, "backend_public_key")? else {
        return Ok(Vec::new());
    };
    keys::public_keys(&text).map_err(|_| {
        format!("{name} holds no RSA public key that begins with -----BEGIN PUBLIC KEY-----").into()
    })
}

fn given_identity(options: &TlsOptions) -> Result<Option<Identity>, Failure> {
    match file_of(&options.certificate, "tls_certificate")? {
        None => Ok(None),
        Some(certificate) => Ok(Some(Identity::from_pem(&certificate, &file(&options.key, "tls_key")?)?)),
    }
}

/// What we show to a server that asks.
fn own_identity(options: &TlsOptions) -> Result<Option<Identity>, Failure> {
    let certificate = file_of(&options.backend_certificate, "backend_tls_certificate")?;
    let Some(certificate) = certificate else { return Ok(None) };
    let key = file(&options.backend_key, "backend_tls_key")?;
    Ok(Some(Identity::from_pem(&certificate, &key)?))
}

fn check(options: &TlsOptions) -> ServerCheck {
    match options.backend {
        BackendTls::VerifyCa => ServerCheck::Authority,
        BackendTls::VerifyFull => ServerCheck::Name,
        BackendTls::Disabled | BackendTls::Preferred | BackendTls::Required => ServerCheck::None,
    }
}

fn client_authorities(options: &TlsOptions) -> Result<Option<Pem>, Failure> {
    file_of(&options.client_ca, "tls_client_ca")
}

/// The file of an option that need not be given.
fn file_of(path: &Path, option: &str) -> Result<Option<Pem>, Failure> {
    if path.as_os_str().is_empty() { Ok(None) } else { file(path, option).map(Some) }
}

fn file(path: &Path, option: &str) -> Result<Pem, Failure> {
    let name = format!("{option} ({})", path.display());
    match std::fs::read(path) {
        Ok(text) => Ok(Pem { name, text }),
        Err(error) => Err(format!("{name} cannot be read: {error}").into()),
    }
}
