#include "simulator/decode.h"

namespace tilewright::sim {
namespace {

std::string bits_key(Type type) { return ".b" + std::to_string(8 * type_bytes(type)); }
std::string type_key(Type type) { return std::string(".") + type_name(type); }
std::string sign_key(Type type) { return (is_signed_int(type) ? ".s" : ".u") + std::to_string(8 * type_bytes(type)); }

bool is_half(Type t) { return t == Type::kF16 || t == Type::kBF16 || t == Type::kF16x2 || t == Type::kBF16x2; }

Kind kind_of(Type t) {
  if (is_half(t)) return Kind::kFp16;
  return t == Type::kF32 ? Kind::kFp32 : t == Type::kF64 ? Kind::kFp64 : Kind::kInteger;
}

Type unsigned_of(uint32_t bytes) { return bytes == 2 ? Type::kU16 : bytes == 4 ? Type::kU32 : Type::kU64; }

// -1: no rounding given.
int take_rounding(Opcode& op) {
  const std::string_view r = op.take_any({"rn", "rz", "rm", "rp"});
  return r.empty() ? -1 : r == "rn" ? kNearest : r == "rz" ? kTowardZero : r == "rm" ? kDown : kUp;
}

Type widened(Type t) {
  switch (t) {
    case Type::kS16:
      return Type::kS32;
    case Type::kU16:
      return Type::kU32;
    case Type::kS32:
      return Type::kS64;
    default:
      return Type::kU64;
  }
}

}  // namespace

// d = key(sources), in operand order.
void Decoder::emit_arithmetic(const std::string& key, Kind kind, Type d, std::initializer_list<Type> sources) {
  need_operands(sources.size() + 1, sources.size() + 1);
  uint32_t slots[4] = {kNone, kNone, kNone, kNone};
  size_t i = 0;
  for (Type t : sources) {
    slots[i] = source(operand(i + 1), t);
    ++i;
  }
  const uint32_t to = destination(operand(0), d);
  Instr& in = emit(key, kind);
  in.d = to;
  in.a = slots[0];
  in.b = slots[1];
  in.c = slots[2];
  in.e = slots[3];
}

// Of 16-bit floats: key(sources), with subnormal sources and results flushed to zeros of their sign.
void Decoder::emit_flushed(const std::string& key, Type d, Type type, size_t sources) {
  need_operands(sources + 1, sources + 1);
  const uint32_t bytes = type_bytes(type);
  const std::string flush_key = std::string("flush.") + type_name(type);
  uint32_t slots[3] = {kNone, kNone, kNone};
  for (size_t i = 0; i < sources; ++i) {
    const uint32_t from = source(operand(i + 1), type);
    slots[i] = new_slot(bytes);
    Instr& flush = emit_internal(flush_key);
    flush.d = slots[i];
    flush.a = from;
  }
  const uint32_t to = destination(operand(0), d);
  Instr& in = emit(key, Kind::kFp16);
  in.d = to;
  in.a = slots[0];
  in.b = slots[1];
  in.c = slots[2];
  if (d != type) return;
  Instr& result = emit(flush_key, Kind::kInternal);
  result.d = result.a = to;
}

void Decoder::float_arithmetic(Opcode& op, const std::string& name, Type type, size_t sources) {
  const int rounding = take_rounding(op);
  const bool ftz = op.take("ftz"), sat = op.take("sat"), relu = op.take("relu");
  op.finish();
  if (is_half(type)) {
    if (rounding > kNearest) unsupported();
    const std::string key = name + (sat ? ".sat" : relu ? ".relu" : "") + type_key(type);
    if (ftz) return emit_flushed(key, type, type, sources);
    if (sources == 1) return emit_arithmetic(key, Kind::kFp16, type, {type});
    if (sources == 2) return emit_arithmetic(key, Kind::kFp16, type, {type, type});
    return emit_arithmetic(key, Kind::kFp16, type, {type, type, type});
  }
  if ((type != Type::kF32 && type != Type::kF64) || relu) unsupported();
  std::string key = name;
  if (rounding > kNearest)
    key += ".directed" + type_key(type);
  else
    key += std::string(ftz ? ".ftz" : "") + (sat ? ".sat" : "") + type_key(type);
  if (sources == 1)
    emit_arithmetic(key, kind_of(type), type, {type});
  else if (sources == 2)
    emit_arithmetic(key, kind_of(type), type, {type, type});
  else
    emit_arithmetic(key, kind_of(type), type, {type, type, type});
  Instr& in = code_.instrs.back();
  in.mode = static_cast<uint8_t>(rounding > kNearest ? rounding : kNearest);
  in.ftz = ftz;
  in.sat = sat;
}

void Decoder::carry_arithmetic(Opcode& op, const std::string& name, Type type, bool reads, bool writes) {
  op.finish();
  const bool is_mad = name.substr(0, 3) == "mad";
  const Type u = unsigned_of(type_bytes(type));
  const std::string key = name + ".carry" + (is_mad ? sign_key(type) : bits_key(type));
  if (is_mad)
    emit_arithmetic(key, Kind::kInteger, u, {u, u, u});
  else
    emit_arithmetic(key, Kind::kInteger, u, {u, u});
  code_.instrs.back().mode = static_cast<uint8_t>((reads ? 1 : 0) | (writes ? 2 : 0));
}

void Decoder::add_sub(Opcode& op) {
  const bool reads_carry = op.name() == "addc" || op.name() == "subc";
  const std::string name(op.name().substr(0, 3));
  const bool writes_carry = op.take("cc");
  const Type type = op.need_type();
  if (reads_carry || writes_carry) return carry_arithmetic(op, name, type, reads_carry, writes_carry);
  if (is_float(type)) return float_arithmetic(op, name, type, 2);
  const bool sat = op.take("sat");
  op.finish();
  if (sat && type != Type::kS32) unsupported();
  if (type == Type::kS16x2 || type == Type::kU16x2) {
    if (name != "add") unsupported();
    return emit_arithmetic("add.16x2", Kind::kInteger, type, {type, type});
  }
  emit_arithmetic(name + (sat ? ".sat.s32" : bits_key(type)), Kind::kInteger, type, {type, type});
}

void Decoder::mul_mad(Opcode& op) {
  const bool is_mad = op.name() != "mul", reads_carry = op.name() == "madc";
  const std::string name = is_mad ? "mad" : "mul";
  const std::string part(op.take_any({"lo", "hi", "wide"}));
  const bool writes_carry = op.take("cc");
  const Type type = op.need_type();
  if (part.empty()) {
    if (!is_float(type)) error("expected .lo, .hi or .wide");
    return float_arithmetic(op, is_mad ? "fma" : "mul", type, is_mad ? 3 : 2);
  }
  if (is_float(type)) unsupported();
  if (reads_carry || writes_carry) return carry_arithmetic(op, name + "." + part, type, reads_carry, writes_carry);
  const bool sat = op.take("sat");
  op.finish();
  const std::string key = name + "." + part + (sat ? ".sat" : "");
  if (part == "wide") {
    const Type w = widened(type);
    if (is_mad) return emit_arithmetic(key + sign_key(type), Kind::kInteger, w, {type, type, w});
    return emit_arithmetic(key + sign_key(type), Kind::kInteger, w, {type, type});
  }
  const std::string typed = key + (part == "lo" ? bits_key(type) : sign_key(type));
  if (is_mad) return emit_arithmetic(typed, Kind::kInteger, type, {type, type, type});
  emit_arithmetic(typed, Kind::kInteger, type, {type, type});
}

void Decoder::mul24(Opcode& op) {
  const std::string part(op.take_any({"lo", "hi"}));
  const Type type = op.need_type();
  op.finish();
  if (part.empty()) unsupported();
  const std::string key = "mul24." + part + sign_key(type);
  if (op.name() == "mul24") return emit_arithmetic(key, Kind::kInteger, type, {type, type});
  need_operands(4, 4);
  const uint32_t a = source(operand(1), type), b = source(operand(2), type), c = source(operand(3), type);
  const uint32_t product = new_slot(4), d = destination(operand(0), type);
  Instr& multiply = emit_internal(key);
  multiply.d = product;
  multiply.a = a;
  multiply.b = b;
  Instr& in = emit("add.b32", Kind::kInteger);
  in.d = d;
  in.a = product;
  in.b = c;
}

void Decoder::fma(Opcode& op) {
  const Type type = op.need_type();
  float_arithmetic(op, "fma", type, 3);
}

void Decoder::div(Opcode& op) {
  const Type type = op.need_type();
  if (is_float(type)) {
    op.take("full");  // the correctly rounded quotient is within its error
    const bool approx = op.take("approx") && type == Type::kF32;
    return float_arithmetic(op, approx ? "div.approx" : "div", type, 2);
  }
  op.finish();
  emit_arithmetic("div" + sign_key(type), Kind::kInteger, type, {type, type});
}

void Decoder::rem(Opcode& op) {
  const Type type = op.need_type();
  op.finish();
  emit_arithmetic("rem" + sign_key(type), Kind::kInteger, type, {type, type});
}

void Decoder::rcp_sqrt(Opcode& op) {
  const Type type = op.need_type();
  if (op.take("approx") && type == Type::kF64) {
    if (!op.take("ftz")) unsupported();
    op.finish();
    return emit_arithmetic(std::string(op.name()) + ".approx.ftz.f64", Kind::kSpecial, type, {type});
  }
  float_arithmetic(op, std::string(op.name()), type, 1);
  code_.instrs.back().kind = Kind::kSpecial;
}

void Decoder::approximation(Opcode& op) {
  const Type type = op.need_type();
  if (!op.take("approx")) unsupported();
  const bool ftz = op.take("ftz");
  op.finish();
  if (is_half(type) && ftz) {
    emit_flushed(std::string(op.name()) + ".approx" + type_key(type), type, type, 1);
    return;
  }
  emit_arithmetic(std::string(op.name()) + ".approx" + (ftz ? ".ftz" : "") + type_key(type), Kind::kSpecial, type,
                  {type});
}

void Decoder::min_max(Opcode& op) {
  const Type type = op.need_type();
  std::string key(op.name());
  if (is_float(type)) {
    const bool ftz = op.take("ftz");
    key += ftz && !is_half(type) ? ".ftz" : "";
    key += op.take("NaN") ? ".NaN" : "";
    if (op.take("xorsign")) key += op.take("abs") ? ".xorsign.abs" : ".xorsign";
    op.finish();
    if (ftz && is_half(type)) return emit_flushed(key + type_key(type), type, type, 2);
    return emit_arithmetic(key + type_key(type), kind_of(type), type, {type, type});
  }
  const bool relu = op.take("relu");
  op.finish();
  if (relu && type != Type::kS32 && type != Type::kS16x2) unsupported();
  const std::string typed = type == Type::kS16x2 || type == Type::kU16x2 ? type_key(type) : sign_key(type);
  emit_arithmetic(key + (relu ? ".relu" : "") + typed, Kind::kInteger, type, {type, type});
}

void Decoder::abs_neg(Opcode& op) {
  const Type type = op.need_type();
  const bool ftz = op.take("ftz");
  op.finish();
  const std::string name(op.name());
  if (is_half(type) && ftz) return emit_flushed(name + type_key(type), type, type, 1);
  if (is_half(type)) return emit_arithmetic(name + type_key(type), Kind::kFp16, type, {type});
  if (is_float(type)) return emit_arithmetic(name + (ftz ? ".ftz" : "") + type_key(type), kind_of(type), type, {type});
  emit_arithmetic(name + (name == "abs" ? sign_key(type) : bits_key(type)), Kind::kInteger, type, {type});
}

void Decoder::copysign(Opcode& op) {
  const Type type = op.need_type();
  op.finish();
  emit_arithmetic("copysign" + type_key(type), kind_of(type), type, {type, type});
}

void Decoder::testp(Opcode& op) {
  static constexpr std::string_view kNames[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
  const Type type = op.need_type();
  uint8_t mode = 0;
  while (mode < 6 && !op.take(kNames[mode])) ++mode;
  op.finish();
  if (mode == 6) unsupported();
  emit_arithmetic("testp" + type_key(type), kind_of(type), Type::kPred, {type});
  code_.instrs.back().mode = mode;
}

void Decoder::sad(Opcode& op) {
  const Type type = op.need_type();
  op.finish();
  emit_arithmetic("sad" + sign_key(type), Kind::kInteger, type, {type, type, type});
}

void Decoder::dot_product(Opcode& op) {
  const bool high = op.take("hi");
  op.take("lo");
  const Type a = op.need_type(), b = op.need_type();
  op.finish();
  emit_arithmetic(std::string(op.name()), Kind::kInteger, Type::kB32, {Type::kB32, Type::kB32, Type::kB32});
  Instr& in = code_.instrs.back();
  in.mode = static_cast<uint8_t>((is_signed_int(a) ? 1 : 0) | (is_signed_int(b) ? 2 : 0));
  in.flag = high;
}

// SIMD video instructions, without selectors and masks.
void Decoder::video(Opcode& op) {
  static constexpr std::string_view kNames[] = {"vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"};
  const std::string_view name = op.name().substr(0, op.name().size() - 1);
  uint8_t mode = 0;
  while (kNames[mode] != name) ++mode;
  const Type d = op.need_type(), a = op.need_type(), b = op.need_type();
  const bool sat = op.take("sat"), add = op.take("add");
  op.finish();
  for (Type t : {d, a, b})
    if (t != Type::kU32 && t != Type::kS32) unsupported();
  emit_arithmetic("video", Kind::kInteger, Type::kB32, {Type::kB32, Type::kB32, Type::kB32});
  Instr& in = code_.instrs.back();
  in.vector = op.name().back() == '4' ? 4 : 2;
  in.mode = mode;
  in.is_signed = a == Type::kS32;
  in.flag = b == Type::kS32;
  in.relu = d == Type::kS32;
  in.sat = sat;
  in.ftz = add;
}

}  // namespace tilewright::sim
