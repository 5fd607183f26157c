"""Certificates of a test's own, made by the openssl command."""

import subprocess
from pathlib import Path


class Authority:
    """Signs certificates; all its files are in one folder."""

    def __init__(self, folder, name="authority"):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.path = self.folder / f"{name}.pem"
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                 "-subj", f"/O=Onramp tests/CN={name}", "-addext", "keyUsage=critical,keyCertSign",
                 "-keyout", self._key(name), "-out", self.path)

    def sign(self, name, subject=None, alternative="DNS:localhost,IP:127.0.0.1", rsa=False, days=2):
        """A certificate, which counts for so many days, and its key, as paths. The same name again makes new ones in the same place."""
        kind = ["rsa:2048"] if rsa else ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        request = self.folder / f"{name}.csr"
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternative}\nbasicConstraints=CA:FALSE\n")
        certificate, key = self.folder / f"{name}.pem", self._key(name)
        _openssl("req", "-newkey", *kind, "-nodes", "-subj", subject or f"/CN={name}", "-keyout", key, "-out", request)
        _openssl("x509", "-req", "-in", request, "-CA", self.path, "-CAkey", self._key(self.name), "-CAcreateserial",
                 "-days", days, "-extfile", extensions, "-out", certificate)
        return str(certificate), str(key)

    def _key(self, name):
        return self.folder / f"{name}.key"


def _openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
