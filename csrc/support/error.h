#pragma once

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>

namespace tilewright {

// Three kinds of error, so that a caller knows whose fault it is. Messages are lower case without a full stop and
// say what was found and what was expected.

// The user's graph, option, file or target is at fault.
class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A fault of Tilewright itself.
class InternalError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The GPU, its driver or the simulated device reported a failure.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// "Can we" answers with the reason why not; refusals end up in the fusion report.
struct Verdict {
  bool ok = true;
  std::string why_not;

  static Verdict yes() { return {}; }
  static Verdict no(std::string why) { return {false, std::move(why)}; }
  explicit operator bool() const { return ok; }
};

namespace detail {

// Collects a failed check's message and throws when the full expression ends.
template <typename Error>
class FailedCheck {
 public:
  FailedCheck(const char* file, int line, const char* condition) {
    text_ << condition << " failed at " << file << ":" << line << ": ";
  }
  explicit FailedCheck(std::ostringstream text) : text_(std::move(text)) {}
  template <typename T>
  FailedCheck& operator<<(const T& value) {
    text_ << value;
    return *this;
  }
  [[noreturn]] ~FailedCheck() noexcept(false) { throw Error(text_.str()); }

 private:
  std::ostringstream text_;
};

struct Thrower {
  template <typename Error>
  void operator&(FailedCheck<Error>&) const {}
  template <typename Error>
  void operator&(FailedCheck<Error>&&) const {}
};

}  // namespace detail
}  // namespace tilewright

// An invariant of ours: throws InternalError with the streamed text. Stream both sides of a comparison.
#define TW_CHECK(condition)               \
  (condition)                             \
      ? (void)0                           \
      : ::tilewright::detail::Thrower() & \
            ::tilewright::detail::FailedCheck<::tilewright::InternalError>(__FILE__, __LINE__, #condition) << ""
