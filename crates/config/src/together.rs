//! Values that are fine by themselves and do not go together.

use std::path::Path;

use proxy_protocol::Networks;

use crate::configuration::{BackendTls, TlsOptions};
use crate::{BackendUrl, Configuration, Error, Place};

/// # Errors
/// The first two that do not go together, by the names of their options.
pub(crate) fn check_together(configuration: &Configuration) -> Result<(), Error> {
    let checks = [
        bounds(configuration),
        accounts(configuration),
        http(configuration),
        tls(&configuration.tls),
        trusted_networks(&configuration.engine.trusted_servers),
    ];
    checks.into_iter().collect::<Result<(), String>>().map_err(|message| Error::new(Place::Together, message))
}

fn bounds(configuration: &Configuration) -> Result<(), String> {
    let engine = &configuration.engine;
    if engine.permits_max > 0 && engine.permits_max < engine.permits_min {
        return Err(format!(
            "permits_max ({}) is below permits_min ({})",
            engine.permits_max, engine.permits_min
        ));
    }
    if engine.statement_memory < engine.max_allowed_packet {
        return Err(format!(
            "statement_memory ({} bytes) is below max_allowed_packet ({} bytes): the largest statement would never fit",
            engine.statement_memory, engine.max_allowed_packet
        ));
    }
    if engine.max_backends > 0 && configuration.workers > engine.max_backends {
        return Err(format!(
            "workers ({}) is above max_backends ({}): each worker needs a backend of its own",
            configuration.workers, engine.max_backends
        ));
    }
    Ok(())
}

fn accounts(configuration: &Configuration) -> Result<(), String> {
    let private = configuration.backends.is_empty();
    if !configuration.admin_listen.is_empty() && configuration.admin_password.is_empty() && !private {
        return Err(String::from(
            "admin_listen is given without admin_password: whoever reaches the admin port could do as they like; set \
             one, best in the file or the environment",
        ));
    }
    let same_account =
        |pair: &[BackendUrl]| pair[0].user == pair[1].user && pair[0].password == pair[1].password;
    if !configuration.backends.windows(2).all(same_account) {
        return Err(String::from(
            "backend: the addresses are those of one server, so all carry the same user and password",
        ));
    }
    Ok(())
}

fn http(configuration: &Configuration) -> Result<(), String> {
    match &configuration.http_listen {
        Some(address) if !address.is_local() && configuration.http_password.is_empty() => Err(format!(
            "http_listen ({address}) is given without http_password: whoever reaches it from another machine could look into \
             Onramp; set one, best in the file or the environment, or listen on 127.0.0.1"
        )),
        _ => Ok(()),
    }
}

/// Whoever writes `localhost` means the loopback addresses, which the word does not stand for.
fn trusted_networks(networks: &Networks) -> Result<(), String> {
    if networks.to_string().split(',').any(|word| word == "localhost") {
        return Err(String::from(
            "backend_trusted_networks: localhost stands for Unix sockets, which need no trust; write 127.0.0.1 for a \
             port of this machine",
        ));
    }
    Ok(())
}

fn tls(options: &TlsOptions) -> Result<(), String> {
    certificate_and_key(["tls_certificate", "tls_key"], [&options.certificate, &options.key])?;
    certificate_and_key(
        ["backend_tls_certificate", "backend_tls_key"],
        [&options.backend_certificate, &options.backend_key],
    )?;
    if options.backend == BackendTls::Required && !options.backend_public_key.as_os_str().is_empty() {
        return Err(String::from(
            "backend_public_key is given with backend_tls = required: inside TLS servers take no encrypted password; \
             set backend_tls = verify-ca or verify-full, or disabled",
        ));
    }
    let verifies = matches!(options.backend, BackendTls::VerifyCa | BackendTls::VerifyFull);
    match (verifies, !options.backend_ca.as_os_str().is_empty()) {
        (true, false) => {
            Err(String::from("backend_tls: there is nothing to verify a certificate by; give backend_tls_ca"))
        }
        (false, true) => Err(String::from(
            "backend_tls_ca is given, but nothing is verified by it; set backend_tls = verify-full or verify-ca",
        )),
        _ => Ok(()),
    }
}

fn certificate_and_key(names: [&str; 2], paths: [&Path; 2]) -> Result<(), String> {
    let [certificate, key] = names;
    match paths.map(|path| path.as_os_str().is_empty()) {
        [false, true] => Err(format!("{certificate} is given without {key}, the file with its private key")),
        [true, false] => {
            Err(format!("{key} is given without {certificate}, the certificate that it belongs to"))
        }
        _ => Ok(()),
    }
}
