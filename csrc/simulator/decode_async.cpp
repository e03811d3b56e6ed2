#include "simulator/decode.h"

namespace tilewright::sim {

// The memory model's words, which order nothing that is not ordered already.
void Decoder::take_ordering(Opcode& op) {
  op.take_any({"release", "acquire", "relaxed"});
  op.take_any({"cta", "cluster"});
}

void Decoder::mbarrier(Opcode& op) {
  if (op.take("pending_count")) {
    op.need_type();
    op.finish();
    need_operands(2, 2);
    const uint32_t token = source(operand(1), Type::kB64), d = destination(operand(0), Type::kB32);
    Instr& in = emit("mbarrier.pending_count", Kind::kBarrier);
    in.d = d;
    in.a = token;
    return;
  }
  const std::string action(
      op.take_any({"init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait"}));
  const bool with_tx = (action == "arrive" || action == "arrive_drop") && op.take("expect_tx");
  const bool parity = op.take("parity");
  op.take("noComplete");
  take_ordering(op);
  take_space(op);
  const Type type = op.need_type();
  op.finish();
  if (action.empty() || type != Type::kB64) unsupported();
  const bool arrives = action == "arrive" || action == "arrive_drop",
             waits = action == "test_wait" || action == "try_wait";
  // A result comes first where there is one; arrivals at a peer's barrier have none.
  const bool has_result = (arrives || waits) && operand(0).kind != Operand::kAddress;
  const size_t at = has_result ? 1 : 0;
  need_operands(at + 1, at + 3);
  const Address a = address(operand(at), Space::kShared);
  const bool has_value = count() > at + 1;
  uint32_t value = kNone;
  if (has_value)
    value = source(operand(at + 1), waits && !parity ? Type::kB64 : Type::kB32);
  else if (action != "inval" && !arrives)
    error("expected a further operand");
  const uint32_t d = !has_result                         ? kNone
                     : waits                             ? destination(operand(0), 0u)
                     : operand(0).kind == Operand::kSink ? kNone
                                                         : destination(operand(0), 8u);
  const std::string key = arrives                                            ? "arrive"
                          : waits                                            ? "wait"
                          : action == "expect_tx" || action == "complete_tx" ? "tx"
                                                                             : action;
  Instr& in = emit("mbarrier." + key, Kind::kBarrier);
  set_address(in, a);
  in.d = d;
  (with_tx ? in.c : in.b) = value;
  in.flag = waits ? parity : action == "arrive_drop";
  in.mode = action == "complete_tx" ? 1 : 0;
}

// An address of shared or global memory as one register.
uint32_t Decoder::address_slot(const Operand& op, bool& is_32) {
  const Address a = address(op, Space::kShared);
  if (a.frame_local || a.kernel_param) error("expected an address of shared or global memory");
  is_32 = a.is_32;
  const uint32_t bytes = a.is_32 ? 4 : 8;
  if (a.slot == kNone) return constant(static_cast<uint64_t>(a.offset), bytes);
  if (a.offset == 0) return a.slot;
  const uint32_t sum = new_slot(bytes),
                 offset = constant(static_cast<uint64_t>(a.offset) & (bytes == 4 ? 0xffffffffu : ~uint64_t{0}), bytes);
  Instr& add = emit_internal(bytes == 4 ? "add.b32" : "add.b64");
  add.d = sum;
  add.a = a.slot;
  add.b = offset;
  return sum;
}

// The operation of an asynchronous reduction, and the size of its elements.
uint32_t Decoder::take_reduction(Opcode& op, uint32_t& bytes) {
  const std::string action(op.take_any({"add", "min", "max", "and", "or", "xor", "inc", "dec"}));
  op.take("noftz");
  const Type type = op.need_type();
  bytes = type_bytes(type);
  const bool ordered = action == "min" || action == "max" || action == "inc" || action == "dec";
  const std::string suffix = is_float(type) ? type_name(type)
                             : ordered      ? (is_signed_int(type) ? "s" : "u") + std::to_string(8 * bytes)
                                            : "b" + std::to_string(8 * bytes);
  const uint32_t combine = action.empty() ? 0 : find_combine(action + "." + suffix);
  if (!combine) unsupported();
  return combine;
}

// st.async and red.async: values for a block of the cluster, whose bytes an mbarrier there counts.
void Decoder::store_async(Opcode& op, bool reduces) {
  op.take("weak");
  op.take("relaxed");
  op.take("cluster");
  const bool remote = op.take("shared::cluster"), counted = op.take("mbarrier::complete_tx::bytes");
  const std::string_view v = op.take_any({"v2", "v4"});
  uint32_t bytes = 0, combine = 0;
  if (reduces)
    combine = take_reduction(op, bytes);
  else
    bytes = type_bytes(op.need_type());
  op.finish();
  const uint32_t vector = v.empty() ? 1 : v == "v2" ? 2 : 4;
  if (!remote || !counted || (bytes != 4 && bytes != 8) || bytes * vector > 16) unsupported();
  need_operands(3, 3);
  const Address a = address(operand(0), Space::kShared);
  uint32_t reg_bytes = 0;
  const std::vector<uint32_t> slots = element_slots(operand(1), vector, bytes, /*is_store=*/true, reg_bytes);
  if (reg_bytes != bytes) error("register of another width than the value");
  bool barrier_32 = false;
  const uint32_t barrier = address_slot(operand(2), barrier_32), list = add_list(slots);
  Instr& in = emit("st.async", Kind::kMemory);
  set_address(in, a);
  in.list = list;
  in.vector = static_cast<uint8_t>(vector);
  in.bytes = static_cast<uint8_t>(bytes);
  in.reg_bytes = static_cast<uint8_t>(bytes);
  in.e = barrier;
  in.mode = barrier_32 ? 2 : 0;
  in.target = combine;
}

// cp.async.bulk and cp.reduce.async.bulk of contiguous bytes; tensor copies need a tensor map.
void Decoder::bulk_copy(Opcode& op) {
  if (take_groups(op, Watch::Group::kBulk)) return;
  const bool reduces = op.take("reduce");
  if (op.take("prefetch")) {
    op.take("L2");
    op.take("global");
    op.take_prefixed("L2::");
    op.finish();
    emit("nothing", Kind::kMemory);
    return;
  }
  // Operands and spaces come in the order destination, source.
  const std::string_view text = statement_->opcode;
  const size_t shared_at = text.find(".shared"), global_at = text.find(".global");
  const bool to_shared = shared_at < global_at, from_global = global_at != std::string_view::npos;
  const bool multicast = op.take("multicast::cluster");
  op.take("shared::cluster");
  op.take("shared::cta");
  op.take("global");
  op.take("bulk_group");
  op.take("mbarrier::complete_tx::bytes");
  const bool has_policy = op.take("L2::cache_hint");
  uint32_t element = 0;
  const uint32_t combine = reduces ? take_reduction(op, element) : 0;
  op.finish();
  if (reduces && to_shared && from_global) unsupported();
  const size_t operands = (to_shared ? 4u : 3u) + (multicast ? 1u : 0u) + (has_policy ? 1u : 0u);
  need_operands(operands, operands);
  bool source_32 = false, barrier_32 = false;
  const Address to = address(operand(0), to_shared ? Space::kShared : Space::kGlobal);
  const uint32_t from = address_slot(operand(1), source_32);
  const uint32_t size = source(operand(2), Type::kU32);
  const uint32_t barrier = to_shared ? address_slot(operand(3), barrier_32) : kNone;
  const uint32_t blocks = multicast ? source(operand(4), Type::kB16) : kNone;
  Instr& in = emit(to_shared ? "cp.async.bulk.shared" : "cp.async.bulk.global", Kind::kMemory);
  set_address(in, to);
  in.d = blocks;
  in.target = combine;
  in.reg_bytes = static_cast<uint8_t>(element);
  in.b = from;
  in.c = size;
  in.e = barrier;
  in.flag = to_shared && !from_global;
  in.mode = static_cast<uint8_t>(to_shared ? (barrier_32 ? 2 : 0) | (source_32 ? 4 : 0) : (source_32 ? 1 : 0));
  in.bytes = 16;
  in.space = Space::kGlobal;
  in.access = new_access(to_shared ? AccessKind::kAsyncCopy : AccessKind::kStore);
}

// cp.async.mbarrier.arrive: arrives when the earlier copies of the thread are done. Without .noinc the arrival is not
// among those expected: pending is raised at once.
void Decoder::async_arrive(Opcode& op) {
  const bool counted = op.take("noinc");
  op.take("mbarrier");
  op.take("arrive");
  take_space(op);
  const Type type = op.need_type();
  op.finish();
  if (type != Type::kB64) unsupported();
  need_operands(1, 1);
  const Address a = address(operand(0), Space::kShared);
  Instr& in = emit("mbarrier.arrive.copies", Kind::kBarrier);
  set_address(in, a);
  in.flag = counted;
}

void Decoder::mapa(Opcode& op) {
  take_space(op);
  const Type type = op.need_type();
  op.finish();
  const bool is_map = op.name() == "mapa";
  need_operands(is_map ? 3 : 2, is_map ? 3 : 2);
  const uint32_t a = source(operand(1), type), b = is_map ? source(operand(2), Type::kU32) : kNone;
  const uint32_t d = destination(operand(0), is_map ? type_bytes(type) : 4u);
  Instr& in = emit(std::string(op.name()), Kind::kInteger);
  in.d = d;
  in.a = a;
  in.b = b;
  in.reg_bytes = static_cast<uint8_t>(type_bytes(type));
}

void Decoder::cluster_barrier(Opcode& op) {
  const std::string action(op.take_any({"arrive", "wait"}));
  const bool aligned = op.take("aligned"), relaxed = op.take("relaxed");
  take_ordering(op);
  op.finish();
  if (action.empty()) unsupported();
  Instr& in = emit("barrier.cluster." + action, Kind::kBarrier);
  in.mode = aligned ? 1 : 0;
  in.flag = relaxed;
}

}  // namespace tilewright::sim
