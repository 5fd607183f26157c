# $1: how many versions will be left; at an upgrade the service goes on.
if [ "$1" -eq 0 ] && [ -d /run/systemd/system ]; then
  systemctl --no-reload disable --now onramp.socket onramp-admin.socket onramp-http.socket onramp.service || :
fi
