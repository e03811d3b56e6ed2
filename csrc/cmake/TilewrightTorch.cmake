# tilewright/_C: the few files with torch headers, for the PyTorch of TILEWRIGHT_PYTHON.
execute_process(
  COMMAND ${TILEWRIGHT_PYTHON} -c "import sysconfig, torch, pybind11; from torch.utils import cpp_extension as e; print(';'.join([*e.include_paths(), pybind11.get_include(), sysconfig.get_paths()['include']])); print(e.library_paths()[0]); print(int(torch._C._GLIBCXX_USE_CXX11_ABI)); print(sysconfig.get_config_var('EXT_SUFFIX')); print(torch.__version__)"
  OUTPUT_VARIABLE facts RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
if(failed)
  message(FATAL_ERROR "${TILEWRIGHT_PYTHON} cannot import torch and pybind11")
endif()
string(REPLACE ";" "|" facts "${facts}")
string(REPLACE "\n" ";" facts "${facts}")
list(GET facts 0 TORCH_INCLUDES)
string(REPLACE "|" ";" TORCH_INCLUDES "${TORCH_INCLUDES}")
list(GET facts 1 TORCH_LIB_DIR)
list(GET facts 2 TORCH_ABI)
list(GET facts 3 PY_SUFFIX)
list(GET facts 4 TORCH_VERSION_FOUND)

file(GLOB torch_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/csrc/torch/*.cpp)
if(torch_sources)
  add_library(tilewright_python MODULE ${torch_sources})
  target_include_directories(tilewright_python SYSTEM PRIVATE ${TORCH_INCLUDES})
  target_compile_definitions(tilewright_python PRIVATE
    TORCH_EXTENSION_NAME=_C _GLIBCXX_USE_CXX11_ABI=${TORCH_ABI} TILEWRIGHT_TORCH_VERSION="${TORCH_VERSION_FOUND}")
  target_compile_options(tilewright_python PRIVATE -Wno-unused-parameter)
  target_link_directories(tilewright_python PRIVATE ${TORCH_LIB_DIR})
  target_link_libraries(tilewright_python PRIVATE tilewright_core torch torch_cpu torch_python c10)
  # In-tree use: the module and the core lie in python/tilewright, found with PYTHONPATH=python.
  set_target_properties(tilewright_python PROPERTIES PREFIX "" OUTPUT_NAME "_C" SUFFIX ${PY_SUFFIX}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_SOURCE_DIR}/python/tilewright
    BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)
  add_custom_command(TARGET tilewright_python POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E copy_if_different $<TARGET_FILE:tilewright_core> ${CMAKE_SOURCE_DIR}/python/tilewright/)
endif()
