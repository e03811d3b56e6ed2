# The folders of csrc with their layers: a folder may include only folders of a smaller number, so folders of one
# number do not know each other. test/core/layers checks the #include lines against this table.
set(TILEWRIGHT_LAYERS
  "support:0"
  "symbolic:1" "target:1" "layout:1" "simulator:1"
  "ir:2"
  "cost:3" "passes:3" "runtime:3"
  "schedule:4"
  "fusion:5"
  "codegen:6"
  "compiler:7"
  "torch:8" "tools:8")

# The folders whose sources make up the core library: all but the two on top of it.
set(TILEWRIGHT_CORE_FOLDERS)
foreach(row ${TILEWRIGHT_LAYERS})
  if(NOT row MATCHES ":8$")
    string(REGEX REPLACE ":.*" "" name ${row})
    list(APPEND TILEWRIGHT_CORE_FOLDERS ${name})
  endif()
endforeach()

# Includes are relative to csrc, or to include/ for the public headers.
set(tilewright_include_dirs ${CMAKE_SOURCE_DIR}/csrc)
if(EXISTS ${CMAKE_SOURCE_DIR}/include)
  list(APPEND tilewright_include_dirs ${CMAKE_SOURCE_DIR}/include)
endif()
