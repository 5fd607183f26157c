"""A terminal: a program in tmux, which is told keys and whose screen is read."""

import os
import shlex
import shutil
import subprocess
import tempfile

from .waiting import until


class Terminal:
    """A program on a screen of its own, beside a shell that is there before and behind it."""

    def __init__(self, width=120, height=30, **environment):
        assert shutil.which("tmux"), "tmux is missing: .ci/install test installs it"
        # Not where the servers' data are: a Unix socket's path may have 107 bytes.
        self.folder = tempfile.mkdtemp(prefix="onramp-tmux-", dir="/tmp")
        self.environment = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TMUX": "",
                            **{name: str(value) for name, value in environment.items()}}
        if "NO_COLOR" not in environment:
            self.environment.pop("NO_COLOR", None)
        try:
            # A socket of its own and nobody's configuration.
            self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), "env PS1='shell> ' bash --norc --noprofile --noediting")
            self.shows("shell>")
        except BaseException:
            self.close()
            raise

    def tmux(self, *arguments):
        command = ["tmux", "-u", "-S", f"{self.folder}/socket", *arguments]
        return subprocess.run(command, env=self.environment, check=True, capture_output=True, text=True).stdout

    def run(self, command):
        """Has the shell run a program."""
        self.keys("-l", shlex.join(str(word) for word in command))
        self.keys("Enter")

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def screen(self, *options):
        """The text of the screen; with `-e` also what makes it bold and coloured."""
        return self.tmux("capture-pane", "-p", *options)

    def shows(self, *texts):
        """Waits until all texts are on the screen; returns it."""
        def found():
            screen = self.screen()
            return screen if all(text in screen for text in texts) else None

        return until(found, lambda: f"not on the screen: {texts}\n{self.screen()}")

    def settings(self):
        """Of the terminal: `stty -g` of another process on it."""
        device = self.tmux("display-message", "-p", "#{pane_tty}").strip()
        return subprocess.run(["stty", "-g", "-F", device], check=True, capture_output=True, text=True).stdout

    def is_alternate(self):
        """Whether the other screen is shown, whose content goes with its program."""
        return self.tmux("display-message", "-p", "#{alternate_on}").strip() == "1"

    def shows_cursor(self):
        return self.tmux("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def resize(self, width, height):
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def close(self):
        # A test may have ended it already.
        subprocess.run(["tmux", "-S", f"{self.folder}/socket", "kill-server"], env=self.environment, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)
