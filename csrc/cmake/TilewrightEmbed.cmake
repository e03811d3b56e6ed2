# Data files that become part of the core library, as sources added to the folder that declares them:
# codegen/libdevice.h and passes/embedded_rules.h.
set(generated_dir ${CMAKE_BINARY_DIR}/generated)

# libdevice: half a megabyte of bitcode, taken in by the assembler.
configure_file(${CMAKE_CURRENT_LIST_DIR}/libdevice.cpp.in ${generated_dir}/codegen/libdevice.cpp @ONLY)
set_source_files_properties(${generated_dir}/codegen/libdevice.cpp PROPERTIES OBJECT_DEPENDS ${libdevice_file})
set(generated_sources_codegen ${generated_dir}/codegen/libdevice.cpp)

# The rules of the pass `decompose`: each file a string constant.
file(GLOB rule_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/csrc/passes/rules/*.tw)
add_custom_command(
  OUTPUT ${generated_dir}/passes/embedded_rules.cpp
  COMMAND ${CMAKE_COMMAND} "-DFILES=${rule_files}" -DOUTPUT=${generated_dir}/passes/embedded_rules.cpp
    -P ${CMAKE_CURRENT_LIST_DIR}/embed_rules.cmake
  DEPENDS ${rule_files} ${CMAKE_CURRENT_LIST_DIR}/embed_rules.cmake ${CMAKE_CURRENT_LIST_FILE}
  COMMENT "Embedding the rules of decompose" VERBATIM)
set(generated_sources_passes ${generated_dir}/passes/embedded_rules.cpp)
