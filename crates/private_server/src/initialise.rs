//! The first start: creates the server's data, all or nothing.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::process::Command;

use super::Ending;
use super::command_line::as_user;
use super::folder::{Folder, RunAs};
use super::process::Process;
use super::programs::{Flavour, Programs};
use crate::error::{Error, FileUse, ServerFault};
use crate::passwd::User;

/// Creates the data beside its place and then renames it, so that a start that was interrupted leaves nothing that
/// looks like data, and is simply repeated.
pub(crate) fn initialise(
    programs: &Programs,
    folder: &Folder,
    asked: &dyn Fn() -> bool,
) -> Result<(), Ending> {
    let unfinished = folder.unfinished_data();
    let failed = Error::file(&unfinished, FileUse::Use);
    if unfinished.exists() {
        std::fs::remove_dir_all(&unfinished).map_err(&failed)?;
    }
    // New data knows no administrator yet.
    let _ = std::fs::remove_file(folder.password_file("admin"));
    DirBuilder::new().mode(0o700).create(&unfinished).map_err(&failed)?;
    folder.give_to_server(&unfinished)?;

    let log_path = folder.log();
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(&log_path).map_err(&failed)?;
    let start = log.metadata().map_err(&failed)?.len();
    let mut command = command(programs, folder);
    // Understood by the servers and by the script around one of them.
    command.env("TMPDIR", folder.temporary());
    command.stdout(log.try_clone().map_err(&failed)?).stderr(log);
    // The lock goes along here too: if we are killed, the next start waits until all of this has ended.
    let lock = folder.inheritable_lock().map_err(&failed)?;
    let mut process = Process::spawn(command)?;
    drop(lock);
    let Some(status) = process.wait(asked) else {
        process.kill();
        return Err(Ending::Told);
    };
    if !status.success() {
        let said = super::failure_lines(&log_path, start, 15);
        let fault = ServerFault::NotCreated;
        return Err(Ending::Failed(Error::Server { fault, status, log: log_path, said }));
    }
    std::fs::rename(&unfinished, folder.data()).map_err(&failed)?;
    Ok(())
}

fn command(programs: &Programs, folder: &Folder) -> Command {
    let mut data_dir = std::ffi::OsString::from("--datadir=");
    data_dir.push(folder.unfinished_data());
    match &programs.flavour {
        Flavour::MariaDb { install } => {
            let mut command = as_user(programs, folder.run_as(), install);
            // No configuration files: a private server is the same on every machine. No test schema, and with it none
            // of the accounts without a name, which would stand in the way of '%' accounts.
            command.arg("--no-defaults").arg(data_dir).args([
                "--skip-test-db",
                "--auth-root-authentication-method=socket",
                "--skip-log-bin",
            ]);
            // `root`@`localhost` for the system's root, and the same for whoever runs Onramp.
            if let Some(user) = User::by_uid(rustix::process::geteuid().as_raw()) {
                command.arg(format!("--auth-root-socket-user={}", user.name));
            }
            if folder.run_as() == &RunAs::Root {
                command.arg("--user=root");
            }
            command
        }
        Flavour::MySql => {
            let mut command = as_user(programs, folder.run_as(), &programs.server);
            command
                .arg("--no-defaults")
                .arg("--initialize-insecure")
                .arg(data_dir)
                .arg("--secure-file-priv=NULL");
            if folder.run_as() == &RunAs::Root {
                command.arg("--user=root");
            }
            command
        }
    }
}
