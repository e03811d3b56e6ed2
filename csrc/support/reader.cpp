#include "support/reader.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

namespace tilewright {
namespace {

bool is_word_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_word_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string shown(const Token& token) {
  if (token.kind == TokenKind::kEnd) return "the end of the text";
  return "'" + std::string(token.text) + "'";
}

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  const int lower = std::tolower(static_cast<unsigned char>(c));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

Reader::Reader(std::string_view text, std::string_view file) : text_(text), file_(file) { token_ = scan(cursor_); }

Token Reader::peek_second() const {
  Cursor cursor = cursor_;
  return scan(cursor);
}

Token Reader::next() {
  const Token token = token_;
  token_ = scan(cursor_);
  return token;
}

bool Reader::is(std::string_view text) const {
  return (token_.kind == TokenKind::kWord || token_.kind == TokenKind::kPunctuation) && token_.text == text;
}

bool Reader::take(std::string_view text) {
  if (!is(text)) return false;
  next();
  return true;
}

void Reader::expect(std::string_view text) {
  if (!take(text)) fail_expected("'" + std::string(text) + "'");
}

std::string_view Reader::word(const char* what) {
  if (token_.kind != TokenKind::kWord) fail_expected(what);
  return next().text;
}

int64_t Reader::integer(const char* what) {
  const Token first = token_;
  const bool negative = take("-");
  if (token_.kind != TokenKind::kInteger) fail_expected(what);
  const std::string digits = (negative ? "-" : "") + std::string(token_.text);
  int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (result.ec != std::errc()) fail_at(first, "integer " + digits + " does not fit into 64 bits");
  next();
  return value;
}

double Reader::number(const char* what) {
  const bool negative = take("-");
  double value = 0;
  if (is("inf")) {
    value = std::numeric_limits<double>::infinity();
  } else if (is("nan")) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (token_.kind == TokenKind::kInteger || token_.kind == TokenKind::kFloat) {
    const auto result = std::from_chars(token_.text.data(), token_.text.data() + token_.text.size(), value);
    if (result.ec != std::errc()) fail("number " + std::string(token_.text) + " does not fit into a double");
  } else {
    fail_expected(what);
  }
  next();
  return negative ? -value : value;
}

bool Reader::at_float() const {
  const Token token = is("-") ? peek_second() : token_;
  return token.kind == TokenKind::kFloat ||
         (token.kind == TokenKind::kWord && (token.text == "inf" || token.text == "nan"));
}

std::string Reader::string(const char* what) {
  if (token_.kind != TokenKind::kString) fail_expected(what);
  const std::string_view body = token_.text.substr(1, token_.text.size() - 2);
  std::string value;
  value.reserve(body.size());
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      value += body[i];
      continue;
    }
    switch (const char c = body[++i]) {
      case 'n':
        value += '\n';
        break;
      case 't':
        value += '\t';
        break;
      case 'r':
        value += '\r';
        break;
      case '"':
      case '\\':
        value += c;
        break;
      case 'x': {
        const int high = i + 2 < body.size() ? hex_digit(body[i + 1]) : -1;
        const int low = i + 2 < body.size() ? hex_digit(body[i + 2]) : -1;
        if (high < 0 || low < 0) fail("'\\x' takes two hexadecimal digits");
        value += static_cast<char>(high * 16 + low);
        i += 2;
        break;
      }
      default:
        fail(std::string("unknown escape '\\") + c + "' in a string");
    }
  }
  next();
  return value;
}

void Reader::fail_at(const Token& token, const std::string& message) const {
  throw UserError(file_ + ":" + std::to_string(token.line) + ":" + std::to_string(token.column) + ": " + message);
}

void Reader::fail_expected(const std::string& what) const { fail("expected " + what + ", found " + shown(token_)); }

void Reader::skip_blank(Cursor& cursor) const {
  while (cursor.at < text_.size()) {
    const char c = text_[cursor.at];
    if (c == '\n') {
      ++cursor.line;
      cursor.line_start = ++cursor.at;
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      ++cursor.at;
    } else if (text_.substr(cursor.at, 2) == "//") {
      cursor.at = std::min(text_.find('\n', cursor.at), text_.size());
    } else {
      return;
    }
  }
}

Token Reader::scan_number(const Cursor& start, Token token, size_t& end) const {
  token.kind = TokenKind::kInteger;
  while (end < text_.size() && is_digit(text_[end])) ++end;
  if (end < text_.size() && text_[end] == '.') {
    token.kind = TokenKind::kFloat;
    ++end;
    while (end < text_.size() && is_digit(text_[end])) ++end;
  }
  if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
    size_t digits = end + 1;
    if (digits < text_.size() && (text_[digits] == '-' || text_[digits] == '+')) ++digits;
    if (digits < text_.size() && is_digit(text_[digits])) {
      token.kind = TokenKind::kFloat;
      end = digits;
      while (end < text_.size() && is_digit(text_[end])) ++end;
    }
  }
  if (end < text_.size() && is_word_start(text_[end])) {
    token.text = text_.substr(start.at, end + 1 - start.at);
    fail_at(token, "'" + std::string(token.text) + "' is neither a number nor a name");
  }
  return token;
}

Token Reader::scan(Cursor& cursor) const {
  const size_t before = cursor.at;
  skip_blank(cursor);
  Token token;
  token.line = cursor.line;
  token.column = static_cast<int>(cursor.at - cursor.line_start) + 1;
  token.spaced = cursor.at != before;
  if (cursor.at >= text_.size()) return token;
  size_t end = cursor.at + 1;
  const char c = text_[cursor.at];
  if (is_word_start(c)) {
    token.kind = TokenKind::kWord;
    while (end < text_.size() && (is_word_part(text_[end]) ||
                                  (text_[end] == '.' && end + 1 < text_.size() && is_word_part(text_[end + 1])))) {
      ++end;
    }
  } else if (is_digit(c)) {
    end = cursor.at;
    token = scan_number(cursor, token, end);
  } else if (c == '"') {
    token.kind = TokenKind::kString;
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size() || text_[end] == '\n') fail_at(token, "string without an end");
    ++end;
  } else {
    token.kind = TokenKind::kPunctuation;
    if (c == '-' && end < text_.size() && text_[end] == '>') ++end;
  }
  token.text = text_.substr(cursor.at, end - cursor.at);
  cursor.at = end;
  return token;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string text(buffer, result.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20 || byte == 0x7f) {
      static constexpr char kHex[] = "0123456789abcdef";
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

bool is_word(std::string_view text) {
  if (text.empty() || !is_word_start(text[0])) return false;
  for (size_t i = 1; i < text.size(); ++i) {
    const bool dot = text[i] == '.' && i + 1 < text.size() && is_word_part(text[i + 1]);
    if (!is_word_part(text[i]) && !dot) return false;
  }
  return true;
}

}  // namespace tilewright
