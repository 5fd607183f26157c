//! The files that TLS needs, and what is made of them.

use std::path::Path;
use std::sync::Arc;

use config::{Configuration, TlsOptions};
use engine::ClientTls;
use tls::{Acceptor, Identity, Tls};

/// Our side of TLS with clients, for all workers. Its files can be read again while clients are there.
pub(crate) struct TlsFiles {
    options: TlsOptions,
    acceptor: Option<Arc<Acceptor>>,
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// A line that names the option and what is wrong with its file.
    pub(crate) fn read(configuration: &Configuration) -> Result<Self, String> {
        let options = configuration.tls.clone();
        let offered = |address| configuration.tls_of(address) != ClientTls::Off;
        let acceptor = if configuration.listen.iter().any(offered) {
            Some(Arc::new(Acceptor::new(
                identity(&options)?,
                optional(&options.client_ca, "tls_client_ca")?.as_deref(),
            )?))
        } else {
            None
        };
        Ok(Self { options, acceptor })
    }

    /// Takes the files as they are now, for connections that come from here on.
    ///
    /// # Errors
    /// As [`Self::read`]; what was read before goes on to hold.
    pub(crate) fn read_again(&self) -> Result<(), String> {
        let Some(acceptor) = &self.acceptor else { return Ok(()) };
        let authorities = optional(&self.options.client_ca, "tls_client_ca")?;
        acceptor.change(identity(&self.options)?, authorities.as_deref())
    }

    /// [`Self::read_again`], for nobody but the log.
    pub(crate) fn read_again_and_say(&self) {
        match self.read_again() {
            Ok(()) => tracing::info!("certificates and keys have been read again"),
            Err(reason) => tracing::error!("certificates and keys stay as they were: {reason}"),
        }
    }

    /// TLS around a program.
    pub(crate) fn around<P: seam::Program>(&self, program: P) -> Tls<P> {
        Tls::new(program, self.acceptor.clone(), None)
    }
}

fn identity(options: &TlsOptions) -> Result<Identity, String> {
    match (options.certificate.as_os_str().is_empty(), options.key.as_os_str().is_empty()) {
        (true, true) => return Identity::self_signed(),
        (false, false) => {}
        _ => return Err(String::from("tls_certificate and tls_key go together: one of them is missing")),
    }
    Identity::from_pem(&file(&options.certificate, "tls_certificate")?, &file(&options.key, "tls_key")?)
}

fn optional(path: &Path, option: &str) -> Result<Option<Vec<u8>>, String> {
    if path.as_os_str().is_empty() { Ok(None) } else { file(path, option).map(Some) }
}

fn file(path: &Path, option: &str) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{option}: {} cannot be read: {error}", path.display()))
}
