#!/usr/bin/env bash
# Runs a command in a virtual environment that holds this clone's Forebay, and keeps it there meanwhile.
#
#   scripts/run.sh VENV COMMAND...
#
# Commands share the environment; a clone that wants to put its own Forebay there waits until they are done.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
shift
exec 8>"$venv.lock"
while
  flock -s 8
  ! scripts/setup.sh --check "$venv"
do
  flock -u 8
  scripts/setup.sh "$venv"
done
export VIRTUAL_ENV=$venv PATH=$venv/bin:$PATH
exec "$@"
