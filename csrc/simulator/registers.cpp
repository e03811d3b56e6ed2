// Registers without a value, and setmaxnreg (PTX ISA 9.7.19.5).
#include <bit>

#include "simulator/machine.h"

namespace tilewright::sim {

namespace {

constexpr uint32_t kWarpsOfGroup = 4;

std::string register_name(const Code& code, uint32_t slot) {
  const auto it = code.register_of.find(slot);
  return it == code.register_of.end() ? "?" : std::string(code.syntax->registers[it->second].name);
}

// mode 1: more, 0: fewer; imm: the new number a thread. The registers of a warpgroup change with its first warp.
void set_registers(const Instr& in, Warp& w, uint32_t mask) {
  const uint32_t asked = static_cast<uint32_t>(in.imm);
  const std::string name = in.mode ? "setmaxnreg.inc" : "setmaxnreg.dec";
  if (mask != kAllLanes)
    fault(Check::kDivergence, name + " in divergent code: " + std::to_string(std::popcount(mask)) + " of 32 lanes",
          "all threads of a warpgroup execute it together", std::countr_zero(mask));
  if (asked % 8 != 0 || asked < 24 || asked > 256)
    fault(Check::kRegisters, name + " to " + std::to_string(asked) + " registers",
          "a multiple of 8 from 24 to 256 is expected");
  const uint32_t groups = w.block->threads / (kWarpsOfGroup * kLanes), group = w.index / kWarpsOfGroup;
  if (group >= groups)
    fault(Check::kRegisters, name + " in a warpgroup of fewer than four warps", "blocks have whole warpgroups for it");
  RegisterMove& move = w.block->moves[group];
  const uint32_t bit = 1u << w.index % kWarpsOfGroup;
  if (move.warps == 0) {
    const uint32_t have = move.registers;
    if (have && (in.mode ? asked < have : asked > have))
      fault(Check::kRegisters,
            name + " to " + std::to_string(asked) + " registers by a warpgroup that has " + std::to_string(have),
            in.mode ? "fewer are asked for by setmaxnreg.dec" : "more are asked for by setmaxnreg.inc");
    uint32_t used = asked;
    for (uint32_t g = 0; g < groups; ++g) used += g == group ? 0 : w.block->moves[g].registers;
    if (have && used > groups * w.worker->launch->config.registers) {
      // It waits until other warpgroups have given up enough.
      --w.now.pc;
      w.awaited = 0;
      w.polled = w.blocked = w.yielding = w.stop = true;
      return;
    }
    move.instr = &in;
    move.registers = asked;
  } else if (move.instr != &in || (move.warps & bit)) {
    fault(Check::kRegisters, name + " by a warp while others of its warpgroup execute another one",
          "the four warps of a warpgroup execute the same setmaxnreg");
  }
  move.warps |= bit;
  if (move.warps == 0xf) move.warps = 0;
  w.acted = true;
  w.blocked = false;
}

}  // namespace

// Sources must have a value in all lanes that execute the instruction; a move passes on what it finds.
void check_registers(Warp& w, const Instr& in, uint32_t mask) {
  const Code& code = *w.now.code;
  const Code::Uses& u = code.uses_of[static_cast<size_t>(&in - w.code_begin)];
  uint32_t* defined = w.defined.data() + w.now.frame / 4;
  const uint32_t* slots = code.uses.data() + u.first;
  uint32_t good = mask;
  for (uint32_t i = 0; i < u.reads; ++i) {
    good &= defined[slots[i] / 4];
    if (u.copies || (good & mask) == mask) continue;
    const int lane = std::countr_zero(mask & ~good);
    fault(Check::kUninitialized, "uninitialised register " + register_name(code, slots[i]) + " is read",
          "give it a value on every way that leads here", lane);
  }
  for (uint32_t i = u.reads; i < u.reads + u.writes; ++i) {
    uint32_t& d = defined[slots[i] / 4];
    d = (d & ~mask) | good;
  }
}

void check_guard(const Warp& w, const Instr& in) {
  const uint32_t missing = w.now.mask & ~w.defined[(w.now.frame + in.guard) / 4];
  if (missing)
    fault(Check::kUninitialized, "uninitialised register " + register_name(*w.now.code, in.guard) + " is read",
          "give it a value on every way that leads here", std::countr_zero(missing));
}

void forget_registers(Warp& w, const Code& code, uint32_t frame, uint32_t lanes) {
  if (w.defined.size() < w.file.size() / 4) w.defined.resize(w.file.size() / 4, 0);
  for (uint32_t i = 0; i < code.frame_bytes / 4; ++i) w.defined[frame / 4 + i] &= ~lanes;
}

void register_rows(HandlerRows& rows) { rows.emplace_back("setmaxnreg", &set_registers); }

}  // namespace tilewright::sim
