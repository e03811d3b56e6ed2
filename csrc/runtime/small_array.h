#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace tilewright {

// An array whose length is known when it is made, on the stack up to kInline elements: what a launch needs is short,
// and a run allocates nothing.
template <typename T, size_t kInline>
class SmallArray {
 public:
  explicit SmallArray(size_t size) : size_(size), large_(size > kInline ? size : 0) {}
  SmallArray(const SmallArray&) = delete;
  SmallArray& operator=(const SmallArray&) = delete;

  T* data() { return large_.empty() ? small_.data() : large_.data(); }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  operator std::span<T>() { return {data(), size_}; }
  operator std::span<const T>() { return {data(), size_}; }

 private:
  size_t size_;
  std::array<T, kInline> small_{};
  std::vector<T> large_;
};

}  // namespace tilewright
