#!/usr/bin/env bash
# Fuzzes the simulator with libFuzzer under the address and undefined-behaviour sanitizers:
#   test/core/simulator/fuzz/run.sh [seconds] [folder for new inputs]
# Needs clang-19 and libclang-rt-19-dev. Inputs that crash are written to the working folder; a fixed one goes to
# corpus/ under a name that says what broke.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../../.." && pwd)
seconds=${1:-60}
work=${2:-$root/build/fuzz}
mkdir -p "$work/objects" "$work/found"
flags=(-std=c++20 -O1 -g -w -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize=alignment -fno-sanitize-recover=undefined
  -ffp-contract=off -fno-math-errno -I"$root/csrc")
for group in "$root"/csrc/simulator/*_handlers.inc; do
  name=$(basename "$group" .inc)
  [ -e "$work/objects/$name.cpp" ] && continue
  printf '#include "simulator/handler_prelude.h"\n#define TW_SIM_ISA baseline\n#include "simulator/lanes.inc"\n#include "simulator/%s.inc"\n' \
    "$name" >"$work/objects/$name.cpp"
done
for source in "$root"/csrc/simulator/*.cpp "$work"/objects/*.cpp "$here/libfuzzer.cpp"; do
  object=$work/objects/$(basename "$source" .cpp).o
  if [ "$source" -nt "$object" ] ||
    [ -n "$(find "$root/csrc/simulator" "$here" -newer "$object" \( -name '*.h' -o -name '*.inc' \) -print -quit)" ]; then
    clang++-19 "${flags[@]}" -c "$source" -o "$object"
  fi
done
clang++-19 -fsanitize=address,undefined,fuzzer "$work"/objects/*.o -o "$work/fuzz" -lpthread
cd "$work"
exec ./fuzz -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -max_len=16384 -reload=0 -print_final_stats=1 \
  found "$here/corpus"
