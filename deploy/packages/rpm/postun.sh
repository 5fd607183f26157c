# $1: how many versions are left.
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || :
fi
if [ "$1" -eq 0 ]; then
  # The package lists files alone. A folder in which somebody has put something stays.
  for folder in /usr/share/doc/onramp/docs/* /usr/share/doc/onramp/* /usr/share/doc/onramp /usr/share/licenses/onramp /usr/share/onramp \
      /var/log/onramp /etc/onramp/credentials /etc/onramp; do
    if [ -d "$folder" ]; then
      rmdir "$folder" 2>/dev/null || :
    fi
  done
fi
