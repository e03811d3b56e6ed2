#include "simulator/lexer.h"

#include <bit>
#include <charconv>
#include <cstdlib>

namespace tilewright::sim {
namespace {

bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_start(char c) { return is_alpha(c) || c == '%' || c == '.'; }
bool is_word_rest(char c) { return is_alpha(c) || is_digit(c) || c == '.'; }

std::string shown(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, 40)) out += c >= 32 && c < 127 ? c : '?';
  return out;
}

uint64_t parse_hex(std::string_view digits, const Token& token) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.empty())
    syntax_error(token.at, "malformed number '" + shown(token.text) + "'");
  return value;
}

}  // namespace

void syntax_error(Position at, const std::string& message) {
  throw UserError(std::to_string(at.line) + ":" + std::to_string(at.column) + ": " + message);
}

void Lexer::advance() {
  if (text_[pos_] == '\n') {
    ++at_.line;
    at_.column = 1;
  } else {
    ++at_.column;
  }
  ++pos_;
}

void Lexer::skip_blanks() {
  while (pos_ < text_.size()) {
    const char c = text_[pos_];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      advance();
    } else if (c == '/' && pos_ + 1 < text_.size() && text_[pos_ + 1] == '/') {
      while (pos_ < text_.size() && text_[pos_] != '\n') advance();
    } else if (c == '/' && pos_ + 1 < text_.size() && text_[pos_ + 1] == '*') {
      const Position start = at_;
      const size_t close = text_.find("*/", pos_ + 2);
      if (close == std::string_view::npos) syntax_error(start, "comment without end");
      while (pos_ < close + 2) advance();
    } else {
      return;
    }
  }
}

Token Lexer::next() {
  skip_blanks();
  Token token;
  token.at = at_;
  if (pos_ >= text_.size() || text_[pos_] == '\0') return token;
  const size_t start = pos_;
  const char c = text_[pos_];
  if (is_word_start(c)) {
    token.kind = Token::kWord;
    advance();
    while (pos_ < text_.size()) {
      if (c == '.' && text_[pos_] == '.') break;  // `.reg.b16` is two directives
      if (is_word_rest(text_[pos_])) {
        advance();
      } else if (text_[pos_] == ':' && pos_ + 2 < text_.size() && text_[pos_ + 1] == ':' && is_alpha(text_[pos_ + 2])) {
        advance();
        advance();
      } else {
        break;
      }
    }
    token.text = text_.substr(start, pos_ - start);
  } else if (is_digit(c)) {
    token.kind = Token::kNumber;
    while (pos_ < text_.size() && is_word_rest(text_[pos_])) {
      const char was = text_[pos_];
      advance();
      // The sign of a decimal exponent.
      const bool hex =
          pos_ - start > 1 && text_[start] == '0' && !is_digit(text_[start + 1]) && text_[start + 1] != '.';
      if (!hex && (was == 'e' || was == 'E') && pos_ < text_.size() && (text_[pos_] == '+' || text_[pos_] == '-'))
        advance();
    }
    token.text = text_.substr(start, pos_ - start);
  } else if (c == '"') {
    token.kind = Token::kString;
    advance();
    while (pos_ < text_.size() && text_[pos_] != '"' && text_[pos_] != '\n') advance();
    if (pos_ >= text_.size() || text_[pos_] != '"') syntax_error(token.at, "string without end");
    token.text = text_.substr(start + 1, pos_ - start - 1);
    advance();
  } else {
    static constexpr std::string_view kPuncts = "{}[]()<>,;:@!|+-=~*";
    if (kPuncts.find(c) == std::string_view::npos)
      syntax_error(token.at, "unexpected character '" + shown(text_.substr(pos_, 1)) + "'");
    token.kind = Token::kPunct;
    token.punct = c;
    token.text = text_.substr(start, 1);
    advance();
  }
  return token;
}

Number number_value(const Token& token) {
  std::string_view text = token.text;
  Number out;
  const char marker = text.size() > 1 && text[0] == '0' ? text[1] : '\0';
  if (marker == 'f' || marker == 'F') {
    if (text.size() != 10)
      syntax_error(token.at, "malformed number '" + shown(text) + "', expected 0f and 8 hex digits");
    out.is_float = out.is_f32 = true;
    out.bits = parse_hex(text.substr(2), token);
    return out;
  }
  if (marker == 'd' || marker == 'D') {
    if (text.size() != 18)
      syntax_error(token.at, "malformed number '" + shown(text) + "', expected 0d and 16 hex digits");
    out.is_float = true;
    out.bits = parse_hex(text.substr(2), token);
    return out;
  }
  const bool is_hex = marker == 'x' || marker == 'X';
  if (!is_hex && text.find_first_of(".eE") != std::string_view::npos) {
    const std::string copy(text);
    char* end = nullptr;
    out.is_float = true;
    out.bits = std::bit_cast<uint64_t>(std::strtod(copy.c_str(), &end));
    if (end != copy.c_str() + copy.size()) syntax_error(token.at, "malformed number '" + shown(text) + "'");
    return out;
  }
  if (!text.empty() && text.back() == 'U') text.remove_suffix(1);
  if (is_hex) {
    out.bits = parse_hex(text.substr(2), token);
    return out;
  }
  int base = 10;
  if (marker == 'b' || marker == 'B') {
    base = 2;
    text.remove_prefix(2);
  } else if (marker != '\0') {
    base = 8;
    text.remove_prefix(1);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.bits, base);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    syntax_error(token.at, "malformed number '" + shown(token.text) + "'");
  return out;
}

}  // namespace tilewright::sim
