#include "simulator/flow.h"

#include <algorithm>

// Immediate post-dominators after Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", on the reversed
// graph. Lanes that exit or trap leave every meeting that expects them, so a block that can only end that way has no
// say in where the others meet: such blocks are left out, unless a function ends in no other way.
namespace tilewright::sim {
namespace {

enum class End : uint8_t { kNext, kBranch, kReturn, kExit };

bool is_op(std::string_view opcode, std::string_view op) {
  return opcode.substr(0, op.size()) == op && (opcode.size() == op.size() || opcode[op.size()] == '.');
}

End end_of(const Statement& s) {
  if (is_op(s.opcode, "bra") || is_op(s.opcode, "brx")) return End::kBranch;
  if (s.guard >= 0) return End::kNext;
  if (is_op(s.opcode, "ret")) return End::kReturn;
  if (is_op(s.opcode, "exit") || is_op(s.opcode, "trap")) return End::kExit;
  return End::kNext;
}

struct Graph {
  std::vector<uint32_t> first;              // statement of each block
  std::vector<std::vector<uint32_t>> next;  // successors; the exit is block first.size()
  std::vector<std::vector<uint32_t>> previous;
};

Graph build_graph(const FunctionSyntax& f) {
  const uint32_t n = static_cast<uint32_t>(f.statements.size());
  std::vector<bool> leader(n + 1, false);
  leader[0] = true;
  bool has_return = false;
  for (uint32_t i = 0; i < n; ++i) {
    const End end = end_of(f.statements[i]);
    if (end == End::kNext) continue;
    leader[i + 1] = true;
    has_return |= end == End::kReturn;
    if (end == End::kBranch)
      for (uint32_t t : branch_targets(f, f.statements[i])) leader[t] = true;
  }
  Graph g;
  std::vector<uint32_t> block_of(n + 1, 0);
  for (uint32_t i = 0; i < n; ++i) {
    if (leader[i]) g.first.push_back(i);
    block_of[i] = static_cast<uint32_t>(g.first.size()) - 1;
  }
  const uint32_t exit = static_cast<uint32_t>(g.first.size());
  block_of[n] = exit;
  g.next.resize(exit + 1);
  g.previous.resize(exit + 1);
  const auto connect = [&](uint32_t from, uint32_t to) {
    g.next[from].push_back(to);
    g.previous[to].push_back(from);
  };
  for (uint32_t b = 0; b < exit; ++b) {
    const uint32_t last = (b + 1 < exit ? g.first[b + 1] : n) - 1;
    const Statement& s = f.statements[last];
    switch (end_of(s)) {
      case End::kReturn:
        connect(b, exit);
        break;
      case End::kExit:
        if (!has_return) connect(b, exit);
        break;
      case End::kBranch:
        for (uint32_t t : branch_targets(f, s)) connect(b, block_of[t]);
        if (s.guard >= 0) connect(b, block_of[last + 1]);
        break;
      case End::kNext:
        connect(b, block_of[last + 1]);
        break;
    }
  }
  return g;
}

// Blocks in an order in which all of a block's successors tend to come before it, beginning with the exit.
std::vector<uint32_t> order_from_exit(const Graph& g, std::vector<uint32_t>& position) {
  const uint32_t exit = static_cast<uint32_t>(g.first.size());
  std::vector<uint32_t> postorder;
  std::vector<uint8_t> seen(exit + 1, 0);
  std::vector<std::pair<uint32_t, size_t>> stack{{exit, 0}};
  seen[exit] = 1;
  while (!stack.empty()) {
    auto& [block, at] = stack.back();
    if (at < g.previous[block].size()) {
      const uint32_t p = g.previous[block][at++];
      if (!seen[p]) {
        seen[p] = 1;
        stack.emplace_back(p, 0);
      }
    } else {
      postorder.push_back(block);
      stack.pop_back();
    }
  }
  std::reverse(postorder.begin(), postorder.end());
  position.assign(exit + 1, Flow::kNoMeeting);
  for (uint32_t i = 0; i < postorder.size(); ++i) position[postorder[i]] = i;
  return postorder;
}

std::vector<uint32_t> post_dominators(const Graph& g) {
  const uint32_t exit = static_cast<uint32_t>(g.first.size());
  std::vector<uint32_t> position;
  const std::vector<uint32_t> order = order_from_exit(g, position);
  std::vector<uint32_t> idom(exit + 1, Flow::kNoMeeting);
  idom[exit] = exit;
  const auto intersect = [&](uint32_t a, uint32_t b) {
    while (a != b) {
      while (position[a] > position[b]) a = idom[a];
      while (position[b] > position[a]) b = idom[b];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t b : order) {
      if (b == exit) continue;
      uint32_t meet = Flow::kNoMeeting;
      for (uint32_t s : g.next[b]) {
        if (position[s] == Flow::kNoMeeting || idom[s] == Flow::kNoMeeting) continue;
        meet = meet == Flow::kNoMeeting ? s : intersect(meet, s);
      }
      if (meet != idom[b]) {
        idom[b] = meet;
        changed = true;
      }
    }
  }
  return idom;
}

uint32_t label_statement(const FunctionSyntax& f, const Statement& s, const Operand& label) {
  const uint32_t* at = label.kind == Operand::kName ? f.find_label(s.scope, label.name) : nullptr;
  if (!at) syntax_error(label.at, "unknown label '" + std::string(label.name) + "'");
  return *at;
}

}  // namespace

std::vector<uint32_t> branch_targets(const FunctionSyntax& f, const Statement& s) {
  std::vector<uint32_t> out;
  if (is_op(s.opcode, "bra")) {
    if (s.operands.size() != 1) syntax_error(s.at, "bra takes one label");
    out.push_back(label_statement(f, s, s.operands[0]));
    return out;
  }
  if (s.operands.size() != 2 || s.operands[1].kind != Operand::kName)
    syntax_error(s.at, "brx.idx takes an index and the label of .branchtargets");
  const std::vector<Operand>* targets = f.find_targets(s.scope, s.operands[1].name);
  if (!targets) syntax_error(s.operands[1].at, "no .branchtargets '" + std::string(s.operands[1].name) + "'");
  for (const Operand& t : *targets) out.push_back(label_statement(f, s, t));
  return out;
}

Flow analyze_flow(const FunctionSyntax& f) {
  Flow flow;
  flow.meeting.assign(f.statements.size(), Flow::kNoMeeting);
  flow.is_meeting.assign(f.statements.size() + 1, false);
  if (f.statements.empty()) return flow;
  const Graph g = build_graph(f);
  const uint32_t exit = static_cast<uint32_t>(g.first.size());
  const std::vector<uint32_t> idom = post_dominators(g);
  for (uint32_t b = 0; b < exit; ++b) {
    const uint32_t last = (b + 1 < exit ? g.first[b + 1] : static_cast<uint32_t>(f.statements.size())) - 1;
    if (end_of(f.statements[last]) != End::kBranch || g.next[b].size() < 2) continue;
    if (idom[b] == Flow::kNoMeeting || idom[b] == exit) continue;
    flow.meeting[last] = g.first[idom[b]];
    flow.is_meeting[flow.meeting[last]] = true;
  }
  return flow;
}

}  // namespace tilewright::sim
