# The core as a library built elsewhere (a machine without LLVM compiles only the files with torch headers).
if(NOT EXISTS "${TILEWRIGHT_CORE_LIBRARY}")
  message(FATAL_ERROR "TILEWRIGHT_CORE_LIBRARY names no file: '${TILEWRIGHT_CORE_LIBRARY}'")
endif()
add_library(tilewright_core SHARED IMPORTED GLOBAL)
set_target_properties(tilewright_core PROPERTIES
  IMPORTED_LOCATION ${TILEWRIGHT_CORE_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES "${tilewright_include_dirs}")
