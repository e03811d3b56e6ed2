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
  const std::string shape(op.take_any({"m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", "m8n8k4", "m8n8k16"}));
  const bool layout = op.take("row") && op.take("col"), saturates = op.take("satfinite");
  op.take("rn");  // of f64
  const Type d = op.need_type(), a = op.need_type(), b = op.need_type(), c = op.need_type();
  op.finish();
  if (shape.empty() || !layout || d != c) unsupported();
  need_operands(4, 4);
  const bool is_8 = (a == Type::kS8 || a == Type::kU8) && (b == Type::kS8 || b == Type::kU8);
  const bool is_fp8 = (a == Type::kE4M3 || a == Type::kE5M2) && (b == Type::kE4M3 || b == Type::kE5M2);
  if ((a != b && !is_8 && !is_fp8) || (is_8 && d != Type::kS32) || (saturates && !is_8)) unsupported();
  const bool packed = d == Type::kF16;
  if (!is_8 && a != Type::kF64 && d != Type::kF32 && !(packed && (a == Type::kF16 || is_fp8))) unsupported();
  const bool wide = a == Type::kF64;
  const uint32_t k = static_cast<uint32_t>(std::stoul(shape.substr(shape.find('k') + 1)));
  const uint32_t bytes = wide ? 8 : 4, element = wide ? 8 : is_8 || is_fp8 ? 1 : a == Type::kTF32 ? 4 : 2;
  const size_t m = shape[1] == '8' ? 8 : 16;
  const size_t a_registers = m * k * element / (kLanes * bytes), b_registers = 8 * k * element / (kLanes * bytes);
  if (wide && d != Type::kF64) unsupported();
  const size_t accumulators = m == 8 || packed ? 2 : 4;
  const std::string types = is_fp8 ? std::string(type_name(a)) + "." + type_name(b) : type_name(a);
  const std::string key = "mma." + shape + "." + (is_8 ? "b8" : types);
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
  in.sat = saturates;
  in.mode = static_cast<uint8_t>((a == Type::kS8 ? 1 : 0) | (b == Type::kS8 ? 2 : 0));
}

namespace {

struct Fragment {
  uint32_t rows = 0, columns = 0;
  Type type{};
  uint32_t reg_bytes = 4;
  uint32_t registers = 0;
};

// The registers of operand 'a', 'b' or 'c' (also of d); no registers: there is no such fragment (PTX ISA 9.7.15.3).
Fragment fragment_of(char operand, uint32_t m, uint32_t n, uint32_t k, Type type) {
  Fragment f;
  f.rows = operand == 'b' ? k : m;
  f.columns = operand == 'a' ? k : n;
  f.type = type;
  const bool is_k16 = k == 16 && ((m == 16 && n == 16) || (m == 32 && n == 8) || (m == 8 && n == 32));
  const bool is_f64 = m == 8 && n == 8 && k == 4, is_tf32 = m == 16 && n == 16 && k == 8;
  const bool sums = operand == 'c';
  const bool fits = type == Type::kF64                                              ? is_f64
                    : type == Type::kF16                                            ? is_k16
                    : type == Type::kF32                                            ? sums && (is_k16 || is_tf32)
                    : type == Type::kS32                                            ? sums && is_k16
                    : type == Type::kTF32                                           ? !sums && is_tf32
                    : type == Type::kBF16 || type == Type::kS8 || type == Type::kU8 ? !sums && is_k16
                                                                                    : false;
  if (!fits) return f;
  f.reg_bytes = type == Type::kF64 ? 8 : 4;
  // Each element is held once, but those of f16 operands fill eight registers in every shape.
  f.registers = type == Type::kF16 && !sums ? 8 : f.rows * f.columns * type_bytes(type) / (kLanes * f.reg_bytes);
  return f;
}

bool take_shape(Opcode& op, uint32_t& m, uint32_t& n, uint32_t& k) {
  struct Shape {
    const char* name;
    uint32_t m, n, k;
  };
  static constexpr Shape kShapes[] = {{"m16n16k16", 16, 16, 16},
                                      {"m32n8k16", 32, 8, 16},
                                      {"m8n32k16", 8, 32, 16},
                                      {"m16n16k8", 16, 16, 8},
                                      {"m8n8k4", 8, 8, 4}};
  for (const Shape& s : kShapes) {
    if (!op.take(s.name)) continue;
    m = s.m;
    n = s.n;
    k = s.k;
    return true;
  }
  return false;
}

}  // namespace

// wmma.load.{a,b,c} r, [p], stride; wmma.store.d [p], r, stride; wmma.mma.
void Decoder::wmma(Opcode& op) {
  if (op.take("mma")) return wmma_product(op);
  const bool loads = op.take("load");
  if (!loads && !op.take("store")) unsupported();
  const std::string_view which = op.take_any({"a", "b", "c", "d"});
  op.take("sync");
  op.take("aligned");
  const std::string_view order = op.take_any({"row", "col"});
  uint32_t m = 0, n = 0, k = 0;
  const bool shape = take_shape(op, m, n, k);
  const Space space = take_space(op);
  const Type type = op.need_type();
  op.finish();
  if (!shape || order.empty() || which.empty() || (which == "d") == loads) unsupported();
  const Fragment f = fragment_of(which == "d" ? 'c' : which[0], m, n, k, type);
  if (f.registers == 0) unsupported();
  need_operands(2, 3);
  const Address a = address(operand(loads ? 1 : 0), space);
  const uint32_t list = add_list(vector_slots(operand(loads ? 0 : 1), f.registers, f.reg_bytes, loads));
  const uint32_t stride = count() == 3 ? source(operand(2), Type::kU32) : kNone;
  Instr& in = emit(loads ? "wmma.load" : "wmma.store", Kind::kMatrix);
  set_address(in, a);
  in.b = stride;
  in.list = list;
  in.vector = static_cast<uint8_t>(f.registers);
  in.bytes = static_cast<uint8_t>(type_bytes(type));
  in.reg_bytes = static_cast<uint8_t>(f.reg_bytes);
  in.target = f.rows | f.columns << 8;
  in.flag = order == "col";
  in.space = a.frame_local ? Space::kLocal : space;
  in.access = new_access(loads ? AccessKind::kLoad : AccessKind::kStore);
}

// Of f16 only d's and c's types are named; of the others all four.
void Decoder::wmma_product(Opcode& op) {
  op.take("sync");
  op.take("aligned");
  const std::string_view a_order = op.take_any({"row", "col"}), b_order = op.take_any({"row", "col"});
  uint32_t m = 0, n = 0, k = 0;
  const bool shape = take_shape(op, m, n, k), saturates = op.take("satfinite");
  op.take("rn");
  const Type d = op.need_type(), second = op.need_type();
  const std::optional<Type> third = op.take_type();
  const Type a = third ? second : Type::kF16, b = third ? *third : Type::kF16, c = third ? op.need_type() : second;
  op.finish();
  if (!shape || a_order.empty() || b_order.empty() || a != b) unsupported();
  const Fragment fragments[] = {fragment_of('c', m, n, k, d), fragment_of('a', m, n, k, a),
                                fragment_of('b', m, n, k, b), fragment_of('c', m, n, k, c)};
  const bool is_8 = a == Type::kS8 || a == Type::kU8;
  for (const Fragment& f : fragments)
    if (f.registers == 0 || (f.type == Type::kS32) != (is_8 && &f != &fragments[1] && &f != &fragments[2]))
      unsupported();
  if (saturates && !is_8 && a != Type::kF16) unsupported();
  need_operands(4, 4);
  std::vector<uint32_t> list{m, n, k};
  for (const Fragment& f : fragments) list.push_back(static_cast<uint32_t>(f.type));
  for (const Fragment& f : fragments) list.push_back(f.registers);
  for (size_t i = 0; i < 4; ++i)
    for (uint32_t slot : vector_slots(operand(i), fragments[i].registers, fragments[i].reg_bytes, i == 0))
      list.push_back(slot);
  const uint32_t at = add_list(list);
  Instr& in = emit("wmma.mma", Kind::kMatrix);
  in.list = at;
  in.reg_bytes = static_cast<uint8_t>(fragments[0].reg_bytes);
  in.sat = saturates;
}

}  // namespace tilewright::sim
