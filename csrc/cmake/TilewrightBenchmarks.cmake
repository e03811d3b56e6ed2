# Benchmarks in C++, which are not part of `all`: cmake --build build --target simulator_speed kernel_making.
foreach(benchmark simulator_speed kernel_making)
  file(GLOB source ${CMAKE_SOURCE_DIR}/benchmarks/*/${benchmark}.cpp)
  add_executable(${benchmark} EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${benchmark} PRIVATE tilewright_core)
endforeach()
