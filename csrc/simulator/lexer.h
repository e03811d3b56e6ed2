#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "support/error.h"

namespace tilewright::sim {

struct Position {
  int line = 0;
  int column = 0;
};

[[noreturn]] void syntax_error(Position at, const std::string& message);

struct Token {
  enum Kind : uint8_t { kEnd, kWord, kNumber, kString, kPunct };
  Kind kind = kEnd;
  char punct = 0;         // kPunct
  std::string_view text;  // kWord: name with dots and `::`; kNumber: as written; kString: without the quotes
  Position at;
};

// Splits PTX text into tokens; comments are skipped. Views point into the text.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  Token next();
  size_t offset() const { return pos_; }

 private:
  void skip_blanks();
  void advance();

  std::string_view text_;
  size_t pos_ = 0;
  Position at_{1, 1};
};

// The value of a number token: an integer, a double's bits (0d, decimals with a point), or a float's bits (0f). The
// type of the operand it stands for decides the final width.
struct Number {
  uint64_t bits = 0;
  bool is_float = false;
  bool is_f32 = false;  // a float's bits
};
Number number_value(const Token& token);

}  // namespace tilewright::sim
