"""Pictures of the page, one of each state, for docs/PAGE.md: a real server, a real Onramp and a real load, as a browser shows it.

    tests/drivers/run pictures [FOLDER]      writes load.png, idle.png and so on into docs/page, or into FOLDER

It takes about four minutes, most of which a chart needs to have something to show. FASTER=1 takes less, for those who work on the page.
"""

import base64
import contextlib
import os
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

from harness import folders, raw
from harness.browser import Browser
from harness.onramp import Onramp, binary
from harness.server import APP, OTHER, Server, free_port, make_template
from harness.waiting import in_background, until

HERE = Path(__file__).resolve().parent
SIZE = (1280, 1400)
NARROW = (400, 1300)

# Seconds without load, of load, and of the trouble at its end.
IDLE, LOAD, TROUBLE = (3, 25, 10) if os.environ.get("FASTER") else (40, 170, 45)

CLIENTS = "400"


def bench(onramp, *words):
    command = [binary(), "bench", *words[:2], "--host", onramp.host, "--port", str(onramp.port), "--user", APP[0], "--db", "onramp_app",
               "--tables", "2", "--table-size", "10000", *words[2:]]
    environment = {**os.environ, "ONRAMP_BENCH_PASSWORD": APP[1]}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Site:
    """All that a picture needs."""

    def __init__(self, folder, cleanup):
        self.folder, self.cleanup = folder, cleanup
        self.server = Server(folder, template=make_template(Path(folder))).start()
        cleanup.callback(self.server.discard)

    def onramp(self, **options):
        port, admin = free_port(), free_port()
        os.environ["ONRAMP_ADMIN_PASSWORD"] = "operator"
        onramp = Onramp(self.server, self.folder, http_listen=f"127.0.0.1:{port}", admin_listen=f"127.0.0.1:{admin}", permits="4", max_backends="24",
                        workers="1", **options)
        onramp.start()
        self.cleanup.callback(onramp.stop)
        onramp.address = f"http://127.0.0.1:{port}/"
        onramp.operator = raw.connect(type("Place", (), {"host": "127.0.0.1", "port": admin})(), "admin", "operator")
        return onramp

    def client(self, onramp, account=APP):
        client = raw.connect(onramp, *account)
        if account == APP:
            client.query("USE onramp_app")
        self.cleanup.callback(client.close)
        return client


def load(site, onramp):
    """A usual day of an application, in which somebody keeps rows locked for a while."""
    prepared = bench(onramp, "prepare")
    assert prepared.wait(120) == 0, "the tables cannot be made"
    running = bench(onramp, "run", "oltp_read_write", "--connections", CLIENTS, "--time", "3600", "--rate", "120")
    site.cleanup.callback(running.wait)
    site.cleanup.callback(running.kill)
    reads = bench(onramp, "run", "point_select", "--connections", "60", "--time", "3600", "--rate", "1500")
    site.cleanup.callback(reads.wait)
    site.cleanup.callback(reads.kill)
    time.sleep(LOAD - TROUBLE)


def trouble(site, onramp):
    """One client that locks rows and goes to lunch, others who want them, some who keep things, some who err."""
    first = site.client(onramp)
    first.query("CREATE TABLE IF NOT EXISTS stock (id INT PRIMARY KEY, left_over INT)")
    first.query("INSERT IGNORE INTO stock VALUES (1, 5), (2, 5), (3, 5)")
    first.query("BEGIN")
    first.query("UPDATE stock SET left_over = left_over - 1 WHERE id = 1")
    second = site.client(onramp)
    second.query("BEGIN")
    second.query("UPDATE stock SET left_over = left_over - 1 WHERE id = 2")
    in_background(second.query, "UPDATE stock SET left_over = left_over - 1 WHERE id = 1")
    for number in (1, 1, 2, 2, 2):
        in_background(site.client(onramp).query, f"UPDATE stock SET left_over = left_over - 1 WHERE id = {number}")
    for name in ("nightly", "billing", "mails"):
        site.client(onramp).query(f"SELECT GET_LOCK('{name}', 1)")
    keeper = site.client(onramp)
    keeper.query("CREATE TEMPORARY TABLE report (id INT)")
    other = site.client(onramp, OTHER)
    other.query("LOCK TABLES mysql.help_topic READ")
    erring = site.client(onramp)
    for _ in range(20):
        erring.query("SELECT price FROM onramp_app.stock WHERE id = 3")
    time.sleep(TROUBLE)


def refusals(site, page, target):
    """An Onramp of its own that takes few clients, more of them who come, and some who guess passwords."""
    onramp = site.onramp(max_connections="8")
    page.go(onramp.address)

    def come(*accounts):
        for _ in range(20):
            for account in accounts:
                with contextlib.suppress(AssertionError, raw.Closed, OSError):
                    raw.connect(onramp, *account).close()
            time.sleep(0.5)

    come(APP, ("app", "wrong"), ("stranger", "guess"))
    for _ in range(8):
        site.client(onramp)
    come(APP)
    picture(page, target, "limits", "max_connections", at="#limits", size=(1280, 900))
    picture(page, target, "logins", "password", at="#logins", size=(1280, 700))


# The page's own canvas reads the picture: the 256 colours that are there most often stay, others become the nearest of these.
FEW_COLOURS = """(async (source) => {
  const image = await createImageBitmap(await (await fetch(source)).blob());
  const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  const pixels = new Uint32Array(canvas.getImageData(0, 0, image.width, image.height).data.buffer);
  const often = new Map();
  for (const pixel of pixels) often.set(pixel, (often.get(pixel) ?? 0) + 1);
  const kept = [...often].sort((one, other) => other[1] - one[1]).slice(0, 256).map(([colour]) => colour);
  const parts = (colour) => [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255];
  const near = new Map(kept.map((colour, place) => [colour, place]));
  const place = (colour) => {
    if (!near.has(colour)) {
      const own = parts(colour);
      const far = kept.map((other) => parts(other).reduce((sum, part, i) => sum + (part - own[i]) ** 2, 0));
      near.set(colour, far.indexOf(Math.min(...far)));
    }
    return near.get(colour);
  };
  let bytes = "";
  for (const pixel of pixels) bytes += String.fromCharCode(place(pixel));
  return { width: image.width, height: image.height, colours: kept.map(parts).flat(), pixels: btoa(bytes) };
})"""


def with_few_colours(page, png):
    """A picture of a third of the bytes that nobody can tell from the other (an indexed PNG)."""
    page.go("about:blank")
    found = page.run(f"{FEW_COLOURS}('data:image/png;base64,{base64.b64encode(png).decode()}')")
    width, height, pixels = found["width"], found["height"], base64.b64decode(found["pixels"])

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + pixels[row * width:(row + 1) * width] for row in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)) + chunk(b"PLTE", bytes(found["colours"]))
            + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def picture(page, folder, name, *texts, size=SIZE, at=""):
    page.resize(*size)
    page.shows(*texts)
    page.run("new Promise((done) => setTimeout(done, 2500))")
    page.run(f"document.querySelector('{at}').scrollIntoView({{behavior: 'instant'}})" if at else "scrollTo(0, 0)")
    page.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.screenshot(folder / f"{name}.png")


def make_smaller(page, folder):
    for path in sorted(folder.glob("*.png")):
        path.write_bytes(with_few_colours(page, path.read_bytes()))
        print(path.name, path.stat().st_size, "bytes")


def main(target):
    with contextlib.ExitStack() as cleanup, tempfile.TemporaryDirectory(prefix="onramp-pictures-", dir=folders.place()) as folder:
        site = Site(folder, cleanup)
        onramp = site.onramp()
        pages = {dark: Browser(*SIZE, dark=dark) for dark in (False, True)}
        for page in pages.values():
            cleanup.callback(page.close)
            page.go(onramp.address)
        light = pages[False]
        time.sleep(IDLE)
        picture(light, target, "idle", "All is well", "Nobody waits")
        load(site, onramp)
        trouble(site, onramp)
        picture(light, target, "load", "blocks", "stock")
        picture(light, target, "locks", "blocks", at="#waiting", size=(1280, 1000))
        picture(light, target, "statements", "on the server", at="#statements", size=(1280, 1250))
        picture(light, target, "pins", "named lock", at="#pins", size=(1280, 1000))
        picture(pages[True], target, "dark", "blocks")
        picture(light, target, "narrow", "blocks", size=NARROW)
        refusals(site, light, target)
        light.go(onramp.address)
        onramp.operator.query("PAUSE")
        picture(light, target, "paused", "Paused by an operator", size=(1280, 1150))
        onramp.operator.query("RESUME")
        site.server.kill()
        until(lambda: "does not answer" in light.text("header"), lambda: light.text("header"))
        picture(light, target, "server-down", "does not answer", size=(1280, 1150))
        onramp.process.kill()
        onramp.process.wait()
        picture(light, target, "old", "No data for", size=(1280, 700))
        make_smaller(light, target)


if __name__ == "__main__":
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parents[1] / "docs" / "page"
    chosen.mkdir(parents=True, exist_ok=True)
    main(chosen)
