# Benchmarks in C++, which are not part of `all`: cmake --build build --target simulator_speed.
add_executable(simulator_speed EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/benchmarks/simulator/simulator_speed.cpp)
target_link_libraries(simulator_speed PRIVATE tilewright_core)
