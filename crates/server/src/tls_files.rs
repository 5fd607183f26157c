//! The files that TLS needs, and what is made of them.

use std::path::Path;
use std::sync::Arc;

use config::{BackendTls, Configuration, TlsOptions};
use engine::ClientTls;
use tls::{Acceptor, Connector, Identity, Pem, ServerCheck, Tls};

/// TLS with clients and with the server, for all workers. The files can be read again while both are there.
pub(crate) struct TlsFiles {
    options: TlsOptions,
    acceptor: Option<Arc<Acceptor>>,
    connector: Option<Arc<Connector>>,
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// A line that names the option, its file and what is wrong with that.
    pub(crate) fn read(configuration: &Configuration) -> Result<Self, String> {
        let options = configuration.tls.clone();
        let offered = |address| configuration.tls_of(address) != ClientTls::Off;
        let acceptor = match configuration.listen.iter().chain(&configuration.admin_listen).any(offered) {
            true => {
                Some(Arc::new(Acceptor::new(identity(&options)?, client_authorities(&options)?.as_ref())?))
            }
            false => None,
        };
        let connector = match options.backend {
            BackendTls::Disabled => None,
            _ => {
                let authorities = file_of(&options.backend_ca, "backend_tls_ca")?;
                let identity = own_identity(&options)?;
                Some(Arc::new(Connector::new(check(&options), authorities.as_ref(), identity)?))
            }
        };
        Ok(Self { options, acceptor, connector })
    }

    /// Takes the files as they are now, for connections that come from here on.
    ///
    /// # Errors
    /// As [`Self::read`]; of the two sides, that whose files cannot be used stays as it was.
    pub(crate) fn read_again(&self) -> Result<(), String> {
        let options = &self.options;
        if let Some(acceptor) = &self.acceptor {
            acceptor.change(identity(options)?, client_authorities(options)?.as_ref())?;
        }
        if let Some(connector) = &self.connector {
            let authorities = file_of(&options.backend_ca, "backend_tls_ca")?;
            connector.change(check(options), authorities.as_ref(), own_identity(options)?)?;
        }
        Ok(())
    }

    /// [`Self::read_again`], for nobody but the log.
    pub(crate) fn read_again_and_say(&self) {
        match self.read_again() {
            Ok(()) => tracing::info!("certificates and keys have been read again"),
            Err(reason) => tracing::error!("certificates and keys stay as they were: {reason}"),
        }
    }

    /// What clients are shown, those of the admin port included; `None` where nobody is offered TLS.
    pub(crate) fn acceptor(&self) -> Option<Arc<Acceptor>> {
        self.acceptor.clone()
    }

    /// TLS around a program.
    pub(crate) fn around<P: seam::Program>(&self, program: P) -> Tls<P> {
        Tls::new(program, self.acceptor.clone(), self.connector.clone())
    }
}

fn identity(options: &TlsOptions) -> Result<Identity, String> {
    match file_of(&options.certificate, "tls_certificate")? {
        None => Identity::self_signed(),
        Some(certificate) => Identity::from_pem(&certificate, &file(&options.key, "tls_key")?),
    }
}

/// What we show to a server that asks.
fn own_identity(options: &TlsOptions) -> Result<Option<Identity>, String> {
    let certificate = file_of(&options.backend_certificate, "backend_tls_certificate")?;
    let Some(certificate) = certificate else { return Ok(None) };
    let key = file(&options.backend_key, "backend_tls_key")?;
    Identity::from_pem(&certificate, &key).map(Some)
}

fn check(options: &TlsOptions) -> ServerCheck {
    match options.backend {
        BackendTls::VerifyCa => ServerCheck::Authority,
        BackendTls::VerifyFull => ServerCheck::Name,
        BackendTls::Disabled | BackendTls::Preferred | BackendTls::Required => ServerCheck::None,
    }
}

fn client_authorities(options: &TlsOptions) -> Result<Option<Pem>, String> {
    file_of(&options.client_ca, "tls_client_ca")
}

/// The file of an option that need not be given.
fn file_of(path: &Path, option: &str) -> Result<Option<Pem>, String> {
    if path.as_os_str().is_empty() { Ok(None) } else { file(path, option).map(Some) }
}

fn file(path: &Path, option: &str) -> Result<Pem, String> {
    let name = format!("{option} ({})", path.display());
    match std::fs::read(path) {
        Ok(text) => Ok(Pem { name, text }),
        Err(error) => Err(format!("{name} cannot be read: {error}")),
    }
}
