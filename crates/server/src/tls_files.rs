//! The files that TLS needs, and what is made of them.

mod reading;

use std::sync::Arc;

use config::{BackendTls, Configuration, TlsOptions};
use engine::ClientTls;
use tls::{Acceptor, Authorities, Connector, Identity, ServerCheck, Tls};

use crate::Failure;
use reading::Reading;

/// TLS with clients and with the server, for all workers. The files can be read again while both are there.
pub(crate) struct TlsFiles {
    options: TlsOptions,
    /// The certificate that was made at the start, where none is given. A client that has come to know it finds it to the end.
    made: Option<Identity>,
    acceptor: Option<Arc<Acceptor>>,
    connector: Option<Arc<Connector>>,
}

/// What there is to say of the files before anything is made of them.
pub(crate) struct Findings {
    /// What keeps `serve` from starting.
    pub(crate) faults: Vec<Failure>,
    /// What does not, and is hardly meant so.
    pub(crate) doubts: Vec<String>,
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// Lines, each of which names an option, its file and what is wrong with that: all that are wrong.
    pub(crate) fn read(configuration: &Configuration) -> Result<Self, Failure> {
        let mut reading = Reading::default();
        let files = Self::make(configuration, &mut reading);
        reading.end(files)
    }

    /// What `serve` would say of the files, the server's public key included, and more.
    pub(crate) fn look(configuration: &Configuration) -> Findings {
        let mut reading = Reading::default();
        Self::make(configuration, &mut reading);
        reading.or_fault(server_keys(&configuration.tls));
        reading.authorities(&configuration.admin_peers_ca, "admin_peers_tls_ca");
        Findings { faults: reading.faults, doubts: reading.doubts }
    }

    /// `None` where something is wrong, which `reading` has then.
    fn make(configuration: &Configuration, reading: &mut Reading) -> Option<Self> {
        let options = configuration.tls.clone();
        let offered = |address| configuration.tls_of(address) != ClientTls::Off;
        let (mut made, mut acceptor, mut connector) = (None, None, None);
        if configuration.listen.iter().chain(&configuration.admin_listen).any(offered) {
            let given =
                reading.identity((&options.certificate, "tls_certificate"), (&options.key, "tls_key"));
            let authorities = client_authorities(&options, reading);
            // Where the given one cannot be used, nothing is served; what else is wrong is looked for all the same.
            let identity = match given {
                Some(given) => given,
                None => made.insert(reading.or_fault(Identity::self_signed())?).clone(),
            };
            acceptor = reading.or_fault(Acceptor::new(identity, authorities.as_ref())).map(Arc::new);
        }
        if options.backend != BackendTls::Disabled {
            let (authorities, identity) = towards_servers(&options, reading);
            // What cannot be read is said by now: that it is missing as well, is not.
            if reading.faults.is_empty() {
                let made = Connector::new(check(&options), authorities.as_ref(), identity);
                connector = reading.or_fault(made).map(Arc::new);
            }
        }
        reading.faults.is_empty().then_some(Self { options, made, acceptor, connector })
    }

    /// Takes the files as they are now, for connections that come from here on.
    ///
    /// # Errors
    /// As [`Self::read`]; of the two sides, that whose files cannot be used stays as it was.
    pub(crate) fn read_again(&self) -> Result<(), Failure> {
        let sides = [self.renew_acceptor(), self.renew_connector()];
        let faults: Vec<_> = sides.into_iter().filter_map(Result::err).collect();
        if faults.is_empty() { Ok(()) } else { Err(reading::in_one(&faults)) }
    }

    fn renew_acceptor(&self) -> Result<(), Failure> {
        let Some(acceptor) = &self.acceptor else { return Ok(()) };
        let (mut reading, options) = (Reading::default(), &self.options);
        let given = reading.identity((&options.certificate, "tls_certificate"), (&options.key, "tls_key"));
        let authorities = client_authorities(options, &mut reading);
        reading.end(Some(()))?;
        let identity = given.or_else(|| self.made.clone()).ok_or("there is no certificate")?;
        Ok(acceptor.change(identity, authorities.as_ref())?)
    }

    fn renew_connector(&self) -> Result<(), Failure> {
        let Some(connector) = &self.connector else { return Ok(()) };
        let mut reading = Reading::default();
        let (authorities, identity) = towards_servers(&self.options, &mut reading);
        reading.end(Some(()))?;
        Ok(connector.change(check(&self.options), authorities.as_ref(), identity)?)
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
    let Some(pem) = reading::file_of(&options.backend_public_key, "backend_public_key")? else {
        return Ok(Vec::new());
    };
    keys::public_keys(&pem.text).map_err(|_| {
        format!("{} holds no RSA public key that begins with -----BEGIN PUBLIC KEY-----", pem.name).into()
    })
}

fn client_authorities(options: &TlsOptions, reading: &mut Reading) -> Option<Authorities> {
    reading.authorities(&options.client_ca, "tls_client_ca")
}

/// The authorities of servers, and what we show to a server that asks.
fn towards_servers(options: &TlsOptions, reading: &mut Reading) -> (Option<Authorities>, Option<Identity>) {
    let authorities = reading.authorities(&options.backend_ca, "backend_tls_ca");
    let certificate = (&*options.backend_certificate, "backend_tls_certificate");
    (authorities, reading.identity(certificate, (&options.backend_key, "backend_tls_key")))
}

fn check(options: &TlsOptions) -> ServerCheck {
    match options.backend {
        BackendTls::VerifyCa => ServerCheck::Authority,
        BackendTls::VerifyFull => ServerCheck::Name,
        BackendTls::Disabled | BackendTls::Preferred | BackendTls::Required => ServerCheck::None,
    }
}
