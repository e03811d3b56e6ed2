#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace tilewright::sim {

struct Block;
struct Instr;
struct Warp;

// Races and uninitialised reads of shared memory, by happens-before with vector clocks (Flanagan and Freund,
// "FastTrack").
//
// Each warp has a clock that advances when it synchronises. clocks[w][v] is the last time of warp v that warp w knows
// about: an access by v at time t happened before what w does now if t <= clocks[w][v]. Barriers, atomics and volatile
// accesses pass knowledge on. Lanes of one warp are ordered by warp-wide collectives: two lanes whose accesses bear the
// same time of their warp are unordered.
class RaceState {
 public:
  RaceState(uint32_t warps, uint32_t smem_bytes, bool races, bool uninitialized);

  enum class Access : uint8_t { kRead, kWrite, kAtomic };
  // `offset` lies in the shared memory that this state watches; throws Fault.
  void access(const Warp& w, uint32_t site, int lane, uint32_t offset, uint32_t bytes, Access access);
  void barrier_arrive(uint32_t warp, uint32_t barrier, bool waits);
  void barrier_release(uint32_t barrier);
  void warp_sync(uint32_t warp);
  // An atomic or volatile access to a location: takes over what was known when it was last accessed so, and leaves it.
  void location_sync(uint32_t warp, uint64_t address);

 private:
  static constexpr uint16_t kNobody = 0xffff;
  struct Mark {  // of one access to one byte
    uint32_t time = 0;
    uint32_t site = 0;
    uint16_t warp = kNobody;
    int8_t lane = -1;  // -1: several lanes
    bool atomic = false;
  };
  struct Cell {
    Mark write;
    Mark reads[2];  // the last readers from different warps
  };
  uint32_t& clock(uint32_t of, uint32_t about) { return clocks_[of * warps_ + about]; }
  bool unordered(const Mark& m, uint32_t warp, int lane);
  void learn(uint32_t warp, const std::vector<uint32_t>& clock);
  [[noreturn]] void report(const Warp& w, const Mark& earlier, bool earlier_writes, int lane, uint32_t offset,
                           Access access);

  uint32_t warps_;
  bool races_, uninitialized_;
  std::vector<uint32_t> clocks_;
  std::vector<Cell> cells_;
  std::array<std::vector<uint32_t>, 16> barrier_clocks_;
  std::array<uint64_t, 16> barrier_waits_{};  // warps, as a mask
  std::map<uint64_t, std::vector<uint32_t>> locations_;
};

// Reports the accesses of `mask` lanes at host addresses `at`, in this block's or its cluster's shared memory.
void watch_shared(const Instr& in, Warp& w, const uint64_t* at, uint32_t mask, uint32_t bytes, bool store);

}  // namespace tilewright::sim
