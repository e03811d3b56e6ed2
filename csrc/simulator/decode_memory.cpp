#include <algorithm>

#include "simulator/decode.h"

namespace tilewright::sim {

Space Decoder::take_space(Opcode& op) {
  const std::string_view s = op.take_any(
      {"global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry", "param::func"});
  if (s.empty()) return Space::kGeneric;
  if (s == "global") return Space::kGlobal;
  if (s == "local") return Space::kLocal;
  if (s == "const") return Space::kConst;
  return s.substr(0, 5) == "param" ? Space::kParam : Space::kShared;
}

bool Decoder::take_memory_modifiers(Opcode& op) {
  bool atomic = !op.take_any({"volatile", "mmio"}).empty();
  const std::string_view order = op.take_any({"relaxed", "acquire", "release", "acq_rel"});
  atomic |= !order.empty();
  op.take("weak");
  const std::string_view scope = op.take_any({"cta", "cluster", "gpu", "sys"});
  sync_ = static_cast<uint8_t>((order == "acquire" || order == "acq_rel" ? kAcquire : 0) |
                               (order == "release" || order == "acq_rel" ? kRelease : 0) |
                               (scope == "cta" || scope == "cluster" ? kBlockScope : 0));
  op.take_any({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  op.take("nc");
  op.take_prefixed("L1::");
  op.take_prefixed("L2::");
  return atomic;
}

Decoder::Address Decoder::address(const Operand& op, Space space) {
  if (op.kind != Operand::kAddress || op.elems.size() != 1) syntax_error(op.at, "expected an address in brackets");
  const Operand& base = op.elems[0];
  Address out;
  out.offset = op.offset;
  if (base.kind == Operand::kNumber) return out;
  if (base.kind == Operand::kReg) {
    const uint32_t bytes = register_bytes(base.reg);
    if (bytes != 4 && bytes != 8) syntax_error(base.at, "an address register has 32 or 64 bits");
    out.slot = read(register_slot(base.reg));
    out.is_32 = bytes == 4;
    return out;
  }
  if (base.kind != Operand::kName) syntax_error(base.at, "expected a register or a name in brackets");
  // A variable of the frame's local memory, or a parameter: known but for the frame.
  const Variable* v = function_.find_variable(statement_->scope, base.name);
  if (v && locals_.count(v)) {
    out.offset += locals_.at(v);
    out.frame_local = true;
    return out;
  }
  const auto find_in = [&](const std::vector<Variable>& list, const std::vector<PlacedParam>& placed,
                           bool kernel_param) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].name != base.name) continue;
      out.offset += placed[i].offset;
      out.kernel_param = kernel_param;
      out.frame_local = !kernel_param;
      return true;
    }
    return false;
  };
  if (find_in(function_.params, code_.params, function_.is_entry)) return out;
  if (find_in(function_.results, code_.results, false)) return out;
  if (space == Space::kParam) syntax_error(base.at, "unknown parameter '" + std::string(base.name) + "'");
  out.slot = symbol_address(base, 8);
  return out;
}

void Decoder::set_address(Instr& in, const Address& a) {
  in.a = a.slot;
  in.imm = a.offset;
  in.address_32 = a.is_32;
  in.frame_local = a.frame_local;
}

// The registers of a scalar or vector operand. A register may be wider than the element.
std::vector<uint32_t> Decoder::element_slots(const Operand& op, uint32_t vector, uint32_t bytes, bool is_store,
                                             uint32_t& reg_bytes) {
  std::vector<const Operand*> elems;
  if (vector == 1) {
    elems.push_back(op.kind == Operand::kVector && op.elems.size() == 1 ? &op.elems[0] : &op);
  } else {
    if (op.kind != Operand::kVector || op.elems.size() != vector)
      syntax_error(op.at, "expected a vector of " + std::to_string(vector) + " operands");
    for (const Operand& e : op.elems) elems.push_back(&e);
  }
  reg_bytes = std::max(bytes, 2u);
  for (const Operand* e : elems)
    if (e->kind == Operand::kReg) reg_bytes = register_bytes(e->reg);
  if (reg_bytes < bytes)
    syntax_error(
        op.at, "register of " + std::to_string(8 * reg_bytes) + " bits for an access of " + std::to_string(8 * bytes));
  std::vector<uint32_t> slots;
  for (const Operand* e : elems) {
    if (e->kind == Operand::kSink && !is_store) {
      slots.push_back(kNone);
    } else if (e->kind == Operand::kReg) {
      if (register_bytes(e->reg) != reg_bytes || function_.registers[e->reg].type == Type::kPred)
        syntax_error(e->at, "registers of one vector differ in width");
      slots.push_back(is_store ? read(register_slot(e->reg)) : written(register_slot(e->reg)));
    } else if (is_store) {
      slots.push_back(source_bits(*e, reg_bytes));
    } else {
      syntax_error(e->at, "expected a register to load into");
    }
  }
  return slots;
}

void Decoder::load(Opcode& op) {
  const bool atomic = take_memory_modifiers(op);
  const Space space = take_space(op);
  const std::string_view v = op.take_any({"v2", "v4"});
  const Type type = op.need_type();
  op.finish();
  need_operands(2, 3);  // the third is a cache policy
  const uint32_t vector = v.empty() ? 1 : v == "v2" ? 2 : 4, bytes = type_bytes(type);
  if (bytes == 0 || bytes * vector > 16) unsupported();
  const Address a = address(operand(1), space);
  uint32_t reg_bytes = 0;
  const std::vector<uint32_t> slots = element_slots(operand(0), vector, bytes, false, reg_bytes);
  const uint32_t list = vector > 1 ? add_list(slots) : 0;
  if (a.kernel_param && (a.offset < 0 || a.offset + bytes * vector > layout_.kernel->param_bytes))
    error("load beyond the parameters of the kernel");
  Instr& in = emit(a.kernel_param ? "ld.kernel_param" : "ld", Kind::kMemory);
  set_address(in, a);
  in.d = slots[0];
  in.list = list;
  in.vector = static_cast<uint8_t>(vector);
  in.bytes = static_cast<uint8_t>(bytes);
  in.reg_bytes = static_cast<uint8_t>(reg_bytes);
  in.is_signed = is_signed_int(type);
  in.flag = atomic;
  in.space = a.frame_local ? Space::kLocal : a.kernel_param ? Space::kParam : space;
  in.sync = sync_;
  in.access = new_access(AccessKind::kLoad);
}

void Decoder::store(Opcode& op) {
  if (op.take("async")) return store_async(op, /*reduces=*/false);
  const bool atomic = take_memory_modifiers(op);
  const Space space = take_space(op);
  const std::string_view v = op.take_any({"v2", "v4"});
  const Type type = op.need_type();
  op.finish();
  need_operands(2, 3);
  const uint32_t vector = v.empty() ? 1 : v == "v2" ? 2 : 4, bytes = type_bytes(type);
  if (bytes == 0 || bytes * vector > 16 || space == Space::kConst) unsupported();
  const Address a = address(operand(0), space);
  if (a.kernel_param) error("a kernel's parameters cannot be written");
  uint32_t reg_bytes = 0;
  const std::vector<uint32_t> slots = element_slots(operand(1), vector, bytes, true, reg_bytes);
  const uint32_t list = vector > 1 ? add_list(slots) : 0;
  Instr& in = emit("st", Kind::kMemory);
  set_address(in, a);
  in.d = slots[0];
  in.list = list;
  in.vector = static_cast<uint8_t>(vector);
  in.bytes = static_cast<uint8_t>(bytes);
  in.reg_bytes = static_cast<uint8_t>(reg_bytes);
  in.flag = atomic;
  in.space = a.frame_local ? Space::kLocal : space;
  in.sync = sync_;
  in.access = new_access(AccessKind::kStore);
}

void Decoder::atom(Opcode& op) {
  const bool is_red = op.name() == "red";
  if (op.take("async")) return store_async(op, /*reduces=*/true);
  take_memory_modifiers(op);
  const Space space = take_space(op);
  const std::string action(op.take_any({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"}));
  op.take("noftz");
  const std::string_view v = op.take_any({"v2", "v4", "v8"});
  const Type type = op.need_type();
  op.finish();
  if (action.empty()) unsupported();
  const uint32_t bytes = type_bytes(type), vector = v.empty() ? 1 : static_cast<uint32_t>(v[1] - '0');
  if (vector > 1 && bytes * vector > 16) unsupported();
  const bool two = action == "cas";
  const size_t first = is_red ? 0 : 1;
  need_operands(first + (two ? 3 : 2), first + (two ? 4 : 3));
  const Address a = address(operand(first), space);
  uint32_t reg_bytes = bytes;
  const std::vector<uint32_t> slots = element_slots(operand(first + 1), vector, bytes, true, reg_bytes);
  if (reg_bytes != bytes) error("register of another width than the operation");
  const uint32_t second = two ? source_bits(operand(first + 2), bytes) : kNone;
  const bool no_result = is_red || operand(0).kind == Operand::kSink;
  const uint32_t d = no_result    ? kNone
                     : vector > 1 ? add_list(vector_slots(operand(0), vector, bytes, /*writes=*/true))
                                  : destination(operand(0), bytes);
  const uint32_t list = vector > 1 ? add_list(slots) : 0;
  std::string key = "atom." + action;
  if (is_float(type))
    key += std::string(".") + type_name(type);
  else if (action == "min" || action == "max" || action == "inc" || action == "dec")
    key += (is_signed_int(type) ? ".s" : ".u") + std::to_string(8 * bytes);
  else
    key += ".b" + std::to_string(8 * bytes);
  Instr& in = emit(key, Kind::kAtomic);
  set_address(in, a);
  in.d = d;
  in.b = slots[0];
  in.c = second;
  in.list = list;
  in.vector = static_cast<uint8_t>(vector);
  in.bytes = static_cast<uint8_t>(bytes);
  in.space = a.frame_local ? Space::kLocal : space;
  in.sync = sync_;
  in.access = new_access(AccessKind::kAtomic);
}

void Decoder::prefetch(Opcode&) { emit("nothing", Kind::kMemory); }

// A cache policy has no effect on results.
void Decoder::create_policy(Opcode&) {
  need_operands(2, 4);
  const uint32_t none = constant(0, 8), d = destination(operand(0), 8u);
  Instr& in = emit("mov.b64", Kind::kOther);
  in.d = d;
  in.a = none;
}

// Commits and waits for groups of copies.
bool Decoder::take_groups(Opcode& op, Watch::Group group) {
  const std::string action(op.take_any({"commit_group", "wait_group", "wait_all"}));
  if (action.empty()) return false;
  const bool reads_only = op.take("read");
  op.finish();
  const bool counts = action == "wait_group";
  need_operands(counts ? 1 : 0, counts ? 1 : 0);
  if (counts && operand(0).kind != Operand::kNumber) error("expected the number of groups that may be pending");
  Instr& in = emit("async." + action, Kind::kMemory);
  in.mode = static_cast<uint8_t>(group);
  in.flag = reads_only;
  if (counts) in.imm = static_cast<int64_t>(std::min<uint64_t>(operand(0).number.bits, 0xffffffffu));
  return true;
}

void Decoder::cp_async(Opcode& op) {
  if (!op.take("async")) unsupported();
  if (op.take("bulk")) return bulk_copy(op);
  if (statement_->opcode.find(".mbarrier.arrive") != std::string_view::npos) return async_arrive(op);
  if (take_groups(op, Watch::Group::kCopy)) return;
  const std::string_view cache = op.take_any({"ca", "cg"});
  const bool to_shared = op.take("shared") || op.take("shared::cta"), from_global = op.take("global");
  op.take_prefixed("L2::");
  op.finish();
  if (cache.empty() || !to_shared || !from_global) unsupported();
  need_operands(3, 5);
  const Address to = address(operand(0), Space::kShared), from = address(operand(1), Space::kGlobal);
  const Operand& size = operand(2);
  if (size.kind != Operand::kNumber || (size.number.bits != 4 && size.number.bits != 8 && size.number.bits != 16) ||
      (cache == "cg" && size.number.bits != 16))
    syntax_error(size.at, "a copy has 4, 8 or 16 bytes, with .cg 16");
  const bool has_policy = statement_->opcode.find("cache_hint") != std::string_view::npos;
  uint32_t used = kNone;
  if (count() > (has_policy ? 4u : 3u)) {
    const Operand& last = operand(3);
    if (last.kind == Operand::kReg && function_.registers[last.reg].type == Type::kPred) {
      // A predicate that is true has the source ignored: nothing of it is used.
      const uint32_t ignored = predicate(last), none = constant(0, 4), all = constant(size.number.bits, 4);
      used = new_slot(4);
      Instr& select = emit_internal("selp.b32");
      select.d = used;
      select.a = none;
      select.b = all;
      select.c = ignored;
    } else {
      used = source(last, Type::kU32);
    }
  }
  Instr& in = emit("cp.async", Kind::kMemory);
  set_address(in, from);
  in.d = to.slot;
  in.target = static_cast<uint32_t>(to.offset);
  in.mode = to.is_32 ? 1 : 0;
  in.b = used;
  in.bytes = static_cast<uint8_t>(size.number.bits);
  in.space = Space::kGlobal;
  in.access = new_access(AccessKind::kAsyncCopy);
}

}  // namespace tilewright::sim
