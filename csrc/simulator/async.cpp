#include "simulator/async.h"

#include <bit>
#include <utility>

namespace tilewright::sim {

// Runs the copies that `which` picks, in the order in which they were issued.
template <typename Which>
bool AsyncCopies::finish_if(Which which) {
  std::vector<Copy> chosen, left;
  for (Copy& c : pending_) (which(c) ? chosen : left).push_back(std::move(c));
  pending_ = std::move(left);
  for (const Copy& c : chosen) c.run();
  return !chosen.empty();
}

void AsyncCopies::issue(const Warp& w, int lane, Group group, const std::byte* mbarrier, std::function<void()> run) {
  if (when_ == Completion::kEager) return run();
  const uint32_t number = groups_[&w][static_cast<size_t>(group)][static_cast<size_t>(lane)];
  pending_.push_back({&w, lane, group, /*after_copies=*/false, number, mbarrier, std::move(run)});
}

void AsyncCopies::issue_after_copies(const Warp& w, int lane, const std::byte* mbarrier, std::function<void()> run) {
  if (when_ == Completion::kEager) return run();
  const uint32_t number = groups_[&w][0][static_cast<size_t>(lane)];
  pending_.push_back({&w, lane, Group::kCopy, /*after_copies=*/true, number, mbarrier, std::move(run)});
}

void AsyncCopies::commit(const Warp& w, Group group, uint32_t lanes) {
  if (when_ == Completion::kEager) return;
  auto& committed = groups_[&w][static_cast<size_t>(group)];
  for (uint32_t m = lanes; m; m &= m - 1) ++committed[static_cast<size_t>(std::countr_zero(m))];
}

void AsyncCopies::wait(const Warp& w, Group group, uint32_t lanes, uint32_t pending_groups) {
  if (pending_.empty()) return;
  const auto& committed = groups_[&w][static_cast<size_t>(group)];
  finish_if([&](const Copy& c) {
    return c.warp == &w && c.group == group && (lanes >> c.lane & 1) && (!c.mbarrier || c.after_copies) &&
           c.number + pending_groups < committed[static_cast<size_t>(c.lane)];
  });
}

void AsyncCopies::wait_all(const Warp& w, Group group, uint32_t lanes) {
  if (pending_.empty()) return;
  finish_if([&](const Copy& c) {
    return c.warp == &w && c.group == group && (lanes >> c.lane & 1) && (!c.mbarrier || c.after_copies);
  });
}

bool AsyncCopies::finish_for(const std::byte* mbarrier) {
  // An arrival that waits for copies has those of its lane finish first.
  std::unordered_map<const Warp*, uint32_t> lanes;
  for (const Copy& c : pending_)
    if (c.after_copies && c.mbarrier == mbarrier) lanes[c.warp] |= 1u << c.lane;
  return finish_if([&](const Copy& c) {
    if (c.mbarrier == mbarrier) return true;
    if (c.mbarrier || c.group != Group::kCopy) return false;
    const auto it = lanes.find(c.warp);
    return it != lanes.end() && (it->second >> c.lane & 1);
  });
}

void AsyncCopies::finish_some() {
  if (when_ != Completion::kRandom || pending_.empty()) return;
  // The first ones of the list: an arrival stays behind the copies that it waits for.
  size_t n = random_() % (pending_.size() + 1);
  finish_if([&](const Copy&) { return n > 0 && n-- > 0; });
}

void AsyncCopies::finish_all(const Block& block) {
  if (!pending_.empty()) finish_if([&](const Copy& c) { return c.warp->block == &block; });
}

}  // namespace tilewright::sim
