"""What the suites stand on: a private MariaDB, Onramp in front of it, a protocol client and transcripts."""
