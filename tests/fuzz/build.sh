#!/bin/bash
# OSS-Fuzz's build.sh; `make fuzz` calls it as well. Builds every *_fuzzer.cpp (ONLY="json text": these) with $CXX
# $CXXFLAGS $LIB_FUZZING_ENGINE into $OUT, with seeds as <name>_seed_corpus.zip and dictionaries. A fuzzer that is newer
# than all sources stays. Needs nlohmann-json, PCRE2, utf8proc and fmt; parquet_fuzzer needs Arrow C++ from pkg-config
# or in the folder $RLCORE_PYARROW, image_fuzzer libpng and libjpeg; they are left out without. libwebp and libdeflate are
# used where they are.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$here/../..
: "${CXX:?}" "${LIB_FUZZING_ENGINE:?}" "${OUT:?}"
mkdir -p "$OUT"
flags=(-std=c++20 -DFMT_HEADER_ONLY "-I$top/include" "-I$top/tests")
# Static where it can be: the machine that runs OSS-Fuzz's fuzzers lacks the libraries.
libraries=(-Xlinker -Bstatic -lpcre2-8 -lutf8proc -Xlinker -Bdynamic -pthread -ldl)
building=0
finish_one() {
  wait -n  # a failure ends this script
  building=$((building - 1))
}

for source in "$here"/*_fuzzer.cpp; do
  name=$(basename "$source" _fuzzer.cpp)
  [ -z "${ONLY:-}" ] || [[ " $ONLY " = *" $name "* ]] || continue
  more=()
  if [ "$name" = parquet ]; then
    if [ -n "${RLCORE_PYARROW:-}" ]; then
      more=("-isystem$RLCORE_PYARROW/include" "-Wl,-rpath,$RLCORE_PYARROW")
      for library in libparquet libarrow; do more+=("$(echo "$RLCORE_PYARROW/$library".so.[0-9]*)"); done
    elif pkg-config --exists parquet; then
      read -ra more < <(pkg-config --cflags --libs parquet arrow)
    else
      echo "fuzz: parquet is left out: no Arrow C++ (pkg-config parquet, or RLCORE_PYARROW)" >&2
      continue
    fi
  fi
  if [[ " image rows serving " = *" $name "* ]]; then
    if printf '#include <cstdio>\n#include <jpeglib.h>\n#include <png.h>\n' | $CXX -fsyntax-only -x c++ - 2>/dev/null; then
      more=(-DRLCORE_HAS_IMAGES=1 -Xlinker -Bstatic -lpng -ljpeg -lz)
      for optional in 'webp/decode.h WEBP' 'libdeflate.h DEFLATE'; do
        read -r header word <<<"$optional"
        ! printf '#include <%s>\n' "$header" | $CXX -fsyntax-only -x c++ - 2>/dev/null ||
          more+=("-DRLCORE_HAS_$word=1" "-l${word,,}")
      done
      more+=(-Xlinker -Bdynamic -lm)
    elif [ "$name" = image ]; then
      echo "fuzz: image is left out: no libpng and libjpeg" >&2
      continue
    fi
  fi
  if [ "$name" = tool_file ] && printf '#include <yaml-cpp/yaml.h>\n' | $CXX -fsyntax-only -x c++ - 2>/dev/null; then
    more=(-DRLCORE_HAS_YAML=1 -lyaml-cpp)
  fi
  fuzzer=$OUT/${name}_fuzzer
  if [ ! -e "$fuzzer" ] || [ -n "$(find "$top/include" "$here" -name '*.[chi]*' -newer "$fuzzer" -print -quit)" ]; then
    echo "fuzz: building $name"
    [ $building -lt "$(nproc)" ] || finish_one
    # shellcheck disable=SC2086  # flags in one word each
    $CXX ${CXXFLAGS:-} "${flags[@]}" "$source" -o "$fuzzer" $LIB_FUZZING_ENGINE "${more[@]}" "${libraries[@]}" &
    building=$((building + 1))
  fi
  rm -f "${fuzzer}_seed_corpus.zip"
  (cd "$here/seeds/$name" && python3 -m zipfile -c "${fuzzer}_seed_corpus.zip" ./*)
  [ ! -e "$here/$name.dict" ] || cp "$here/$name.dict" "$fuzzer.dict"
done
while [ $building -gt 0 ]; do finish_one; done
