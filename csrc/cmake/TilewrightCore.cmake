# libtilewright_core.so: every folder of the compiler, LLVM linked statically and hidden.
find_package(Threads REQUIRED)
find_program(LLVM_CONFIG NAMES llvm-config-19 REQUIRED)
execute_process(COMMAND ${LLVM_CONFIG} --includedir OUTPUT_VARIABLE LLVM_INCLUDE_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND ${LLVM_CONFIG} --libdir OUTPUT_VARIABLE LLVM_LIB_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND ${LLVM_CONFIG} --link-static --libs nvptx irreader passes bitreader linker
  OUTPUT_VARIABLE LLVM_LIBS OUTPUT_STRIP_TRAILING_WHITESPACE)
separate_arguments(LLVM_LIBS)

# g++ looks for `ld.lld`; Debian installs it as `ld.lld-19`.
find_program(LLD NAMES ld.lld-19 ld.lld)
set(TILEWRIGHT_LINK_OPTIONS -Wl,--gc-sections)
if(LLD)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/lld)
  file(CREATE_LINK ${LLD} ${CMAKE_BINARY_DIR}/lld/ld.lld SYMBOLIC)
  list(APPEND TILEWRIGHT_LINK_OPTIONS -B${CMAKE_BINARY_DIR}/lld -fuse-ld=lld)
endif()

include(TilewrightNvidia)
include(TilewrightEmbed)

set(core_objects)
foreach(folder ${TILEWRIGHT_CORE_FOLDERS})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/csrc/${folder}/*.cpp)
  list(APPEND sources ${generated_sources_${folder}})
  if(NOT sources)
    continue()
  endif()
  add_library(tilewright_${folder} OBJECT ${sources})
  target_include_directories(tilewright_${folder} PUBLIC ${tilewright_include_dirs})
  include(${CMAKE_SOURCE_DIR}/csrc/${folder}/folder.cmake OPTIONAL)
  list(APPEND core_objects $<TARGET_OBJECTS:tilewright_${folder}>)
endforeach()
target_include_directories(tilewright_codegen SYSTEM PRIVATE ${LLVM_INCLUDE_DIR})
if(TARGET tilewright_runtime)
  target_include_directories(tilewright_runtime SYSTEM PRIVATE ${cuda_include_dirs})
endif()

add_library(tilewright_core SHARED ${core_objects})
target_include_directories(tilewright_core PUBLIC ${tilewright_include_dirs})
target_link_options(tilewright_core PRIVATE ${TILEWRIGHT_LINK_OPTIONS} -Wl,-z,defs
  -Wl,--version-script=${CMAKE_SOURCE_DIR}/csrc/cmake/core.map -Wl,-s -Wl,-z,defs)
target_link_libraries(tilewright_core PRIVATE -L${LLVM_LIB_DIR} ${LLVM_LIBS} -l:libz.a -l:libzstd.a
  Threads::Threads ${CMAKE_DL_LIBS})
set_property(TARGET tilewright_core APPEND PROPERTY LINK_DEPENDS ${CMAKE_SOURCE_DIR}/csrc/cmake/core.map)

file(GLOB tool_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/csrc/tools/*.cpp)
foreach(source ${tool_sources})
  get_filename_component(name ${source} NAME_WE)
  string(REPLACE "_" "-" name ${name})
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE tilewright_core)
endforeach()
