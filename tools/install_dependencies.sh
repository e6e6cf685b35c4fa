#!/usr/bin/env bash
# Installs the Debian 12 packages that millrace is built with. Run as root or with sudo. Installed packages are left unchanged.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache git            # build
  clang-format                                # the format that CI checks
  libcaf-dev libboost-dev libopenmpi-dev openmpi-bin libssl-dev
  libtomlplusplus-dev nlohmann-json3-dev libfmt-dev libxxhash-dev libedit-dev libcli11-dev libspdlog-dev
  libpcre2-dev libutf8proc-dev libsentencepiece-dev   # tokenizers
  libgtest-dev python3-minimal iproute2   # tests
  libdnnl-dev                             # benchmarks: what our products are compared with
)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "dependencies: all ${#packages[@]} packages are installed"
  exit 0
fi

run=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install_dependencies.sh: not root and no sudo; install these: ${missing[*]}" >&2; exit 1; }
  run=(sudo)
fi
echo "dependencies: installing ${missing[*]}"
"${run[@]}" apt-get update -qq
"${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
