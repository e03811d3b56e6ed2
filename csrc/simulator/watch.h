#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "simulator/clock.h"
#include "simulator/shadow.h"
#include "simulator/simulator.h"

namespace tilewright::sim {

struct Block;
struct Fault;
struct Instr;
struct Launch;
struct Warp;

// How an instruction synchronises (Instr::sync).
enum SyncFlags : uint8_t {
  kAcquire = 1,
  kRelease = 2,
  kBlockScope = 4,  // .cta, .cluster
};
// What a fence does (Instr::mode).
enum FenceFlags : uint8_t {
  kFenceBlock = 1,  // orders within the block or cluster
  kFenceGpu = 2,    // and between blocks
  kFenceProxy = 4,  // makes generic accesses visible to the asynchronous proxy
};

// What checks share over a launch: global memory, and the atomic variables in it.
struct LaunchWatch {
  GlobalShadow memory;
  std::recursive_mutex mutex;  // held over an atomic access to global memory
  std::mutex location_mutex;   // of locations
  std::unordered_map<uint64_t, Location> locations;
  bool several_engines = false;
  bool any_uninitialized = false;  // an allocation without contents
};

// The checks that follow the order of accesses in one cluster: races, uninitialised reads, accesses to what an
// asynchronous copy still owns, missing proxy fences. An access is held against what the shadow of its memory tells of
// earlier ones; they are in order when the clock of the accessing warp covers the earlier access.
//
// Lanes of one warp share its clock. They are ordered by warp-wide collectives and barriers: of two accesses by
// different lanes since the last of those, none comes before the other.
class Watch {
 public:
  enum class Access : uint8_t { kRead, kWrite, kAtomic };
  // Groups of copies of a warp, apart for cp.async and for bulk copies to global memory.
  enum class Group : uint8_t { kCopy, kBulk };

  Watch(Launch& launch, uint32_t blocks, uint32_t warps);
  void start(uint32_t cluster, const std::vector<Block*>& blocks);

  // `at` holds host addresses of the lanes in `mask`.
  void access(const Instr& in, Warp& w, Space space, const uint64_t* at, uint32_t mask, uint32_t bytes, bool store);
  // The source and destination of a lane's copy, which acts on its own until waited for. `mbarrier`: its host address,
  // 0 for copies of a group. A bulk copy reads through the asynchronous proxy.
  void copy(const Instr& in, Warp& w, int lane, Group group, const std::byte* to, const std::byte* from, uint64_t bytes,
            uint64_t mbarrier);
  void commit(Warp& w, Group group, uint32_t mask);
  // At most `pending` groups are left; `reads_only`: of bulk copies the sources.
  void wait(Warp& w, Group group, uint32_t mask, uint32_t pending, bool reads_only);
  void wait_all(Warp& w, Group group);

  void fence(Warp& w, uint8_t flags);
  void warp_sync(Warp& w);
  void barrier_arrive(Warp& w, uint32_t id, bool waits);
  void barrier_release(Block& block, uint32_t id);
  void cluster_arrive(Warp& w, bool relaxed);
  void cluster_complete();
  void cluster_wait(Warp& w);

  // mbarriers, by host address.
  void mbarrier_init(const Instr& in, Warp& w, int lane, uint64_t at);
  void mbarrier_forget(const Instr& in, Warp& w, int lane, uint64_t at);
  void mbarrier_use(const Instr& in, Warp& w, int lane, uint64_t at);  // any operation on it
  void mbarrier_arrive(Warp& w, int lane, uint64_t at);
  void mbarrier_copies_arrive(Warp& w, uint64_t at);  // the warp's cp.async copies are done
  void mbarrier_deliver(uint64_t at);                 // the bytes of a copy
  void mbarrier_complete(int lane, uint64_t at);
  void mbarrier_observe(Warp& w, uint64_t at);

  // A warp ends: copies that still need its block's memory are faults.
  void warp_exit(Warp& w);

 private:
  struct Knowledge {
    View known;          // what has happened before what the warp does now
    View pending;        // learned by relaxed loads: known after a fence
    View fenced;         // known at the last fence for other blocks: what a relaxed store tells them
    Clock fenced_block;  // known at the last fence: what it tells the own block
    Clock proxied;       // known at the last proxy fence
    void join(const Knowledge& other);
    void clear();
  };
  struct Copies {
    uint16_t agent = Mark::kNobody;  // whose time counts copies
    uint16_t source_agent = Mark::kNobody;
    uint32_t issued = 0;
    uint32_t sources_waited = 0, waited = 0;
    uint32_t site = 0;
    int lane = 0;
    std::array<std::vector<uint32_t>, 32> groups;  // of each lane: `issued` when it committed
  };
  struct WarpState {
    Knowledge knows;
    uint32_t time = 1;
    uint32_t synced = 0;  // lanes are ordered after all before this time
    uint16_t agent = 0;
    std::array<Copies, 2> copies;
  };
  struct Mbarrier {
    Knowledge arriving, completed;
    uint16_t agent = Mark::kNobody;
    uint32_t phase = 0;         // completed ones
    uint32_t observed = 0;      // of which somebody has seen the end
    uint32_t copies_until = 0;  // phase that the last copy belongs to
    uint32_t site = 0;          // of the last copy
    uint32_t under_way = 0;     // copies that have not delivered their bytes
  };
  struct Agent {
    uint16_t warp = 0;
    const char* what = "";
    bool of_mbarrier = false;
  };
  struct Touch;

  uint16_t agent_of(const Warp& w) const;
  uint16_t new_agent(const Warp& w, const char* what, bool of_mbarrier);
  WarpState& state(const Warp& w) { return warps_[agent_of(w)]; }
  void learn(WarpState& s, const Knowledge& from);
  void tick(WarpState& s);
  void synchronise(const Instr& in, Warp& w, Space space, const uint64_t* at, uint32_t mask, bool store, bool load);
  void touch(const Touch& t, Space space, uint64_t address, uint64_t bytes);
  void write_mbarrier(const Instr& in, Warp& w, int lane, uint64_t at);
  void touch_page(const Touch& t, Page& page, uint64_t address, uint32_t offset, uint32_t bytes);
  bool unordered(const Touch& t, const Mark& earlier) const;
  void add_read(const Touch& t, Page& page, Cell& cell) const;
  Page& shared_page(uint64_t address, uint32_t& offset, uint32_t& left);
  Page& global_page(uint64_t number);
  [[noreturn]] void report(const Touch& t, const Mark& earlier, bool earlier_writes, uint64_t address);
  std::string who(const Mark& mark, bool with_block) const;
  // The address as the kernel sees it, and in words.
  uint64_t seen_address(Space space, uint64_t address) const;
  std::string place_of(Space space, uint64_t address) const;

  Launch& launch_;
  LaunchWatch& shared_;
  const bool races_, uninitialized_;
  const uint32_t blocks_, warps_a_block_;
  uint32_t cluster_ = 0;
  std::vector<Block*> blocks_of_;
  std::vector<WarpState> warps_;
  std::vector<Agent> agents_;
  struct BarrierState {
    Knowledge arrived;
    uint64_t waiting = 0;  // warps, as a mask
  };
  std::vector<std::array<BarrierState, 16>> barriers_;  // of each block
  Knowledge cluster_arriving_, cluster_complete_;
  std::vector<SharedShadow> memory_;
  std::unordered_map<uint64_t, Location> locations_;  // in shared memory
  std::unordered_map<uint64_t, Mbarrier> mbarriers_;
  std::array<std::pair<uint64_t, Page*>, 64> recent_{};
};

}  // namespace tilewright::sim
