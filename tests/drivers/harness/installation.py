"""Where MySQL's programs are, for the end-to-end tests and the comparisons: only what Python brings."""

from pathlib import Path


class NoServer(Exception):
    """There is no MySQL server where one was looked for."""


class Installation:
    """MySQL's programs: an unpacked distribution, or the root of another system's tree."""

    def __init__(self, home: Path) -> None:
        """Raises NoServer where there is none below `home`."""
        candidates = [home / folder / "mysqld" for folder in ("bin", "sbin", "libexec", "usr/sbin")]
        found = next((path for path in candidates if path.is_file()), None)
        if found is None:
            raise NoServer(f"{home} has no bin/mysqld, sbin/mysqld or usr/sbin/mysqld")
        self.program = found
        self.home = home
        self.base = found.parent.parent

    def plugins(self) -> Path:
        """The folder of plugins; some distributions have none."""
        candidates = [self.base / "lib" / "plugin", self.base / "lib" / "mysql" / "plugin",
                      self.base / "lib64" / "mysql" / "plugin"]
        return next((path for path in candidates if path.is_dir()), candidates[0])

    @property
    def has_pool(self) -> bool:
        """Whether the thread_pool plugin is there."""
        return (self.plugins() / "thread_pool.so").is_file()

    def command(self) -> list[str]:
        """How to start the server."""
        options = ["--no-defaults", f"--basedir={self.base}"]
        if self.plugins().is_dir():
            options.append(f"--plugin-dir={self.plugins()}")
        messages = [self.base / "share" / "mysql", self.base / "share"]
        folder = next((path for path in messages if (path / "english" / "errmsg.sys").is_file()), None)
        if folder is not None:
            options.append(f"--lc-messages-dir={folder}")
        charsets = next((path / "charsets" for path in messages if (path / "charsets").is_dir()), None)
        if charsets is not None:
            options.append(f"--character-sets-dir={charsets}")
        return [*self.loader(), str(self.program), *options]

    def loader(self) -> list[str]:
        """What goes in front of a program from another system's tree, so that it runs with that system's loader and libraries."""
        loader = self.home / "lib64" / "ld-linux-x86-64.so.2"
        if not loader.exists():
            return []
        libraries = [*self.home.glob("usr/lib/*-linux-gnu"), *self.home.glob("lib/*-linux-gnu"), *self.home.glob("usr/lib/mysql-router")]
        return [str(loader), "--library-path", ":".join(map(str, libraries))]
