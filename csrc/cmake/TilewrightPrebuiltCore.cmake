# The core as a library built elsewhere (a machine without LLVM compiles only the files with torch headers).
add_library(tilewright_core SHARED IMPORTED GLOBAL)
set_target_properties(tilewright_core PROPERTIES
  IMPORTED_LOCATION ${TILEWRIGHT_CORE_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_SOURCE_DIR}/csrc;${CMAKE_SOURCE_DIR}/include")
