#!/usr/bin/env bash
# Compiles the kernels of this folder to the PTX beside them. Needs nvcc 13; the tests need only the PTX.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
for source in *.cu; do
  arch=sm_80
  [ "$source" = hopper.cu ] && arch=sm_90a
  nvcc -std=c++20 -arch=$arch -ptx "$source" -o - | sed -e '/^\/\/.*$/d' -e '/^$/d' >"${source%.cu}.ptx"
done
