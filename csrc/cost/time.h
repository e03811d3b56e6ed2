#pragma once

namespace tilewright {

// One step's share of T = sum of launch + sum of kernel + sum of transfer: events in a row, without overlap.
struct Time {
  double launch_us = 0;    // the host's part, or the gap in a CUDA graph
  double kernel_us = 0;    // on the GPU
  double transfer_us = 0;  // between host and GPU

  double total_us() const { return launch_us + kernel_us + transfer_us; }
  Time& operator+=(const Time& other) {
    launch_us += other.launch_us;
    kernel_us += other.kernel_us;
    transfer_us += other.transfer_us;
    return *this;
  }
};
inline Time operator+(Time a, const Time& b) { return a += b; }

}  // namespace tilewright
