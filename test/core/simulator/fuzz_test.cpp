// The fuzzers' corpus (fuzz/corpus) and some random changes to it, without a fuzzing engine. An input that once crashed
// or hung stays in the corpus.
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "fuzz/one_input.h"
#include "run.h"

namespace tilewright::sim {
namespace {

std::vector<std::string> corpus() {
  std::vector<std::filesystem::path> paths;
  for (const auto& file :
       std::filesystem::directory_iterator(std::string(TILEWRIGHT_SOURCE_DIR) + "/test/core/simulator/fuzz/corpus"))
    paths.push_back(file.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

TEST(Fuzz, CorpusIsRefusedOrRuns) {
  const std::vector<std::string> texts = corpus();
  EXPECT_GE(texts.size(), 20u);
  for (const std::string& text : texts) fuzz::run_one(text);
}

// TILEWRIGHT_FUZZ_SECONDS (3) of changes, by TILEWRIGHT_SEED (1). With TILEWRIGHT_FUZZ_INPUT=file the last input is
// there, also after a crash.
TEST(Fuzz, ChangedInputsAreRefusedOrRun) {
  const std::vector<std::string> texts = corpus();
  const char* given = std::getenv("TILEWRIGHT_FUZZ_SECONDS");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(given ? std::atoi(given) : 3);
  const char* seed = std::getenv("TILEWRIGHT_SEED");
  const char* kept = std::getenv("TILEWRIGHT_FUZZ_INPUT");
  std::mt19937 random(seed ? static_cast<uint32_t>(std::atoi(seed)) : 1);
  size_t inputs = 0;
  for (; std::chrono::steady_clock::now() < end; ++inputs) {
    std::string text = texts[random() % texts.size()];
    for (uint32_t n = 1 + random() % 3; n > 0; --n) text = fuzz::mutate(text, texts[random() % texts.size()], random);
    if (kept) std::ofstream(kept, std::ios::binary) << text;
    fuzz::run_one(text);
  }
  EXPECT_GT(inputs, 0u);
}

}  // namespace
}  // namespace tilewright::sim
