# Handlers are loops over 32 lanes. Each .inc file holds one group of them and is compiled once for the baseline and once
# for AVX2; handlers.cpp picks the set that the host has. Results must not depend on the choice: no contraction.
target_compile_options(tilewright_simulator PRIVATE
  -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-strict-aliasing
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
set(simulator_isas baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND simulator_isas avx2)
  target_compile_definitions(tilewright_simulator PRIVATE TW_SIM_HAS_AVX2)
endif()
file(GLOB simulator_groups CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/csrc/simulator/*_handlers.inc)
foreach(group ${simulator_groups})
  get_filename_component(name ${group} NAME_WE)
  foreach(isa ${simulator_isas})
    set(target_pragma)
    if(isa STREQUAL "avx2")
      set(target_pragma "#pragma GCC target(\"avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt\")")
    endif()
    set(generated ${CMAKE_BINARY_DIR}/generated/simulator/${name}_${isa}.cpp)
    file(CONFIGURE OUTPUT ${generated} @ONLY CONTENT [[
#include "simulator/handler_prelude.h"
@target_pragma@
#define TW_SIM_ISA @isa@
#include "simulator/lanes.inc"
#include "simulator/@name@.inc"
]])
    set_property(SOURCE ${generated} APPEND PROPERTY OBJECT_DEPENDS "${group};${CMAKE_SOURCE_DIR}/csrc/simulator/lanes.inc")
    target_sources(tilewright_simulator PRIVATE ${generated})
  endforeach()
endforeach()
