# What the build takes from NVIDIA, none of it linked: libdevice's bitcode (embedded in the core) and the headers of
# the driver API and of nvJitLink (csrc/runtime loads both libraries at run time). They come from PyPI wheels
# (.ci/requirements/build.txt), or from a CUDA toolkit where one happens to be installed.
set(TILEWRIGHT_LIBDEVICE "" CACHE FILEPATH "libdevice.10.bc; empty: looked for in Python's packages, then in CUDA toolkits")
set(TILEWRIGHT_CUDA_INCLUDE "" CACHE STRING "Folders with cuda.h and nvJitLink.h; empty: looked for as libdevice is")

# Folders that may be roots of a toolkit or of NVIDIA's wheels, the best first.
set(nvidia_roots)
if(TILEWRIGHT_PYTHON)
  execute_process(
    COMMAND ${TILEWRIGHT_PYTHON} -c "import sysconfig; print(sysconfig.get_path('platlib'))"
    OUTPUT_VARIABLE site_packages OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(GLOB nvidia_roots ${site_packages}/nvidia/cu1[3-9] ${site_packages}/nvidia/nvvm ${site_packages}/nvidia/cuda_nvcc
    ${site_packages}/nvidia/cuda_runtime ${site_packages}/nvidia/nvjitlink)
endif()
file(GLOB venv_roots ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu1[3-9])
file(GLOB toolkit_roots /usr/local/cuda /usr/local/cuda-*)
list(APPEND nvidia_roots ${venv_roots} ${toolkit_roots})

set(advice "install the Python packages of .ci/requirements/build.txt into TILEWRIGHT_PYTHON or a .venv at the root")
if(NOT TILEWRIGHT_LIBDEVICE)
  find_file(libdevice_found libdevice.10.bc
    HINTS ${nvidia_roots} /usr/lib/nvidia-cuda-toolkit PATH_SUFFIXES nvvm/libdevice libdevice NO_DEFAULT_PATH NO_CACHE)
  if(NOT libdevice_found)
    message(FATAL_ERROR "libdevice.10.bc not found: ${advice}, or pass -DTILEWRIGHT_LIBDEVICE=/path/to/libdevice.10.bc")
  endif()
  set(libdevice_file ${libdevice_found})
elseif(EXISTS ${TILEWRIGHT_LIBDEVICE})
  set(libdevice_file ${TILEWRIGHT_LIBDEVICE})
else()
  message(FATAL_ERROR "TILEWRIGHT_LIBDEVICE names a file that does not exist: ${TILEWRIGHT_LIBDEVICE}")
endif()

set(cuda_include_dirs ${TILEWRIGHT_CUDA_INCLUDE})
if(NOT cuda_include_dirs)
  foreach(header cuda.h nvJitLink.h)
    string(MAKE_C_IDENTIFIER "include_of_${header}" found)
    find_path(${found} ${header} HINTS ${nvidia_roots} PATH_SUFFIXES include NO_DEFAULT_PATH NO_CACHE)
    if(NOT ${found})
      message(FATAL_ERROR "${header} not found: ${advice}, or pass -DTILEWRIGHT_CUDA_INCLUDE=<folders with cuda.h and nvJitLink.h>")
    endif()
    list(APPEND cuda_include_dirs ${${found}})
  endforeach()
  list(REMOVE_DUPLICATES cuda_include_dirs)
endif()
message(STATUS "libdevice: ${libdevice_file}")
message(STATUS "CUDA headers: ${cuda_include_dirs}")
