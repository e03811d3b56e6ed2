#include "simulator/decode.h"

namespace tilewright::sim {

void Decoder::bra(Opcode& op) {
  op.take("uni");
  op.finish();
  const uint32_t target = branch_targets(function_, *statement_)[0];
  Instr& in = emit("bra", Kind::kControl);
  in.target = target;
  in.meeting = flow_.meeting[statement_index_];
}

void Decoder::brx(Opcode& op) {
  op.take("idx");
  op.take("uni");
  op.finish();
  std::vector<uint32_t> list = branch_targets(function_, *statement_);
  list.insert(list.begin(), static_cast<uint32_t>(list.size()));
  const uint32_t index = source(operand(0), Type::kU32), at = add_list(list);
  Instr& in = emit("brx.idx", Kind::kControl);
  in.a = index;
  in.list = at;
  in.meeting = flow_.meeting[statement_index_];
}

// The offset in the frame's local memory of a .param variable that a call passes.
uint32_t Decoder::param_offset(const Operand& op, uint32_t bytes, const char* what) {
  const Variable* v = op.kind == Operand::kName ? function_.find_variable(statement_->scope, op.name) : nullptr;
  if (!v || !locals_.count(v)) syntax_error(op.at, std::string(what) + " of a call is not a .param variable");
  if (v->bytes < bytes)
    syntax_error(op.at, std::string(what) + " has " + std::to_string(v->bytes) + " bytes, the function takes " +
                            std::to_string(bytes));
  return locals_.at(v);
}

uint32_t Decoder::param_bytes(const Operand& op) const {
  return static_cast<uint32_t>(function_.find_variable(statement_->scope, op.name)->bytes);
}

void Decoder::call(Opcode& op) {
  op.take("uni");
  op.finish();
  size_t at = 0;
  const std::vector<Operand> none;
  const auto list_at = [&]() -> const std::vector<Operand>& {
    if (at < count() && statement_->operands[at].kind == Operand::kList) return statement_->operands[at++].elems;
    return none;
  };
  const std::vector<Operand>& results = list_at();
  const Operand& callee = operand(at++);
  const std::vector<Operand>& args = list_at();
  std::vector<uint32_t> list;
  if (callee.kind == Operand::kReg) {
    for (const Operand& a : args) list.push_back(param_offset(a, 0, "an argument"));
    for (const Operand& r : results) list.push_back(param_offset(r, 0, "a result"));
    // Their sizes follow, to be held against those of the function that is called.
    for (const Operand& a : args) list.push_back(param_bytes(a));
    for (const Operand& r : results) list.push_back(param_bytes(r));
    const uint32_t address = source(callee, Type::kU64), where = add_list(list);
    Instr& in = emit("call.indirect", Kind::kControl);
    in.a = address;
    in.list = where;
    in.imm = static_cast<int64_t>(args.size() | results.size() << 16);
    return;
  }
  if (callee.name == "vprintf" || callee.name == "__assertfail") {
    const bool prints = callee.name == "vprintf";
    if (args.size() != (prints ? 2u : 5u) || results.size() > (prints ? 1u : 0u))
      error("wrong number of arguments or results for '" + std::string(callee.name) + "'");
    for (size_t i = 0; i < args.size(); ++i)
      list.push_back(param_offset(args[i], !prints && i == 2 ? 4 : 8, "an argument"));
    for (const Operand& r : results) list.push_back(param_offset(r, 4, "a result"));
    const uint32_t where = add_list(list);
    Instr& in = emit(std::string(callee.name), Kind::kControl);
    in.list = where;
    in.flag = !results.empty();
    return;
  }
  const auto it = layout_.functions.find(callee.name);
  if (it == layout_.functions.end())
    syntax_error(callee.at, "function '" + std::string(callee.name) + "' has no body in this module");
  const FunctionSyntax& f = *layout_.kernel->codes[it->second]->syntax;
  if (f.params.size() != args.size() || f.results.size() != results.size())
    error("'" + std::string(f.name) + "' takes " + std::to_string(f.params.size()) + " parameters and gives " +
          std::to_string(f.results.size()) + " results");
  for (size_t i = 0; i < args.size(); ++i)
    list.push_back(param_offset(args[i], static_cast<uint32_t>(f.params[i].bytes), "an argument"));
  for (size_t i = 0; i < results.size(); ++i)
    list.push_back(param_offset(results[i], static_cast<uint32_t>(f.results[i].bytes), "a result"));
  const uint32_t where = add_list(list);
  Instr& in = emit("call", Kind::kControl);
  in.target = it->second;
  in.list = where;
}

void Decoder::simple(Opcode& op) {
  const std::string_view name = op.name();
  if (name == "ret") {
    op.take("uni");
    op.finish();
    emit("ret", Kind::kControl);
  } else if (name == "exit" || name == "trap" || name == "brkpt") {
    op.finish();
    emit(name == "exit" ? "exit" : "trap", Kind::kControl);
  } else if (name == "setmaxnreg") {
    const std::string_view action = op.take_any({"inc", "dec"});
    op.take("sync");
    op.take("aligned");
    const Type type = op.need_type();
    op.finish();
    need_operands(1, 1);
    if (action.empty() || type != Type::kU32 || operand(0).kind != Operand::kNumber) unsupported();
    Instr& in = emit("setmaxnreg", Kind::kOther);
    in.mode = action == "inc";
    in.imm = static_cast<int64_t>(operand(0).number.bits);
  } else {
    // pmevent, griddepcontrol.*: no effect on results when grids run one after another.
    emit("nothing", Kind::kOther);
  }
}

// bar.sync, bar.arrive, bar.red, bar.warp.sync and their barrier. forms.
void Decoder::barrier(Opcode& op) {
  if (op.take("warp")) {
    op.take("sync");
    op.finish();
    need_operands(1, 1);
    const uint32_t members = source(operand(0), Type::kB32);
    emit("bar.warp.sync", Kind::kCollective).e = members;
    return;
  }
  if (op.take("cluster")) return cluster_barrier(op);
  const bool aligned = op.name() == "bar" ? (op.take("aligned"), true) : op.take("aligned");
  op.take("cta");
  const std::string_view form = op.take_any({"sync", "arrive", "red"});
  uint8_t mode = form == "arrive" ? 1 : 0;
  size_t at = 0;
  uint32_t d = kNone;
  Type result = Type::kPred;
  if (form == "red") {
    const std::string_view reduction = op.take_any({"popc", "and", "or"});
    mode = reduction == "popc" ? 2 : reduction == "and" ? 3 : 4;
    result = op.need_type();
    d = destination(operand(at++), result);
  }
  op.finish();
  if (form.empty()) unsupported();
  const uint32_t id = source(operand(at++), Type::kU32);
  uint32_t threads = kNone, p = kNone;
  if (form == "red") {
    if (count() > at + 1) threads = source(operand(at++), Type::kU32);
    p = predicate(operand(at++));
  } else if (at < count()) {
    threads = source(operand(at++), Type::kU32);
  }
  if (mode == 1 && threads == kNone) error("expected a thread count");
  Instr& in = emit("barrier", Kind::kBarrier);
  in.d = d;
  in.a = id;
  in.b = threads;
  in.c = p;
  in.mode = mode;
  in.flag = aligned;
}

void Decoder::fence(Opcode& op) {
  const std::string_view text = statement_->opcode;
  const auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  const bool proxy = op.name() == "fence" && has(".proxy");
  const bool block_only = has(".cta") || has(".cluster");
  const int flags = proxy ? (has(".async") ? kFenceProxy : 0) : block_only ? kFenceBlock : kFenceBlock | kFenceGpu;
  emit("fence", Kind::kBarrier).mode = static_cast<uint8_t>(flags);
}

void Decoder::shfl(Opcode& op) {
  static constexpr std::string_view kModes[] = {"up", "down", "bfly", "idx"};
  if (!op.take("sync")) unsupported();
  uint8_t mode = 0;
  while (mode < 4 && !op.take(kModes[mode])) ++mode;
  const Type type = op.need_type();
  op.finish();
  if (mode == 4 || type_bytes(type) != 4) unsupported();
  need_operands(5, 5);
  const Operand& to = operand(0);
  const bool pair = to.kind == Operand::kPair;
  const uint32_t a = source(operand(1), type), b = source(operand(2), Type::kB32), c = source(operand(3), Type::kB32);
  const uint32_t members = source(operand(4), Type::kB32);
  const uint32_t d = destination(pair ? to.elems[0] : to, type), p = pair ? destination(to.elems[1], 0u) : kNone;
  Instr& in = emit("shfl.sync", Kind::kCollective);
  in.d = d;
  in.a = a;
  in.b = b;
  in.c = c;
  in.e = members;
  in.target = p;
  in.mode = mode;
}

void Decoder::vote(Opcode& op) {
  static constexpr std::string_view kModes[] = {"all", "any", "uni", "ballot"};
  if (!op.take("sync")) unsupported();
  uint8_t mode = 0;
  while (mode < 4 && !op.take(kModes[mode])) ++mode;
  const Type type = op.need_type();
  op.finish();
  if (mode == 4) unsupported();
  need_operands(3, 3);
  const uint32_t p = predicate(operand(1)), members = source(operand(2), Type::kB32), d = destination(operand(0), type);
  Instr& in = emit("vote.sync", Kind::kCollective);
  in.d = d;
  in.a = p;
  in.e = members;
  in.mode = mode;
}

void Decoder::match(Opcode& op) {
  const std::string mode(op.take_any({"any", "all"}));
  if (!op.take("sync") || mode.empty()) unsupported();
  const Type type = op.need_type();
  op.finish();
  need_operands(3, 3);
  const Operand& to = operand(0);
  const bool pair = to.kind == Operand::kPair;
  const uint32_t a = source(operand(1), type), members = source(operand(2), Type::kB32);
  const uint32_t d = destination(pair ? to.elems[0] : to, Type::kB32), p = pair ? destination(to.elems[1], 0u) : kNone;
  Instr& in = emit("match." + mode + ".sync.b" + std::to_string(8 * type_bytes(type)), Kind::kCollective);
  in.d = d;
  in.a = a;
  in.e = members;
  in.target = p;
}

void Decoder::redux(Opcode& op) {
  if (!op.take("sync")) unsupported();
  const std::string action(op.take_any({"add", "min", "max", "and", "or", "xor"}));
  const Type type = op.need_type();
  op.finish();
  if (action.empty() || is_float(type)) unsupported();
  need_operands(3, 3);
  const uint32_t a = source(operand(1), type), members = source(operand(2), Type::kB32),
                 d = destination(operand(0), type);
  const bool ordered = action == "min" || action == "max";
  Instr& in =
      emit("redux.sync." + action + (ordered ? (is_signed_int(type) ? ".s32" : ".u32") : ".b32"), Kind::kCollective);
  in.d = d;
  in.a = a;
  in.e = members;
}

void Decoder::elect(Opcode& op) {
  op.take("sync");
  op.finish();
  need_operands(2, 2);
  const Operand& to = operand(0);
  if (to.kind != Operand::kPair) error("expected d|p");
  const uint32_t members = source(operand(1), Type::kB32);
  const uint32_t d = destination(to.elems[0], Type::kB32), p = destination(to.elems[1], 0u);
  Instr& in = emit("elect.sync", Kind::kCollective);
  in.d = d;
  in.e = members;
  in.target = p;
}

void Decoder::activemask(Opcode& op) {
  const Type type = op.need_type();
  op.finish();
  need_operands(1, 1);
  const uint32_t d = destination(operand(0), type);
  emit("activemask", Kind::kCollective).d = d;
}

void Decoder::nanosleep(Opcode& op) {
  const Type type = op.need_type();
  op.finish();
  need_operands(1, 1);
  source(operand(0), type);
  emit("nanosleep", Kind::kOther);
}

}  // namespace tilewright::sim
