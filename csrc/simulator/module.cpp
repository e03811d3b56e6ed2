#include <algorithm>
#include <set>

#include "simulator/decode.h"

namespace tilewright::sim {
namespace {

constexpr uint64_t kMaxSmemBytes = 1u << kSharedRankShift;
constexpr uint64_t kMaxGlobalBytes = uint64_t{1} << 32;
constexpr uint32_t kRecursionBytes = 16u << 10;

uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

// Finds what an entry reaches before anything is decoded: functions, and the shared variables that need room.
class Reach {
 public:
  Reach(KernelLayout& layout, const FunctionSyntax& entry) : layout_(layout) {
    add_function(entry);
    for (size_t i = 0; i < layout_.kernel->codes.size(); ++i) scan(*layout_.kernel->codes[i]->syntax);
  }
  std::vector<const Variable*> shared;

 private:
  void add_function(const FunctionSyntax& f) {
    auto& codes = layout_.kernel->codes;
    if (!layout_.functions.emplace(f.name, static_cast<uint32_t>(codes.size())).second) return;
    codes.push_back(std::make_unique<Code>());
    codes.back()->syntax = &f;
  }

  void scan(const FunctionSyntax& f) {
    for (const Variable& v : f.variables)
      if (v.space == Space::kShared) add_shared(v);
    for (const Statement& s : f.statements)
      for (const Operand& op : s.operands) scan(op);
    for (const auto& m : layout_.module->variables)
      for (const Relocation& r : m.variable->relocations) scan_name(r.symbol);
  }

  void scan(const Operand& op) {
    if (op.kind == Operand::kName) scan_name(op.name);
    for (const Operand& e : op.elems) scan(e);
  }

  void scan_name(std::string_view name) {
    if (!seen_.insert(name).second) return;
    const ModuleSyntax& m = layout_.module->syntax;
    for (const Variable& v : m.variables)
      if (v.name == name && v.space == Space::kShared) add_shared(v);
    for (const FunctionSyntax& f : m.functions)
      if (f.name == name && f.has_body && !f.is_entry) add_function(f);
  }

  void add_shared(const Variable& v) {
    if (std::find(shared.begin(), shared.end(), &v) == shared.end()) shared.push_back(&v);
  }

  KernelLayout& layout_;
  std::set<std::string_view> seen_;
};

void place_shared(KernelLayout& layout, const std::vector<const Variable*>& variables) {
  uint64_t end = 0, dynamic_align = 16;
  for (const Variable* v : variables) {
    if (v->bytes == 0) {
      dynamic_align = std::max<uint64_t>(dynamic_align, v->align);
      continue;
    }
    end = round_up(end, v->align);
    layout.shared[v] = static_cast<uint32_t>(end);
    end += v->bytes;
    if (end >= kMaxSmemBytes) syntax_error(v->at, "more than 16 MiB of shared memory");
  }
  const uint64_t dynamic = round_up(end, dynamic_align);
  Kernel& kernel = *layout.kernel;
  kernel.info.static_smem_bytes = end;
  kernel.dynamic_smem_offset = static_cast<uint32_t>(dynamic);
  for (const Variable* v : variables) {
    if (v->bytes != 0) continue;
    layout.shared[v] = static_cast<uint32_t>(dynamic);
    kernel.info.uses_dynamic_smem = true;
  }
}

// The deepest local memory over all chains of calls; a recursive one gets a fixed allowance.
uint64_t local_stack(const Kernel& kernel) {
  uint64_t sum = 0;
  for (const auto& code : kernel.codes) sum += round_up(code->local_bytes, 16);
  return kernel.codes.size() > 1 ? sum + kRecursionBytes : sum;
}

void place_globals(Module& module) {
  uint64_t total = 0;
  for (const Variable& v : module.syntax.variables) {
    if (v.space == Space::kShared || v.is_extern) continue;
    total += v.bytes;
    if (total > kMaxGlobalBytes) syntax_error(v.at, "more than 4 GiB of global and const variables");
    Module::Placed placed;
    placed.variable = &v;
    placed.memory = ZeroedMemory(v.bytes);
    if (!v.init.empty()) std::memcpy(placed.memory.data(), v.init.data(), v.init.size());
    module.variables.push_back(std::move(placed));
  }
  for (const auto& placed : module.variables) {
    for (const Relocation& r : placed.variable->relocations) {
      const Module::Placed* target = module.find_placed(r.symbol);
      const uint32_t function = module.function_number(r.symbol);
      if (!target && !function)
        syntax_error(r.at, "initialiser names '" + std::string(r.symbol) +
                               "', which is neither a global or const variable nor a function");
      if (r.bytes != 8) syntax_error(r.at, "an address needs 64 bits");
      const uint64_t base = target ? reinterpret_cast<uint64_t>(target->memory.data()) : kFunctionWindow + function;
      const uint64_t address = base + static_cast<uint64_t>(r.addend);
      std::memcpy(placed.memory.data() + r.offset, &address, 8);
    }
  }
}

}  // namespace

const Kernel* Module::find(std::string_view entry) const {
  for (const auto& k : kernels)
    if (k->info.name == entry) return k.get();
  return nullptr;
}

const Module::Placed* Module::find_placed(std::string_view name) const {
  for (const Placed& p : variables)
    if (p.variable->name == name) return &p;
  return nullptr;
}

uint32_t Module::function_number(std::string_view name) const {
  for (size_t i = 0; i < syntax.functions.size(); ++i)
    if (syntax.functions[i].name == name && syntax.functions[i].has_body && !syntax.functions[i].is_entry)
      return static_cast<uint32_t>(i) + 1;
  return 0;
}

std::unique_ptr<Kernel> decode_kernel(const Module& module, const FunctionSyntax& entry) {
  auto kernel = std::make_unique<Kernel>();
  kernel->info.name = std::string(entry.name);
  kernel->info.maxntid = entry.maxntid;
  kernel->info.reqntid = entry.reqntid;
  kernel->info.reqcluster = entry.reqcluster;
  KernelLayout layout;
  layout.module = &module;
  layout.kernel = kernel.get();
  const Reach reach(layout, entry);
  place_shared(layout, reach.shared);
  kernel->functions.resize(module.syntax.functions.size() + 1);
  for (const auto& code : kernel->codes) kernel->functions[module.function_number(code->syntax->name)] = code.get();
  kernel->functions[0] = nullptr;  // the entry is not called
  for (auto& code : kernel->codes) {
    Decoder(layout, *code->syntax, *code).decode();
    code->count_base = kernel->instructions;
    kernel->instructions += static_cast<uint32_t>(code->instrs.size());
  }
  for (const PlacedParam& p : kernel->codes[0]->params) kernel->info.param_bytes.push_back(p.bytes);
  const uint64_t local = local_stack(*kernel);
  if (local > (1u << 20)) syntax_error(entry.at, "more than 1 MiB of local memory a thread");
  kernel->local_stack_bytes = static_cast<uint32_t>(local);
  kernel->info.local_bytes = kernel->codes[0]->local_bytes;
  return kernel;
}

std::shared_ptr<const Module> parse(std::string_view ptx) {
  auto module = std::make_shared<Module>();
  module->text = std::string(ptx);
  module->syntax = parse_syntax(module->text);
  place_globals(*module);
  for (const FunctionSyntax& f : module->syntax.functions)
    if (f.is_entry && f.has_body) module->kernels.push_back(decode_kernel(*module, f));
  return module;
}

std::vector<std::string> kernel_names(const Module& module) {
  std::vector<std::string> names;
  names.reserve(module.kernels.size());
  for (const auto& k : module.kernels) names.push_back(k->info.name);
  return names;
}

KernelInfo kernel_info(const Module& module, const std::string& entry) {
  const Kernel* kernel = module.find(entry);
  if (!kernel) throw UserError("the PTX has no entry '" + entry + "'");
  return kernel->info;
}

}  // namespace tilewright::sim
