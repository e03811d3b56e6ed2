// The libFuzzer target; run.sh builds and runs it. The suite itself replays the corpus with fuzz_test.cpp.
#include <cstring>

#include "one_input.h"

using namespace tilewright::sim::fuzz;

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  run_one(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  std::mt19937 random(seed);
  if (random() % 4 == 0) return LLVMFuzzerMutate(data, size, most);
  const std::string text(reinterpret_cast<const char*>(data), size), out = mutate(text, text, random);
  const size_t kept = std::min(out.size(), most);
  std::memcpy(data, out.data(), kept);
  return kept;
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size,
                                            uint8_t* to, size_t most, unsigned seed) {
  std::mt19937 random(seed);
  const std::string out = mutate(std::string(reinterpret_cast<const char*>(a), a_size),
                                 std::string(reinterpret_cast<const char*>(b), b_size), random);
  const size_t kept = std::min(out.size(), most);
  std::memcpy(to, out.data(), kept);
  return kept;
}
