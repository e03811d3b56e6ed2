#pragma once

#include <cctype>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "simulator/simulator.h"

// What the fuzzers of the simulator share: one input, and changes to it that keep it close to PTX.
namespace tilewright::sim::fuzz {

// Parses the text, and launches its first kernels with pointers to a buffer and small numbers, under limits. Any answer
// but UserError and DeviceError is a finding.
inline void run_one(const std::string& text) {
  constexpr size_t kKernels = 3, kBufferBytes = 4096;
  std::shared_ptr<const Module> module;
  try {
    module = parse(text);
  } catch (const UserError&) {
    return;
  }
  const std::vector<std::string> names = kernel_names(*module);
  for (size_t k = 0; k < names.size() && k < kKernels; ++k) {
    const KernelInfo info = kernel_info(*module, names[k]);
    std::vector<std::vector<uint64_t>> buffers;
    std::vector<std::vector<std::byte>> args;
    std::vector<Allocation> memory;
    for (uint32_t bytes : info.param_bytes) {
      std::vector<std::byte> value(bytes);
      if (bytes == 8) {
        buffers.emplace_back(kBufferBytes / 8, uint64_t{0x3f80000000000003});
        const auto base = reinterpret_cast<uint64_t>(buffers.back().data());
        std::memcpy(value.data(), &base, 8);
        memory.push_back({base, kBufferBytes, "buffer", true});
      } else if (bytes > 0) {
        value[0] = std::byte{40};
      }
      args.push_back(std::move(value));
    }
    LaunchConfig config;
    config.block = {64, 1, 1};
    if (info.reqntid[0]) config.block = info.reqntid;
    config.grid = {2, 1, 1};
    for (int d = 0; d < 3; ++d)
      if (info.reqcluster[d]) config.grid[d] = info.reqcluster[d];
    config.dynamic_smem_bytes = info.uses_dynamic_smem ? 1024 : 0;
    config.threads = 1;
    config.step_budget = 3000;
    config.check_races = config.check_uninitialized = k % 2 == 1;
    try {
      launch(*module, names[k], config, args, memory);
    } catch (const UserError&) {
    } catch (const DeviceError&) {
    }
  }
}

inline std::vector<std::string> tokens_of(const std::string& text) {
  std::vector<std::string> out;
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '%' || c == '$' || c == '.' || c == ':';
  };
  for (size_t i = 0; i < text.size();) {
    size_t j = i + 1;
    if (is_word(text[i]))
      while (j < text.size() && is_word(text[j])) ++j;
    out.push_back(text.substr(i, j - i));
    i = j;
  }
  return out;
}

// Replaces, repeats, removes or moves a few tokens; some new ones come from `other`, another input.
inline std::string mutate(const std::string& text, const std::string& other, std::mt19937& random) {
  static const std::vector<std::string> kSpecial = {"-1",         "0",          "1",
                                                    "31",         "32",         "255",
                                                    "65535",      "4294967295", "0x7fffffffffffffff",
                                                    "0f7FC00000", "0f00000001", "0d7FF8000000000000",
                                                    "{",          "}",          "[",
                                                    "]",          "_",          "%tid.x",
                                                    "%laneid",    "@%p1",       ".v4",
                                                    ".b8",        ".b128",      ".pred",
                                                    ".f16x2",     "\n",         ";",
                                                    ","};
  std::vector<std::string> tokens = tokens_of(text);
  const std::vector<std::string> foreign = tokens_of(other);
  const auto pick = [&](const std::vector<std::string>& from) -> const std::string& {
    return from[random() % from.size()];
  };
  for (uint32_t n = 1 + random() % 6; n > 0 && !tokens.empty(); --n) {
    const size_t at = random() % tokens.size();
    const auto here = tokens.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random() % 8) {
      case 0:
        tokens.erase(here);
        break;
      case 1:
        *here = pick(kSpecial);
        break;
      case 2:
        *here = pick(tokens);
        break;
      case 3:
        if (!foreign.empty()) *here = pick(foreign);
        break;
      case 4:
        std::swap(*here, tokens[random() % tokens.size()]);
        break;
      case 5: {  // another modifier of the same opcode
        const size_t dot = here->find('.', 1);
        const std::string& donor = foreign.empty() ? tokens[0] : pick(foreign);
        const size_t donor_dot = donor.find('.', 1);
        if (dot != std::string::npos && donor_dot != std::string::npos)
          *here = here->substr(0, dot) + donor.substr(donor_dot);
        break;
      }
      case 6: {  // a run of tokens from elsewhere
        const std::vector<std::string>& from = foreign.empty() || random() % 2 ? tokens : foreign;
        const size_t start = random() % from.size(), length = std::min<size_t>(from.size() - start, 1 + random() % 20);
        const std::vector<std::string> run(from.begin() + static_cast<std::ptrdiff_t>(start),
                                           from.begin() + static_cast<std::ptrdiff_t>(start + length));
        tokens.insert(here, run.begin(), run.end());
        break;
      }
      default:
        if (!here->empty()) (*here)[random() % here->size()] = static_cast<char>(random() % 128);
        break;
    }
  }
  std::string out;
  for (const std::string& t : tokens) out += t;
  return out;
}

}  // namespace tilewright::sim::fuzz
