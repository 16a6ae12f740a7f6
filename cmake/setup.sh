#!/bin/sh
# setup.sh train|programs|test|fuzz|bench|speed|package|api|format: sees to it that what this target needs is on the machine. Missing
# Debian packages are installed when this user may (root, or sudo without a password); otherwise one line says what to install.
# RLCORE_SETUP=no leaves everything as it is, for machines whose libraries lie elsewhere.
set -eu

goal=${1:?usage: setup.sh train|programs|test|fuzz|bench|speed|package|api|format}
[ "${RLCORE_SETUP:-yes}" = no ] && exit 0
cd "$(dirname "$0")/.."
log=build/setup.log
mkdir -p build

required=''
wanted=''   # improves things; its absence is no reason to stop

has_command() { command -v "$1" >/dev/null 2>&1; }
has_header() {  # has_header NAME [FOLDER...]: in the usual folders, or where the compiler itself looks
  for folder in /usr/include /usr/local/include /usr/include/eigen3; do
    [ -e "$folder/$1" ] && return 0
  done
  has_command c++ && printf '#include <%s>\n' "$1" | c++ -E -x c++ - >/dev/null 2>&1
}
need_command() { has_command "$1" || required="$required $2"; }
need_header() { has_header "$1" || required="$required $2"; }
want_header() { has_header "$1" || wanted="$wanted $2"; }
want_command() { has_command "$1" || wanted="$wanted $2"; }

if [ "$goal" = format ]; then
  need_command python3 python3
elif [ "$goal" = api ]; then
  need_command doxygen doxygen
else
  [ -n "${CXX:-}" ] && has_command "$CXX" || need_command c++ g++
  need_command cmake cmake
  want_command ninja ninja-build
  need_header nlohmann/json.hpp nlohmann-json3-dev
  [ -e /usr/include/pcre2.h ] || need_header pcre2posix.h libpcre2-dev
  need_header utf8proc.h libutf8proc-dev
  need_header fmt/core.h libfmt-dev
  # Images in rows of data.
  want_header png.h libpng-dev
  want_header jpeglib.h libjpeg-dev
  want_header webp/decode.h libwebp-dev
  want_header libdeflate.h libdeflate-dev
  # Files that name tools.
  want_header yaml-cpp/yaml.h libyaml-cpp-dev
  # openai_server.
  want_header httplib.h libcpp-httplib-dev
fi
[ "$goal" != speed ] || need_command python3 python3
# The packages carry Arrow, which comes out of a Python wheel.
want_venv() {
  want_command python3 python3
  for python in python3 /usr/bin/python3; do
    "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 && return 0
  done
  wanted="$wanted python3-venv"
}
if [ "$goal" = format ]; then
  want_venv
fi
if [ "$goal" = package ]; then
  need_command dpkg-shlibdeps dpkg-dev
  need_command file file
  want_venv
fi
# Ranks as processes of MPI, and Parquet, which README's commands for the programs use.
if [ "$goal" = programs ]; then
  want_command mpirun openmpi-bin
  ls /usr/lib/*/openmpi/include/mpi.h >/dev/null 2>&1 || has_header mpi.h || wanted="$wanted libopenmpi-dev"
  want_venv
fi
if [ "$goal" = fuzz ]; then
  need_command clang++ clang
  want_command clang-tidy clang-tidy   # .ci/tidy
  need_command python3 python3
  version=$(clang++ -dumpversion 2>/dev/null | sed 's/\..*//')
  ls /usr/lib/llvm-"${version:-14}"/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a >/dev/null 2>&1 ||
    required="$required libclang-rt-${version:-14}-dev"
fi
if [ "$goal" = test ]; then
  need_header gtest/gtest.h libgtest-dev
  need_header gmock/gmock.h libgmock-dev
  need_header Eigen/Core libeigen3-dev
  need_header xtensor/xtensor.hpp libxtensor-dev
  need_command jq jq   # in a command of docs/evaluate.md
  # Ranks as processes, with both of the usual MPIs; their tests are skipped without them.
  want_command mpirun openmpi-bin
  ls /usr/lib/*/openmpi/include/mpi.h >/dev/null 2>&1 || has_header mpi.h || wanted="$wanted libopenmpi-dev"
  want_command mpirun.mpich mpich
  ls /usr/include/*/mpich/mpi.h >/dev/null 2>&1 || wanted="$wanted libmpich-dev"
  want_command ip iproute2   # hosts that are network namespaces
  want_command tmux tmux     # tests/acceptance: what a terminal shows
  want_command ccache ccache
  want_command clang++ clang
  want_command pkg-config pkg-config
  want_command aarch64-linux-gnu-g++ g++-aarch64-linux-gnu   # tests/aarch64
  want_command qemu-aarch64 qemu-user
  want_command doxygen doxygen   # tests/api
  want_venv
fi

as_root=''
may_install() {
  has_command apt-get || return 1
  [ "$(id -u)" = 0 ] && return 0
  has_command sudo && sudo -n true 2>/dev/null && as_root='sudo -n'
}
apt_install() {
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" </dev/null >>"$log" 2>&1
}
install() {
  apt_install "$@" && return 0
  # The package lists may be old or, on a fresh machine, not there at all.
  $as_root apt-get update </dev/null >>"$log" 2>&1 || true
  apt_install "$@"
}

if [ -n "$required$wanted" ]; then
  if may_install; then
    echo "setup: installing$required$wanted"
    # shellcheck disable=SC2086
    if ! install $required $wanted; then
      if [ -n "$required" ] && ! apt_install $required; then
        echo "setup: apt-get could not install$required (its output is in $log)" >&2
        exit 1
      fi
      [ -z "$wanted" ] || { [ "$goal" != test ] && [ "$goal" != programs ]; } || echo "setup: going on without$wanted (apt-get's output is in $log)"
    fi
  elif [ -n "$required" ]; then
    echo "setup: this needs packages that are missing: sudo apt-get install$required$wanted" >&2
    exit 1
  elif [ "$goal" = test ] || [ "$goal" = programs ]; then  # elsewhere what is missing only makes things faster
    echo "setup: going on without$wanted"
  fi
fi

if [ "$goal" != format ] && [ "$goal" != api ]; then
  version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
  # shellcheck disable=SC2086
  set -- $version
  if [ "$1" -lt 3 ] || { [ "$1" -eq 3 ] && [ "$2" -lt 22 ]; }; then
    echo "setup: CMake $1.$2 is too old: 3.22 or newer is needed" >&2
    exit 1
  fi
fi

# What tests need from Python, in build/venv; what pip cannot get is left out, and its tests with it.
in_venv() {  # in_venv WHAT_FOR PACKAGE==VERSION...
  what_for=$1
  shift
  [ -e build/venv/bin/python3 ] || { python3 -m venv build/venv || /usr/bin/python3 -m venv --clear build/venv; } >>"$log" 2>&1 &&
    timeout 300 build/venv/bin/python3 -m pip install --quiet --disable-pip-version-check --no-input --retries 1 \
      --no-deps --only-binary :all: "$@" </dev/null >>"$log" 2>&1 ||
    echo "setup: $1 could not be installed (see $log): make $goal goes on without $what_for"
}
# Arrow C++ for Parquet comes out of the pyarrow wheel, unless the python3 in PATH has one; without it the programs read
# .jsonl alone, and the tests of Parquet are left out.
if { [ "$goal" = test ] || [ "$goal" = package ] || [ "$goal" = programs ]; } && ! pkg-config --exists parquet 2>/dev/null && [ -z "${RLCORE_PYARROW:-}" ]; then
  wheel=$(sed -n '/^pyarrow==/p' cmake/requirements.txt)
  if [ "$goal" = programs ] && python3 -c 'import pyarrow' 2>/dev/null; then
    :
  elif ! build/venv/bin/python3 -c "import pyarrow, sys; sys.exit('pyarrow==' + pyarrow.__version__ != '$wheel')" 2>/dev/null; then
    rm -rf build/venv
    echo "setup: $wheel into build/venv, for Parquet"
    in_venv Parquet "$wheel"
  fi
fi
# Somebody else's programs that the tests hand our files and answers to, at the versions of cmake/requirements.txt.
peer() {  # peer WHAT_FOR NAME MODULE PACKAGE...
  what_for=$1
  name=$2
  module=$3
  shift 3
  wheels=''
  for package; do wheels="$wheels $(sed -n "/^$package==/p" cmake/requirements.txt)"; done
  # shellcheck disable=SC2086
  build/venv/bin/python3 - "$module" $wheels 2>/dev/null <<'PYTHON' && return
import importlib, sys
from importlib.metadata import version
importlib.import_module(sys.argv[1])
sys.exit(any(version(w.split("==")[0]) != w.split("==")[1] for w in sys.argv[2:]))
PYTHON
  # shellcheck disable=SC2086
  set -- $wheels
  echo "setup: $1 into build/venv, for $what_for"
  in_venv "$name" "$@"
}
if [ "$goal" = format ]; then
  peer 'the layout of sources' clang-format clang_format clang-format
fi
if [ "$goal" = test ]; then
  peer 'the tests of event files' TensorBoard tensorboard.backend.event_processing.event_accumulator \
    tensorboard absl-py numpy protobuf
  peer 'the tests of the server' openai-python openai openai annotated-types anyio h11 httpcore2 httpx2 idna jiter \
    pydantic pydantic_core sniffio truststore typing-inspection typing_extensions
fi
