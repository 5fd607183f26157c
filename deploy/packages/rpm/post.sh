# $1: how many versions there are now; 1 the first time.
if ! getent passwd onramp >/dev/null; then
  if command -v systemd-sysusers >/dev/null; then
    systemd-sysusers onramp.conf || :
  else
    useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /sbin/nologin onramp || :
  fi
fi
if [ "$1" -eq 1 ]; then
  # Passwords may stand in the file. Whoever changes these rights later keeps them.
  chgrp onramp /etc/onramp /etc/onramp/onramp.toml || :
  chmod 750 /etc/onramp || :
  chmod 640 /etc/onramp/onramp.toml || :
  mkdir -p -m 700 /etc/onramp/credentials || :
  echo "onramp: set backend in /etc/onramp/onramp.toml, then: systemctl enable --now onramp"
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || :
  # Not started anew: that would cut all clients' connections at a time that nobody has chosen.
  if systemctl is-active --quiet onramp.service; then
    systemctl reload onramp.service || :
    echo "onramp: the old version goes on serving. When clients may lose their connections: systemctl restart onramp"
  fi
fi
