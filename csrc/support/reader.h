#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "support/error.h"

namespace tilewright {

// The kit under every text form (expressions, Graph IR, schedules, plans): a lexer with one token of lookahead that
// knows line and column, and the printers of literals that it reads back.
//
//   words     letters, digits, `_`, and `.` between them: s0, f32, aten.mul.Tensor
//   numbers   12   0.5   1e-05   (a sign is a token of its own)
//   strings   "..." with \" \\ \n \t \r \xHH
//   punctuation, one character each, but `->`
//   comments  // to the end of the line
enum class TokenKind : uint8_t { kEnd, kWord, kInteger, kFloat, kString, kPunctuation };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;  // as written; a string with its quotes
  int line = 1, column = 1;
  bool spaced = false;  // white space stands before it
};

class Reader {
 public:
  explicit Reader(std::string_view text, std::string_view file = "<text>");

  const Token& peek() const { return token_; }
  // The token after the next one.
  Token peek_second() const;
  Token next();
  bool at_end() const { return token_.kind == TokenKind::kEnd; }

  // Whether the next token is this word or punctuation; `take` also consumes it, `expect` throws if it is not.
  bool is(std::string_view text) const;
  bool take(std::string_view text);
  void expect(std::string_view text);

  // Each consumes a token of the kind, or throws naming what it is: "expected a symbol, found '['".
  std::string_view word(const char* what);
  int64_t integer(const char* what);  // with sign
  double number(const char* what);    // integer or float, with sign; inf and nan
  std::string string(const char* what);
  // Whether a float literal (with `.` or `e`, or inf or nan; perhaps after a sign) comes next.
  bool at_float() const;

  // Throws UserError "file:line:column: message" at the next token, or at a token kept from before.
  [[noreturn]] void fail(const std::string& message) const { fail_at(token_, message); }
  [[noreturn]] void fail_at(const Token& token, const std::string& message) const;
  [[noreturn]] void fail_expected(const std::string& what) const;

 private:
  struct Cursor {
    size_t at = 0;
    size_t line_start = 0;
    int line = 1;
  };
  Token scan(Cursor& cursor) const;
  void skip_blank(Cursor& cursor) const;
  Token scan_number(const Cursor& start, Token token, size_t& end) const;

  std::string_view text_;
  std::string file_;
  Cursor cursor_;
  Token token_;
};

// Shortest text that reads back as the same double; always with `.`, `e`, `inf` or `nan`.
std::string float_text(double value);
// With quotes and escapes.
std::string quoted(std::string_view text);
bool is_word(std::string_view text);

}  // namespace tilewright
