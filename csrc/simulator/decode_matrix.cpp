#include "simulator/decode.h"

namespace tilewright::sim {

std::vector<uint32_t> Decoder::vector_slots(const Operand& op, size_t n, uint32_t bytes, bool writes) {
  const bool scalar = n == 1 && op.kind != Operand::kVector;
  if (!scalar && (op.kind != Operand::kVector || op.elems.size() != n))
    syntax_error(op.at, "expected a vector of " + std::to_string(n) + " registers");
  std::vector<uint32_t> slots;
  for (size_t i = 0; i < n; ++i) {
    const Operand& e = scalar ? op : op.elems[i];
    slots.push_back(writes ? destination(e, bytes) : source_bits(e, bytes));
  }
  return slots;
}

// ldmatrix, stmatrix, movmatrix
void Decoder::move_matrix(Opcode& op) {
  const std::string name(op.name());
  op.take("sync");
  op.take("aligned");
  const bool shape = op.take("m8n8"), transposed = op.take("trans");
  if (!shape) unsupported();
  if (name == "movmatrix") {
    const Type type = op.need_type();
    op.finish();
    if (!transposed || type != Type::kB16) unsupported();
    need_operands(2, 2);
    const uint32_t a = source(operand(1), Type::kB32), d = destination(operand(0), Type::kB32);
    Instr& in = emit("movmatrix", Kind::kMatrix);
    in.d = d;
    in.a = a;
    return;
  }
  const std::string_view number = op.take_any({"x1", "x2", "x4"});
  const Space space = take_space(op);
  const Type type = op.need_type();
  op.finish();
  if (number.empty() || type != Type::kB16 || (space != Space::kShared && space != Space::kGeneric)) unsupported();
  need_operands(2, 2);
  const bool loads = name == "ldmatrix";
  const uint32_t n = static_cast<uint32_t>(number[1] - '0');
  const Address a = address(operand(loads ? 1 : 0), Space::kShared);
  const uint32_t list = add_list(vector_slots(operand(loads ? 0 : 1), n, 4, loads));
  Instr& in = emit(name, Kind::kMatrix);
  set_address(in, a);
  in.list = list;
  in.vector = static_cast<uint8_t>(n);
  in.bytes = 16;
  in.flag = transposed;
  in.space = space;
  in.access = new_access(loads ? AccessKind::kLoad : AccessKind::kStore);
}

// mma.sync.aligned.shape.row.col.d.a.b.c
void Decoder::mma(Opcode& op) {
  if (!op.take("sync")) unsupported();
  op.take("aligned");
  const std::string shape(op.take_any({"m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", "m8n8k4"}));
  const bool layout = op.take("row") && op.take("col");
  const Type d = op.need_type(), a = op.need_type(), b = op.need_type(), c = op.need_type();
  op.finish();
  if (shape.empty() || !layout || d != c) unsupported();
  need_operands(4, 4);
  const bool is_8 = (a == Type::kS8 || a == Type::kU8) && (b == Type::kS8 || b == Type::kU8);
  if ((a != b && !is_8) || (is_8 && d != Type::kS32)) unsupported();
  const bool packed = d == Type::kF16;
  if (!is_8 && a != Type::kF64 && d != Type::kF32 && !(packed && a == Type::kF16)) unsupported();
  const bool wide = a == Type::kF64;
  const uint32_t k = static_cast<uint32_t>(std::stoul(shape.substr(shape.find('k') + 1)));
  const uint32_t bytes = wide ? 8 : 4, element = wide ? 8 : is_8 ? 1 : a == Type::kTF32 ? 4 : 2;
  const size_t m = wide ? 8 : 16;
  const size_t a_registers = m * k * element / (kLanes * bytes), b_registers = 8 * k * element / (kLanes * bytes);
  if (wide && d != Type::kF64) unsupported();
  const size_t accumulators = wide || packed ? 2 : 4;
  const std::string key = "mma." + shape + "." + (is_8 ? "b8" : type_name(a));
  if (!find_handler(key)) unsupported();
  std::vector<uint32_t> list;
  const auto append = [&](const std::vector<uint32_t>& slots) { list.insert(list.end(), slots.begin(), slots.end()); };
  append(vector_slots(operand(0), accumulators, bytes, true));
  append(vector_slots(operand(1), a_registers, bytes, false));
  append(vector_slots(operand(2), b_registers, bytes, false));
  append(vector_slots(operand(3), accumulators, bytes, false));
  const uint32_t at = add_list(list);
  Instr& in = emit(key, Kind::kMatrix);
  in.list = at;
  in.flag = packed;
  in.mode = static_cast<uint8_t>((a == Type::kS8 ? 1 : 0) | (b == Type::kS8 ? 2 : 0));
}

}  // namespace tilewright::sim
