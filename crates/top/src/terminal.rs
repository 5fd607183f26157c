//! The terminal: taken, drawn on, and given back as it was, whatever happens.

use std::cell::Cell;
use std::io::{IsTerminal as _, Stdout, Write as _, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::{cursor, event, execute, terminal};
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::draw;
use crate::trouble::Trouble;
use crate::view::{Key, View};

/// The alternate screen, in raw mode. Dropping it gives the terminal back.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Whether there is a terminal at all, for keys and for the screen.
    pub fn is_there() -> bool {
        std::io::stdin().is_terminal() && stdout().is_terminal()
    }

    /// Takes it. From here on a panic gives it back before it says what went wrong.
    ///
    /// # Errors
    /// Where it cannot be used.
    pub fn take() -> Result<Self, Trouble> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        terminal::enable_raw_mode().map_err(Trouble::NoTerminal)?;
        TAKEN.store(true, Ordering::Relaxed);
        let entered = execute!(stdout(), terminal::EnterAlternateScreen, cursor::Hide);
        let taken = entered.and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        taken.map(|terminal| Self { terminal }).map_err(|error| {
            give_back();
            Trouble::NoTerminal(error)
        })
    }

    /// Draws the view; nothing, where a panic of another thread has given the terminal back: what it has said stands there then.
    ///
    /// # Errors
    /// Where the terminal has gone.
    pub fn draw(&mut self, view: &mut View, now: u64) -> Result<(), Trouble> {
        let failed = Trouble::TerminalGone;
        let _whole = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
        if !TAKEN.load(Ordering::Relaxed) {
            return Ok(());
        }
        view.page = draw::page(self.terminal.size().map_err(failed)?.height);
        DRAWS.set(true);
        let drawn = self.terminal.draw(|frame| draw::draw(view, now, frame.area(), frame.buffer_mut()));
        DRAWS.set(false);
        drawn.map(|_| ()).map_err(failed)
    }

    /// What was done at the terminal, waiting for it at most so long. `None` where nothing was.
    ///
    /// # Errors
    /// Where the terminal has gone.
    pub fn wait(&mut self, time: Duration) -> Result<Option<Done>, Trouble> {
        let failed = Trouble::TerminalGone;
        // What was read already comes first; whatever makes crossterm read, the terminal has been looked at just before.
        let there = Input::wait(Duration::ZERO).and_then(|_| event::poll(Duration::ZERO)).map_err(failed)?;
        if !there && Input::wait(time).map_err(failed)? == Input::None {
            return Ok(None);
        }
        if !event::poll(time).map_err(failed)? {
            return Ok(None);
        }
        match event::read().map_err(failed)? {
            Event::Key(key) => Ok(key_of(key).map(Done::Key)),
            _ => Ok(Some(Done::Resized)),
        }
    }
}

/// What the terminal has for us.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    None,
    Some,
}

impl Input {
    /// Waits for it. A terminal that has gone is an error: crossterm would read it again and again for ever, and take no notice of a signal
    /// meanwhile. A signal is nothing, and somebody else looks after it.
    fn wait(time: Duration) -> std::io::Result<Self> {
        let stdin = std::io::stdin();
        let mut terminal = [PollFd::new(&stdin, PollFlags::IN)];
        let time = Timespec::try_from(time).map_err(|_| std::io::ErrorKind::InvalidInput)?;
        match poll(&mut terminal, Some(&time)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let found = terminal[0].revents();
        if found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        Ok(if found.contains(PollFlags::IN) { Self::Some } else { Self::None })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// What was done at the terminal.
pub enum Done {
    /// A key was pressed.
    Key(Key),
    /// The terminal has another size, or the like.
    Resized,
}

/// Whether the terminal is taken: given back twice, it would put the cursor where it was before all that was printed since.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Held while the screen is drawn, so that nothing is drawn over what stands on a terminal that was given back.
static DRAWING: Mutex<()> = Mutex::new(());

thread_local! {
    /// Whether this thread draws, and so holds [`DRAWING`].
    static DRAWS: Cell<bool> = const { Cell::new(false) };
}

/// Where the terminal has gone nothing can be done about it.
fn give_back() {
    // Whoever draws comes to the end of that first; but for this thread, where it panics in the middle of it.
    let _drawn = (!DRAWS.get()).then(|| DRAWING.lock().unwrap_or_else(PoisonError::into_inner));
    if !TAKEN.swap(false, Ordering::Relaxed) {
        return;
    }
    let _ = execute!(stdout(), terminal::LeaveAlternateScreen, cursor::Show);
    let _ = terminal::disable_raw_mode();
    let _ = stdout().flush();
}

/// Set by SIGTERM, SIGINT and SIGHUP.
///
/// # Errors
/// Where signals cannot be caught.
pub fn ending() -> Result<Arc<AtomicBool>, Trouble> {
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ends)).map_err(Trouble::NoSignals)?;
    }
    Ok(ends)
}

/// Whether one of them has come.
pub fn has_ended(ends: &AtomicBool) -> bool {
    ends.load(Ordering::Relaxed)
}

fn key_of(key: KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    Some(match key.code {
        KeyCode::Char(character) if key.modifiers.contains(KeyModifiers::CONTROL) => {
            Key::Ctrl(character.to_ascii_lowercase())
        }
        KeyCode::Char(character) => Key::Char(character),
        KeyCode::F(number) => Key::F(number),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}
