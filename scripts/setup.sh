#!/usr/bin/env bash
# Makes a virtual environment that holds this clone's Forebay.
#
#   scripts/setup.sh VENV REQUIREMENTS...   checks the tools, makes VENV, installs the files and Forebay
#   scripts/setup.sh --check VENV           succeeds if VENV holds this clone's Forebay
#
# Everything is done once: a requirements file again when its content changes, Forebay again when the content of its
# sources does. Several clones may share VENV: whoever comes finds out whether what is installed is its own, and puts
# its own in place if not. Wheels are kept by content, so that going back and forth compiles nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${FOREBAY_CACHE:-$HOME/.cache/forebay}
python=${PYTHON:-python3}

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

# Holds a lock until the script ends, or until the file descriptor is closed.
hold() { # descriptor, file, what for
  eval "exec $1>\"\$2\""
  flock -n "$1" || { say "waiting for another make that $3"; flock "$1"; }
}

# --- tools ----------------------------------------------------------------------------------------------------------

check_rust() {
  command -v cargo >/dev/null || fail "no cargo: install Rust from https://rustup.rs, then run this again"
  local wanted found
  wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
  # Under rustup this also fetches the toolchain that rust-toolchain.toml names.
  found=$(rustc --version | cut -d' ' -f2)
  [ "$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n1)" = "$wanted" ] ||
    fail "Rust $found is too old: $wanted or later is needed (rustup update)"
}

check_compilers() {
  local missing=()
  command -v cc >/dev/null || missing+=(gcc libc6-dev)
  # libjpeg-turbo's vector code for x86 is written for nasm; without it decoding would be several times slower.
  case $(uname -m) in
    x86_64 | i?86) command -v nasm >/dev/null || command -v yasm >/dev/null || missing+=(nasm) ;;
  esac
  [ ${#missing[@]} -eq 0 ] && return
  local sudo=()
  [ "$(id -u)" -eq 0 ] || sudo=(sudo -n)
  if command -v apt-get >/dev/null && { [ ${#sudo[@]} -eq 0 ] || "${sudo[@]}" true 2>/dev/null; }; then
    say "installing ${missing[*]} with apt-get"
    "${sudo[@]}" apt-get install -y --no-install-recommends "${missing[@]}" >&2 ||
      { "${sudo[@]}" apt-get update >&2 && "${sudo[@]}" apt-get install -y --no-install-recommends "${missing[@]}" >&2; } ||
      fail "apt-get could not install ${missing[*]}; install them by hand, then run this again"
  else
    fail "missing: ${missing[*]} (names of Debian's packages); install them, as with" \
      "'sudo apt-get install ${missing[*]}', then run this again"
  fi
}

check_python() {
  command -v "$python" >/dev/null || fail "no $python: install Python 3.9 or later, or name one: make PYTHON=..."
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' ||
    fail "$("$python" --version) is too old: 3.9 or later is needed; name another: make PYTHON=..."
  "$python" -c 'import venv, ensurepip' 2>/dev/null ||
    fail "$python cannot make virtual environments: install python3-venv (Debian's name), then run this again"
}

# --- the environment ------------------------------------------------------------------------------------------------

make_venv() {
  if ! "$venv/bin/python" -c '' 2>/dev/null || [ ! -e "$venv/bin/pip" ]; then
    check_python
    say "making the virtual environment $venv"
    "$python" -m venv --clear "$venv"
  fi
  mkdir -p "$venv/stamps"
}

install_requirements() { # files
  local file stamp content constraints=()
  for file; do constraints+=(-c "$file"); done
  for file; do
    stamp=$venv/stamps/${file//\//-}
    content=$(sha256sum <"$file")
    [ "$(cat "$stamp" 2>/dev/null)" = "$content" ] && continue
    say "installing $file"
    "$venv/bin/python" -m pip install --disable-pip-version-check -r "$file" "${constraints[@]}" >&2 ||
      fail "pip could not install $file, see above; what is pinned there may need another Python than" \
        "$("$venv/bin/python" --version) (name one with make PYTHON=... after removing $venv)"
    printf '%s' "$content" >"$stamp"
  done
}

# --- Forebay itself -------------------------------------------------------------------------------------------------

# One word for all that goes into the wheel.
sources() {
  {
    printf '%s\0' Cargo.toml Cargo.lock pyproject.toml rust-toolchain.toml
    find crates python/forebay -type f -not -name '*.so' -not -name '*.pyc' \
      -not -path '*/tests/*' -not -path '*/benches/*' -not -path '*/examples/*' -print0
  } | LC_ALL=C sort -z | xargs -0 sha256sum | { cat; printf '%s\n' "${RUSTFLAGS-}" "$(uname -m)"; } | sha256sum | cut -c1-16
}

# What is installed: our word for it, and the identity of pip's record, which any other installation changes.
installed() { # word
  printf '%s %s' "$1" "$(stat -c '%i %Y' "$venv"/lib/python3*/site-packages/forebay-*.dist-info/RECORD 2>/dev/null)"
}

is_installed() { [ "$(cat "$venv/stamps/forebay" 2>/dev/null)" = "$(installed "$1")" ]; }

build_wheel() { # word
  local folder=$cache/wheels/$1
  [ -d "$folder" ] && return
  say "building Forebay ($("$venv/bin/python" --version), $(rustc --version | cut -d' ' -f1,2)); the first time takes minutes"
  rm -rf "$cache"/wheels/*.part
  # maturin and cmake are those of the main environment (requirements/build.txt). The locks are closed here, because a
  # compiler cache that starts its server now would hold them for ever.
  PATH=$cache/venv/bin:$PATH CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target} \
    maturin build --release --locked --compatibility linux --out "$folder.part" >&2 7>&- 8>&- ||
    fail "the build failed, see above"
  mv "$folder.part" "$folder"
  # The last few are kept, for clones that take turns.
  find "$cache/wheels" -mindepth 1 -maxdepth 1 -printf '%T@ %p\n' | sort -rn | tail -n +9 | cut -d' ' -f2- |
    while IFS= read -r old; do rm -rf "$old"; done
}

install_forebay() {
  local word
  word=$(sources)
  is_installed "$word" && return
  # Two builds would share the place where cargo leaves its result.
  hold 7 "$cache/build.lock" "builds"
  build_wheel "$word"
  exec 7>&-
  "$venv/bin/python" -m pip install --disable-pip-version-check --quiet --force-reinstall --no-deps \
    "$cache/wheels/$word"/forebay-*.whl >&2 || fail "pip could not install the wheel, see above"
  installed "$word" >"$venv/stamps/forebay"
  say "Forebay is installed in $venv"
}

if [ "${1-}" = --check ]; then
  venv=$2
  is_installed "$(sources)"
  exit
fi

venv=$1
shift
check_rust
check_compilers
mkdir -p "$cache/wheels" "$(dirname "$venv")"
hold 8 "$venv.lock" "uses $venv"
make_venv
install_requirements "$@"
install_forebay
