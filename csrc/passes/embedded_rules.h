#pragma once

#include <span>
#include <string_view>

namespace tilewright {

// A file of csrc/passes/rules, part of this library.
struct EmbeddedFile {
  const char* name;  // without the folder: "softmax.tw"
  std::string_view text;
};

// The rules of the pass `decompose`, sorted by name.
std::span<const EmbeddedFile> decompose_rules();

}  // namespace tilewright
