# One GoogleTest program a folder of test/core; all link the one core library.
find_package(GTest REQUIRED)
file(GLOB test_folders RELATIVE ${CMAKE_SOURCE_DIR}/test/core CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/core/*)
foreach(folder ${test_folders})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/core/${folder}/*_test.cpp)
  if(NOT sources)
    continue()
  endif()
  add_executable(tilewright_test_${folder} ${sources})
  target_link_libraries(tilewright_test_${folder} PRIVATE tilewright_core GTest::gtest GTest::gtest_main)
  target_compile_definitions(tilewright_test_${folder} PRIVATE TILEWRIGHT_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${folder} COMMAND tilewright_test_${folder})
endforeach()

# Libraries that stand in for the driver and the assembler; the program loads them by their path, before anything asks for
# the names.
foreach(fake cuda nvjitlink)
  add_library(tilewright_fake_${fake} MODULE ${CMAKE_SOURCE_DIR}/test/core/fake_driver/fake_${fake}.cpp)
  string(TOUPPER ${fake} upper)
  target_compile_definitions(tilewright_test_fake_driver
    PRIVATE TILEWRIGHT_FAKE_${upper}="$<TARGET_FILE:tilewright_fake_${fake}>")
  add_dependencies(tilewright_test_fake_driver tilewright_fake_${fake})
endforeach()
target_link_options(tilewright_fake_cuda PRIVATE -Wl,-soname,libcuda.so.1)
target_link_options(tilewright_fake_nvjitlink PRIVATE -Wl,-soname,libnvJitLink.so.13)

# The text tests: lit runs every .tw file with RUN lines, in parallel (test/core/lit.cfg.py). They need the tools of
# the build, FileCheck and Python, so only a build of the core has them.
file(GLOB_RECURSE text_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/core/*.tw)
list(FILTER text_tests EXCLUDE REGEX "/inputs/")
if(TILEWRIGHT_BUILD_CORE AND text_tests)
  get_filename_component(python_dir "${TILEWRIGHT_PYTHON}" DIRECTORY)
  find_program(TILEWRIGHT_LIT NAMES lit lit.py
    HINTS ${python_dir} ${CMAKE_SOURCE_DIR}/.venv/bin ${LLVM_LIB_DIR}/../build/utils/lit NO_CACHE)
  find_program(TILEWRIGHT_FILECHECK NAMES FileCheck FileCheck-19 HINTS ${LLVM_LIB_DIR}/../bin NO_DEFAULT_PATH NO_CACHE)
  if(TILEWRIGHT_LIT AND TILEWRIGHT_FILECHECK)
    get_filename_component(filecheck_dir ${TILEWRIGHT_FILECHECK} DIRECTORY)
    add_test(NAME text COMMAND ${TILEWRIGHT_LIT} -v --param build=${CMAKE_BINARY_DIR}
      --param filecheck_dir=${filecheck_dir} ${CMAKE_SOURCE_DIR}/test/core)
  else()
    message(WARNING "no lit or FileCheck here (llvm-19-tools has both): the text tests are left out")
  endif()
endif()
