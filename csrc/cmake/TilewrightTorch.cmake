# tilewright/_C: the few files with torch headers, for the PyTorch of TILEWRIGHT_PYTHON. PyTorch's own pybind11 is
# used, so that both modules agree on how Python objects are held.
execute_process(COMMAND ${TILEWRIGHT_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/torch_facts.py
  OUTPUT_VARIABLE facts ERROR_VARIABLE why RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
if(failed)
  message(FATAL_ERROR "TILEWRIGHT_PYTHON: ${why}")
endif()
string(REPLACE "\n" ";" facts "${facts}")
list(GET facts 0 torch_version)
list(GET facts 1 torch_dir)
list(GET facts 2 python_include)
list(GET facts 3 module_suffix)
list(GET facts 4 python_version)
if(NOT EXISTS ${python_include}/Python.h)
  message(FATAL_ERROR "${TILEWRIGHT_PYTHON} has no Python.h in ${python_include}: install its headers (python3-dev)")
endif()
message(STATUS "PyTorch ${torch_version}, Python ${python_version}")

# In the tree the module and the core lie in python/tilewright; a wheel's build names its own folder.
set(TILEWRIGHT_MODULE_DIR ${CMAKE_SOURCE_DIR}/python/tilewright CACHE PATH "Where the Python module is put")

# What the module was built for; tilewright/_version_check.py holds it against what is running.
string(REGEX MATCH "^[0-9]+\\.[0-9]+" torch_minor ${torch_version})
configure_file(${CMAKE_CURRENT_LIST_DIR}/_build_info.py.in ${TILEWRIGHT_MODULE_DIR}/_build_info.py @ONLY)

file(GLOB torch_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/csrc/torch/*.cpp)
if(torch_sources)
  add_library(tilewright_python MODULE ${torch_sources})
  target_include_directories(tilewright_python SYSTEM PRIVATE
    ${torch_dir}/include ${torch_dir}/include/torch/csrc/api/include ${python_include})
  target_compile_definitions(tilewright_python PRIVATE
    TORCH_EXTENSION_NAME=_C _GLIBCXX_USE_CXX11_ABI=1 TILEWRIGHT_TORCH_VERSION="${torch_version}")
  target_compile_options(tilewright_python PRIVATE -Wno-unused-parameter)
  target_link_directories(tilewright_python PRIVATE ${torch_dir}/lib)
  target_link_libraries(tilewright_python PRIVATE tilewright_core torch_cpu torch_python c10)
  # Nothing but the module's entry is exported: a compiler that links libstdc++ statically would otherwise replace the core's.
  target_link_options(tilewright_python PRIVATE ${TILEWRIGHT_LINK_OPTIONS}
    -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/module.map)
  set_target_properties(tilewright_python PROPERTIES PREFIX "" OUTPUT_NAME "_C" SUFFIX ${module_suffix}
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    NO_SYSTEM_FROM_IMPORTED ON  # the same commands, so ccache's results, for a core built here and one brought along
    LIBRARY_OUTPUT_DIRECTORY ${TILEWRIGHT_MODULE_DIR}
    INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)
  add_custom_command(TARGET tilewright_python POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E copy_if_different $<TARGET_FILE:tilewright_core> ${TILEWRIGHT_MODULE_DIR}/)
endif()
