"""Small readers: /proc, perf's report, programs' help, folders of a MySQL installation, configurations, options."""

import argparse
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import command_line
import contenders
import main
from contenders import Contender, variants
from front_ends import haproxy_configuration, proxysql_configuration
from processes import Failed, Program, last_line
from readings import meminfo, parse_usage, processor_name
from servers import Installation, NoServer, Server
from symbols import parse_symbols

PERF = """\
# To display the perf.data header info, please use --header/--header-only options.
#
# Overhead  Shared Object      Symbol                                   IPC   [IPC Coverage]
# ........  .................  .......................................  ....................
#
     6.83%  [kernel.kallsyms]  [k] _raw_spin_lock_irqsave               -      -
     5.70%  onramp             [.] <engine::engine::Engine as seam::Program>::handle
     0.40%  libc.so.6          [.] __memmove_avx_unaligned_erms         -      -

"""


class ReadingsTest(unittest.TestCase):
    """The files below /proc."""

    def test_a_name_with_blanks_and_parentheses_is_skipped(self) -> None:
        stat = "12 (a (b) c) S 1 1 1 0 -1 4194304 100 0 0 0 250 1000 0 0 20 0 1 0 1 1 1"
        usage = parse_usage(stat, "100 50 1 1 0 1 0")
        self.assertAlmostEqual(usage.system / usage.user, 4.0)
        self.assertGreater(usage.user, 0)
        self.assertEqual(usage.resident % 50, 0)

    def test_memory_is_in_bytes(self) -> None:
        self.assertEqual(meminfo("MemTotal:  1000 kB\nSlab:    20 kB\n", "Slab"), 20_480)
        self.assertEqual(meminfo("MemTotal:  1000 kB\n", "Slab"), 0)

    def test_the_processor_has_a_name_everywhere(self) -> None:
        self.assertEqual(processor_name("processor : 0\nmodel name\t: AMD EPYC\n"), "AMD EPYC")
        self.assertNotEqual(processor_name(""), "")


class SymbolsTest(unittest.TestCase):
    """perf's report."""

    def test_functions_keep_their_order_and_space(self) -> None:
        found = parse_symbols(PERF)
        self.assertEqual([each["share"] for each in found], [6.83, 5.7, 0.4])
        self.assertEqual([each["space"] for each in found], ["kernel", "user", "user"])
        self.assertEqual(found[0]["name"], "_raw_spin_lock_irqsave")
        self.assertEqual(found[1]["name"], "<engine::engine::Engine as seam::Program>::handle")


class ContendersTest(unittest.TestCase):
    """Who takes part."""

    def keys(self, *options: str) -> list[str]:
        """The variants of a build that has these options."""
        with mock.patch.object(contenders, "has_option", side_effect=lambda option, *_: option in options):
            return [key for key, _, _ in variants(Path("/onramp"))]

    def test_variants_are_those_that_the_build_knows(self) -> None:
        self.assertEqual(self.keys(), ["onramp"])
        self.assertEqual(self.keys("--driver"), ["onramp-uring", "onramp-epoll"])
        self.assertEqual(self.keys("--driver", "--workers"),
                         ["onramp-uring-1", "onramp-uring-2", "onramp-epoll-1", "onramp-epoll-2"])

    def test_choosing_a_server_does_not_choose_its_pool(self) -> None:
        wanted = command_line.chooser(["mariadb", "onramp-uring-1"])
        chosen = [key for key in ("mariadb", "mariadb-pool", "onramp", "onramp-uring-1", "onramp-epoll-1") if wanted(key)]
        self.assertEqual(chosen, ["mariadb", "onramp", "onramp-uring-1"])
        self.assertTrue(command_line.chooser(["onramp"])("onramp-epoll-2"))
        self.assertTrue(command_line.chooser([])("mysql"))

    def test_what_is_known_to_be_too_many_is_refused_with_the_reason(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            contender = Contender("a", "A", Server("A", Path(folder) / "a", 20_000), most=19_000, why="open files")
        self.assertIsNone(contender.refusal(19_000))
        self.assertEqual(contender.refusal(19_001), "at most 19,000 clients: open files")


class InstallationTest(unittest.TestCase):
    """Where MySQL may be."""

    def test_an_unpacked_distribution(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            for name in ("bin/mysqld", "lib/plugin/thread_pool.so", "share/english/errmsg.sys"):
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                (home / name).touch()
            found = Installation(home)
            self.assertTrue(found.has_pool)
            self.assertEqual(found.command()[0], str(home / "bin/mysqld"))
            self.assertIn(f"--lc-messages-dir={home / 'share'}", found.command())

    def test_the_root_of_another_system_has_its_own_loader(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            for name in ("usr/sbin/mysqld", "lib64/ld-linux-x86-64.so.2", "usr/lib/x86_64-linux-gnu/libc.so.6",
                         "usr/lib/mysql/plugin/semisync.so"):
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                (home / name).touch()
            found = Installation(home)
            self.assertFalse(found.has_pool)
            self.assertEqual(found.command()[:4], [
                str(home / "lib64/ld-linux-x86-64.so.2"), "--library-path", str(home / "usr/lib/x86_64-linux-gnu"),
                str(home / "usr/sbin/mysqld")])

    def test_a_folder_without_a_server_is_said(self) -> None:
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(NoServer, "has no bin/mysqld"):
            Installation(Path(folder))


class ProgramsTest(unittest.TestCase):
    """Processes and their words."""

    def test_a_program_that_ends_at_its_start_says_why(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = Program("it", ["sh", "-c", "echo no port; echo; exit 3"], Path(folder) / "log")
            with self.assertRaisesRegex(Failed, "^it ended at its start: no port$"):
                program.start(lambda: False)
            self.assertFalse(program.running)

    def test_what_was_started_can_be_stopped(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = Program("it", ["sleep", "600"], Path(folder) / "log")
            program.start(lambda: True)
            self.assertTrue(program.running)
            program.stop()
            self.assertFalse(program.running)

    def test_silence_has_words_too(self) -> None:
        self.assertEqual(last_line("a\n b \n\n"), "b")
        self.assertEqual(last_line("2026-11-22T00:11:26.741010Z ERROR no io_uring"), "no io_uring")
        self.assertEqual(last_line("2026-11-21T23:53:59.295523Z 0 [ERROR] [MY-010119] [Server] Aborting"),
                         "[ERROR] [MY-010119] [Server] Aborting")
        self.assertEqual(last_line("\n"), "it said nothing")


class OptionsTest(unittest.TestCase):
    """The command line and configurations of others."""

    def test_steps_beyond_a_servers_reach_are_kept_apart(self) -> None:
        with tempfile.NamedTemporaryFile() as binary:
            arguments = main.parse(["--onramp", binary.name, "--connections", "100000,16", "--rounds", "2"])
            plan = main.plan_of(arguments)
        self.assertEqual((plan.steps, plan.beyond, plan.idle, plan.rounds), ([16], [100_000], [100_000], 2))

    def test_a_quick_look_leaves_the_page_alone(self) -> None:
        with tempfile.NamedTemporaryFile() as binary:
            arguments = main.parse(["--onramp", binary.name, "--quick"])
        self.assertNotIn(command_line.ROOT / "docs", [*arguments.output.parents, *arguments.json.parents])
        self.assertEqual(main.plan_of(arguments).rounds, 1)

    def test_numbers_are_sorted_and_positive(self) -> None:
        self.assertEqual(command_line.numbers("1_000,16,16"), [16, 1_000])
        for text in ("", "0,1", "-5"):
            with self.subTest(text=text), self.assertRaises(argparse.ArgumentTypeError):
                command_line.numbers(text)

    def test_the_command_has_no_paths(self) -> None:
        words = ["--onramp", "/a", "--rounds", "2", "--json=/b", "--quick"]
        self.assertEqual(command_line.command_text("compare", words, False), 'make compare ARGUMENTS="--rounds 2 --quick"')
        self.assertEqual(command_line.command_text("compare-pool", [], True), "MYSQL_HOME=FOLDER make compare-pool")

    def test_configurations_name_ports_and_sockets(self) -> None:
        self.assertIn("server server unix@/s\n", haproxy_configuration(4000, Path("/s"), 9_950))
        text = proxysql_configuration(Path("/f"), 4000, Path("/s"), 19_000, 2)
        self.assertIn('address="/s" port=0', text)
        self.assertIn('interfaces="127.0.0.1:4000"', text)


if __name__ == "__main__":
    unittest.main()
