#pragma once

#include <cstdint>
#include <vector>

#include "simulator/syntax.h"

namespace tilewright::sim {

// The control flow of a function, by statement index.
struct Flow {
  // For each statement that branches: where its lanes meet again (the first statement of its immediate post-dominator),
  // or kNoMeeting when they meet at the return only.
  static constexpr uint32_t kNoMeeting = 0xffffffffu;
  std::vector<uint32_t> meeting;
  std::vector<bool> is_meeting;  // whether lanes of some branch meet at a statement
};

// Throws UserError for an unknown label.
Flow analyze_flow(const FunctionSyntax& function);

// The statements that a branch may go to: of bra its label, of brx.idx all targets.
std::vector<uint32_t> branch_targets(const FunctionSyntax& function, const Statement& statement);

}  // namespace tilewright::sim
