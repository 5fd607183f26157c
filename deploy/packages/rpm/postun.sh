if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || :
fi
if [ "$1" -eq 0 ]; then
  rmdir /etc/onramp/credentials 2>/dev/null || :
fi
