//! What a program asks for, carried out by either driver.

/// Takes the program's outputs until there are none, and has the driver's methods carry them out. True where the program has finished.
///
/// A macro, since the methods stand in the files of what they are about, each driver's beside its like; a trait would name them all twice
/// more.
macro_rules! carry_out {
    ($driver:ident, $program:ident) => {{
        let mut finished = false;
        while let Some(output) = $program.poll_output() {
            match output {
                Output::Connect { token, address } => $driver.connect(token, &address),
                Output::Send { connection, bytes } => $driver.send(connection, bytes),
                Output::SendWhole { connection, bytes } => $driver.send_whole(connection, bytes),
                Output::Close { connection } => $driver.close(connection),
                Output::Abort { connection } => $driver.abort(connection),
                Output::PauseReading { connection } => $driver.pause_reading(connection),
                Output::ResumeReading { connection } => $driver.resume_reading(connection),
                // For layers between the program and us: whoever asks without one waits in vain.
                Output::StartTls { .. } | Output::StartCompression { .. } | Output::Unread { .. } => {}
                Output::StopListening => $driver.stop_listening(),
                Output::Finished => finished = true,
            }
        }
        finished
    }};
}
pub(crate) use carry_out;
